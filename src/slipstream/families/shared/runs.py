"""Jobs and their runs from event logs in which a job runs on one resource at a time, or holds several GPUs at once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstream.errors import InvariantError
from slipstream.families.shared import invariants
from slipstream.families.shared.labels import RunLabels
from slipstream.families.shared.timeline import DROPPED, FAILED, LATE, NO_DEADLINE, ON_TIME, OPEN, OVERDUE, Timeline
from slipstream.sim.eventlog import ARRIVAL, DROP, END, EXPIRE, FAIL, FINISH, PREEMPT, REJECT, START, TAKE


@dataclass(frozen=True)
class Jobs:
    """Every job of an episode, sorted by task and release; times in ns, -1 where the event never happened."""

    task: np.ndarray
    release: np.ndarray
    deadline: np.ndarray
    start: np.ndarray
    """Of the first run."""
    finish: np.ndarray
    variant: np.ndarray
    """Of the last run."""
    fate: np.ndarray
    end: int
    """When the episode ended."""
    slices: Slices


@dataclass(frozen=True)
class Slices:
    """The intervals in which jobs held resources, several for a preempted job; times in ns."""

    job: np.ndarray
    """Index into the jobs."""
    variant: np.ndarray
    resource: np.ndarray
    start: np.ndarray
    """Ascending."""
    end: np.ndarray
    """The end of the episode if the job still held its resource then."""

    @property
    def length(self) -> np.ndarray:
        """Duration of each slice."""
        return np.asarray(self.end - self.start)

    @property
    def run(self) -> np.ndarray:
        """Number of the run of each slice: those of one batch follow each other, with one resource and one start."""
        other = (self.start[1:] != self.start[:-1]) | (self.resource[1:] != self.resource[:-1])
        return np.concatenate(([0], np.cumsum(other))) if len(self.start) else np.empty(0, np.int64)


def jobs_of(events: np.ndarray, deadlines: Sequence[int | None]) -> Jobs:
    """Return the jobs of an episode from its event log; `deadlines` are relative, by task, None where there is none."""
    # A log may have millions of rows: functions pass row indices, and only the columns in use are copied.
    kind, time = np.ascontiguousarray(events["kind"]), events["time"]
    arrivals = np.flatnonzero(kind == ARRIVAL)
    # Jobs of a task arrive in the order of their numbers: a stable sort by task is enough.
    arrivals = arrivals[np.argsort(events["task"][arrivals], kind="stable")]
    task, release = events["task"][arrivals].astype(np.int64), time[arrivals]
    first = np.searchsorted(task, np.arange(len(deadlines)))
    relative = np.array([NO_DEADLINE if one is None else one for one in deadlines], np.int64)
    deadline = np.minimum(release + relative[task], NO_DEADLINE)
    ends = np.flatnonzero(kind == END)
    end = int(time[ends[-1]]) if len(ends) else int(time[-1]) if len(events) else 0
    slices = _slices(events, kind, first, end, len(task))
    start, finish, variant = (np.full(len(task), -1, np.int64) for _ in range(3))
    fate = np.where(deadline <= end, OVERDUE, OPEN)
    # The last assignment to an index wins: the first start, and the last variant.
    start[slices.job[::-1]] = slices.start[::-1]
    variant[slices.job] = slices.variant
    finishes = np.flatnonzero(kind == FINISH)
    job, when = jobs_of_rows(events, finishes, first), time[finishes]
    finish[job] = when
    fate[job] = np.where(when <= deadline[job], ON_TIME, LATE)
    fate[jobs_of_rows(events, rows_of(kind, EXPIRE, REJECT, DROP), first)] = DROPPED
    fate[jobs_of_rows(events, rows_of(kind, FAIL), first)] = FAILED
    return Jobs(task, release, deadline, start, finish, variant, fate, end, slices)


def rows_of(kinds: np.ndarray, *wanted: int) -> np.ndarray:
    """Return the indices of the rows whose kind is in `wanted`."""
    found = np.zeros(len(kinds), bool)
    for kind in wanted:
        found |= kinds == kind
    return np.flatnonzero(found)


def jobs_of_rows(events: np.ndarray, rows: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the index of the job of each row; `first` holds the index of each task's first job."""
    return np.asarray(first[events["task"][rows]] + events["job"][rows])


def _slices(events: np.ndarray, kind: np.ndarray, first: np.ndarray, end: int, count: int) -> Slices:
    starts = np.flatnonzero(kind == START)
    job = jobs_of_rows(events, starts, first)
    if (kind == PREEMPT).any():
        stop = _stops(events, rows_of(kind, START, FINISH, FAIL, PREEMPT), first, end)
    else:  # every job has at most one slice: no sorting needed
        leaves = rows_of(kind, FINISH, FAIL)
        left = np.full(count, end, np.int64)
        left[jobs_of_rows(events, leaves, first)] = events["time"][leaves]
        stop = left[job]
    return Slices(
        job,
        events["variant"][starts].astype(np.int64),
        events["resource"][starts].astype(np.int64),
        events["time"][starts],
        stop,
    )


def _stops(events: np.ndarray, rows: np.ndarray, first: np.ndarray, end: int) -> np.ndarray:
    """Return the time of the next event of the same job after each start in `rows`, `end` if there is none."""
    job = jobs_of_rows(events, rows, first)
    order = np.argsort(job, kind="stable")
    followed = np.flatnonzero(job[order[1:]] == job[order[:-1]])
    stop = np.full(len(rows), end, np.int64)
    stop[order[followed]] = events["time"][rows[order[followed + 1]]]
    return np.asarray(stop[events["kind"][rows] == START])


