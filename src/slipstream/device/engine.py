"""Engine runtime: executes a scenario on a real machine, with arrivals from timers and completions from the machine.

One thread, which blocks while it has nothing to do. The lane runs the same compiled kernel as a simulation, so
observation, reward and event log are the same too; only times and failures are those of the machine. What differs
between families, work and how it is handed over, is in subclasses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from slipstream.device.backends.streams import Completion, Machine, now
from slipstream.device.controlling import frozen_garbage_collector, interruptible, realtime_priority
from slipstream.device.lane import DeviceLane
from slipstream.families.contract import Scenario
from slipstream.policies.auto import ON_DEVICE, Auto
from slipstream.policies.base import Policy
from slipstream.sim.kernel.heap import NEVER

LEAST_WATCHDOG_MS = 1000.0
WATCHDOG_FACTOR = 20.0
"""The watchdog aborts a run after this multiple of the scenario's longest, and not before the least time."""
LONGEST_SLEEP_NS = 200_000_000
"""Longest sleep of the controller, so that it reacts to a Ctrl-C."""

S = TypeVar("S", bound=Scenario)


@dataclass
class Tally:
    """Number of right answers among the runs whose sample has a label."""

    right: int = 0
    judged: int = 0


@dataclass
class Execution:
    """Result of one run on an engine."""

    events: np.ndarray
    faults: list[tuple[int, int, str]] = field(default_factory=list)
    """Task, job and error message of every failure; in graphs, the stage or task within the job."""
    restarts: int = 0
    """Number of streams or workers replaced."""
    dispatch_ns: list[int] = field(default_factory=list)
    """Of every start: from when its decision was due, with the events of the same call, to its submission."""
    wake_ns: list[int] = field(default_factory=list)
    """From when a timer was due to when the controller acted on it."""
    service_ns: list[tuple[int, int, int]] = field(default_factory=list)
    """Task, variant and time on the machine itself, of every finished run."""
    planned_ns: list[int] = field(default_factory=list)
    """On worker processes: for how long each of these should have lasted, by its drawn time on the scale of the run."""
    accuracy: dict[tuple[int, int], Tally] = field(default_factory=dict)
    """By task and variant, where labels are known."""
    residual: float | None = None
    """By how much the results of kernels on tiles are off, relative to their largest number; None without kernels."""
    mistakes: int = 0
    """Illegal decisions of the policy."""
    interrupted: bool = False
    """Whether it was stopped before its end."""


Watcher = Callable[[int, DeviceLane[Any]], None]
"""Called repeatedly with the time and the lane; must not block."""


