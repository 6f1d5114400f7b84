"""Request queue: inputs from other threads, a buffer for each, and their answers.

The service calls `offer` from any thread; the runtime takes the requests and answers them. An input is written once,
into the memory that the workers read. There are as many buffers as jobs can wait and run; a request that finds none
free is refused at once, so memory is bounded under any load.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from slipstream.device.backends.streams import Streams, now
from slipstream.device.models.datasets import DatasetType, Samples
from slipstream.device.workload import Workload
from slipstream.errors import DeviceError, SlipstreamError
from slipstream.families.edge.scenario import EdgeScenario, External

MOST_BYTES = 256 * 2**20
"""Largest size of the input buffers of one task, whatever its queue limit."""
HEARTBEAT_TIMEOUT_NS = 2_000_000_000
"""Time since its last heartbeat after which the runtime counts as unhealthy."""

Outcome = Literal["done", "failed", "expired", "dropped", "rejected", "stopped"]


class FullError(SlipstreamError):
    """All input buffers of the task are in use."""


@dataclass(frozen=True)
class Answer:
    """Outcome of a request."""

    outcome: Outcome
    job: int = -1
    variant: int = -1
    outputs: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))
    """Flat output of the model."""
    latency_ns: int = 0
    """From the release of the job to its end."""
    on_time: bool = False
    text: str = ""
    """Error message of a failed job."""


@dataclass
class PendingRequest:
    """A request that has not been answered."""

    task: int
    buffer_index: int
    """Index of its input buffer among those of its task."""
    reply: Callable[[Answer], None]
    """Called once with the answer; must not block."""
    job: int = -1
    released: int = 0
    variant: int = -1
    outputs: np.ndarray | None = None
    error: str = ""


class RequestQueue:
    """Queue between the service and the runtime: the external tasks of a scenario, and the requests in flight."""

    def __init__(self, scenario: EdgeScenario, workload: Workload) -> None:
        self.tasks = {task.name: i for i, task in enumerate(scenario.tasks) if isinstance(task.arrival, External)}
        """Indices of the external tasks in the scenario, by name."""
        if not self.tasks:
            expected = 'expected a task with "arrival": {"kind": "external", "mean_gap_ms": 20}'
            raise DeviceError(f"no task of the scenario takes requests: {expected}")
        self._samples = {task: workload.sets[workload.set_of[task]] for task in self.tasks.values()}
        self._kinds = {task: workload.models[workload.model_of[task][0]].dataset for task in self.tasks.values()}
        most = scenario.device.queue_limit + scenario.device.streams
        self._capacity = {task: _capacity(most, self._samples[task]) for task in self.tasks.values()}
        self.workload = _with_input_buffers(workload, self._capacity)
        """The workload with input buffers, to open the streams with."""
        self._free = {task: list(range(capacity)) for task, capacity in self._capacity.items()}
        self._offered: deque[PendingRequest] = deque()
        self._lock = threading.Lock()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._streams: Streams | None = None
        self._wakeup_pending = False
        """Whether a wake-up of the runtime is pending: one is enough for all requests before it."""
        self._open = False
        self._last_heartbeat = 0

    def kind(self, task: int) -> DatasetType:
        """Return the dataset type of a task's inputs."""
        return self._kinds[task]

    def samples(self, task: int) -> np.ndarray:
        """Return the task's own samples, which requests may refer to."""
        return self._samples[task].inputs

    def connect(self, streams: Streams) -> None:
        """Send inputs to `streams`, and wake their waiting thread."""
        self._streams = streams
        streams.watch_descriptor(self._reader.fileno())

    # Called by the service

    @property
    def healthy(self) -> bool:
        """Whether the runtime is running and processes requests."""
        return self._open and now() - self._last_heartbeat < HEARTBEAT_TIMEOUT_NS

    def in_flight(self, task: int) -> int:
        """Return the number of inputs of a task that wait or run."""
        return self._capacity[task] - len(self._free[task])

    def check(self, task: int) -> None:
        """Raise the error that `offer` would raise, before the input is read.

        Raises:
            FullError: All input buffers of the task are in use.
            DeviceError: The device is not running.
        """
        if not self._open:
            raise DeviceError("the device takes no more work: it is not running")
        if not self._free[task]:
            raise FullError(f"all {self._capacity[task]} input buffers of this task are in use: try again later")

    def offer(self, task: int, values: np.ndarray, reply: Callable[[Answer], None]) -> None:
        """Queue an input of the task's dataset type; `reply` is called with the answer, in another thread.

        Raises:
            FullError: All input buffers of the task are in use.
            DeviceError: The device is not running.
        """
        with self._lock:
            self.check(task)
            request = PendingRequest(task, self._free[task].pop(), reply)
        assert self._streams is not None  # it opens only after it is connected
        self._streams.put(self.workload.set_of[task], request.buffer_index, values)
        with self._lock:
            is_open = self._open
            if is_open:
                self._offered.append(request)
        if not is_open:
            self.complete(request, Answer("stopped"))
        elif not self._wakeup_pending:
            self._wakeup_pending = True
            with suppress(BlockingIOError):
                self._writer.send(b"\0")

    # Called by the runtime

    def begin(self) -> None:
        """Accept requests from now on."""
        with self._lock:
            self._open = True
            self._last_heartbeat = now()

    def heartbeat(self) -> None:
        """Record a heartbeat of the runtime, and reset the wake-up."""
        self._last_heartbeat = now()
        with suppress(BlockingIOError):
            self._reader.recv(4096)
        # Reset before the runtime reads the queue: a request after that wakes it again.
        self._wakeup_pending = False

    @property
    def waiting(self) -> bool:
        """Whether requests are queued."""
        return bool(self._offered)

    def take(self) -> PendingRequest | None:
        """Return the next queued request, None if there is none."""
        return self._offered.popleft() if self._offered else None

    def complete(self, request: PendingRequest, answer: Answer) -> None:
        """Answer a request, and free its input buffer."""
        with self._lock:
            self._free[request.task].append(request.buffer_index)
        request.reply(answer)

    def close(self, left: Sequence[PendingRequest]) -> None:
        """Refuse further requests; answer those in `left` and in the queue as stopped."""
        with self._lock:
            self._open = False
            waiting = [*left, *self._offered]
            self._offered.clear()
        for request in waiting:
            self.complete(request, Answer("stopped", request.job))

    def close_sockets(self) -> None:
        """Close the sockets of the wake-up."""
        self._reader.close()
        self._writer.close()


def _capacity(most: int, samples: Samples) -> int:
    return max(1, min(most, MOST_BYTES // int(samples.inputs[0].nbytes)))


def _with_input_buffers(workload: Workload, capacity: dict[int, int]) -> Workload:
    """Return the workload with `capacity` input buffers for each of its tasks, filled with repeated samples."""
    sets, set_of = list(workload.sets), list(workload.set_of)
    for task, count in capacity.items():
        inputs = workload.sets[workload.set_of[task]].inputs
        set_of[task] = len(sets)
        sets.append(Samples(inputs[np.arange(count) % len(inputs)], None))
    return replace(workload, sets=tuple(sets), set_of=tuple(set_of))