def timeline_of(labels: RunLabels, events: np.ndarray) -> Timeline:
    """Return the timeline of a whole episode, with the names and deadlines that `labels` give."""
    jobs = jobs_of(events, labels.deadline)
    first = np.searchsorted(jobs.task, np.arange(len(labels.tasks)))
    # A job waits from its release, and again from each preemption, until it starts, is dropped, or the episode ends.
    wait_job, wait_start = _by_job(events, rows_of(events["kind"], ARRIVAL, PREEMPT), first)
    end_job, wait_end = _by_job(events, rows_of(events["kind"], START, EXPIRE, REJECT, DROP), first)
    # Starts and ends of a job's waits alternate, so at most its last wait has no end.
    still = np.bincount(wait_job, minlength=len(jobs.task)) > np.bincount(end_job, minlength=len(jobs.task))
    order = np.argsort(np.concatenate((end_job, np.flatnonzero(still))), kind="stable")
    wait_end = np.concatenate((wait_end, np.full(int(still.sum()), jobs.end)))[order]
    return Timeline(
        tasks=labels.tasks,
        variants=labels.variants,
        resources=labels.resources,
        end=jobs.end,
        task=jobs.task,
        number=np.arange(len(jobs.task)) - first[jobs.task],
        release=jobs.release,
        deadline=jobs.deadline,
        wait_job=wait_job,
        wait_start=wait_start,
        wait_end=wait_end,
        finish=jobs.finish,
        fate=jobs.fate,
        slice_job=jobs.slices.job,
        slice_resource=jobs.slices.resource,
        slice_variant=jobs.slices.variant,
        slice_start=jobs.slices.start,
        slice_end=jobs.slices.end,
        nouns=labels.nouns,
    )


def _by_job(events: np.ndarray, rows: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the jobs and times of `rows`, sorted by job, then by time."""
    job = jobs_of_rows(events, rows, first)
    order = np.argsort(job, kind="stable")
    return np.asarray(job[order]), np.asarray(events["time"][rows[order]])


def check(labels: RunLabels, events: np.ndarray, queue_limit: int | None = None) -> None:
    """Raise an InvariantError if the log of an episode violates an invariant or names tasks that `labels` lack.

    `queue_limit` is the most jobs of a task that may wait, None for no limit.
    """
    invariants.check(events, len(labels.resources), queue_limit, batches=labels.batches)
    if events["task"].max() >= len(labels.tasks):
        raise InvariantError(
            f"task {events['task'].max()}: expected numbers below {len(labels.tasks)}, as in the scenario"
        )


# Jobs that hold several GPUs, in logs that count the GPUs of a job without numbering them


@dataclass(frozen=True)
class Spans:
    """Intervals in which jobs ran without interruption; times in ns."""

    job: np.ndarray
    gpus: np.ndarray
    variant: np.ndarray
    start: np.ndarray
    end: np.ndarray


def spans_of(events: np.ndarray) -> Spans:
    """Return the intervals in which jobs ran, by start."""
    starts = events[events["kind"] == START]
    stops = events[np.isin(events["kind"], (FINISH, PREEMPT))]
    # A job's n-th start and its n-th stop belong together: the sorts are stable.
    begun, ended = np.argsort(starts["job"], kind="stable"), np.argsort(stops["job"], kind="stable")
    end = np.empty(len(starts), np.int64)
    end[begun] = stops["time"][ended]
    return Spans(starts["job"], starts["task"], starts["variant"], starts["time"].astype(np.int64), end)


def waits_of(submit: np.ndarray, spans: Spans) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return job, begin and end of all waits: before each start, since the submission or the interruption before it."""
    order = np.lexsort((spans.start, spans.job))
    job, start, end = spans.job[order], spans.start[order], spans.end[order]
    again = np.concatenate(([False], job[1:] == job[:-1]))
    since = np.where(again, np.concatenate(([0], end[:-1])), submit[job])
    return job, since, start


def gpus_of_spans(sizes: Sequence[int], events: np.ndarray, flat: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of a span and a GPU, by start: a job gets the free GPUs with the lowest numbers of each group.

    `sizes` are the GPUs of each node or kind; `flat` says that starts take GPUs of the only one, without take rows. The
    machine counts GPUs without numbering them; rendering needs numbers.
    """
    firsts = np.concatenate(([0], np.cumsum(sizes))).tolist()
    free = [list(range(firsts[group], firsts[group + 1])) for group in range(len(sizes))]
    held: dict[int, list[tuple[int, int]]] = {}
    spans: list[int] = []
    gpus: list[int] = []
    span = -1
    columns = (events[name].tolist() for name in ("kind", "job", "task", "resource"))
    for kind, job, count, resource in zip(*columns, strict=True):
        if kind == START:
            span += 1
            held[job] = []
        if kind == TAKE or (kind == START and flat):
            group = 0 if flat else resource
            taken = [heapq.heappop(free[group]) for _ in range(count)]
            held[job] += [(group, gpu) for gpu in taken]
            spans += [span] * count
            gpus += taken
        elif kind in (FINISH, PREEMPT):
            for group, gpu in held.pop(job):
                heapq.heappush(free[group], gpu)
    return np.array(spans, np.int64), np.array(gpus, np.int64)
