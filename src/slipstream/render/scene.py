"""Scene: present and recent state of a simulated system, updated from the rows of its event log.

The terminal and the images of `render_mode="rgb_array"` draw the same scene. It keeps one window of time, so a run may
be of any length; unknown kinds of events are ignored.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slipstream.families.shared.labels import RunLabels
from slipstream.families.shared.timeline import DROPPED, FAILED, LATE, ON_TIME, OPEN, OVERDUE
from slipstream.sim.eventlog import (
    ARRIVAL,
    DONE,
    DROP,
    END,
    EXPIRE,
    FAIL,
    FINISH,
    MOVE,
    PREEMPT,
    READY,
    REJECT,
    START,
    TAKE,
)

WINDOW_JOBS = 12
"""Length of the window, in jobs of mean length."""


@dataclass
class Job:
    """A job that was released; times in ns."""

    task: int
    number: int
    """Number of the job within its task."""
    release: int
    deadline: int | None
    fate: int = OPEN
    served: int = 0
    """Run time before the last preemption."""

    def missed(self, now: int) -> bool:
        """Return whether the deadline is missed at `now`."""
        return self.fate in (LATE, DROPPED, OVERDUE, FAILED) or (
            self.fate == OPEN and self.deadline is not None and now > self.deadline
        )


@dataclass
class Slice:
    """Interval in which a resource runs a job; `end` is None while it runs."""

    job: Job
    variant: int
    start: int
    end: int | None = None
    kernel: int | None = None
    """Index into the kernels of the labels, where there are any."""

    @property
    def colour(self) -> int:
        """Index of what the slice stands for in a picture: its kernel, else the task of its job."""
        return self.job.task if self.kernel is None else self.kernel


def scene_of(labels: RunLabels, window: int | None = None) -> Scene:
    """Return an empty scene of the type for `labels`."""
    if labels.batches:
        return BatchScene(labels, window)
    if labels.groups:
        return GangScene(labels, window)
    if labels.links:
        return TransferScene(labels, window)
    return GraphScene(labels, window) if labels.graphs else Scene(labels, window)


class Scene:
    """State of the system at `now`, and the window of time before it."""

    def __init__(self, labels: RunLabels, window: int | None = None) -> None:
        self.labels = labels
        self.window = window or default_window(labels)
        self.now = 0
        self.over = False
        self.running: list[Slice | None] = [None] * len(labels.resources)
        self.waiting, self.released, self.finished, self.on_time, self.missed = (
            [0] * len(labels.tasks) for _ in range(5)
        )
        """Counts by task; dropped, late and, at the end, overdue jobs are missed."""
        self._accuracy = 0.0
        self._ended: list[deque[Slice]] = [deque() for _ in labels.resources]
        self._dropped: deque[tuple[int, Job]] = deque()
        self._jobs: dict[tuple[int, int], Job] = {}

    @property
    def judged(self) -> int:
        """Number of jobs whose outcome is known."""
        return sum(self.on_time) + sum(self.missed)

    @property
    def accuracy(self) -> float | None:
        """Mean accuracy of the judged jobs, 0 for a missed one; None if the family has no accuracy."""
        return None if self.labels.accuracy is None else self._accuracy / max(self.judged, 1)

    def slices(self, resource: int) -> Iterator[Slice]:
        """Yield the slices of a resource inside the window, in order of time."""
        yield from self._ended[resource]
        current = self.running[resource]
        if current is not None:
            yield current

    def dropped(self) -> Iterator[tuple[int, Job]]:
        """Yield time and job of those dropped from the queue inside the window."""
        yield from self._dropped

    def open_jobs(self) -> Iterator[Job]:
        """Yield the jobs that wait or run."""
        yield from self._jobs.values()

    def update(self, events: np.ndarray) -> None:
        """Update the scene with `events`, the next rows of the log."""
        for time, number, task, resource, variant, kind in events.tolist():
            self.now = time
            if kind == ARRIVAL:
                self._arrive(task, number)
            elif kind == START:
                self._begin(self._jobs[task, number], resource, variant)
            elif kind == FINISH:
                self._finish(resource)
            elif kind == FAIL:
                self._miss(self._leave(resource).job, FAILED)
            elif kind == PREEMPT:
                self._close(resource)
                self.waiting[task] += 1
            elif kind in (EXPIRE, REJECT, DROP):
                self._drop(task, number)
            elif kind == END:
                self._end()
        self._trim_window()

    def advance_to(self, now: int) -> None:
        """Advance the scene to the time `now` without an event."""
        self.now = max(self.now, now)
        self._trim_window()

    def _arrive(self, task: int, number: int) -> None:
        relative = self.labels.deadline[task]
        deadline = None if relative is None else self.now + relative
        self._jobs[task, number] = Job(task, number, self.now, deadline)
        self.released[task] += 1
        self.waiting[task] += 1

    def _begin(self, job: Job, resource: int, variant: int) -> None:
        self.waiting[job.task] -= 1
        self.running[resource] = Slice(job, variant, self.now)

    def _finish(self, resource: int) -> None:
        ended = self._leave(resource)
        self._count_finished(ended.job, ended.variant)

    def _count_finished(self, job: Job, variant: int) -> None:
        """Count a finished job as on time or missed."""
        self.finished[job.task] += 1
        if job.deadline is None or self.now <= job.deadline:
            job.fate = ON_TIME
            self.on_time[job.task] += 1
            if self.labels.accuracy is not None:
                self._accuracy += self.labels.accuracy[job.task][variant]
        else:
            self._miss(job, LATE)

    def _leave(self, resource: int) -> Slice:
        """End the slice of a job that has ended, and remove the job."""
        ended = self._close(resource)
        del self._jobs[ended.job.task, ended.job.number]
        return ended

    def _close(self, resource: int) -> Slice:
        current = self.running[resource]
        assert current is not None, "the log ends a slice on an idle resource"
        current.end = self.now
        current.job.served += self.now - current.start
        self._ended[resource].append(current)
        self.running[resource] = None
        return current

    def _drop(self, task: int, number: int) -> None:
        job = self._jobs.pop((task, number))
        self.waiting[task] -= 1
        self._dropped.append((self.now, job))
        self._miss(job, DROPPED)

    def _end(self) -> None:
        self.over = True
        for job in self._jobs.values():
            if job.deadline is not None and job.deadline <= self.now:
                self._miss(job, OVERDUE)

    def _miss(self, job: Job, fate: int) -> None:
        job.fate = fate
        self.missed[job.task] += 1

    def _trim_window(self) -> None:
        """Drop everything older than the window."""
        oldest = self.now - self.window
        for ended in self._ended:
            while ended and (ended[0].end or 0) < oldest:
                ended.popleft()
        while self._dropped and self._dropped[0][0] < oldest:
            self._dropped.popleft()


class BatchScene(Scene):
    """Scene of resources that run batches: a slice is a batch, named after its first job."""

    def __init__(self, labels: RunLabels, window: int | None = None) -> None:
        super().__init__(labels, window)
        self._others: list[deque[tuple[Job, int]]] = [deque() for _ in labels.resources]
        """Other jobs of each resource's batch and their variants; they end in the order of their starts."""

    def _begin(self, job: Job, resource: int, variant: int) -> None:
        if self.running[resource] is None:
            super()._begin(job, resource, variant)
        else:
            self.waiting[job.task] -= 1
            self._others[resource].append((job, variant))

    def _finish(self, resource: int) -> None:
        if self.running[resource] is not None:
            super()._finish(resource)
        else:
            job, variant = self._others[resource].popleft()
            del self._jobs[job.task, job.number]
            self._count_finished(job, variant)


