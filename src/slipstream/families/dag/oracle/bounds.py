"""What no policy can get below: critical paths, the area of all executors, least work first on them as one."""

from __future__ import annotations

import heapq

from slipstream.families.dag.oracle.hindsight import Job, least_way
from slipstream.families.dag.scenario import DagScenario


def least_completion(scenario: DagScenario, job: Job) -> int:
    """Return the least time from a job's arrival to its end: the way of an executor and the longest path."""
    return least_way(scenario) + job.longest_path(scenario.executors)


def least_job_seconds(scenario: DagScenario, jobs: list[Job]) -> tuple[float, str]:
    """Return a sum of completion times that no policy can get below, in seconds, and what proved it.

    Whatever a policy does, its first completion is not before the first in either relaxation, nor its second before
    the second, and so on; so the later of the two counts, completion by completion.
    """
    arrived = sum(job.arrival for job in jobs)
    paths = sorted(float(job.arrival + least_completion(scenario, job)) for job in jobs)
    areas = shortest_work_first(scenario, jobs)
    least = sum(max(pair) for pair in zip(paths, areas, strict=True))
    # Where one of the two alone says as much, but for the rounding of sums, it is the proof.
    for name, ends in (("critical path", paths), ("SRPT relaxation", areas)):
        if least - sum(ends) <= 1e-9 * least:
            return (sum(ends) - arrived) / 1e9, name
    return (least - arrived) / 1e9, "critical path and SRPT relaxation"


def shortest_work_first(scenario: DagScenario, jobs: list[Job]) -> list[float]:
    """Return when jobs end, in order, if all executors were one that is so many times as fast, and could be shared.

    With preemptive shortest remaining work as many jobs are done at any time as can be (Schrage 1968), and every real
    schedule can be played there.
    """
    speed = scenario.executors
    waiting: list[tuple[float, int]] = []
    ends: list[float] = []
    now = 0.0
    arrivals = sorted((job.arrival, index) for index, job in enumerate(jobs))
    place = 0
    while waiting or place < len(arrivals):
        if not waiting:
            now = max(now, float(arrivals[place][0]))
        while place < len(arrivals) and arrivals[place][0] <= now:
            index = arrivals[place][1]
            heapq.heappush(waiting, ((jobs[index].work + least_way(scenario)) / speed, index))
            place += 1
        left, index = heapq.heappop(waiting)
        until = float(arrivals[place][0]) if place < len(arrivals) else float("inf")
        if now + left <= until:
            now += left
            ends.append(now)
        else:
            heapq.heappush(waiting, (left - (until - now), index))
            now = until
    return ends


def least_makespan(scenario: DagScenario, jobs: list[Job]) -> tuple[float, str]:
    """Return an end of all jobs that no policy can get below, in seconds, and what proved it."""
    paths = max(job.arrival + least_completion(scenario, job) for job in jobs) / 1e9
    area, later = 0.0, 0.0
    for job in sorted(jobs, key=lambda job: -job.arrival):
        # What arrives from here on cannot be done before.
        later += (job.work + least_way(scenario)) / scenario.executors
        area = max(area, (job.arrival + later) / 1e9)
    return (paths, "critical path") if paths >= area else (area, "area")
