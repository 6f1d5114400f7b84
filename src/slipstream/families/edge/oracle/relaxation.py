"""Upper bound on the reward of an episode by linear programming, for episodes of any length on any device.

Work is divisible, but no interval holds more of it than the streams can process. The constraints count only the stream
time that a job needs between its release and its deadline, not when or in how many pieces: a preempted job also holds
at most one stream at a time, and setup time or repeated work only adds to what it needs. So the bound holds for all of
these. Costs other than that of expiry are left out, which can only raise the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from ortools.linear_solver import pywraplp

from slipstream.errors import InputError
from slipstream.families.edge.kernel.rates import LEAST_RATE
from slipstream.families.edge.oracle.hindsight import (
    Job,
    best_rate,
    best_utilisation,
    drop_cost,
    expires,
    on_time_value,
    worst_rate,
)
from slipstream.families.edge.scenario import EdgeScenario, Share
from slipstream.families.shared.schema import nanoseconds

ROUNDING = 1e-5
"""Added to the bound: more than the rounding error of the linear program."""


@dataclass(frozen=True)
class _Outcome:
    """Possible outcome of a job: it needs at least `time` of stream time by `end`, and earns `value`."""

    time: int
    end: int
    value: float


def relaxation(scenario: EdgeScenario, jobs: list[Job]) -> float:
    """Return an upper bound of the reward under any policy."""
    solver = pywraplp.Solver.CreateSolver("GLOP")
    horizon, throughput = nanoseconds(scenario.horizon_ms), _throughput(scenario)
    intervals = _intervals(horizon, jobs)
    begins = np.array([begin for begin, _ in intervals])
    ends = np.array([end for _, end in intervals])
    capacity = [solver.Constraint(-solver.infinity(), throughput * (end - begin) / 1e6) for begin, end in intervals]
    objective = solver.Objective()
    objective.SetMaximization()
    constant = best_utilisation(scenario, horizon)
    certain_rates = [
        min(worst_rate(scenario, number, variant) for variant in range(task.num_variants))
        for number, task in enumerate(scenario.tasks)
    ]
    for job in jobs:
        if expires(scenario, job):
            constant -= drop_cost(scenario, job)
        at_most_one = solver.Constraint(0.0, 1.0)
        for outcome in _outcomes(scenario, job, horizon, certain_rates[job.task]):
            share = solver.NumVar(0.0, 1.0, "")
            objective.SetCoefficient(share, outcome.value)
            at_most_one.SetCoefficient(share, 1.0)
            # Work that may continue after the horizon need not fit before it.
            overlapping = (
                np.flatnonzero((begins < outcome.end) & (ends > job.release)) if outcome.end <= horizon else ()
            )
            for index in overlapping:
                inside = _inside(job.release, outcome, *intervals[index])
                if inside > 0:
                    capacity[index].SetCoefficient(share, inside / 1e6)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        raise InputError("oracle: the relaxation could not be solved: expected finite latencies and weights")
    return float(constant + objective.Value() + ROUNDING)


def _outcomes(scenario: EdgeScenario, job: Job, horizon: int, certain_rate: float) -> list[_Outcome]:
    """Return the outcomes of the job that can earn more than never starting."""
    saved = drop_cost(scenario, job) if expires(scenario, job) else 0.0
    latest_end = min(job.deadline, horizon)
    rates = [best_rate(scenario, job.task, variant) for variant in range(len(job.runs))]
    times = [math.floor(share / rate) for share, rate in zip(job.shares, rates, strict=True)]
    outcomes = [
        _Outcome(time, latest_end, on_time_value(scenario, job, variant) + saved)
        for variant, time in enumerate(times)
        if job.release + math.floor(job.runs[variant] / rates[variant]) <= latest_end
    ]
    # A start just before the deadline saves the cost of expiry, and being late may cost almost nothing. The stream time
    # that it needs, and by when, is known only if a run has a guaranteed rate.
    if certain_rate > 0.0:
        least = min(times)
        outcomes.append(_Outcome(least, job.deadline + math.ceil(least * max(rates) / certain_rate), saved))
    else:
        outcomes.append(_Outcome(0, job.deadline, saved))
    return outcomes


def _throughput(scenario: EdgeScenario) -> float:
    """Return the largest total rate of all streams, in streams at their best rate."""
    interference = scenario.device.interference
    if isinstance(interference, Share):
        # A job of low priority gets the least rate even where higher priorities use all of the throughput.
        least = LEAST_RATE * scenario.device.streams if scenario.device.stream_priorities is not None else 0.0
        return max(1.0, min(interference.total_throughput + least, float(scenario.device.streams)))
    return float(scenario.device.streams)


def _intervals(horizon: int, jobs: list[Job]) -> list[tuple[int, int]]:
    """Return the intervals with a capacity constraint: short ones, long ones, and the whole episode."""
    longest = max((job.deadline - job.release for job in jobs), default=horizon)
    intervals = [(0, horizon)]
    length = max(1, longest // 2)
    while length < horizon and horizon // length < 2000:
        intervals += [(begin, begin + length) for begin in range(0, horizon, max(1, length // 2))]
        length *= 4
    return intervals


def _inside(release: int, outcome: _Outcome, begin: int, end: int) -> int:
    """Return the stream time of `outcome` that must fall between `begin` and `end` in any schedule."""
    left = outcome.time - max(0, begin - release) - max(0, outcome.end - end)
    return max(0, min(left, outcome.time, end - begin))