class GraphScene(Scene):
    """Scene of jobs that are graphs of stages: several executors run a job, which is done with its last stage."""

    def __init__(self, labels: RunLabels, window: int | None = None) -> None:
        super().__init__(labels, window)
        self.moving: list[int | None] = [None] * len(labels.resources)
        """Job to which each resource is moving."""
        self.completions: deque[tuple[int, int]] = deque()
        """Time and job of completions inside the window."""
        self.counts: deque[tuple[int, int]] = deque([(0, 0)])
        """Time and number of jobs in the system at each change, from the start of the window."""
        self._begun: set[int] = set()

    @property
    def active(self) -> list[int]:
        """Jobs in the system: arrived and not done."""
        return [job.task for job in self._jobs.values()]

    def update(self, events: np.ndarray) -> None:
        """Update the scene with `events`, the next rows of the log."""
        kernel_of = self.labels.kernel_of
        for time, number, part, resource, variant, kind in events.tolist():
            self.now = time
            if kind == ARRIVAL:
                self._arrive(number, 0)
                self.counts.append((time, len(self._jobs)))
            elif kind == START:
                self._start(number, resource, variant, kernel_of[part] if kernel_of else None)
            elif kind == FINISH or (kind == FAIL and resource >= 0):
                self._close(resource)
            elif kind == MOVE:
                self._move(number, resource, variant)
            elif kind == READY:
                self._ready(resource)
            elif kind == DONE:
                self._complete(number)
            elif kind == END:
                self.over = True
        self._trim_window()

    def _start(self, number: int, resource: int, variant: int, kernel: int | None) -> None:
        if number not in self._begun:
            self._begun.add(number)
            self.waiting[number] -= 1
        ended = self._ended[resource]
        if ended and ended[-1].end == self.now and (ended[-1].job.task, ended[-1].kernel) == (number, kernel):
            # Consecutive tasks of one job, or of one kernel, are one slice: there are too many to draw each.
            current = ended.pop()
            current.end = None
            current.job.served -= self.now - current.start
            self.running[resource] = current
        else:
            self.running[resource] = Slice(self._jobs[number, 0], variant, self.now, kernel=kernel)

    def _move(self, number: int, resource: int, _variant: int) -> None:
        self.moving[resource] = number

    def _ready(self, resource: int) -> None:
        self.moving[resource] = None

    def _complete(self, number: int) -> None:
        job = self._jobs.pop((number, 0))
        job.fate = ON_TIME
        self._begun.discard(number)
        self.finished[number] += 1
        self.on_time[number] += 1
        self.completions.append((self.now, number))
        self.counts.append((self.now, len(self._jobs)))

    def _trim_window(self) -> None:
        super()._trim_window()
        while self.completions and self.completions[0][0] < self.now - self.window:
            self.completions.popleft()
        while len(self.counts) > 1 and self.counts[1][0] < self.now - self.window:
            self.counts.popleft()


