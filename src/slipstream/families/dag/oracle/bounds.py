"""Lower bounds of the cost: critical path, area of all executors, and SRPT on one machine of their total speed."""

from __future__ import annotations

import heapq

from slipstream.families.dag.oracle.hindsight import Job, move_time
from slipstream.families.dag.scenario import DagScenario


def least_completion(scenario: DagScenario, job: Job) -> int:
    """Return a lower bound of a job's completion time in ns: one move of an executor plus the longest path."""
    return move_time(scenario) + job.longest_path(scenario.executors)


def least_job_seconds(scenario: DagScenario, jobs: list[Job]) -> tuple[float, str]:
    """Return a lower bound of the sum of completion times, in seconds, and the name of its proof.

    The k-th completion of any policy is not before the k-th one of either relaxation, so the bound adds the later of
    the two for each k.
    """
    arrived = sum(job.arrival for job in jobs)
    paths = sorted(float(job.arrival + least_completion(scenario, job)) for job in jobs)
    areas = shortest_work_first(scenario, jobs)
    least = sum(max(pair) for pair in zip(paths, areas, strict=True))
    # If one relaxation alone gives the same bound up to rounding, it is named as the proof.
    for name, ends in (("critical path", paths), ("SRPT relaxation", areas)):
        if least - sum(ends) <= 1e-9 * least:
            return (sum(ends) - arrived) / 1e9, name
    return (least - arrived) / 1e9, "critical path and SRPT relaxation"


def shortest_work_first(scenario: DagScenario, jobs: list[Job]) -> list[float]:
    """Return the completion times, in order, of the jobs on one preemptive machine with the speed of all executors.

    Shortest remaining work first maximises the number of completed jobs at every time (Schrage 1968), and every real
    schedule is feasible on that machine.
    """
    speed = scenario.executors
    waiting: list[tuple[float, int]] = []
    ends: list[float] = []
    now = 0.0
    arrivals = sorted((job.arrival, index) for index, job in enumerate(jobs))
    next_arrival = 0
    while waiting or next_arrival < len(arrivals):
        if not waiting:
            now = max(now, float(arrivals[next_arrival][0]))
        while next_arrival < len(arrivals) and arrivals[next_arrival][0] <= now:
            index = arrivals[next_arrival][1]
            heapq.heappush(waiting, ((jobs[index].work + move_time(scenario)) / speed, index))
            next_arrival += 1
        left, index = heapq.heappop(waiting)
        until = float(arrivals[next_arrival][0]) if next_arrival < len(arrivals) else float("inf")
        if now + left <= until:
            now += left
            ends.append(now)
        else:
            heapq.heappush(waiting, (left - (until - now), index))
            now = until
    return ends


def least_makespan(scenario: DagScenario, jobs: list[Job]) -> tuple[float, str]:
    """Return a lower bound of the makespan, in seconds, and the name of its proof."""
    paths = max(job.arrival + least_completion(scenario, job) for job in jobs) / 1e9
    area, later = 0.0, 0.0
    for job in sorted(jobs, key=lambda job: -job.arrival):
        # All work that arrives from this job on is done after its arrival.
        later += (job.work + move_time(scenario)) / scenario.executors
        area = max(area, (job.arrival + later) / 1e9)
    return (paths, "critical path") if paths >= area else (area, "area")
