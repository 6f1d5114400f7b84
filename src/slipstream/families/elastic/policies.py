"""Heuristics of elastic jobs: rules that score a job with GPUs, and planners that slice time by linear programs.

A rule takes the best of all rows until no GPUs are left that any job can use. Planners are in `planners.py`.
"""

# Elements of arrays and results of compiled functions have no type that mypy knows.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

from slipstream.families.elastic import programs
from slipstream.families.elastic.features import (
    AGE,
    COIN,
    FINISH,
    GPUS,
    KEEP,
    ORDER,
    RECEIVED,
    SHARE,
    SPEED,
)
from slipstream.families.elastic.planners import GavelFifo, TimeSlicing
from slipstream.families.elastic.scenario import ElasticScenario
from slipstream.policies.base import chooser, register_policy, rule
from slipstream.policies.compiled.rows import random_row

PER_JOB = 1e3
"""What a place in the queue counts against a share of the greatest throughput: more than any."""
PER_SECOND = 1e-6
"""The same of a nanosecond: a millisecond of GPU time received counts as much as all of the throughput."""
KEPT = 0.2
"""Share of the time to its end by which `sticky-srpt` favours the GPUs that a job has."""


@rule("elastic")
def fifo(row: np.ndarray) -> float:
    """First come, first served, each job where it is fastest."""
    return row[SPEED] - PER_JOB * row[ORDER]


@rule("elastic")
def srpt(row: np.ndarray) -> float:
    """The job that would end first, where it would: shortest remaining time, set-up included."""
    return -row[FINISH]


@rule("elastic")
def least_gpu_time(row: np.ndarray) -> float:
    """The least GPU time left to the end of a job, set-up included: shortest remaining service."""
    return -row[FINISH] * row[GPUS]


@rule("elastic")
def least_share(row: np.ndarray) -> float:
    """The least time left to the end of a job times the share of its kind: as least-gpu-time, scarce kinds dear."""
    return -row[FINISH] * row[SHARE]


@rule("elastic")
def las(row: np.ndarray) -> float:
    """Least attained service: the job that has received the least GPU time, where it is fastest."""
    return row[SPEED] - PER_SECOND * row[RECEIVED]


@rule("elastic")
def hrrn(row: np.ndarray) -> float:
    """Highest response ratio next: age and time left, divided by time left, where the job ends first."""
    return (row[AGE] + row[FINISH]) / max(row[FINISH], 1.0)


@rule("elastic")
def sticky_srpt(row: np.ndarray) -> float:
    """As srpt, with the time on the GPUs that a job has now taken as a fifth less: fewer restarts."""
    return -row[FINISH] * (1.0 - KEPT * row[KEEP])


@chooser("elastic")
def random(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """A random job with random GPUs, until none are left."""
    last = mask.shape[0] - 1
    return random_row(mask, last, globals_row[COIN])


PLANNERS = (
    TimeSlicing("max-min", "Gavel: the least share of a fair throughput is as great as it can be.", programs.max_min),
    TimeSlicing(
        "water-filling", "Gavel: as max-min, then the next least, and so on: water filling.", programs.water_filling
    ),
    TimeSlicing(
        "finish-time-fair", "Gavel: the greatest finish-time ratio is as small as it can be.", programs.finish_time_fair
    ),
    TimeSlicing("min-makespan", "Gavel: the jobs that are there all end as soon as they can.", programs.min_makespan),
    GavelFifo("gavel-fifo", "Gavel: first come, first served, on a kind that a fixed random order names."),
)
for planner in PLANNERS:
    register_policy(planner)


def policy_refusal(scenario: ElasticScenario, policy: str) -> str:
    """Return why a policy does not apply to `scenario`, empty if it does."""
    if policy in {planner.name for planner in PLANNERS} and scenario.round_s is None:
        return "it slices time in rounds: expected round_s"
    return ""
