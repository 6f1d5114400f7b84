"""A bound on the reward of an episode by linear programming, for episodes of any length and any machine.

Work may be split at will, but no stretch of time holds more of it than the streams can do. That counts only what a job
must get between its release and its deadline, never when or in how many pieces: a job that is preempted holds at most
one stream at a time as well, and set-up time or work done twice only adds to what it needs. So the bound holds for all
of these. Costs other than that of expiry are left out, which can only raise it.
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
"""Added to the bound: more than the linear program's numbers can be off."""


@dataclass(frozen=True)
class _Fate:
    """A way for a job to be worth something: so much stream time at least, all of it from release to `end`."""

    time: int
    end: int
    value: float


def relaxation(scenario: EdgeScenario, jobs: list[Job]) -> float:
    """Return a reward that no policy can exceed."""
    solver = pywraplp.Solver.CreateSolver("GLOP")
    horizon, throughput = nanoseconds(scenario.horizon_ms), _throughput(scenario)
    windows = _windows(horizon, jobs)
    begins = np.array([begin for begin, _ in windows])
    ends = np.array([end for _, end in windows])
    capacity = [solver.Constraint(-solver.infinity(), throughput * (end - begin) / 1e6) for begin, end in windows]
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
        once = solver.Constraint(0.0, 1.0)
        for fate in _fates(scenario, job, horizon, certain_rates[job.task]):
            share = solver.NumVar(0.0, 1.0, "")
            objective.SetCoefficient(share, fate.value)
            once.SetCoefficient(share, 1.0)
            # What may go on after the horizon need not fit before it.
            near = np.flatnonzero((begins < fate.end) & (ends > job.release)) if fate.end <= horizon else ()
            for place in near:
                inside = _inside(job.release, fate, *windows[place])
                if inside > 0:
                    capacity[place].SetCoefficient(share, inside / 1e6)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        raise InputError("oracle: the relaxation could not be solved: expected finite latencies and weights")
    return float(constant + objective.Value() + ROUNDING)


def _fates(scenario: EdgeScenario, job: Job, horizon: int, certain_rate: float) -> list[_Fate]:
    """Return how the job can be worth more than if it never starts."""
    saved = drop_cost(scenario, job) if expires(scenario, job) else 0.0
    last = min(job.deadline, horizon)
    rates = [best_rate(scenario, job.task, variant) for variant in range(len(job.runs))]
    times = [math.floor(run / rate) for run, rate in zip(job.runs, rates, strict=True)]
    fates = [
        _Fate(time, last, on_time_value(scenario, job, variant) + saved)
        for variant, time in enumerate(times)
        if job.release + time <= last
    ]
    # To start just before the deadline saves the cost of expiry, and being late may cost next to nothing. How much
    # stream time that takes, and by when, is known only where a run that started keeps a certain rate.
    if certain_rate > 0.0:
        least = min(times)
        fates.append(_Fate(least, job.deadline + math.ceil(least * max(rates) / certain_rate), saved))
    else:
        fates.append(_Fate(0, job.deadline, saved))
    return fates


def _throughput(scenario: EdgeScenario) -> float:
    """Return how many streams at their best rate do as much as all streams together ever can."""
    interference = scenario.device.interference
    if isinstance(interference, Share):
        # A job on a low level gets a little even where the levels above have left nothing.
        least = LEAST_RATE * scenario.device.streams if scenario.device.stream_priorities is not None else 0.0
        return max(1.0, min(interference.total_throughput + least, float(scenario.device.streams)))
    return float(scenario.device.streams)


def _windows(horizon: int, jobs: list[Job]) -> list[tuple[int, int]]:
    """Return the stretches of time whose capacity is respected: short ones, long ones, the whole."""
    longest = max((job.deadline - job.release for job in jobs), default=horizon)
    windows = [(0, horizon)]
    length = max(1, longest // 2)
    while length < horizon and horizon // length < 2000:
        windows += [(begin, begin + length) for begin in range(0, horizon, max(1, length // 2))]
        length *= 4
    return windows


def _inside(release: int, fate: _Fate, begin: int, end: int) -> int:
    """Return the stream time that must fall between `begin` and `end`, whenever and in whatever pieces it is spent."""
    left = fate.time - max(0, begin - release) - max(0, fate.end - end)
    return max(0, min(left, fate.time, end - begin))
