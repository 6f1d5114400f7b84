"""Heuristics of the edge family. Rules score one row; ties go to the lowest row, so to the fastest variant."""

from __future__ import annotations

from slipstream.core.jit import kernel
from slipstream.edge.features import (
    ACCURACY,
    COIN,
    CORUN_LATENCY,
    CRITICALITY,
    DEADLINE,
    DISPATCH,
    FASTEST_LATENCY,
    LATENCY,
    NUM_VARIANTS,
    PERIOD,
    SLACK,
    VARIANT_RANK,
    WAITING_JOBS,
)
from slipstream.policies.base import choice, rule


@choice("edge")
def random(globals_row, rows, mask):
    """Any legal row, drop and wait included, each as likely as the others."""
    legal = 0
    for row in range(mask.shape[0]):
        legal += mask[row]
    left = int(globals_row[COIN] * legal)
    for row in range(mask.shape[0]):
        if mask[row]:
            if left == 0:
                return row
            left -= 1
    return mask.shape[0] - 1


@rule("edge")
def fifo(row):
    """First released, first served, in the fastest variant."""
    return row[DEADLINE] - row[SLACK]


@rule("edge")
def edf(row):
    """Earliest deadline first, in the fastest variant."""
    return -row[SLACK]


@rule("edge")
def dm(row):
    """Deadline monotonic: the task with the shortest relative deadline first."""
    return -row[DEADLINE]


@rule("edge")
def rm(row):
    """Rate monotonic: the task with the shortest period or mean gap first."""
    return -row[PERIOD]


@rule("edge")
def llf(row):
    """Least laxity first: the least slack after the fastest run."""
    return row[FASTEST_LATENCY] - row[SLACK]


@rule("edge")
def stf(row):
    """Shortest time first: the quickest run of all."""
    return -row[LATENCY]


@rule("edge")
def accuracy_first(row):
    """The most accurate variant of all, whatever it takes."""
    return row[ACCURACY]


@rule("edge")
def criticality(row):
    """The most critical class first, the earliest deadline within it, in the fastest variant."""
    return row[CRITICALITY] * 1e18 - row[SLACK]


@kernel
def earliest_deadline(rows, mask, need_fit):
    """Return the fastest row of the task with the least slack, -1 if none; with `need_fit`, of those in time."""
    best = -1
    for row in range(mask.shape[0]):
        if mask[row] and rows[row, DISPATCH] == 1.0:
            fits = rows[row, CORUN_LATENCY] <= rows[row, SLACK]
            if (fits or not need_fit) and (best < 0 or rows[row, SLACK] < rows[best, SLACK]):
                best = row - int(rows[row, VARIANT_RANK])
    return best


@kernel
def largest_fit(rows, first, last):
    """Return the slowest row of first..last that still meets the deadline beside the present co-runner."""
    row = last
    while row > first and rows[row, CORUN_LATENCY] > rows[row, SLACK]:
        row -= 1
    return row


@kernel
def last_variant(rows, first):
    """Return the slowest row of the ladder that begins at `first`."""
    return first + int(rows[first, NUM_VARIANTS]) - 1


@choice("edge")
def edf_fit(globals_row, rows, mask):
    """Earliest deadline that can be met, in the largest variant that meets it beside the present co-runner."""
    first = earliest_deadline(rows, mask, True)
    if first < 0:
        first = earliest_deadline(rows, mask, False)
        return first if first >= 0 else mask.shape[0] - 1
    return largest_fit(rows, first, last_variant(rows, first))


@choice("edge")
def edf_degrade(globals_row, rows, mask):
    """Like edf-fit, but one variant lower for every other job that waits."""
    first = earliest_deadline(rows, mask, True)
    if first < 0:
        first = earliest_deadline(rows, mask, False)
        return first if first >= 0 else mask.shape[0] - 1
    last = last_variant(rows, first) - int(globals_row[WAITING_JOBS]) + 1
    return largest_fit(rows, first, max(first, last))
