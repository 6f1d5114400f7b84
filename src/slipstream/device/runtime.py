"""Running a scenario for real: arrivals from timers, ends of runs from the streams, choices from a policy.

One thread, which blocks whenever it has nothing to do. The lane is the same compiled machine as in a simulation, so
what a policy sees, earns and leaves in the log is the same too; only time and luck are the world's.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstream.device.backends.streams import Completion, Order, Streams, now
from slipstream.device.lane import DeviceLane
from slipstream.device.workload import Workload, check_device
from slipstream.errors import DeviceError
from slipstream.families.shared.schema import nanoseconds
from slipstream.policies.base import Policy

LEAST_WATCHDOG_MS = 1000.0
WATCHDOG_FACTOR = 20.0
"""A run is given up after so many times the longest latency of the scenario, and not before the least time."""
LONGEST_SLEEP_NS = 200_000_000
"""For which the controller sleeps at most, so that a Ctrl-C is heeded."""


@dataclass
class Tally:
    """Right answers among the runs whose sample has a label."""

    right: int = 0
    judged: int = 0


@dataclass
class Execution:
    """What happened in one run on a device."""

    events: np.ndarray
    faults: list[tuple[int, int, str]] = field(default_factory=list)
    """Task, job and what went wrong, of every job that failed."""
    restarts: int = 0
    """Streams that had to be replaced."""
    dispatch_ns: list[int] = field(default_factory=list)
    """Of every start: from when its choice was due, with what one call applies before it, to its run under way."""
    wake_ns: list[int] = field(default_factory=list)
    """From the moment a timer was due to the moment the controller acted on it."""
    service_ns: list[tuple[int, int, int]] = field(default_factory=list)
    """Task, variant and the time that the device itself worked, of every finished run."""
    accuracy: dict[tuple[int, int], Tally] = field(default_factory=dict)
    """By task and variant, where labels are known."""
    mistakes: int = 0
    """Choices of the policy that were not allowed."""
    interrupted: bool = False
    """Whether it was stopped before its time."""


Watcher = Callable[[int, DeviceLane], None]
"""Called now and then with the time and the lane; must be quick."""


def watchdog_ms(scenario: Any) -> float:
    """Return after how long a run of the scenario is given up."""
    longest: float = max(variant.latency_ms for task in scenario.tasks for variant in task.ladder)
    return max(LEAST_WATCHDOG_MS, WATCHDOG_FACTOR * longest)


class Runtime:
    """One run of a scenario under a policy, on streams that are ready."""

    lane_type: type[DeviceLane] = DeviceLane

    def __init__(
        self,
        scenario: Any,
        workload: Workload,
        streams: Streams,
        watchdog: float | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        check_device(scenario)
        if streams.count != scenario.device.streams:
            raise DeviceError(f"the device has {streams.count} streams: expected {scenario.device.streams} of them")
        self._scenario = without_decision_time(scenario)
        self._workload = workload
        self._streams = streams
        self._horizon = nanoseconds(scenario.horizon_ms)
        self._patience = round((watchdog_ms(scenario) if watchdog is None else watchdog) * 1e6)
        self._watcher = watcher
        self._stopping = False
        self._jobs: dict[int, tuple[int, int, int]] = {}
        """By stream: task, job and variant that run there."""
        self._samples = [workload.samples(task) for task in range(len(scenario.tasks))]
        """How many each task has."""
        self._labelled = any(samples.labels is not None for samples in workload.sets)
        self._zero = 0
        """When the episode began, on the clock of `now()`."""
        self._next_look = 0
        """When some run may have taken too long, at the earliest."""
        self._lane: DeviceLane | None = None
        """Of the last episode."""

    def stop(self) -> None:
        """Start nothing more; let what runs end, then end the episode: the present one, or else the next."""
        self._stopping = True

    def play(self, policy: Policy, seed: int, split: str = "test") -> Execution:
        """Play one episode in real time."""
        self._lane = None
        with interruptible(self.stop):
            found = self._play(policy, seed, split)
        self._stopping = False
        return found

    def _play(self, policy: Policy, seed: int, split: str) -> Execution:
        lane = self.lane_type(self._scenario)
        _rehearse(lane, policy)
        found = Execution(np.empty(0))
        restarts = self._streams.restarts
        self._zero = self._next_look = now()
        self._lane = lane
        try:
            self._begin(lane, seed, split)
            with _urgent(), _little_garbage(), self._streams.attended():
                while not lane.over:
                    if lane.asking and not self._stopping:
                        self._dispatch(lane, policy, found)
                    else:
                        self._catch_up(lane, policy, found)
                self._drain()
        except BaseException:
            self._break_off(lane)
            raise
        found.events = lane.events()
        found.mistakes = int(lane.header["mistakes"])
        found.interrupted = self._stopping
        found.restarts = self._streams.restarts - restarts
        return found

    def _break_off(self, lane: DeviceLane) -> None:
        """End the episode where an error found it, so that its log can be read like any other."""
        self._jobs.clear()
        with suppress(Exception):  # a lane that cannot go on leaves a log without an end
            if not lane.over:
                lane.follow(now() - self._zero, None, last=True)

    def pieces(self) -> list[np.ndarray]:
        """Return the event log of the last episode in pieces, also of one that an error ended."""
        return [] if self._lane is None else self._lane.pieces()

    def _begin(self, lane: DeviceLane, seed: int, split: str) -> None:
        """Let the episode begin."""
        lane.begin(seed, split)

    def _order(self, task: int, job: int, variant: int) -> Order:
        """Return the run that a job is."""
        return Order(self._workload.model_of[task][variant], self._workload.set_of[task], self._sample(task, job))

    def _sample(self, task: int, job: int) -> int:
        """Return the input of a job, among those of its task."""
        return job % self._samples[task]

    def _dispatch(self, lane: DeviceLane, policy: Policy, found: Execution) -> None:
        """Have a choice made, and begin the run that it starts, if it starts one."""
        due = now()
        lane.decide(policy)
        self._begin_runs(lane, found, due)

    def _begin_runs(self, lane: DeviceLane, found: Execution, due: int) -> None:
        """Begin what was chosen since a time: what the lane's streams run and the device's do not yet."""
        if lane.over:
            return  # what ended too late is still running in the log
        for stream in range(self._streams.count):
            if stream not in self._jobs and (job := lane.running(stream)) is not None:
                self._streams.submit(stream, self._order(*job))
                self._jobs[stream] = job
                found.dispatch_ns.append(now() - due)

    def _catch_up(self, lane: DeviceLane, policy: Policy, found: Execution) -> None:
        """Wait for what comes next, tell the lane, and begin what a first choice starts."""
        timer = self._zero + lane.next_timer
        last = self._stopping and not self._jobs
        ended = [] if last else self._wait_until(self._latest(timer))
        moment = now()
        if timer <= moment and not ended:
            found.wake_ns.append(moment - timer)
        for completion in ended:
            self._note(lane, completion, found)
        due = now()
        lane.follow(moment - self._zero, None if self._stopping else policy, last)
        self._begin_runs(lane, found, due)
        if self._watcher is not None:
            self._watcher(moment - self._zero, lane)

    def _latest(self, timer: int) -> int:
        """Return until when to wait for an end of a run, given the time of the next timer."""
        return timer

    def _wait_until(self, timer: int) -> list[Completion]:
        """Block until a run ends, a timer is due, or a run has to be given up; return the runs that are over."""
        moment = now()
        ended = self._streams.wait((min(timer, self._next_look, moment + LONGEST_SLEEP_NS) - moment) / 1e9)
        if now() >= self._next_look:
            over = {completion.stream for completion in ended}
            ended += self._given_up([stream for stream in self._jobs if stream not in over])
        return ended

    def _given_up(self, running: list[int]) -> Iterator[Completion]:
        """Replace the streams whose runs have taken too long; yield those runs as failed."""
        moment = now()
        self._next_look = moment + self._patience  # nothing that begins from now on can be too late before
        for stream in running:
            since = self._streams.since(stream)
            if since is None:
                continue
            if since + self._patience <= moment:
                self._streams.replace(stream)
                yield Completion(stream, moment, f"gave no answer within {self._patience / 1e6:g} ms")
            else:
                self._next_look = min(self._next_look, since + self._patience)

    def _note(self, lane: DeviceLane, completion: Completion, found: Execution) -> None:
        """Write down how a run ended."""
        stream = completion.stream
        task, job, variant = self._jobs.pop(stream)
        if completion.ended - self._zero > self._horizon:
            return  # the episode is over: in the log this job is still running
        lane.end(stream, max(1, completion.ended - self._zero), failed=bool(completion.error))
        if completion.error:
            found.faults.append((task, job, completion.error))
            return
        found.service_ns.append((task, variant, completion.device_ns))
        label = self._workload.label(task, job) if self._labelled else None
        if label is not None:
            tally = found.accuracy.setdefault((task, variant), Tally())
            tally.judged += 1
            tally.right += int(self._streams.output(stream).argmax()) == label

    def _drain(self) -> None:
        """Wait for runs that outlive the episode, so that the next one finds the streams idle."""
        while self._jobs:
            for completion in self._wait_until(now() + LONGEST_SLEEP_NS):
                del self._jobs[completion.stream]


def without_decision_time(scenario: Any) -> Any:
    """Return the scenario without the time that a choice takes in a simulation: here it takes its own."""
    device = scenario.device.model_copy(update={"decision_time_ms": 0.0})
    return scenario.model_copy(update={"device": device})


def _rehearse(lane: DeviceLane, policy: Policy) -> None:
    """Let a first choice be made before the clock runs: what it compiles and allocates is there when it counts."""
    lane.begin(0, "train")
    while not lane.asking and not lane.over:
        lane.follow(lane.next_timer)
    if lane.asking:
        lane.decide(policy)


STOPS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""What tells a run to end: a Ctrl-C, a supervisor, and a terminal that is closed."""


