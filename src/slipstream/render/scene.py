"""The scene: what a machine does now and did lately, kept up to date from the rows of its event log.

The terminal and the pictures of `render_mode="rgb_array"` draw the same scene. It remembers one window of time, so a
run may be of any length; kinds of events that it does not know are none of its business.
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
"""How many jobs of mean length fit into the window, one after the other."""


@dataclass
class Job:
    """A job that was released; times in ns."""

    task: int
    number: int
    """Counts within the task."""
    release: int
    deadline: int | None
    fate: int = OPEN
    served: int = 0
    """Time it ran before it was last interrupted."""

    def missed(self, now: int) -> bool:
        """Return whether its deadline is lost by now."""
        return self.fate in (LATE, DROPPED, OVERDUE, FAILED) or (
            self.fate == OPEN and self.deadline is not None and now > self.deadline
        )


@dataclass
class Slice:
    """A stretch of time in which a resource works on a job; `end` is None as long as it does."""

    job: Job
    variant: int
    start: int
    end: int | None = None


def scene_of(labels: RunLabels, window: int | None = None) -> Scene:
    """Return an empty scene of the kind that the labels need."""
    if labels.batches:
        return BatchScene(labels, window)
    if labels.groups:
        return GangScene(labels, window)
    return GraphScene(labels, window) if labels.graphs else Scene(labels, window)


class Scene:
    """The machine at the moment `now`, and the window of time before it."""

    def __init__(self, labels: RunLabels, window: int | None = None) -> None:
        self.labels = labels
        self.window = window or default_window(labels)
        self.now = 0
        self.over = False
        self.running: list[Slice | None] = [None] * len(labels.resources)
        self.waiting, self.released, self.finished, self.on_time, self.missed = (
            [0] * len(labels.tasks) for _ in range(5)
        )
        """Counts by task; what was dropped, was late, or was overdue at the end is missed."""
        self._accuracy = 0.0
        self._ended: list[deque[Slice]] = [deque() for _ in labels.resources]
        self._lost: deque[tuple[int, Job]] = deque()
        self._jobs: dict[tuple[int, int], Job] = {}

    @property
    def judged(self) -> int:
        """Jobs whose fate is known."""
        return sum(self.on_time) + sum(self.missed)

    @property
    def accuracy(self) -> float | None:
        """Mean accuracy of the judged jobs, a missed one counting as 0; None where the family knows none."""
        return None if self.labels.accuracy is None else self._accuracy / max(self.judged, 1)

    def slices(self, resource: int) -> Iterator[Slice]:
        """Yield what a resource did inside the window, in order of time."""
        yield from self._ended[resource]
        current = self.running[resource]
        if current is not None:
            yield current

    def lost(self) -> Iterator[tuple[int, Job]]:
        """Yield the jobs that left the queue for good inside the window, and when."""
        yield from self._lost

    def open_jobs(self) -> Iterator[Job]:
        """Yield the jobs that wait or run."""
        yield from self._jobs.values()

    def see(self, events: np.ndarray) -> None:
        """Take in further rows of the log."""
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
                self._lose(task, number)
            elif kind == END:
                self._end()
        self._forget()

    def move_to(self, now: int) -> None:
        """Let time pass without an event."""
        self.now = max(self.now, now)
        self._forget()

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
        self._answer(ended.job, ended.variant)

    def _answer(self, job: Job, variant: int) -> None:
        """Count a job that has a result."""
        self.finished[job.task] += 1
        if job.deadline is None or self.now <= job.deadline:
            job.fate = ON_TIME
            self.on_time[job.task] += 1
            if self.labels.accuracy is not None:
                self._accuracy += self.labels.accuracy[job.task][variant]
        else:
            self._miss(job, LATE)

    def _leave(self, resource: int) -> Slice:
        """Take a job that is over off its resource."""
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

    def _lose(self, task: int, number: int) -> None:
        job = self._jobs.pop((task, number))
        self.waiting[task] -= 1
        self._lost.append((self.now, job))
        self._miss(job, DROPPED)

    def _end(self) -> None:
        self.over = True
        for job in self._jobs.values():
            if job.deadline is not None and job.deadline <= self.now:
                self._miss(job, OVERDUE)

    def _miss(self, job: Job, fate: int) -> None:
        job.fate = fate
        self.missed[job.task] += 1

    def _forget(self) -> None:
        """Drop what the window has left behind."""
        oldest = self.now - self.window
        for ended in self._ended:
            while ended and (ended[0].end or 0) < oldest:
                ended.popleft()
        while self._lost and self._lost[0][0] < oldest:
            self._lost.popleft()


class BatchScene(Scene):
    """A machine whose resources work on several jobs at once: a slice is a batch, under the name of its first job."""

    def __init__(self, labels: RunLabels, window: int | None = None) -> None:
        super().__init__(labels, window)
        self._others: list[deque[tuple[Job, int]]] = [deque() for _ in labels.resources]
        """The other jobs of each resource's batch, and their variant; they end in the order in which they began."""

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
            self._answer(job, variant)


