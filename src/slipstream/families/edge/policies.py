"""Heuristics of the edge family. Rules score one row; ties go to the row with the lowest index, the fastest variant."""

# Elements of arrays and results of compiled functions have no type that mypy knows.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import numpy as np

from slipstream.families.edge.features import (
    ACCURACY,
    BATCH,
    COIN,
    CORUN_FIRST,
    CORUN_LAST,
    CORUN_LATENCY,
    CORUN_MARGIN,
    CRITICALITY,
    DEADLINE,
    DISPATCH,
    DROP,
    FASTEST_LATENCY,
    FILL,
    LATENCY,
    NUM_VARIANTS,
    PERIOD,
    PREEMPT,
    QUEUE_LENGTH,
    SLACK,
    THROUGHPUT,
    VARIANT_RANK,
    VICTIM_SLACK,
    WAITING_JOBS,
    WEIGHT,
)
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.jit.decorators import kernel
from slipstream.policies.base import chooser, rule
from slipstream.policies.compiled.rows import random_row


@chooser("edge")
def random(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Uniformly random candidate, drop and wait included."""
    return random_row(mask, mask.shape[0], globals_row[COIN])


@rule("edge")
def fifo(row: np.ndarray) -> float:
    """First come, first served, in the fastest variant."""
    return row[DEADLINE] - row[SLACK]


@rule("edge")
def edf(row: np.ndarray) -> float:
    """Earliest deadline first, in the fastest variant."""
    return -row[SLACK]


@rule("edge")
def dm(row: np.ndarray) -> float:
    """Deadline monotonic: the task with the shortest relative deadline first."""
    return -row[DEADLINE]


@rule("edge")
def rm(row: np.ndarray) -> float:
    """Rate monotonic: the task with the shortest period or mean gap first."""
    return -row[PERIOD]


@rule("edge")
def llf(row: np.ndarray) -> float:
    """Least laxity first: the least slack after the fastest run."""
    return row[FASTEST_LATENCY] - row[SLACK]


@rule("edge")
def stf(row: np.ndarray) -> float:
    """Shortest time first: the candidate with the least latency."""
    return -row[LATENCY]


@rule("edge")
def accuracy_first(row: np.ndarray) -> float:
    """The most accurate candidate, whatever its latency."""
    return row[ACCURACY]


@rule("edge")
def criticality(row: np.ndarray) -> float:
    """The most critical class first, the earliest deadline within it, in the fastest variant."""
    return row[CRITICALITY] * 1e18 - row[SLACK]


DISPATCH_BONUS = 1e15
"""Larger than every slack, in ns; at this size a float64 still resolves single nanoseconds."""


@rule("edge", scores_all_rows=True)
def edf_preempt(row: np.ndarray) -> float:
    """Earliest deadline first, in the fastest variant, also in place of the running job with the latest deadline."""
    if row[DISPATCH] == 1.0:
        return DISPATCH_BONUS - row[SLACK]
    sooner = row[VICTIM_SLACK] - row[SLACK]
    return sooner if row[PREEMPT] == 1.0 and sooner > 0.0 else -np.inf


@kernel
def earliest_deadline(rows: np.ndarray, mask: np.ndarray, must_fit: bool) -> int:
    """Return the fastest row of the task with the least slack, -1 if none; with `must_fit`, only rows in time."""
    best = -1
    for row in range(mask.shape[0]):
        if mask[row] and rows[row, DISPATCH] == 1.0:
            fits = rows[row, CORUN_LATENCY] <= rows[row, SLACK]
            if (fits or not must_fit) and (best < 0 or rows[row, SLACK] < rows[best, SLACK]):
                best = row
    return best


@kernel
def is_first(rows: np.ndarray, row: int) -> bool:
    """Return whether `row` is the first of a task: one job in the fastest variant."""
    return rows[row, DISPATCH] == 1.0 and rows[row, VARIANT_RANK] == 0.0 and rows[row, BATCH] == 1.0


@kernel
def first_variant(rows: np.ndarray, row: int) -> int:
    """Return the row of the fastest variant of the task of `row`, in the same batch size."""
    return row - int(rows[row, VARIANT_RANK])


@kernel
def last_variant(rows: np.ndarray, row: int) -> int:
    """Return the row of the slowest variant of the task of `row`, in the same batch size."""
    return first_variant(rows, row) + int(rows[row, NUM_VARIANTS]) - 1


@kernel
def largest_fit(rows: np.ndarray, mask: np.ndarray, first: int, last: int) -> int:
    """Return the slowest legal row of first..last that meets the deadline beside the running jobs."""
    row = last
    while row > first and (mask[row] == 0 or rows[row, CORUN_LATENCY] > rows[row, SLACK]):
        row -= 1
    return row


@chooser("edge")
def edf_fit(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Earliest deadline that can be met, in the largest variant that meets it beside the current co-runner."""
    urgent = earliest_deadline(rows, mask, True)
    if urgent < 0:
        urgent = earliest_deadline(rows, mask, False)
        return urgent if urgent >= 0 else mask.shape[0] - 1
    return largest_fit(rows, mask, urgent, last_variant(rows, urgent))


@chooser("edge")
def edf_degrade(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Like edf-fit, but one variant lower for every other job that waits."""
    urgent = earliest_deadline(rows, mask, True)
    if urgent < 0:
        urgent = earliest_deadline(rows, mask, False)
        return urgent if urgent >= 0 else mask.shape[0] - 1
    last = last_variant(rows, urgent) - int(globals_row[WAITING_JOBS]) + 1
    return largest_fit(rows, mask, urgent, max(urgent, last))


PLANNING_WINDOWS = 1.5
"""Planning window of `lookahead`, in mean relative deadlines."""
DROP_COST = 0.5
"""Cost of a lost job beside its accuracy that `lookahead` assumes, in job weights; the default of the reward."""
SAFETY_MARGIN = 0.1
"""Margin that `lookahead` requires for running jobs, as a share of the latency of the job it starts."""


@kernel
def net_value(rows: np.ndarray, row: int, price: float) -> float:
    """Return the value of a run in time, less its device time at `price`."""
    return rows[row, WEIGHT] * (rows[row, ACCURACY] + DROP_COST) - price * rows[row, LATENCY]


@kernel
def density(rows: np.ndarray, row: int) -> float:
    """Return the value of a run in time per unit of device time."""
    return net_value(rows, row, 0.0) / rows[row, LATENCY]


@kernel
def planned_work(rows: np.ndarray, window: int, price: float) -> float:
    """Return the work in `window` if every job, waiting or expected, takes its best variant at `price`."""
    work = 0.0
    row = 0
    while row < rows.shape[0]:
        if rows[row, DISPATCH] == 0.0 or rows[row, BATCH] > 1.0:
            row += 1
            continue
        best, best_value = -1, 0.0
        for variant_row in range(row, last_variant(rows, row) + 1):
            if net_value(rows, variant_row, price) > best_value:
                best, best_value = variant_row, net_value(rows, variant_row, price)
        if best >= 0:
            work += (rows[row, QUEUE_LENGTH] + window / rows[row, PERIOD]) * rows[best, LATENCY]
        row = last_variant(rows, row) + 1
    return work


@kernel
def price_of_time(globals_row: np.ndarray, rows: np.ndarray) -> float:
    """Return the least price of device time at which the jobs of the next window fit the device."""
    rate, weighted = 0.0, 0.0
    for row in range(rows.shape[0]):
        if rows[row, DROP] == 1.0:
            rate += 1.0 / rows[row, PERIOD]
            weighted += rows[row, DEADLINE] / rows[row, PERIOD]
    window = PLANNING_WINDOWS * weighted / rate
    # Running jobs may outlast the window; without the maximum no price would then bring the work below the capacity.
    capacity = max(0.0, globals_row[THROUGHPUT] * window - globals_row[CORUN_FIRST])
    if planned_work(rows, window, 0.0) <= capacity:
        return 0.0
    high = 1e-12
    while planned_work(rows, window, high) > capacity:
        high *= 2.0
    low = high / 2.0
    for _ in range(12):
        middle = (low + high) / 2.0
        if planned_work(rows, window, middle) > capacity:
            low = middle
        else:
            high = middle
    return high


@kernel
def corunner_cost(globals_row: np.ndarray, rows: np.ndarray, row: int) -> float:
    """Return the cost of starting `row` to the running jobs: one lost job if it leaves too little margin."""
    tight = globals_row[CORUN_LAST] > 0.0 and rows[row, CORUN_MARGIN] < SAFETY_MARGIN * rows[row, CORUN_LATENCY]
    return 1.0 + DROP_COST if tight else 0.0


@kernel
def best_variant(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, first: int, price: float) -> int:
    """Return the legal row of highest net value at `price` that finishes in time, from `first` on; -1 if none does."""
    best, best_value = -1, -np.inf
    for variant_row in range(first, last_variant(rows, first) + 1):
        if mask[variant_row] and rows[variant_row, CORUN_LATENCY] <= rows[variant_row, SLACK]:
            value = net_value(rows, variant_row, price) - corunner_cost(globals_row, rows, variant_row)
            if value > best_value:
                best, best_value = variant_row, value
    return best


@chooser("edge")
def lookahead(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Earliest deadline, in the variant worth its time at the price of the next window; protects running jobs."""
    price = price_of_time(globals_row, rows)
    chosen, fallback = -1, -1
    for row in range(mask.shape[0]):
        if mask[row] and rows[row, DROP] == 1.0 and rows[row, FASTEST_LATENCY] > rows[row, SLACK]:
            return row
        if is_first(rows, row):
            best = best_variant(globals_row, rows, mask, row, price)
            if best < 0:
                continue
            if net_value(rows, best, price) > corunner_cost(globals_row, rows, best):
                if chosen < 0 or rows[best, SLACK] < rows[chosen, SLACK]:
                    chosen = best
            elif corunner_cost(globals_row, rows, best) == 0.0 and (
                fallback < 0 or density(rows, best) > density(rows, fallback)
            ):
                fallback = best
    if chosen >= 0:
        return chosen
    return fallback if fallback >= 0 else mask.shape[0] - 1


@kernel
def larger_batch(rows: np.ndarray, row: int) -> int:
    """Return the row of the same variant in the task's next larger batch, -1 if there is none."""
    after = row + int(rows[row, NUM_VARIANTS])
    if after < rows.shape[0] and rows[after, DISPATCH] == 1.0 and rows[after, BATCH] > rows[row, BATCH]:
        return after
    return -1


@kernel
def largest_batch(rows: np.ndarray, mask: np.ndarray, row: int, column: int, most: float) -> int:
    """Return the row of the largest batch, at least `row`, that is legal and has at most `most` in `column`."""
    best, after = row, larger_batch(rows, row)
    while after >= 0:
        if mask[after] and rows[after, column] <= most:
            best = after
        after = larger_batch(rows, after)
    return best


@kernel
def may_fill(rows: np.ndarray, mask: np.ndarray, row: int, most: float) -> bool:
    """Return whether the task of `row` may wait for a batch of latency `most` that is larger than its queue."""
    if rows[row, DEADLINE] - rows[row, SLACK] >= rows[row, FILL]:
        return False
    after, fuller = larger_batch(rows, row), False
    while after >= 0:
        fuller = fuller or (rows[after, BATCH] > rows[after, QUEUE_LENGTH] and rows[after, LATENCY] <= most)
        after = larger_batch(rows, after)
    return fuller


@chooser("edge")
def clipper(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """First come, first served, in the largest batch whose latency is within the deadline, after Clipper."""
    oldest = -1
    for row in range(mask.shape[0]):
        if mask[row] and is_first(rows, row) and not may_fill(rows, mask, row, rows[row, DEADLINE]):
            waited = rows[row, DEADLINE] - rows[row, SLACK]
            if oldest < 0 or waited > rows[oldest, DEADLINE] - rows[oldest, SLACK]:
                oldest = row
    if oldest < 0:
        return mask.shape[0] - 1
    return largest_batch(rows, mask, oldest, LATENCY, rows[oldest, DEADLINE])


@chooser("edge")
def deeprt(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Batches what a window of fill_ms brings, earliest deadline first; drops what is too late, after DeepRT."""
    urgent = -1
    for row in range(mask.shape[0]):
        if mask[row] and rows[row, DROP] == 1.0 and rows[row, FASTEST_LATENCY] > rows[row, SLACK]:
            return row
        due = mask[row] and is_first(rows, row) and not may_fill(rows, mask, row, np.inf)
        if due and (urgent < 0 or rows[row, SLACK] < rows[urgent, SLACK]):
            urgent = row
    if urgent < 0:
        return mask.shape[0] - 1
    return largest_batch(rows, mask, urgent, CORUN_LATENCY, rows[urgent, SLACK])


MOST_URGENCY = 20.0
"""Waits count for `edgeserving` up to this number of deadlines, so that the exponential does not overflow."""


@kernel
def pressure(rows: np.ndarray, first: int, chosen: int) -> float:
    """Return the urgency of all jobs that wait when the run of `chosen` ends; `first` is the first row of its task.

    A job counts e to the power of its wait by then, in deadlines, as if it came with the oldest of its task.
    """
    total = 0.0
    for row in range(rows.shape[0]):
        if is_first(rows, row) and rows[row, QUEUE_LENGTH] > 0.0:
            wait = rows[row, DEADLINE] - rows[row, SLACK] + rows[chosen, CORUN_LATENCY]
            jobs = rows[row, QUEUE_LENGTH]
            if row == first and rows[chosen, CORUN_LATENCY] <= rows[chosen, SLACK]:
                jobs -= rows[chosen, BATCH]
            total += jobs * np.exp(min(wait / rows[row, DEADLINE], MOST_URGENCY))
    return total


@chooser("edge")
def edgeserving(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """The task, batch and variant after which the queues are least urgent, after EdgeServing."""
    best, least = -1, np.inf
    for row in range(mask.shape[0]):
        if mask[row] and is_first(rows, row):
            block = largest_batch(rows, mask, row, CORUN_LATENCY, rows[row, SLACK])
            chosen = largest_fit(rows, mask, block, last_variant(rows, block))
            urgency = pressure(rows, row, chosen)
            if urgency < least:
                best, least = chosen, urgency
    return best if best >= 0 else mask.shape[0] - 1


BATCHING = (clipper.name, deeprt.name, edgeserving.name)
"""Policies that start batches: without any they would be others, under another name."""


def policy_refusal(scenario: EdgeScenario, policy: str) -> str:
    """Return why a policy does not apply to `scenario`, empty if it does: without preemption edf-preempt is edf."""
    if policy == edf_preempt.name and scenario.device.preemption.kind == "none":
        return "it interrupts running jobs: expected device.preemption.kind 'stage', 'restart' or 'resume'"
    if policy in BATCHING and scenario.most_jobs == 1:
        return "it starts batches: expected 'batches' in the variants of a task"
    return ""
