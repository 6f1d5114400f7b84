"""Heuristics of the dag family: which stage the free executors serve, and how many go there.

All of them see the same two choices: rows are stages in phase 0 and numbers of executors in phase 1. Ties go to the
lowest row. Where a policy would stop but may not, since nothing would ever happen again, it takes its next best stage.
"""

# Elements of arrays and results of compiled functions have no type that mypy knows.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math

import numpy as np

from slipstream.families.dag.features import (
    ACTIVE_JOBS,
    CAN_BEGIN,
    COIN,
    COUNT,
    DISPATCH,
    EXECUTORS,
    JOB_RANK,
    JOB_SUPPLY,
    JOB_WORK,
    MOST,
    PARAMETER,
    PATH,
    PHASE,
    ROWS,
    SOURCE,
    WORK,
)
from slipstream.jit.decorators import kernel
from slipstream.policies.base import chooser
from slipstream.policies.compiled.rows import random_row


@chooser("dag")
def random(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Any stage, then any number of executors, each as likely as the others; never stops before it must."""
    return random_row(mask, int(globals_row[ROWS]), globals_row[COIN])


@kernel
def stop_or(mask: np.ndarray, row: int) -> int:
    """Return the row that stops where that is allowed, else another one."""
    last = mask.shape[0] - 1
    return last if mask[last] else max(row, 0)


@kernel
def give(globals_row: np.ndarray, rows: np.ndarray, cap: int) -> int:
    """Return the row that gives the chosen stage all executors that it can use, but its job at most the cap.

    A job that is the source gets no new executors, so it keeps what it has.
    """
    most = int(globals_row[MOST])
    if rows[0, SOURCE] == 1.0:
        return most - 1
    return max(1, min(most, int(cap - rows[0, JOB_SUPPLY]))) - 1


@kernel
def stage_of_source(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Return the first stage of the source's own job, one that can begin at once if there is any; -1 if it has none."""
    best = -1
    for row in range(int(globals_row[ROWS])):
        if mask[row] and rows[row, SOURCE] == 1.0:
            if rows[row, CAN_BEGIN] == 1.0:
                return row
            if best < 0:
                best = row
    return best


@kernel
def comes_first(rows: np.ndarray, row: int, best: int, column: int) -> bool:
    """Return whether a stage goes before the best one so far: by its job, and within a job one that can begin."""
    if best < 0 or rows[row, column] < rows[best, column]:
        return True
    return rows[row, JOB_RANK] == rows[best, JOB_RANK] and rows[row, CAN_BEGIN] > rows[best, CAN_BEGIN]


@kernel
def first_below(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, column: int, cap: int) -> int:
    """Return the first stage of the job with the least in a column among those with fewer executors than the cap."""
    best = -1
    for row in range(int(globals_row[ROWS])):
        if mask[row] and rows[row, JOB_SUPPLY] < cap and comes_first(rows, row, best, column):
            best = row
    return best


@kernel
def capped(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, column: int, cap: int) -> int:
    """Serve the source's own job, then others by a column, least first, each up to a cap."""
    if globals_row[PHASE] == 1.0:
        return give(globals_row, rows, cap)
    own = stage_of_source(globals_row, rows, mask)
    if own >= 0:
        return own
    other = first_below(globals_row, rows, mask, column, cap)
    return other if other >= 0 else stop_or(mask, 0)


@chooser("dag")
def fifo(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """The oldest job first, with all executors it can use; executors stay at their job as long as it has stages."""
    return capped(globals_row, rows, mask, JOB_RANK, globals_row[EXECUTORS])


@chooser("dag")
def fair(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Equal shares: each job up to executors / jobs in the system, rounded up, the oldest first."""
    cap = math.ceil(globals_row[EXECUTORS] / max(1.0, globals_row[ACTIVE_JOBS]))
    return capped(globals_row, rows, mask, JOB_RANK, cap)


@kernel
def job_weight(rows: np.ndarray, row: int, power: float) -> float:
    """Return the weight of a row's job: its work left in seconds, to a power."""
    return max(rows[row, JOB_WORK] * 1e-9, 1e-3) ** power


@kernel
def total_weight(globals_row: np.ndarray, rows: np.ndarray, power: float) -> float:
    """Return the weight of all jobs with a stage to choose; in the second phase their stages stand behind the rows."""
    total, before = 0.0, -1.0
    counting = globals_row[PHASE] == 1.0
    for row in range(int(globals_row[ROWS])):
        is_stage = rows[row, DISPATCH] == 1.0 and rows[row, COUNT] == 0.0
        if is_stage and rows[row, JOB_RANK] != before:
            before = rows[row, JOB_RANK]
            total += job_weight(rows, row, power)
    return total if total > 0.0 or not counting else job_weight(rows, 0, power)


@chooser("dag", parameter=-1.0)
def weighted_fair(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Shares that go by work left to a power, -1 unless given: `weighted-fair(0)` is fair among jobs that want more."""
    power = globals_row[PARAMETER]
    scale = globals_row[EXECUTORS] / total_weight(globals_row, rows, power)
    if globals_row[PHASE] == 1.0:
        return give(globals_row, rows, math.ceil(scale * job_weight(rows, 0, power)))
    own = stage_of_source(globals_row, rows, mask)
    if own >= 0:
        return own
    best = -1
    for row in range(int(globals_row[ROWS])):
        cap = math.ceil(scale * job_weight(rows, row, power))
        if mask[row] and rows[row, JOB_SUPPLY] < cap and comes_first(rows, row, best, JOB_RANK):
            best = row
    return best if best >= 0 else stop_or(mask, 0)


@chooser("dag", parameter=0.0)
def srpt(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Least work left first; executors stay at their job; `srpt(5)` gives a job at most 5, unless given a third."""
    cap = globals_row[PARAMETER] if globals_row[PARAMETER] > 0.0 else math.ceil(globals_row[EXECUTORS] / 3.0)
    return capped(globals_row, rows, mask, JOB_WORK, cap)


@kernel
def greatest(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, major: int, sign: float, minor: int) -> int:
    """Return the row that is greatest in sign × one column, then in another."""
    best = -1
    best_major, best_minor = -np.inf, -np.inf
    for row in range(int(globals_row[ROWS])):
        if mask[row]:
            first, second = sign * rows[row, major], rows[row, minor]
            if first > best_major or (first == best_major and second > best_minor):
                best, best_major, best_minor = row, first, second
    return best


@chooser("dag")
def sjf_cp(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Shortest job first, by work left; of its stages the one on the critical path; all executors it can use."""
    if globals_row[PHASE] == 1.0:
        return int(globals_row[MOST]) - 1
    return greatest(globals_row, rows, mask, JOB_WORK, -1.0, PATH)


@chooser("dag")
def critical_path(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """The stage with the longest chain of tasks before the end of its job, whichever job; all executors it can use."""
    if globals_row[PHASE] == 1.0:
        return int(globals_row[MOST]) - 1
    return greatest(globals_row, rows, mask, PATH, 1.0, WORK)