class GraphScene(Scene):
    """A machine whose jobs are graphs of stages: several executors serve one, and it is done when all of it is."""

    def __init__(self, labels: RunLabels, window: int | None = None) -> None:
        super().__init__(labels, window)
        self.moving: list[int | None] = [None] * len(labels.resources)
        """The job to which each resource is on its way."""
        self.completions: deque[tuple[int, int]] = deque()
        """When jobs were done, and which, inside the window."""
        self.counts: deque[tuple[int, int]] = deque([(0, 0)])
        """How many jobs were in the system, and from when on, from the start of the window."""
        self._begun: set[int] = set()

    @property
    def active(self) -> list[int]:
        """Jobs that have arrived and are not done."""
        return [job.task for job in self._jobs.values()]

    def see(self, events: np.ndarray) -> None:
        """Take in further rows of the log."""
        for time, number, _, resource, variant, kind in events.tolist():
            self.now = time
            if kind == ARRIVAL:
                self._arrive(number, 0)
                self.counts.append((time, len(self._jobs)))
            elif kind == START:
                self._start(number, resource, variant)
            elif kind == FINISH:
                self._close(resource)
            elif kind == MOVE:
                self.moving[resource] = number
            elif kind == READY:
                self.moving[resource] = None
            elif kind == DONE:
                self._complete(number)
            elif kind == END:
                self.over = True
        self._forget()

    def _start(self, number: int, resource: int, variant: int) -> None:
        if number not in self._begun:
            self._begun.add(number)
            self.waiting[number] -= 1
        ended = self._ended[resource]
        if ended and ended[-1].end == self.now and ended[-1].job.task == number:
            # Tasks of one job right after each other are one slice: there are too many to draw each.
            current = ended.pop()
            current.end = None
            current.job.served -= self.now - current.start
            self.running[resource] = current
        else:
            self.running[resource] = Slice(self._jobs[number, 0], variant, self.now)

    def _complete(self, number: int) -> None:
        job = self._jobs.pop((number, 0))
        job.fate = ON_TIME
        self._begun.discard(number)
        self.finished[number] += 1
        self.on_time[number] += 1
        self.completions.append((self.now, number))
        self.counts.append((self.now, len(self._jobs)))

    def _forget(self) -> None:
        super()._forget()
        while self.completions and self.completions[0][0] < self.now - self.window:
            self.completions.popleft()
        while len(self.counts) > 1 and self.counts[1][0] < self.now - self.window:
            self.counts.popleft()


class GangScene(GraphScene):
    """A machine whose jobs take several resources of a node, or of several, at once, and give them back together.

    The log counts resources; of those that are free, a job is shown on the ones with the lowest numbers.
    """

    def __init__(self, labels: RunLabels, window: int | None = None) -> None:
        super().__init__(labels, window)
        firsts = [sum(labels.groups[:group]) for group in range(len(labels.groups))]
        self._free = [
            [first + place for place in range(size)] for first, size in zip(firsts, labels.groups, strict=True)
        ]
        self._held: dict[int, list[tuple[int, int]]] = {}

    def see(self, events: np.ndarray) -> None:
        """Take in further rows of the log."""
        for time, number, count, node, variant, kind in events.tolist():
            self.now = time
            if kind == ARRIVAL:
                self._arrive(number, 0)
                self.counts.append((time, len(self._jobs)))
            elif kind == START:
                self.waiting[number] -= 1
                self._held[number] = []
                if node < 0:
                    self._take(number, 0, count, variant)
            elif kind == TAKE:
                self._take(number, node, count, variant)
            elif kind in (FINISH, PREEMPT):
                self._give_back(number)
                if kind == FINISH:
                    self._complete(number)
                else:
                    self.waiting[number] += 1
            elif kind == END:
                self.over = True
        self._forget()

    def _take(self, number: int, group: int, count: int, variant: int) -> None:
        for _ in range(count):
            resource = heapq.heappop(self._free[group])
            self._held[number].append((group, resource))
            self.running[resource] = Slice(self._jobs[number, 0], variant, self.now)

    def _give_back(self, number: int) -> None:
        for group, resource in self._held.pop(number):
            self._close(resource)
            heapq.heappush(self._free[group], resource)


def default_window(labels: RunLabels) -> int:
    """Return a round span of time that a few jobs after one another fill."""
    lengths = [length for ladder in labels.expected for length in ladder]
    wanted = WINDOW_JOBS * sum(lengths) / len(lengths)
    size = 10 ** math.floor(math.log10(wanted))
    return int(max(step * size for step in (1, 2, 5) if step * size <= wanted))
