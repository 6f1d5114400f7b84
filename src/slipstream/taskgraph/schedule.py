"""The least makespan of an episode without transfers, by CP-SAT: exact where the solver comes to its end.

Each task is on one processor of one kind, after its parents; processors of one kind are alike, so a kind is a resource
with as many places as it has processors. Luck is known beforehand: durations are those that the episode draws. A bound
for the machine with transfers and memories, too, which can only be slower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ortools.sat.python import cp_model

WORKERS = 8
"""Strategies of the solver that take turns: more than one finds what each alone would miss."""


@dataclass(frozen=True)
class Work:
    """One job of an episode: when it arrives, and its tasks; times in ns."""

    arrival: int
    durations: list[list[int]]
    """Of each task, by kind of processor."""
    parents: list[tuple[int, ...]]


@dataclass(frozen=True)
class Solution:
    """What the solver found."""

    makespan: int
    """Of the best schedule, in ns."""
    bound: int
    """No schedule is shorter."""
    starts: list[list[tuple[int, int]]]
    """Of each job's tasks: when, and on which kind of processor."""

    @property
    def is_optimal(self) -> bool:
        return self.makespan == self.bound


Hint = dict[tuple[int, int], tuple[int, int]]
"""A schedule to begin with: when each (job, task) starts, and on which kind of processor."""


def solve(jobs: list[Work], counts: list[int], horizon: int, seconds: float, hint: Hint) -> Solution | None:
    """Return the best schedule that ends no later than a horizon; None if none was found in time."""
    times = [time for job in jobs for row in job.durations for time in row]
    unit = math.gcd(horizon, *times, *(job.arrival for job in jobs))
    scaled = []
    for job in jobs:
        rows = [[time // unit for time in row] for row in job.durations]
        scaled.append(Work(job.arrival // unit, rows, job.parents))
    hinted = {key: (start // unit, kind) for key, (start, kind) in hint.items()}
    found = _solve(scaled, counts, horizon // unit, seconds, hinted)
    if found is None:
        return None
    starts = [[(start * unit, kind) for start, kind in job] for job in found.starts]
    return Solution(found.makespan * unit, found.bound * unit, starts)


def _solve(jobs: list[Work], counts: list[int], horizon: int, seconds: float, hint: Hint) -> Solution | None:
    """Return the same in whole units: small numbers are easier to reason about."""
    model = cp_model.CpModel()
    makespan = model.new_int_var(0, horizon, "makespan")
    places: list[list[cp_model.IntervalVar]] = [[] for _ in counts]
    plan = []
    for number, job in enumerate(jobs):
        ends: list[cp_model.IntVar] = []
        for task, (times, parents) in enumerate(zip(job.durations, job.parents, strict=True)):
            start = model.new_int_var(job.arrival, horizon, "")
            end = model.new_int_var(job.arrival, horizon, "")
            chosen = [model.new_bool_var("") for _ in counts]
            model.add_exactly_one(chosen)
            for kind, time in enumerate(times):
                places[kind].append(model.new_optional_interval_var(start, time, end, chosen[kind], ""))
            for parent in parents:
                model.add(start >= ends[parent])
            model.add(makespan >= end)
            ends.append(end)
            plan.append((start, chosen))
            began, hinted = hint[number, task]
            model.add_hint(start, began)
            for kind, choice in enumerate(chosen):
                model.add_hint(choice, kind == hinted)
    for kind, intervals in enumerate(places):
        model.add_cumulative(intervals, [1] * len(intervals), counts[kind])
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(0.1, seconds)
    solver.parameters.num_workers = WORKERS
    solver.parameters.random_seed = 1
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    found = iter([(solver.value(start), [solver.value(one) for one in chosen].index(1)) for start, chosen in plan])
    starts = [[next(found) for _ in job.durations] for job in jobs]
    return Solution(round(solver.objective_value), round(solver.best_objective_bound), starts)