class _FirstSignal:
    """What the first of these signals does: it stops in order; a second does what it always does."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._before = {number: signal.getsignal(number) for number in STOPS}

    def __call__(self, number: int, frame: object) -> None:
        self._stop()
        self.restore()

    def install(self) -> None:
        """Heed the signals, but for those that are ignored: `nohup` does that for a reason."""
        for number, handler in self._before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self)

    def restore(self) -> None:
        """Put back what was there before, where it was Python that put it there."""
        for number, handler in self._before.items():
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def interruptible(stop: Callable[[], None]) -> Iterator[None]:
    """Let a first signal to end stop a run in order, unless somebody further out sees to that already."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or isinstance(signal.getsignal(signal.SIGINT), _FirstSignal):
        yield
        return
    handler = _FirstSignal(stop)
    handler.install()
    try:
        yield
    finally:
        handler.restore()


@contextmanager
def _little_garbage() -> Iterator[None]:
    """Spare the collector what is there already: going through all of it would hold up a choice by milliseconds."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _urgent() -> Iterator[None]:
    """Let this thread run as soon as it wakes, where the system allows it.

    As one among equals it would first wait for the end of a busy worker's time slice: some milliseconds. It sleeps
    almost always, so nobody starves.
    """
    if not hasattr(os, "sched_setscheduler"):
        yield
        return
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    urgent = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    try:
        os.sched_setscheduler(0, urgent, os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, priority)
