"""Run on a device that takes requests as they arrive, and replies with their outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from slipstream.device.backends.streams import Completion, Streams, now
from slipstream.device.engine import Execution, Watcher
from slipstream.device.lane import DeviceLane
from slipstream.device.request_queue import Answer, Outcome, PendingRequest, RequestQueue
from slipstream.device.runtime import Runtime
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared.schema import nanoseconds
from slipstream.policies.base import Policy
from slipstream.sim.eventlog import DROP, EXPIRE, FAIL, FINISH, REJECT
from slipstream.sim.kernel.heap import NEVER

OUTCOMES: dict[int, Outcome] = {
    FINISH: "done",
    FAIL: "failed",
    EXPIRE: "expired",
    DROP: "dropped",
    REJECT: "rejected",
}
"""Outcome of a job, by the kind of event that ends it."""


class RequestLane(DeviceLane[EdgeScenario]):
    """Device lane whose external tasks release a job only on request."""

    def __init__(self, scenario: EdgeScenario) -> None:
        super().__init__(scenario)
        self._first_arrival_slot = scenario.device.streams + len(scenario.tasks)
        """Event slot of the first task's release; see families/edge/kernel/slots.py."""
        self._read = (0, 0)
        """Flushed pieces of the log, and rows of the next one, that `new_events` has returned."""

    def begin(self, seed: int, split: str) -> None:
        """Start the episode of `seed` and `split`."""
        super().begin(seed, split)
        self._read = (0, 0)

    def cancel_release(self, task: int) -> None:
        """Cancel the scheduled release of `task`."""
        self._schedule(self._first_arrival_slot + task, NEVER)

    def release(self, task: int, clock: int) -> int:
        """Release a job of `task` at `clock`, which may not be in the past; return the number of the job."""
        job = int(self.arrays["tasks"][0, task]["released"])
        self._schedule(self._first_arrival_slot + task, clock)
        self.follow(clock)
        self.cancel_release(task)
        return job

    def new_events(self) -> Iterator[tuple[int, ...]]:
        """Yield the rows of the event log since the last call."""
        pieces, rows = self._read
        count = int(self.header["log_rows"])
        for piece in (*self._flushed[pieces:], self.arrays["log"][0, :count]):
            yield from piece[rows:].tolist()
            rows = 0
        self._read = (len(self._flushed), count)


class ListeningRuntime(Runtime):
    """Runtime of a scenario whose `external` tasks are released by requests; other tasks follow their timers."""

    lane_type = RequestLane

    def __init__(
        self,
        scenario: EdgeScenario,
        requests: RequestQueue,
        streams: Streams,
        watchdog: float | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        super().__init__(scenario, requests.workload, streams, watchdog, watcher)
        self._requests = requests
        self._deadlines = [nanoseconds(task.relative_deadline_ms) for task in scenario.tasks]
        self._pending: dict[tuple[int, int], PendingRequest] = {}
        """By task and job."""
        requests.connect(streams)

    def play(self, policy: Policy, seed: int, split: str = "test") -> Execution:
        """Play one episode in real time, processing requests as they arrive."""
        try:
            return super().play(policy, seed, split)
        finally:
            self._requests.close(list(self._pending.values()))
            self._pending.clear()

    def _begin(self, lane: DeviceLane[Any], seed: int, split: str) -> None:
        assert isinstance(lane, RequestLane)
        super()._begin(lane, seed, split)
        for task in self._requests.tasks.values():
            lane.cancel_release(task)
        self._requests.begin()

    def _sample(self, task: int, job: int) -> int:
        request = self._pending.get((task, job))
        return super()._sample(task, job) if request is None else request.buffer_index

    def _dispatch(self, lane: DeviceLane[Any], policy: Policy, execution: Execution) -> None:
        super()._dispatch(lane, policy, execution)
        self._reply(lane)

    def _catch_up(self, lane: DeviceLane[Any], policy: Policy | None, execution: Execution) -> None:
        """Wait for the next event; release the jobs of new requests while no decision is due."""
        assert isinstance(lane, RequestLane)
        super()._catch_up(lane, policy, execution)
        self._requests.heartbeat()
        while not (lane.asking or lane.over or self._stopping):
            request = self._requests.take()
            if request is None:
                break
            request.released = max(now() - self._zero, int(lane.header["now"]))
            request.job = lane.release(request.task, request.released)
            self._pending[request.task, request.job] = request
        self._reply(lane)

    def _wait_deadline(self, timer: int) -> int:
        """Return the time until which to wait: 0 while requests are queued, since nothing else wakes this thread."""
        return 0 if self._requests.waiting and not self._stopping else timer

    def _record_completion(self, lane: DeviceLane[Any], completion: Completion, execution: Execution) -> None:
        """Record the completion of a run, and copy its output before the stream's next run overwrites it."""
        task, job, variant = self._jobs[completion.stream]
        request = self._pending.get((task, job))
        if request is not None:
            request.variant, request.error = variant, completion.error
            if not completion.error:
                request.outputs = np.array(self._streams.output(completion.stream))
        super()._record_completion(lane, completion, execution)

    def _reply(self, lane: DeviceLane[Any]) -> None:
        """Reply to the requests whose jobs have ended."""
        assert isinstance(lane, RequestLane)
        for time, job, task, _, _, kind in lane.new_events():
            if kind not in OUTCOMES:
                continue
            request = self._pending.pop((task, job), None)
            if request is None:
                continue
            latency = time - request.released
            on_time = kind == FINISH and latency <= self._deadlines[task]
            outputs = request.outputs if request.outputs is not None else np.empty(0, np.float32)
            self._requests.complete(
                request, Answer(OUTCOMES[kind], job, request.variant, outputs, latency, on_time, text=request.error)
            )
