"""Heuristics of the dag family: which stage the executors of the source serve, and how many are committed to it.

Rows are stages in phase 0 and numbers of executors in phase 1. Ties go to the lowest row. Where a policy would stop but
may not, because the simulation would never advance, it takes its next best stage.
"""

# mypy does not know the types of array elements and of results of compiled functions.
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
    """Uniformly random stage, then a uniformly random number of executors; never stops a round early."""
    return random_row(mask, int(globals_row[ROWS]), globals_row[COIN])


@kernel
def stop_or(mask: np.ndarray, row: int) -> int:
    """Return the row that ends the round if it is legal, otherwise `row`."""
    last = mask.shape[0] - 1
    return last if mask[last] else max(row, 0)


@kernel
def assign_up_to(globals_row: np.ndarray, rows: np.ndarray, cap: int) -> int:
    """Return the row that assigns the chosen stage all executors it can use, up to a supply of `cap` of its job.

    The cap does not apply to the source's own job, whose supply does not grow.
    """
    most = int(globals_row[MOST])
    if rows[0, SOURCE] == 1.0:
        return most - 1
    return max(1, min(most, int(cap - rows[0, JOB_SUPPLY]))) - 1


@kernel
def stage_of_source(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Return the first stage of the source's own job, preferably one that can begin at once; -1 if it has none."""
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
    """Return whether `row` precedes `best`: less in `column`, or within a job the one that can begin."""
    if best < 0 or rows[row, column] < rows[best, column]:
        return True
    return rows[row, JOB_RANK] == rows[best, JOB_RANK] and rows[row, CAN_BEGIN] > rows[best, CAN_BEGIN]


@kernel
def first_below(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, column: int, cap: int) -> int:
    """Return the first stage of the job that is least in `column` among those with supply below `cap`; -1 if none."""
    best = -1
    for row in range(int(globals_row[ROWS])):
        if mask[row] and rows[row, JOB_SUPPLY] < cap and comes_first(rows, row, best, column):
            best = row
    return best


@kernel
def serve_up_to(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, column: int, cap: int) -> int:
    """Serve the source's own job, then others in ascending order of `column`, each up to `cap` executors."""
    if globals_row[PHASE] == 1.0:
        return assign_up_to(globals_row, rows, cap)
    own = stage_of_source(globals_row, rows, mask)
    if own >= 0:
        return own
    other = first_below(globals_row, rows, mask, column, cap)
    return other if other >= 0 else stop_or(mask, 0)


@chooser("dag")
def fifo(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Oldest job first, with all executors it can use; executors stay at their job while it has stages."""
    return serve_up_to(globals_row, rows, mask, JOB_RANK, globals_row[EXECUTORS])


@chooser("dag")
def fair(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Equal shares: each job up to executors / jobs in the system, rounded up, oldest first."""
    cap = math.ceil(globals_row[EXECUTORS] / max(1.0, globals_row[ACTIVE_JOBS]))
    return serve_up_to(globals_row, rows, mask, JOB_RANK, cap)


@kernel
def job_weight(rows: np.ndarray, row: int, power: float) -> float:
    """Return the weight of a row's job: its work left in seconds to the power `power`."""
    return max(rows[row, JOB_WORK] * 1e-9, 1e-3) ** power


@kernel
def total_weight(globals_row: np.ndarray, rows: np.ndarray, power: float) -> float:
    """Return the total weight of jobs with a stage to choose; in phase 1 these rows follow the rows of counts."""
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
    """Shares proportional to work left to a power, default -1: `weighted-fair(0)` is fair among jobs with demand."""
    power = globals_row[PARAMETER]
    scale = globals_row[EXECUTORS] / total_weight(globals_row, rows, power)
    if globals_row[PHASE] == 1.0:
        return assign_up_to(globals_row, rows, math.ceil(scale * job_weight(rows, 0, power)))
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
    """Least work left first; executors stay at their job; `srpt(5)` caps a job at 5 executors, default: a third."""
    cap = globals_row[PARAMETER] if globals_row[PARAMETER] > 0.0 else math.ceil(globals_row[EXECUTORS] / 3.0)
    return serve_up_to(globals_row, rows, mask, JOB_WORK, cap)


@kernel
def greatest(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, major: int, sign: float, minor: int) -> int:
    """Return the legal row greatest in `sign` × column `major`, then in column `minor`."""
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
    """Shortest job first by work left; of its stages the one on the critical path, with all executors it can use."""
    if globals_row[PHASE] == 1.0:
        return int(globals_row[MOST]) - 1
    return greatest(globals_row, rows, mask, JOB_WORK, -1.0, PATH)


@chooser("dag")
def critical_path(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Stage with the longest path to the end of its job, over all jobs, with all executors it can use."""
    if globals_row[PHASE] == 1.0:
        return int(globals_row[MOST]) - 1
    return greatest(globals_row, rows, mask, PATH, 1.0, WORK)
