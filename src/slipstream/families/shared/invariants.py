"""Invariants of every event log, of any family, policy and machine.

Every job arrives once, numbered from 0 within its task; then it starts or is dropped (expire, reject, drop). What
started may be preempted on its resource, and then start again or be dropped; or it finishes or fails there, which is
final. So at any row arrived = finished + failed + dropped + running + waiting. No resource runs two jobs at once,
but for the jobs of a batch, which start together. Weights never take more memory than there is and are not evicted
while a job uses them, the clock never runs backwards, and the end is the last row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slipstream.errors import InvariantError
from slipstream.sim.eventlog import (
    ARRIVAL,
    COLUMNS,
    DROP,
    END,
    EVICT,
    EXPIRE,
    FAIL,
    FINISH,
    KINDS,
    PREEMPT,
    READY,
    REJECT,
    START,
)

Columns = Mapping[str, np.ndarray]
"""The rows of a log by column."""

FOLLOWS = np.zeros((len(KINDS), len(KINDS)), bool)
"""FOLLOWS[a, b]: whether an event of kind b may be the next of a job after one of kind a."""
FOLLOWS[ARRIVAL, [START, EXPIRE, REJECT, DROP]] = True
FOLLOWS[START, [READY, PREEMPT, FINISH, FAIL]] = True
FOLLOWS[READY, [PREEMPT, FINISH, FAIL]] = True
FOLLOWS[PREEMPT, [START, EXPIRE, DROP]] = True
FOLLOWS[EVICT, EVICT] = True
ON_RESOURCE = (START, READY, PREEMPT, FINISH, FAIL)
"""Kinds of events of a job on a resource."""
LEAVES = (PREEMPT, FINISH, FAIL)
"""Kinds of events by which a job leaves its resource."""


@dataclass(frozen=True)
class Memory:
    """Size of weights by task and variant, and the memory limit, in the same unit."""

    sizes: np.ndarray
    limit: float


def check(
    events: np.ndarray,
    resources: int,
    queue_limit: int | None = None,
    memory: Memory | None = None,
    batches: bool = False,
) -> None:
    """Raise an InvariantError that names the row where the log of a whole episode violates an invariant.

    `resources` is the number of resources; `queue_limit`, if any, the greatest number of waiting jobs per task;
    `batches` says whether a resource may run several jobs of a task together.
    """
    if not len(events):
        raise InvariantError("the log is empty: expected at least its end")
    # Contiguous columns: every check scans a few columns of all rows.
    columns = {name: np.ascontiguousarray(events[name]) for name in COLUMNS}
    _check_values(columns, resources)
    _check_clock(columns)
    _check_end(columns)
    jobs = {name: column[:-1] for name, column in columns.items()}
    previous = _rows_before(jobs["task"], jobs["job"])
    _check_numbering(jobs)
    _check_lifecycles(jobs, previous)
    _check_resources(jobs, batches)
    if queue_limit is not None:
        _check_queues(jobs, previous, queue_limit)
    if memory is not None:
        _check_memory(jobs, memory)


def _require(holds: np.ndarray, describe: Callable[[int], str], rows: np.ndarray | None = None) -> None:
    """Raise an InvariantError for the first row where `holds` is false; `rows` maps its indices to rows of the log."""
    broken = np.flatnonzero(~holds)
    if len(broken):
        row = int(broken[0] if rows is None else rows[broken].min())
        raise InvariantError(f"row {row}: {describe(row)}")


def _describe(events: Columns, row: int) -> str:
    event = {name: column[row] for name, column in events.items()}
    if event["kind"] == EVICT:
        return f"evict of variant {event['variant']} of task {event['task']}"
    return f"{KINDS[event['kind']]} of job {event['job']} of task {event['task']}"


def _check_values(events: Columns, resources: int) -> None:
    kind, resource = events["kind"], events["resource"]
    known = (kind >= 0) & (kind < len(KINDS))
    _require(known, lambda row: f"kind {kind[row]}: expected 0 to {len(KINDS) - 1}")
    is_evict = kind == EVICT
    named = (kind == END) | ((events["task"] >= 0) & (np.where(is_evict, events["variant"], events["job"]) >= 0))
    _require(named, lambda row: f"{_describe(events, row)}: expected numbers from 0")
    placed = ~np.isin(kind, ON_RESOURCE) | ((resource >= 0) & (resource < resources))
    _require(
        placed,
        lambda row: f"{_describe(events, row)} on resource {resource[row]}: expected one from 0 to {resources - 1}",
    )


def _check_clock(events: Columns) -> None:
    time = events["time"]
    if time[0] < 0:
        raise InvariantError(f"row 0: time {time[0]} ns: the clock begins at 0")
    _require(
        np.concatenate(([True], time[1:] >= time[:-1])),
        lambda row: f"time {time[row]} ns after {time[row - 1]} ns: the clock ran backwards",
    )


def _check_end(events: Columns) -> None:
    is_end = events["kind"] == END
    last = len(is_end) - 1
    if not is_end[last]:
        raise InvariantError(f"row {last}: the log stops with {_describe(events, last)}: expected its end")
    _require(~is_end[:-1], lambda row: "the end is not the last row")


def _rows_before(*keys: np.ndarray) -> np.ndarray:
    """Return for each row the previous row with the same keys, -1 if there is none."""
    order = _grouped(*keys)
    same = np.ones(max(0, len(order) - 1), bool)
    for key in keys:
        same &= key[order[1:]] == key[order[:-1]]
    before = np.full(len(order), -1)
    before[order[1:][same]] = order[:-1][same]
    return before


def _grouped(first: np.ndarray, *more: np.ndarray) -> np.ndarray:
    """Return a stable order of the rows by one or two keys.

    Rows are sorted by the first key, which has few values. The second key is then nearly sorted, so a merge sort of the
    result is much faster than a full lexicographic sort.
    """
    narrow = not len(first) or 0 <= first.min() <= first.max() < 2**15
    order = np.argsort(first.astype(np.uint16) if narrow else first, kind="stable")
    if not more:
        return order
    (second,) = more
    if narrow and len(second) and 0 <= second.min() <= second.max() < 2**47:
        key = (first.astype(np.int64) << 47) + second
        return np.asarray(order[np.argsort(key[order], kind="stable")])
    return np.lexsort((second, first))


def _check_numbering(jobs: Columns) -> None:
    rows = np.flatnonzero(jobs["kind"] == ARRIVAL)
    task, job = jobs["task"][rows], jobs["job"][rows]
    before = _rows_before(task)
    expected = np.where(before < 0, 0, job[before] + 1)
    where = dict(zip(rows[job != expected].tolist(), expected[job != expected].tolist(), strict=True))
    _require(
        job == expected, lambda row: f"{_describe(jobs, row)}: expected job {where[row]}: one is lost or doubled", rows
    )


def _check_lifecycles(jobs: Columns, previous: np.ndarray) -> None:
    kind, is_first = jobs["kind"], previous < 0
    _require(
        ~is_first | (kind == ARRIVAL) | (kind == EVICT), lambda row: f"{_describe(jobs, row)}, which never arrived"
    )
    _require(
        is_first | FOLLOWS[kind[previous], kind],
        lambda row: f"{_describe(jobs, row)} after its {KINDS[kind[previous[row]]]} in row {previous[row]}",
    )
    for column in ("resource", "variant"):
        _check_same(jobs, previous, column)


def _check_same(jobs: Columns, previous: np.ndarray, column: str) -> None:
    """Check that the events of a run have the resource or variant of its start."""
    value, goes_on = jobs[column], np.isin(jobs["kind"], ON_RESOURCE) & (jobs["kind"] != START)

    def describe(row: int) -> str:
        start = previous[row]
        return f"{_describe(jobs, row)} with {column} {value[row]}, but it started with {value[start]} in row {start}"

    _require(~goes_on | (value == value[previous]), describe)


def _check_resources(jobs: Columns, batches: bool) -> None:
    rows = np.flatnonzero(np.isin(jobs["kind"], (START, *LEAVES)))
    is_start = jobs["kind"][rows] == START
    before = _rows_before(jobs["resource"][rows])
    twice = is_start & (before >= 0) & is_start[before]
    if batches:
        alike = before >= 0
        for name in ("time", "task", "variant", "kind"):
            alike &= jobs[name][rows] == jobs[name][rows[before]]
        twice &= ~alike
    holder = dict(zip(rows[twice].tolist(), rows[before[twice]].tolist(), strict=True))
    _require(
        ~twice,
        lambda row: f"{_describe(jobs, row)} on resource {jobs['resource'][row]}, busy since row {holder[row]}",
        rows,
    )


def _running_sum(group: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Return for each row the cumulative sum of `change` within its `group`."""
    order = np.argsort(group, kind="stable")
    total = np.cumsum(change[order])
    first = np.flatnonzero(np.concatenate(([True], np.diff(group[order]) != 0))) if len(group) else order
    sums = np.empty(len(group), change.dtype)
    sums[order] = total - np.repeat((total - change[order])[first], np.diff(np.append(first, len(group))))
    return sums


