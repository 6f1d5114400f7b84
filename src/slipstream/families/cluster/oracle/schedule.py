"""Best schedule of a small episode on a flat cluster, by CP-SAT, all arrivals known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from slipstream.families.cluster.oracle.bounds import BestCaseJobs

WORKERS = 8
"""Search strategies of the solver that run interleaved: together they find what each alone would miss."""
FINE = 10**6
"""Resolution of the integer weights, in parts of the least one."""


@dataclass(frozen=True)
class Solution:
    """Schedule and bound found by the solver."""

    starts: list[int]
    """Start time of each job, in ns."""
    bound: float
    """Lower bound of the sum of bounded slowdowns."""


def solve(jobs: BestCaseJobs, total: int, horizon: int, seconds: float, hint: list[int]) -> Solution | None:
    """Return the schedule with the least sum of bounded slowdowns that ends by `horizon`; None if none was found."""
    unit = math.gcd(horizon, *jobs.submit.tolist(), *jobs.run.tolist())
    submit, run = (jobs.submit // unit).tolist(), (jobs.run // unit).tolist()
    # Rounded down, so that the bound of the solver is valid.
    bound = jobs.bound_s * 1e9 / unit
    weights = [int(FINE * bound.max() / one) for one in bound.tolist()]
    model = cp_model.CpModel()
    starts, intervals, costs = [], [], []
    for number, (time, length) in enumerate(zip(submit, run, strict=True)):
        start = model.new_int_var(time, horizon // unit - length, "")
        starts.append(start)
        intervals.append(model.new_fixed_size_interval_var(start, length, ""))
        least = math.floor(bound[number])
        cost = model.new_int_var(least, horizon // unit, "")
        model.add(cost >= start + length - time)
        costs.append(cost)
        model.add_hint(start, hint[number] // unit)
    model.add_cumulative(intervals, jobs.gpus.tolist(), total)
    model.minimize(sum(weight * cost for weight, cost in zip(weights, costs, strict=True)))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(0.1, seconds)
    solver.parameters.num_workers = WORKERS
    solver.parameters.random_seed = 1
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    proven = solver.best_objective_bound / (FINE * float(np.max(bound)))
    return Solution([solver.value(start) * unit for start in starts], proven)