class EngineRuntime(ABC, Generic[S]):
    """Executes a scenario under a policy, on a machine that is ready."""

    lane_type: type[DeviceLane[Any]] = DeviceLane

    def __init__(self, scenario: S, machine: Machine, watchdog_ms: float, watcher: Watcher | None = None) -> None:
        self._raced = scenario
        self._scenario = scenario
        self._machine = machine
        self._watchdog_ns = round(watchdog_ms * 1e6)
        self._watcher = watcher
        self._stopping = False
        self._jobs: dict[int, tuple[int, ...]] = {}
        """By resource: what it runs."""
        self._zero = 0
        """When the episode began, on the clock of `now()`."""
        self._next_watchdog_check = 0
        """Earliest time at which some run may have exceeded the watchdog."""
        self._lane: DeviceLane[Any] | None = None
        """Lane of the last episode."""

    @abstractmethod
    def _submit(self, resource: int, work: tuple[int, ...]) -> None:
        """Have a resource begin what the lane says it has to run."""

    @abstractmethod
    def _record_completion(self, lane: DeviceLane[Any], completion: Completion, execution: Execution) -> None:
        """Record the end of a run: apply it to the lane, and add its time, error or answer to the result."""

    def _lane_time(self, moment: int) -> int:
        """Return the time of the lane at `moment`, on the clock of `now()`."""
        return moment - self._zero

    def _moment(self, time: int) -> int:
        """Return when the lane's clock shows `time`, on the clock of `now()`."""
        return self._zero + time

    def stop(self) -> None:
        """Start no further run, wait for the running ones, then end the episode: the current one, or else the next."""
        self._stopping = True

    def play(self, policy: Policy, seed: int, split: str = "test") -> Execution:
        """Play one episode in real time; `auto` plays a rule or network, whose decisions take microseconds."""
        policy = decider(policy, self._raced)
        self._lane = None
        with interruptible(self.stop):
            execution = self._play(policy, seed, split)
        self._stopping = False
        return execution

    def _play(self, policy: Policy, seed: int, split: str) -> Execution:
        lane = self.lane_type(self._scenario)
        warm_up(lane, policy)
        execution = Execution(np.empty(0))
        restarts = self._machine.restarts
        self._zero = self._next_watchdog_check = now()
        self._lane = lane
        try:
            self._begin(lane, seed, split)
            with realtime_priority(), frozen_garbage_collector(), self._machine.controller_migration():
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
        execution.restarts = self._machine.restarts - restarts
        return execution

    def _abort(self, lane: DeviceLane[Any]) -> None:
        """End the episode after an error, so that its log can be read like any other."""
        self._jobs.clear()
        with suppress(Exception):  # a lane that cannot continue leaves a log without an end
            if not lane.over:
                lane.follow(self._lane_time(now()), None, last=True)

    def pieces(self) -> list[np.ndarray]:
        """Return the event log of the last episode in pieces, also after an error."""
        return [] if self._lane is None else self._lane.pieces()

    def _begin(self, lane: DeviceLane[Any], seed: int, split: str) -> None:
        """Start the episode of `seed` and `split`."""
        lane.begin(seed, split)

    def _dispatch(self, lane: DeviceLane[Any], policy: Policy, execution: Execution) -> None:
        """Make the decision that is due, and submit the run that it starts, if any."""
        due = now()
        lane.decide(policy)
        self._begin_runs(lane, execution, due)

    def _begin_runs(self, lane: DeviceLane[Any], execution: Execution, due: int) -> None:
        """Submit the runs that the lane has started and the machine has not; their decision was due at `due`."""
        if lane.over:
            return  # runs that ended too late are still running in the log
        for resource in range(self._machine.count):
            if resource not in self._jobs and (work := lane.running(resource)) is not None:
                self._submit(resource, work)
                self._jobs[resource] = work
                execution.dispatch_ns.append(now() - due)

    def _catch_up(self, lane: DeviceLane[Any], policy: Policy | None, execution: Execution) -> None:
        """Wait for the next event, apply it to the lane, and submit the run of a first decision of `policy`."""
        timer = self._moment(lane.next_timer)
        last = self._stopping and not self._jobs
        ended = [] if last else self._wait_until(self._wait_deadline(timer))
        moment = now()
        if timer <= moment and not ended:
            execution.wake_ns.append(moment - timer)
        for completion in ended:
            self._record_completion(lane, completion, execution)
        due = now()
        lane.follow(self._lane_time(moment), None if self._stopping else policy, last)
        self._begin_runs(lane, execution, due)
        if self._watcher is not None:
            self._watcher(self._lane_time(moment), lane)

    def _wait_deadline(self, timer: int) -> int:
        """Return the time until which to wait for a completion, given that of the next timer."""
        return timer

    def _wait_until(self, timer: int) -> list[Completion]:
        """Block until a run ends, `timer` is due, or a run exceeds the watchdog; return the runs that are over."""
        moment = now()
        ended = self._machine.wait((min(timer, self._next_watchdog_check, moment + LONGEST_SLEEP_NS) - moment) / 1e9)
        if now() >= self._next_watchdog_check:
            over = {completion.stream for completion in ended}
            ended += self._timed_out([stream for stream in self._jobs if stream not in over])
        return ended

    def _timed_out(self, running: list[int]) -> Iterator[Completion]:
        """Replace the resources whose runs exceed the watchdog; yield those runs as failed."""
        moment = now()
        # No run that begins from now on can exceed the watchdog before then.
        self._next_watchdog_check = moment + self._watchdog_ns
        for stream in running:
            since = self._machine.since(stream)
            if since is None:
                continue
            if since + self._watchdog_ns <= moment:
                self._machine.replace(stream)
                yield Completion(stream, moment, f"gave no answer within {self._watchdog_ns / 1e6:g} ms")
            else:
                self._next_watchdog_check = min(self._next_watchdog_check, since + self._watchdog_ns)

    def _drain(self) -> None:
        """Wait for runs that outlast the episode, so that the next one finds the streams idle."""
        while self._jobs:
            for completion in self._wait_until(now() + LONGEST_SLEEP_NS):
                del self._jobs[completion.stream]


def on_device(policy: Policy) -> Policy:
    """Return `policy`; for `auto`, one that races rules and networks only: simulating ahead takes milliseconds."""
    return Auto(policy.family, ON_DEVICE) if isinstance(policy, Auto) and policy.effort != ON_DEVICE else policy


def decider(policy: Policy, scenario: Scenario) -> Policy:
    """Return the policy that decides: for `auto`, the rule or network that its race on `scenario` chooses."""
    policy = on_device(policy)
    return policy.policy_for(scenario) if isinstance(policy, Auto) else policy


def warm_up(lane: DeviceLane[Any], policy: Policy) -> None:
    """Make a first decision and apply a first event before the clock runs, so that compilation is done."""
    lane.begin(0, "train")
    while not lane.asking and not lane.over:
        lane.follow(lane.next_timer)
    if lane.asking:
        lane.decide(policy)
    if not lane.over:
        lane.follow(min(lane.next_timer, NEVER - 1), policy)
