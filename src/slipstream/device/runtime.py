"""Runtime: executes a scenario on a device, with arrivals from timers, completions from streams, decisions of a policy.

One thread, which blocks while it has nothing to do. The lane runs the same compiled kernel as a simulation, so
observation, reward and event log are the same too; only times and failures are those of the device.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np

from slipstream.device.backends.streams import Completion, RunRequest, Streams, now
from slipstream.device.lane import DeviceLane
from slipstream.device.workload import Workload, check_device
from slipstream.errors import DeviceError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared.schema import nanoseconds
from slipstream.policies.auto import ON_DEVICE, Auto
from slipstream.policies.base import Policy

LEAST_WATCHDOG_MS = 1000.0
WATCHDOG_FACTOR = 20.0
"""The watchdog aborts a run after this multiple of the scenario's longest latency, and not before the least time."""
LONGEST_SLEEP_NS = 200_000_000
"""Longest sleep of the controller, so that it reacts to a Ctrl-C."""


@dataclass
class Tally:
    """Number of right answers among the runs whose sample has a label."""

    right: int = 0
    judged: int = 0


@dataclass
class Execution:
    """Result of one run on a device."""

    events: np.ndarray
    faults: list[tuple[int, int, str]] = field(default_factory=list)
    """Task, job and error message of every job that failed."""
    restarts: int = 0
    """Number of streams replaced."""
    dispatch_ns: list[int] = field(default_factory=list)
    """Of every start: from when its decision was due, with the events of the same call, to its submission."""
    wake_ns: list[int] = field(default_factory=list)
    """From when a timer was due to when the controller acted on it."""
    service_ns: list[tuple[int, int, int]] = field(default_factory=list)
    """Task, variant and time on the device itself, of every finished run."""
    accuracy: dict[tuple[int, int], Tally] = field(default_factory=dict)
    """By task and variant, where labels are known."""
    mistakes: int = 0
    """Illegal decisions of the policy."""
    interrupted: bool = False
    """Whether it was stopped before its end."""


Watcher = Callable[[int, DeviceLane], None]
"""Called repeatedly with the time and the lane; must not block."""


def watchdog_ms(scenario: EdgeScenario) -> float:
    """Return the time in ms after which the watchdog aborts a run of the scenario."""
    longest: float = max(variant.latency_ms for task in scenario.tasks for variant in task.ladder)
    return max(LEAST_WATCHDOG_MS, WATCHDOG_FACTOR * longest)


