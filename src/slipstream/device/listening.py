"""A run on a device that takes work from outside as it comes, and says what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from slipstream.device.backends.streams import Completion, Streams, now
from slipstream.device.lane import DeviceLane
from slipstream.device.request_queue import Answer, Intake, Outcome, Ticket
from slipstream.device.runtime import Execution, Runtime, Watcher
from slipstream.families.shared.schema import nanoseconds
from slipstream.policies.base import Policy
from slipstream.sim.eventlog import DROP, EXPIRE, FAIL, FINISH, REJECT
from slipstream.sim.kernel.heap import NEVER

FATES: dict[int, Outcome] = {
    FINISH: "done",
    FAIL: "failed",
    EXPIRE: "expired",
    DROP: "dropped",
    REJECT: "rejected",
}
"""What an event says of the job it is about; other events say nothing of that kind."""


class OpenLane(DeviceLane):
    """A lane some of whose tasks release a job when they are told to, and only then."""

    def __init__(self, scenario: Any) -> None:
        super().__init__(scenario)
        self._first_slot = scenario.device.streams + len(scenario.tasks)
        """Of the first task's release; see families/edge/kernel/slots.py."""
        self._read = (0, 0)
        """Pieces of the log, and rows of the next one, that were told of as news."""

    def begin(self, seed: int, split: str) -> None:
        """Start an episode."""
        super().begin(seed, split)
        self._read = (0, 0)

    def silence(self, task: int) -> None:
        """Cancel the release that a task has planned."""
        self._plan(self._first_slot + task, NEVER)

    def release(self, task: int, clock: int) -> int:
        """Let a task release a job at this time, which may not be in the past; return the job."""
        job = int(self.arrays["tasks"][0, task]["released"])
        self._plan(self._first_slot + task, clock)
        self.follow(clock)
        self.silence(task)
        return job

    def news(self) -> Iterator[tuple[int, ...]]:
        """Yield the rows of the event log that were not told of before."""
        pieces, rows = self._read
        count = int(self.header["log_rows"])
        for piece in (*self._kept[pieces:], self.arrays["log"][0, :count]):
            yield from piece[rows:].tolist()
            rows = 0
        self._read = (len(self._kept), count)


class ListeningRuntime(Runtime):
    """One run of a scenario whose `external` tasks are fed by an intake; the other tasks go by their timers."""

    lane_type = OpenLane

    def __init__(
        self,
        scenario: Any,
        intake: Intake,
        streams: Streams,
        watchdog: float | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        super().__init__(scenario, intake.workload, streams, watchdog, watcher)
        self._intake = intake
        self._deadlines = [nanoseconds(task.relative_deadline_ms) for task in scenario.tasks]
        self._tickets: dict[tuple[int, int], Ticket] = {}
        """By task and job."""
        intake.connect(streams)

    def play(self, policy: Policy, seed: int, split: str = "test") -> Execution:
        """Play one episode in real time, taking work as it comes."""
        try:
            return super().play(policy, seed, split)
        finally:
            self._intake.close(list(self._tickets.values()))
            self._tickets.clear()

    def _begin(self, lane: DeviceLane, seed: int, split: str) -> None:
        assert isinstance(lane, OpenLane)
        super()._begin(lane, seed, split)
        for task in self._intake.tasks.values():
            lane.silence(task)
        self._intake.begin()

    def _sample(self, task: int, job: int) -> int:
        ticket = self._tickets.get((task, job))
        return super()._sample(task, job) if ticket is None else ticket.place

    def _dispatch(self, lane: DeviceLane, policy: Policy, found: Execution) -> None:
        super()._dispatch(lane, policy, found)
        self._answer(lane)

    def _catch_up(self, lane: DeviceLane, policy: Policy, found: Execution) -> None:
        """Wait for what comes next; take up what was offered while no choice is due."""
        assert isinstance(lane, OpenLane)
        super()._catch_up(lane, policy, found)
        self._intake.beat()
        while not (lane.asking or lane.over or self._stopping):
            ticket = self._intake.take()
            if ticket is None:
                break
            ticket.released = max(now() - self._zero, int(lane.header["now"]))
            ticket.job = lane.release(ticket.task, ticket.released)
            self._tickets[ticket.task, ticket.job] = ticket
        self._answer(lane)

    def _latest(self, timer: int) -> int:
        """Return until when to wait: not at all while there is something to take up, since nothing else wakes us."""
        return 0 if self._intake.waiting and not self._stopping else timer

    def _note(self, lane: DeviceLane, completion: Completion, found: Execution) -> None:
        """Write down how a run ended, and keep what it gave before the stream's next run overwrites it."""
        task, job, variant = self._jobs[completion.stream]
        ticket = self._tickets.get((task, job))
        if ticket is not None:
            ticket.variant, ticket.fault = variant, completion.error
            if not completion.error:
                ticket.outputs = np.array(self._streams.output(completion.stream))
        super()._note(lane, completion, found)

    def _answer(self, lane: DeviceLane) -> None:
        """Tell those whose jobs have come to an end."""
        assert isinstance(lane, OpenLane)
        for time, job, task, _, _, kind in lane.news():
            if kind not in FATES:
                continue
            ticket = self._tickets.pop((task, job), None)
            if ticket is None:
                continue
            spent = time - ticket.released
            on_time = kind == FINISH and spent <= self._deadlines[task]
            outputs = ticket.outputs if ticket.outputs is not None else np.empty(0, np.float32)
            self._intake.settle(
                ticket, Answer(FATES[kind], job, ticket.variant, outputs, spent, on_time, text=ticket.fault)
            )
