"""A plan for a small episode by CP-SAT: every task takes its least time, and an executor that changes jobs has to move.

The machine asks at certain instants only, and sends executors to stages rather than to tasks. The plan may do as it
likes, so its cost is one that no policy can get below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ortools.sat.python import cp_model

from slipstream.families.dag.oracle.bounds import least_completion
from slipstream.families.dag.oracle.hindsight import Job, least_way
from slipstream.families.dag.scenario import DagScenario

SCALE = 10**6
"""Steps in which the weights of the reward are counted."""


@dataclass(frozen=True)
class _Task:
    """The variables of a task: when it starts, and on which executor."""

    job: int
    start: Any
    end: Any
    places: list[Any]


def least_cost(scenario: DagScenario, jobs: list[Job], seconds: float) -> float:
    """Return a cost of the episode that no policy can get below; 0 if nothing was proven in time."""
    return _Plan(scenario, jobs).solve(seconds)


class _Plan:
    """The model of one episode."""

    def __init__(self, scenario: DagScenario, jobs: list[Job]) -> None:
        self.scenario, self.jobs = scenario, jobs
        self.model = cp_model.CpModel()
        self.unit = self._unit()
        self.way = least_way(scenario) // self.unit
        latest = max(job.arrival for job in jobs) // self.unit
        self.horizon = latest + sum(job.work // self.unit + self.way * (1 + len(job.attempts)) for job in jobs) + 1
        self.intervals: list[list[Any]] = [[] for _ in range(scenario.executors)]
        self.tasks: list[_Task] = []
        self.ends = [self._job(number, job) for number, job in enumerate(jobs)]
        for intervals in self.intervals:
            self.model.add_no_overlap(intervals)
        self._move_between_jobs()

    def _unit(self) -> int:
        """Return the largest step of time on which everything lies."""
        times = [time for job in self.jobs for stage in job.attempts for tasks in stage for time in tasks]
        return max(1, math.gcd(least_way(self.scenario), *times, *(job.arrival for job in self.jobs)))

    def _job(self, number: int, job: Job) -> Any:
        """Add the tasks of a job; return when it is done."""
        model = self.model
        parents: dict[int, list[int]] = {}
        for parent, child in job.template.edges:
            parents.setdefault(child, []).append(parent)
        complete: dict[int, Any] = {}
        for stage in job.template.order():
            after = [complete[parent] for parent in parents.get(stage, [])]
            for tasks in job.attempts[stage]:
                done = model.new_int_var(0, self.horizon, "")
                for time in tasks:
                    task = self._task(number, job.arrival // self.unit + self.way, time // self.unit)
                    for end in after:
                        model.add(task.start >= end)
                    model.add(done >= task.end)
                after = [done]
            complete[stage] = after[0]
        last = model.new_int_var(0, self.horizon, "")
        for end in complete.values():
            model.add(last >= end)
        model.add(last >= job.arrival // self.unit + least_completion(self.scenario, job) // self.unit)
        return last

    def _task(self, number: int, earliest: int, time: int) -> _Task:
        model = self.model
        start = model.new_int_var(earliest, self.horizon, "")
        places = [model.new_bool_var("") for _ in self.intervals]
        model.add_exactly_one(places)
        for place, intervals in zip(places, self.intervals, strict=True):
            intervals.append(model.new_optional_fixed_size_interval_var(start, time, place, ""))
        task = _Task(number, start, start + time, places)
        self.tasks.append(task)
        return task

    def _move_between_jobs(self) -> None:
        """Let an executor that serves two jobs take its time to go from one to the other."""
        model = self.model
        if self.way == 0:
            return
        for index, one in enumerate(self.tasks):
            for other in self.tasks[index + 1 :]:
                if one.job == other.job:
                    continue
                first = model.new_bool_var("")
                for here, there in zip(one.places, other.places, strict=True):
                    model.add(other.start >= one.end + self.way).only_enforce_if([here, there, first])
                    model.add(one.start >= other.end + self.way).only_enforce_if([here, there, first.negated()])

    def solve(self, seconds: float) -> float:
        """Return the least cost that was proven."""
        reward, model = self.scenario.reward, self.model
        latest = model.new_int_var(0, self.horizon, "")
        for end in self.ends:
            model.add(latest >= end)
        # Rounded down: in favour of the bound.
        per_job, per_second = math.floor(reward.job_seconds * SCALE), math.floor(reward.makespan * SCALE)
        stay = sum(end - job.arrival // self.unit for end, job in zip(self.ends, self.jobs, strict=True))
        model.minimize(per_job * stay + per_second * latest)
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 2
        if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
            return 0.0
        return max(0.0, float(solver.best_objective_bound)) / SCALE * self.unit / 1e9
