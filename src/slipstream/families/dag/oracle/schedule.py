"""Lower bound of the cost of a small episode by CP-SAT: tasks take their least times, job changes need a move.

The simulator decides at certain times only and assigns executors to stages, not to tasks. The model is free of both
restrictions, so its optimum is a lower bound for every policy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ortools.sat.python import cp_model

from slipstream.families.dag.oracle.bounds import least_completion
from slipstream.families.dag.oracle.hindsight import Job, move_time
from slipstream.families.dag.scenario import DagScenario

SCALE = 10**6
"""Resolution of the reward weights."""


@dataclass(frozen=True)
class _Task:
    """Variables of a task: start, end, and a literal per executor."""

    job: int
    start: Any
    end: Any
    on_executor: list[Any]


def least_cost(scenario: DagScenario, jobs: list[Job], seconds: float) -> float:
    """Return a lower bound of the cost of the episode; 0 if none was proven within `seconds`."""
    return _Model(scenario, jobs).solve(seconds)


class _Model:
    """CP-SAT model of one episode."""

    def __init__(self, scenario: DagScenario, jobs: list[Job]) -> None:
        self.scenario, self.jobs = scenario, jobs
        self.model = cp_model.CpModel()
        self.unit = self._unit()
        self.move_time = move_time(scenario) // self.unit
        latest = max(job.arrival for job in jobs) // self.unit
        self.horizon = (
            latest + sum(job.work // self.unit + self.move_time * (1 + len(job.attempts)) for job in jobs) + 1
        )
        self.intervals: list[list[Any]] = [[] for _ in range(scenario.executors)]
        self.tasks: list[_Task] = []
        self.ends = [self._job(number, job) for number, job in enumerate(jobs)]
        for intervals in self.intervals:
            self.model.add_no_overlap(intervals)
        self._add_moves()

    def _unit(self) -> int:
        """Return the greatest common divisor of all times, in ns."""
        times = [time for job in self.jobs for stage in job.attempts for tasks in stage for time in tasks]
        return max(1, math.gcd(move_time(self.scenario), *times, *(job.arrival for job in self.jobs)))

    def _job(self, number: int, job: Job) -> Any:
        """Add the tasks of a job; return the variable of its completion time."""
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
                    task = self._task(number, job.arrival // self.unit + self.move_time, time // self.unit)
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
        on_executor = [model.new_bool_var("") for _ in self.intervals]
        model.add_exactly_one(on_executor)
        for literal, intervals in zip(on_executor, self.intervals, strict=True):
            intervals.append(model.new_optional_fixed_size_interval_var(start, time, literal, ""))
        task = _Task(number, start, start + time, on_executor)
        self.tasks.append(task)
        return task

    def _add_moves(self) -> None:
        """Require the move time between tasks of different jobs on one executor."""
        model = self.model
        if self.move_time == 0:
            return
        for index, one in enumerate(self.tasks):
            for other in self.tasks[index + 1 :]:
                if one.job == other.job:
                    continue
                first = model.new_bool_var("")
                for one_here, other_here in zip(one.on_executor, other.on_executor, strict=True):
                    model.add(other.start >= one.end + self.move_time).only_enforce_if([one_here, other_here, first])
                    model.add(one.start >= other.end + self.move_time).only_enforce_if(
                        [one_here, other_here, first.negated()]
                    )

    def solve(self, seconds: float) -> float:
        """Return the proven lower bound of the cost."""
        reward, model = self.scenario.reward, self.model
        latest = model.new_int_var(0, self.horizon, "")
        for end in self.ends:
            model.add(latest >= end)
        # Rounded down, so the bound stays valid.
        per_job, per_second = math.floor(reward.job_seconds * SCALE), math.floor(reward.makespan * SCALE)
        stay = sum(end - job.arrival // self.unit for end, job in zip(self.ends, self.jobs, strict=True))
        model.minimize(per_job * stay + per_second * latest)
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 2
        if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
            return 0.0
        return max(0.0, float(solver.best_objective_bound)) / SCALE * self.unit / 1e9
