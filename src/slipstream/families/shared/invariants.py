"""Conservation laws that every event log obeys, whatever the family, the policy or the machine it ran on.

Every job arrives once, numbered from 0 within its task; then it starts or is dropped (expire, reject, drop). What
started may be preempted where it started, and then start again or be dropped; or it finishes or fails there, and that
is the end of it. So at any row what arrived = finished + failed + dropped + running + waiting. No resource does two
things at once, weights never take more memory than there is and are not evicted under a job, the clock never runs
backwards, and the end is the last row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slipstream.errors import LawError
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
"""The rows of a log, by column."""

FOLLOWS = np.zeros((len(KINDS), len(KINDS)), bool)
"""FOLLOWS[a, b]: whether b may be the next thing that happens to a job after a."""
FOLLOWS[ARRIVAL, [START, EXPIRE, REJECT, DROP]] = True
FOLLOWS[START, [READY, PREEMPT, FINISH, FAIL]] = True
FOLLOWS[READY, [PREEMPT, FINISH, FAIL]] = True
FOLLOWS[PREEMPT, [START, EXPIRE, DROP]] = True
FOLLOWS[EVICT, EVICT] = True
ON_RESOURCE = (START, READY, PREEMPT, FINISH, FAIL)
"""What happens to a job on a resource."""
LEAVES = (PREEMPT, FINISH, FAIL)
"""How it leaves the resource."""


@dataclass(frozen=True)
class Memory:
    """What weights take, by task and variant, and how much there is, in any one unit."""

    sizes: np.ndarray
    limit: float


def check(events: np.ndarray, resources: int, queue_limit: int | None = None, memory: Memory | None = None) -> None:
    """Raise a LawError that names the row where the log of a whole episode breaks a law.

    `resources` is how many the machine has; `queue_limit`, where there is one, how many jobs of a task may wait.
    """
    if not len(events):
        raise LawError("the log is empty: expected at least its end")
    # Column by column: every law looks at a few columns of all rows, again and again.
    columns = {name: np.ascontiguousarray(events[name]) for name in COLUMNS}
    _check_values(columns, resources)
    _check_clock(columns)
    _check_end(columns)
    jobs = {name: column[:-1] for name, column in columns.items()}
    previous = _rows_before(jobs["task"], jobs["job"])
    _check_numbering(jobs)
    _check_courses(jobs, previous)
    _check_resources(jobs)
    if queue_limit is not None:
        _check_queues(jobs, previous, queue_limit)
    if memory is not None:
        _check_memory(jobs, memory)


def _demand(holds: np.ndarray, say: Callable[[int], str], rows: np.ndarray | None = None) -> None:
    """Raise for the first row where something does not hold; `rows` are the rows that `holds` speaks of."""
    broken = np.flatnonzero(~holds)
    if len(broken):
        row = int(broken[0] if rows is None else rows[broken].min())
        raise LawError(f"row {row}: {say(row)}")


def _told(events: Columns, row: int) -> str:
    event = {name: column[row] for name, column in events.items()}
    if event["kind"] == EVICT:
        return f"evict of variant {event['variant']} of task {event['task']}"
    return f"{KINDS[event['kind']]} of job {event['job']} of task {event['task']}"


def _check_values(events: Columns, resources: int) -> None:
    kind, resource = events["kind"], events["resource"]
    known = (kind >= 0) & (kind < len(KINDS))
    _demand(known, lambda row: f"kind {kind[row]}: expected 0 to {len(KINDS) - 1}")
    is_evict = kind == EVICT
    named = (kind == END) | ((events["task"] >= 0) & (np.where(is_evict, events["variant"], events["job"]) >= 0))
    _demand(named, lambda row: f"{_told(events, row)}: expected numbers from 0")
    placed = ~np.isin(kind, ON_RESOURCE) | ((resource >= 0) & (resource < resources))
    _demand(
        placed, lambda row: f"{_told(events, row)} on resource {resource[row]}: expected one from 0 to {resources - 1}"
    )


def _check_clock(events: Columns) -> None:
    time = events["time"]
    if time[0] < 0:
        raise LawError(f"row 0: time {time[0]} ns: the clock begins at 0")
    _demand(
        np.concatenate(([True], time[1:] >= time[:-1])),
        lambda row: f"time {time[row]} ns after {time[row - 1]} ns: the clock ran backwards",
    )


def _check_end(events: Columns) -> None:
    is_end = events["kind"] == END
    last = len(is_end) - 1
    if not is_end[last]:
        raise LawError(f"row {last}: the log stops with {_told(events, last)}: expected its end")
    _demand(~is_end[:-1], lambda row: "the end is not the last row")


def _rows_before(*keys: np.ndarray) -> np.ndarray:
    """Return for each row the row before it with the same keys, -1 if there is none."""
    order = _grouped(*keys)
    same = np.ones(max(0, len(order) - 1), bool)
    for key in keys:
        same &= key[order[1:]] == key[order[:-1]]
    before = np.full(len(order), -1)
    before[order[1:][same]] = order[:-1][same]
    return before


def _grouped(first: np.ndarray, *more: np.ndarray) -> np.ndarray:
    """Return an order in which rows with the same one or two keys stand together, in their own order.

    Rows are put together by the first key, of which there are few. The second is in order then but for a few rows,
    which takes far less time to mend than to sort all of them from the beginning.
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
    _demand(job == expected, lambda row: f"{_told(jobs, row)}: expected job {where[row]}: one is lost or doubled", rows)