def _check_queues(jobs: Columns, previous: np.ndarray, queue_limit: int) -> None:
    """Check that a job is rejected exactly if `queue_limit` jobs wait; preempted ones rejoin without limit."""
    kind = jobs["kind"]
    rejects = np.flatnonzero(kind == REJECT)
    change = np.select([np.isin(kind, (ARRIVAL, PREEMPT)), np.isin(kind, (START, EXPIRE, DROP))], [1, -1], 0)
    # A rejected job never joins the queue: neither its arrival nor its rejection changes the length.
    change[previous[rejects]] = 0
    length = _running_sum(jobs["task"], change)
    _require(
        (kind != ARRIVAL) | (change == 0) | (length <= queue_limit),
        lambda row: f"{_describe(jobs, row)} joins {queue_limit} others: the queue was full",
    )
    _require(
        length[rejects] >= queue_limit,
        lambda row: f"{_describe(jobs, row)}, though {length[row]} of {queue_limit} places were taken",
        rejects,
    )


def _check_memory(jobs: Columns, memory: Memory) -> None:
    """Check the weights: a start loads them, an eviction removes them, and none are evicted while in use."""
    rows = np.flatnonzero(np.isin(jobs["kind"], (START, *LEAVES, EVICT)))
    kind, task, variant = jobs["kind"][rows], jobs["task"][rows], jobs["variant"][rows]
    weights = task.astype(np.int64) * memory.sizes.shape[1] + variant
    before = _rows_before(weights)
    is_there = (before >= 0) & (kind[before] != EVICT)
    users = _running_sum(weights, np.select([kind == START, np.isin(kind, LEAVES)], [1, -1], 0))
    _require((kind != EVICT) | is_there, lambda row: f"{_describe(jobs, row)}, which was not there", rows)
    _require((kind != EVICT) | (users == 0), lambda row: f"{_describe(jobs, row)}, which a job still uses", rows)
    size = memory.sizes[task, variant]
    taken = np.cumsum(np.select([(kind == START) & ~is_there, kind == EVICT], [size, -size], 0))
    _require(
        taken <= memory.limit, lambda row: f"{_describe(jobs, row)}: the weights take more memory than there is", rows
    )