class Runtime:
    """Executes a scenario under a policy, on streams that are ready."""

    lane_type: type[DeviceLane] = DeviceLane

    def __init__(
        self,
        scenario: EdgeScenario,
        workload: Workload,
        streams: Streams,
        watchdog: float | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        check_device(scenario)
        if streams.count != scenario.device.streams:
            raise DeviceError(f"the device has {streams.count} streams: expected {scenario.device.streams} of them")
        self._raced = scenario
        self._scenario = without_decision_time(scenario)
        self._workload = workload
        self._streams = streams
        self._horizon = nanoseconds(scenario.horizon_ms)
        self._watchdog_ns = round((watchdog_ms(scenario) if watchdog is None else watchdog) * 1e6)
        self._watcher = watcher
        self._stopping = False
        self._jobs: dict[int, tuple[int, int, int]] = {}
        """By stream: task, job and variant of its run."""
        self._samples = [workload.samples(task) for task in range(len(scenario.tasks))]
        """Number of samples of each task."""
        self._labelled = any(samples.labels is not None for samples in workload.sets)
        self._zero = 0
        """When the episode began, on the clock of `now()`."""
        self._next_watchdog_check = 0
        """Earliest time at which some run may have exceeded the watchdog."""
        self._lane: DeviceLane | None = None
        """Lane of the last episode."""

    def stop(self) -> None:
        """Start no further run, wait for the running ones, then end the episode: the current one, or else the next."""
        self._stopping = True

    def play(self, policy: Policy, seed: int, split: str = "test") -> Execution:
        """Play one episode in real time; `auto` plays a rule or network, whose decisions take microseconds."""
        policy = on_device(policy)
        if isinstance(policy, Auto):
            policy = policy.policy_for(self._raced)
        self._lane = None
        with interruptible(self.stop):
            execution = self._play(policy, seed, split)
        self._stopping = False
        return execution

    def _play(self, policy: Policy, seed: int, split: str) -> Execution:
        lane = self.lane_type(self._scenario)
        _warm_up(lane, policy)
        execution = Execution(np.empty(0))
        restarts = self._streams.restarts
        self._zero = self._next_watchdog_check = now()
        self._lane = lane
        try:
            self._begin(lane, seed, split)
            with realtime_priority(), _frozen_garbage_collector(), self._streams.controller_migration():
                while not lane.over:
                    if lane.asking and not self._stopping:
                        self._dispatch(lane, policy, execution)
                    else:
                        self._catch_up(lane, policy, execution)
                self._drain()
        except BaseException:
            self._abort(lane)
            raise
        execution.events = lane.events()
        execution.mistakes = int(lane.header["mistakes"])
        execution.interrupted = self._stopping
        execution.restarts = self._streams.restarts - restarts
        return execution

    def _abort(self, lane: DeviceLane) -> None:
        """End the episode after an error, so that its log can be read like any other."""
        self._jobs.clear()
        with suppress(Exception):  # a lane that cannot continue leaves a log without an end
            if not lane.over:
                lane.follow(now() - self._zero, None, last=True)

    def pieces(self) -> list[np.ndarray]:
        """Return the event log of the last episode in pieces, also after an error."""
        return [] if self._lane is None else self._lane.pieces()

    def _begin(self, lane: DeviceLane, seed: int, split: str) -> None:
        """Start the episode of `seed` and `split`."""
        lane.begin(seed, split)

    def _run_request(self, task: int, job: int, variant: int) -> RunRequest:
        """Return the run request of a job in `variant`."""
        return RunRequest(self._workload.model_of[task][variant], self._workload.set_of[task], self._sample(task, job))

    def _sample(self, task: int, job: int) -> int:
        """Return the index of a job's sample among those of its task."""
        return job % self._samples[task]

    def _dispatch(self, lane: DeviceLane, policy: Policy, execution: Execution) -> None:
        """Make the decision that is due, and submit the run that it starts, if any."""
        due = now()
        lane.decide(policy)
        self._begin_runs(lane, execution, due)

    def _begin_runs(self, lane: DeviceLane, execution: Execution, due: int) -> None:
        """Submit the runs that the lane has started and the device has not; their decision was due at `due`."""
        if lane.over:
            return  # runs that ended too late are still running in the log
        for stream in range(self._streams.count):
            if stream not in self._jobs and (job := lane.running(stream)) is not None:
                self._streams.submit(stream, self._run_request(*job))
                self._jobs[stream] = job
                execution.dispatch_ns.append(now() - due)

    def _catch_up(self, lane: DeviceLane, policy: Policy | None, execution: Execution) -> None:
        """Wait for the next event, apply it to the lane, and submit the run of a first decision of `policy`."""
        timer = self._zero + lane.next_timer
        last = self._stopping and not self._jobs
        ended = [] if last else self._wait_until(self._wait_deadline(timer))
        moment = now()
        if timer <= moment and not ended:
            execution.wake_ns.append(moment - timer)
        for completion in ended:
            self._record_completion(lane, completion, execution)
        due = now()
        lane.follow(moment - self._zero, None if self._stopping else policy, last)
        self._begin_runs(lane, execution, due)
        if self._watcher is not None:
            self._watcher(moment - self._zero, lane)

    def _wait_deadline(self, timer: int) -> int:
        """Return the time until which to wait for a completion, given that of the next timer."""
        return timer

    def _wait_until(self, timer: int) -> list[Completion]:
        """Block until a run ends, `timer` is due, or a run exceeds the watchdog; return the runs that are over."""
        moment = now()
        ended = self._streams.wait((min(timer, self._next_watchdog_check, moment + LONGEST_SLEEP_NS) - moment) / 1e9)
        if now() >= self._next_watchdog_check:
            over = {completion.stream for completion in ended}
            ended += self._timed_out([stream for stream in self._jobs if stream not in over])
        return ended

    def _timed_out(self, running: list[int]) -> Iterator[Completion]:
        """Replace the streams whose runs exceed the watchdog; yield those runs as failed."""
        moment = now()
        # No run that begins from now on can exceed the watchdog before then.
        self._next_watchdog_check = moment + self._watchdog_ns
        for stream in running:
            since = self._streams.since(stream)
            if since is None:
                continue
            if since + self._watchdog_ns <= moment:
                self._streams.replace(stream)
                yield Completion(stream, moment, f"gave no answer within {self._watchdog_ns / 1e6:g} ms")
            else:
                self._next_watchdog_check = min(self._next_watchdog_check, since + self._watchdog_ns)

    def _record_completion(self, lane: DeviceLane, completion: Completion, execution: Execution) -> None:
        """Record the completion of a run: apply it to the lane, and add its time, error or answer to the result."""
        stream = completion.stream
        task, job, variant = self._jobs.pop(stream)
        if completion.ended - self._zero > self._horizon:
            return  # after the horizon: in the log this job is still running
        lane.end(stream, max(1, completion.ended - self._zero), failed=bool(completion.error))
        if completion.error:
            execution.faults.append((task, job, completion.error))
            return
        execution.service_ns.append((task, variant, completion.device_ns))
        label = self._workload.label(task, job) if self._labelled else None
        if label is not None:
            tally = execution.accuracy.setdefault((task, variant), Tally())
            tally.judged += 1
            tally.right += int(self._streams.output(stream).argmax()) == label

    def _drain(self) -> None:
        """Wait for runs that outlast the episode, so that the next one finds the streams idle."""
        while self._jobs:
            for completion in self._wait_until(now() + LONGEST_SLEEP_NS):
                del self._jobs[completion.stream]


def on_device(policy: Policy) -> Policy:
    """Return `policy`; for `auto`, one that races rules and networks only: simulating ahead takes milliseconds."""
    return Auto(policy.family, ON_DEVICE) if isinstance(policy, Auto) and policy.effort != ON_DEVICE else policy


def without_decision_time(scenario: EdgeScenario) -> EdgeScenario:
    """Return the scenario with a decision time of 0: on a device, decisions take real time."""
    device = scenario.device.model_copy(update={"decision_time_ms": 0.0})
    return scenario.model_copy(update={"device": device})


def _warm_up(lane: DeviceLane, policy: Policy) -> None:
    """Make a first decision and apply a first event before the clock runs, so that compilation is done."""
    lane.begin(0, "train")
    while not lane.asking and not lane.over:
        lane.follow(lane.next_timer)
    if lane.asking:
        lane.decide(policy)
    if not lane.over:
        lane.follow(lane.next_timer, policy)


STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a run: a Ctrl-C, a supervisor, a closed terminal."""


class _FirstSignal:
    """Signal handler: the first signal stops in order and restores the previous handlers for the second."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._before = {number: signal.getsignal(number) for number in STOP_SIGNALS}

    def __call__(self, number: int, frame: object) -> None:
        self._stop()
        self.restore()

    def install(self) -> None:
        """Handle the signals, except those that are ignored, as under `nohup`."""
        for number, handler in self._before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self)

    def restore(self) -> None:
        """Restore the previous handlers, where Python installed them."""
        for number, handler in self._before.items():
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def interruptible(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first stop signal, unless an outer context handles the signals already."""
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
def _frozen_garbage_collector() -> Iterator[None]:
    """Exempt existing objects from garbage collection, which would delay a decision by milliseconds."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def realtime_priority() -> Iterator[None]:
    """Run this thread with real-time priority, where the system allows it.

    At normal priority it would first wait for the end of a busy worker's time slice, some milliseconds. It sleeps
    almost always, so no other thread starves.
    """
    if not hasattr(os, "sched_setscheduler"):
        yield
        return
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    realtime = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    try:
        os.sched_setscheduler(0, realtime, os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, priority)