def _check_courses(jobs: Columns, previous: np.ndarray) -> None:
    kind, is_first = jobs["kind"], previous < 0
    _demand(~is_first | (kind == ARRIVAL) | (kind == EVICT), lambda row: f"{_told(jobs, row)}, which never arrived")
    _demand(
        is_first | FOLLOWS[kind[previous], kind],
        lambda row: f"{_told(jobs, row)} after its {KINDS[kind[previous[row]]]} in row {previous[row]}",
    )
    for column in ("resource", "variant"):
        _check_same(jobs, previous, column)


def _check_same(jobs: Columns, previous: np.ndarray, column: str) -> None:
    """Check that a job goes on and leaves with the resource or variant with which it started."""
    value, goes_on = jobs[column], np.isin(jobs["kind"], ON_RESOURCE) & (jobs["kind"] != START)

    def say(row: int) -> str:
        start = previous[row]
        return f"{_told(jobs, row)} with {column} {value[row]}, but it started with {value[start]} in row {start}"

    _demand(~goes_on | (value == value[previous]), say)


def _check_resources(jobs: Columns) -> None:
    rows = np.flatnonzero(np.isin(jobs["kind"], (START, *LEAVES)))
    is_start = jobs["kind"][rows] == START
    before = _rows_before(jobs["resource"][rows])
    twice = is_start & (before >= 0) & is_start[before]
    holder = dict(zip(rows[twice].tolist(), rows[before[twice]].tolist(), strict=True))
    _demand(
        ~twice,
        lambda row: f"{_told(jobs, row)} on resource {jobs['resource'][row]}, busy since row {holder[row]}",
        rows,
    )


def _running_sum(group: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Return for each row the sum of the changes up to it within its group."""
    order = np.argsort(group, kind="stable")
    total = np.cumsum(change[order])
    first = np.flatnonzero(np.concatenate(([True], np.diff(group[order]) != 0))) if len(group) else order
    sums = np.empty(len(group), change.dtype)
    sums[order] = total - np.repeat((total - change[order])[first], np.diff(np.append(first, len(group))))
    return sums


def _check_queues(jobs: Columns, previous: np.ndarray, queue_limit: int) -> None:
    """Check that a job is rejected exactly where as many wait as may; interrupted ones come back all the same."""
    kind = jobs["kind"]
    rejects = np.flatnonzero(kind == REJECT)
    change = np.select([np.isin(kind, (ARRIVAL, PREEMPT)), np.isin(kind, (START, EXPIRE, DROP))], [1, -1], 0)
    # A rejected job never joins the queue: neither its arrival nor its rejection changes the length.
    change[previous[rejects]] = 0
    length = _running_sum(jobs["task"], change)
    _demand(
        (kind != ARRIVAL) | (change == 0) | (length <= queue_limit),
        lambda row: f"{_told(jobs, row)} joins {queue_limit} others: the queue was full",
    )
    _demand(
        length[rejects] >= queue_limit,
        lambda row: f"{_told(jobs, row)}, though {length[row]} of {queue_limit} places were taken",
        rejects,
    )


def _check_memory(jobs: Columns, memory: Memory) -> None:
    """Check the weights: a start brings them, an eviction removes them, and none are removed under a job."""
    rows = np.flatnonzero(np.isin(jobs["kind"], (START, *LEAVES, EVICT)))
    kind, task, variant = jobs["kind"][rows], jobs["task"][rows], jobs["variant"][rows]
    weights = task.astype(np.int64) * memory.sizes.shape[1] + variant
    before = _rows_before(weights)
    is_there = (before >= 0) & (kind[before] != EVICT)
    users = _running_sum(weights, np.select([kind == START, np.isin(kind, LEAVES)], [1, -1], 0))
    _demand((kind != EVICT) | is_there, lambda row: f"{_told(jobs, row)}, which was not there", rows)
    _demand((kind != EVICT) | (users == 0), lambda row: f"{_told(jobs, row)}, which a job still uses", rows)
    size = memory.sizes[task, variant]
    taken = np.cumsum(np.select([(kind == START) & ~is_there, kind == EVICT], [size, -size], 0))
    _demand(taken <= memory.limit, lambda row: f"{_told(jobs, row)}: the weights take more memory than there is", rows)


class Books(ABC):
    """The state of a machine as the rows of its log tell it; a law is broken where a row cannot follow.

    For families in whose logs a job is more than one run on one resource. They say what each kind of row means.
    """

    logged: ClassVar[tuple[int, ...]]
    """Kinds of events that a log of the family has."""
    row = 0

    @abstractmethod
    def enter(self, kind: int, job: int, task: int, variant: int, resource: int) -> None:
        """Let what a row says happen, if it can."""

    def demand(self, holds: bool, text: str) -> None:
        """Raise a LawError that names the present row unless something holds."""
        if not holds:
            raise LawError(f"row {self.row}: {text}")

    def demand_resource(self, resource: int, count: int, what: str) -> None:
        """Raise a LawError unless the machine has a resource."""
        self.demand(0 <= resource < count, f"{what} {resource}: expected one from 0 to {count - 1}")

    def read(self, events: np.ndarray) -> None:
        """Raise a LawError that names the row where the log of a whole episode breaks a law."""
        if not len(events):
            raise LawError("the log is empty: expected at least its end")
        clock, last = 0, len(events) - 1
        expected = ", ".join(KINDS[one] for one in self.logged)
        for row, (time, job, task, resource, variant, kind) in enumerate(events.tolist()):
            self.row = row
            self.demand(time >= clock, f"time {time} ns after {clock} ns: the clock ran backwards")
            clock = time
            name = KINDS[kind] if 0 <= kind < len(KINDS) else kind
            self.demand(kind in self.logged, f"kind {name}: expected one of {expected}")
            self.demand((kind == END) == (row == last), "the end is not the last row, or the last is not the end")
            self.enter(kind, job, task, variant, resource)