class TransferScene(GraphScene):
    """Scene of graphs whose data moves over links: a transfer is a slice of its link."""

    def _move(self, number: int, resource: int, variant: int) -> None:
        # Data may leave a device after its job is done.
        job = self._jobs.get((number, 0)) or Job(number, 0, self.now, None, ON_TIME)
        kernel = len(self.labels.kernels) - 1 if self.labels.kernels else None
        self.running[resource] = Slice(job, variant, self.now, kernel=kernel)

    def _ready(self, resource: int) -> None:
        self._close(resource)


class GangScene(GraphScene):
    """Scene of gang-scheduled jobs, which hold several resources of one or more nodes at once.

    The log has only the number of resources; a job is shown on the free ones with the lowest numbers.
    """

    def __init__(self, labels: RunLabels, window: int | None = None) -> None:
        super().__init__(labels, window)
        firsts = [sum(labels.groups[:group]) for group in range(len(labels.groups))]
        self._free = [
            [first + offset for offset in range(size)] for first, size in zip(firsts, labels.groups, strict=True)
        ]
        self._held: dict[int, list[tuple[int, int]]] = {}

    def update(self, events: np.ndarray) -> None:
        """Update the scene with `events`, the next rows of the log."""
        for time, number, count, node, variant, kind in events.tolist():
            self.now = time
            if kind == ARRIVAL:
                self._arrive(number, 0)
                self.counts.append((time, len(self._jobs)))
            elif kind == START:
                self.waiting[number] -= 1
                self._held[number] = []
                if node < 0:
                    self._allocate(number, 0, count, variant)
            elif kind == TAKE:
                self._allocate(number, node, count, variant)
            elif kind in (FINISH, PREEMPT):
                self._release(number)
                if kind == FINISH:
                    self._complete(number)
                else:
                    self.waiting[number] += 1
            elif kind == END:
                self.over = True
        self._trim_window()

    def _allocate(self, number: int, group: int, count: int, variant: int) -> None:
        for _ in range(count):
            resource = heapq.heappop(self._free[group])
            self._held[number].append((group, resource))
            self.running[resource] = Slice(self._jobs[number, 0], variant, self.now)

    def _release(self, number: int) -> None:
        for group, resource in self._held.pop(number):
            self._close(resource)
            heapq.heappush(self._free[group], resource)


def default_window(labels: RunLabels) -> int:
    """Return a round length of the window, of about WINDOW_JOBS jobs of mean length."""
    lengths = [length for ladder in labels.expected for length in ladder]
    wanted = WINDOW_JOBS * sum(lengths) / len(lengths)
    size = 10 ** math.floor(math.log10(wanted))
    return int(max(step * size for step in (1, 2, 5) if step * size <= wanted))