class ReplayChecker(ABC):
    """Replays a log row by row and raises an InvariantError at the first row that is impossible in the replayed state.

    For families in whose logs a job is more than one run on one resource; they implement the effect of each kind.
    """

    logged: ClassVar[tuple[int, ...]]
    """Kinds of events in logs of the family."""
    row = 0

    @abstractmethod
    def apply(self, kind: int, job: int, task: int, variant: int, resource: int) -> None:
        """Check one row against the state and apply its effect."""

    def require(self, holds: bool, text: str) -> None:
        """Raise an InvariantError with the present row and `text` unless `holds`."""
        if not holds:
            raise InvariantError(f"row {self.row}: {text}")

    def require_resource(self, resource: int, count: int, what: str) -> None:
        """Raise an InvariantError unless `resource` is below `count`; `what` names its kind."""
        self.require(0 <= resource < count, f"{what} {resource}: expected one from 0 to {count - 1}")

    def check_log(self, events: np.ndarray) -> None:
        """Raise an InvariantError that names the row where the log of a whole episode violates an invariant."""
        if not len(events):
            raise InvariantError("the log is empty: expected at least its end")
        clock, last = 0, len(events) - 1
        expected = ", ".join(KINDS[one] for one in self.logged)
        for row, (time, job, task, resource, variant, kind) in enumerate(events.tolist()):
            self.row = row
            self.require(time >= clock, f"time {time} ns after {clock} ns: the clock ran backwards")
            clock = time
            name = KINDS[kind] if 0 <= kind < len(KINDS) else kind
            self.require(kind in self.logged, f"kind {name}: expected one of {expected}")
            self.require((kind == END) == (row == last), "the end is not the last row, or the last is not the end")
            self.apply(kind, job, task, variant, resource)
