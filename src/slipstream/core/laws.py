"""Conservation laws that every event log obeys, whatever the family, the policy or the machine it ran on.

Every job arrives once, numbered from 0 within its task; then it starts or is dropped (expire, reject, drop), at most
once; what started may finish, once, where it started. So at any row what arrived = finished + dropped + running +
waiting. No resource does two things at once, the clock never runs backwards, and the end is the last row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slipstream.core.eventlog import ARRIVAL, DROP, END, EXPIRE, FINISH, KINDS, REJECT, START
from slipstream.errors import LawError

FOLLOWS = np.zeros((len(KINDS), len(KINDS)), bool)
"""FOLLOWS[a, b]: whether b may be the next thing that happens to a job after a."""
FOLLOWS[ARRIVAL, [START, EXPIRE, REJECT, DROP]] = True
FOLLOWS[START, FINISH] = True


def check(events: np.ndarray, resources: int, queue_limit: int | None = None) -> None:
    """Raise a LawError that names the row where the log of a whole episode breaks a law.

    `resources` is how many the machine has; `queue_limit`, where there is one, how many jobs of a task may wait.
    """
    if not len(events):
        raise LawError("the log is empty: expected at least its end")
    _check_values(events, resources)
    _check_clock(events)
    _check_end(events)
    jobs = events[:-1]
    previous = _rows_before(jobs["task"], jobs["job"])
    _check_numbering(jobs)
    _check_courses(jobs, previous)
    _check_resources(jobs)
    if queue_limit is not None:
        _check_queues(jobs, previous, queue_limit)


def _demand(holds: np.ndarray, say: Callable[[int], str], rows: np.ndarray | None = None) -> None:
    """Raise for the first row where something does not hold; `rows` are the rows that `holds` speaks of."""
    broken = np.flatnonzero(~holds)
    if len(broken):
        row = int(broken[0] if rows is None else rows[broken].min())
        raise LawError(f"row {row}: {say(row)}")


def _told(events: np.ndarray, row: int) -> str:
    event = events[row]
    return f"{KINDS[event['kind']]} of job {event['job']} of task {event['task']}"


def _check_values(events: np.ndarray, resources: int) -> None:
    kind, resource = events["kind"], events["resource"]
    known = (kind >= 0) & (kind < len(KINDS))
    _demand(known, lambda row: f"kind {kind[row]}: expected 0 to {len(KINDS) - 1}")
    named = (kind == END) | ((events["task"] >= 0) & (events["job"] >= 0))
    _demand(named, lambda row: f"{_told(events, row)}: expected numbers from 0")
    placed = ((kind != START) & (kind != FINISH)) | ((resource >= 0) & (resource < resources))
    _demand(
        placed, lambda row: f"{_told(events, row)} on resource {resource[row]}: expected one from 0 to {resources - 1}"
    )


def _check_clock(events: np.ndarray) -> None:
    time = events["time"]
    if time[0] < 0:
        raise LawError(f"row 0: time {time[0]} ns: the clock begins at 0")
    _demand(
        np.concatenate(([True], time[1:] >= time[:-1])),
        lambda row: f"time {time[row]} ns after {time[row - 1]} ns: the clock ran backwards",
    )


def _check_end(events: np.ndarray) -> None:
    is_end, last = events["kind"] == END, len(events) - 1
    if not is_end[last]:
        raise LawError(f"row {last}: the log stops with {_told(events, last)}: expected its end")
    _demand(~is_end[:-1], lambda row: "the end is not the last row")


def _rows_before(*keys: np.ndarray) -> np.ndarray:
    """Return for each row the row before it with the same keys, -1 if there is none."""
    order = np.lexsort(keys)
    same = np.ones(max(0, len(order) - 1), bool)
    for key in keys:
        same &= key[order[1:]] == key[order[:-1]]
    before = np.full(len(order), -1)
    before[order[1:][same]] = order[:-1][same]
    return before


def _check_numbering(jobs: np.ndarray) -> None:
    rows = np.flatnonzero(jobs["kind"] == ARRIVAL)
    task, job = jobs["task"][rows], jobs["job"][rows]
    before = _rows_before(task)
    expected = np.where(before < 0, 0, job[before] + 1)
    where = dict(zip(rows[job != expected].tolist(), expected[job != expected].tolist(), strict=True))
    _demand(job == expected, lambda row: f"{_told(jobs, row)}: expected job {where[row]}: one is lost or doubled", rows)


def _check_courses(jobs: np.ndarray, previous: np.ndarray) -> None:
    kind, is_first = jobs["kind"], previous < 0
    _demand(~is_first | (kind == ARRIVAL), lambda row: f"{_told(jobs, row)}, which never arrived")
    _demand(
        is_first | FOLLOWS[kind[previous], kind],
        lambda row: f"{_told(jobs, row)} after its {KINDS[kind[previous[row]]]} in row {previous[row]}",
    )
    for column in ("resource", "variant"):
        _check_same(jobs, previous, column)


def _check_same(jobs: np.ndarray, previous: np.ndarray, column: str) -> None:
    """Check that a job finishes with the resource or variant with which it started."""
    value = jobs[column]

    def say(row: int) -> str:
        start = previous[row]
        return f"{_told(jobs, row)} with {column} {value[row]}, but it started with {value[start]} in row {start}"

    _demand((jobs["kind"] != FINISH) | (value == value[previous]), say)


def _check_resources(jobs: np.ndarray) -> None:
    rows = np.flatnonzero((jobs["kind"] == START) | (jobs["kind"] == FINISH))
    is_start = jobs["kind"][rows] == START
    before = _rows_before(jobs["resource"][rows])
    twice = is_start & (before >= 0) & is_start[before]
    holder = dict(zip(rows[twice].tolist(), rows[before[twice]].tolist(), strict=True))
    _demand(
        ~twice,
        lambda row: f"{_told(jobs, row)} on resource {jobs['resource'][row]}, busy since row {holder[row]}",
        rows,
    )


def _check_queues(jobs: np.ndarray, previous: np.ndarray, queue_limit: int) -> None:
    """Check how many jobs of a task wait: never more than the limit, and exactly that many when one is rejected."""
    kind = jobs["kind"]
    rejects = np.flatnonzero(kind == REJECT)
    # A rejected job never joins the queue: neither its arrival nor its rejection changes the length.
    change = np.where(kind == ARRIVAL, 1, np.where(kind == FINISH, 0, -1))
    change[rejects] = change[previous[rejects]] = 0
    order = np.argsort(jobs["task"], kind="stable")
    total = np.cumsum(change[order])
    first = np.flatnonzero(np.concatenate(([True], np.diff(jobs["task"][order]) != 0))) if len(jobs) else order
    length = np.empty(len(jobs), np.int64)
    length[order] = total - np.repeat((total - change[order])[first], np.diff(np.append(first, len(jobs))))
    _demand(length <= queue_limit, lambda row: f"{_told(jobs, row)} joins {queue_limit} others: the queue was full")
    _demand(
        length[rejects] == queue_limit,
        lambda row: f"{_told(jobs, row)}, though {length[row]} of {queue_limit} places were taken",
        rejects,
    )
