"""Work from outside: inputs that somebody hands in, a place for each, and the answer that each gets.

Whoever takes requests calls `offer`, from any thread; the runtime takes up what was offered, and answers. An input is
written once, into the memory that the workers read. There are as many places as can wait and run: who finds none free
is sent away at once, so nothing grows however many ask.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from slipstream.device.backends.streams import Streams, now
from slipstream.device.models.datasets import DatasetType, Samples
from slipstream.device.workload import Workload
from slipstream.errors import DeviceError, SlipstreamError
from slipstream.families.edge.scenario import External

MOST_BYTES = 256 * 2**20
"""That the inputs of one task may take, whatever its queue could hold."""
BEAT_NS = 2_000_000_000
"""Within which the runtime looks at what was offered, if it is well."""

Outcome = Literal["done", "failed", "expired", "dropped", "rejected", "stopped"]


class FullError(SlipstreamError):
    """There is no room for another input of this task now."""


@dataclass(frozen=True)
class Answer:
    """What became of an input."""

    outcome: Outcome
    job: int = -1
    variant: int = -1
    outputs: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))
    """What the model gave, flat."""
    latency_ns: int = 0
    """From its release to its end."""
    on_time: bool = False
    text: str = ""
    """What went wrong, where something did."""


@dataclass
class Ticket:
    """One input on its way."""

    task: int
    place: int
    """Where its input lies among those of its task."""
    reply: Callable[[Answer], None]
    """Called once with the answer; must be quick."""
    job: int = -1
    released: int = 0
    variant: int = -1
    outputs: np.ndarray | None = None
    fault: str = ""


class Intake:
    """The tasks of a scenario that take inputs from outside, and the inputs that are on their way."""

    def __init__(self, scenario: Any, workload: Workload) -> None:
        self.tasks = {task.name: i for i, task in enumerate(scenario.tasks) if isinstance(task.arrival, External)}
        """Their names, and their places in the scenario."""
        if not self.tasks:
            raise DeviceError("no task of the scenario has arrival 'external': expected one that takes requests")
        self._samples = {task: workload.sets[workload.set_of[task]] for task in self.tasks.values()}
        self._kinds = {task: workload.models[workload.model_of[task][0]].dataset for task in self.tasks.values()}
        most = scenario.device.queue_limit + scenario.device.streams
        self._places = {task: _places(most, self._samples[task]) for task in self.tasks.values()}
        self.workload = _with_places(workload, self._places)
        """The workload with room for inputs: what the streams have to be opened with."""
        self._free = {task: list(range(places)) for task, places in self._places.items()}
        self._offered: deque[Ticket] = deque()
        self._lock = threading.Lock()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._streams: Streams | None = None
        self._rung = False
        """Whether the runtime is being woken: one wake-up is enough for all that was offered before it."""
        self._open = False
        self._beaten = 0

    def kind(self, task: int) -> DatasetType:
        """Return the type of a task's inputs."""
        return self._kinds[task]

    def samples(self, task: int) -> np.ndarray:
        """Return samples of a task that can stand in for an input."""
        return self._samples[task].inputs

    def connect(self, streams: Streams) -> None:
        """Let inputs go to these streams."""
        self._streams = streams
        streams.wake_by(self._reader.fileno())

    # Of those who ask

    @property
    def well(self) -> bool:
        """Whether inputs are taken up."""
        return self._open and now() - self._beaten < BEAT_NS

    def taken(self, task: int) -> int:
        """Return how many inputs of a task are on their way."""
        return self._places[task] - len(self._free[task])

    def check(self, task: int) -> None:
        """Refuse an input of a task before it is read, where `offer` would.

        Raises:
            FullError: All places are taken.
            DeviceError: The device is not running.
        """
        if not self._open:
            raise DeviceError("the device takes no more work: it is not running")
        if not self._free[task]:
            raise FullError(f"all {self._places[task]} places for inputs of this task are taken: try again later")

    def offer(self, task: int, values: np.ndarray, reply: Callable[[Answer], None]) -> None:
        """Hand in an input that has the type of the task's inputs; `reply` gets the answer, in another thread.

        Raises:
            FullError: All places are taken.
            DeviceError: The device is not running.
        """
        with self._lock:
            self.check(task)
            ticket = Ticket(task, self._free[task].pop(), reply)
        assert self._streams is not None  # it is open only once it is connected
        self._streams.put(self.workload.set_of[task], ticket.place, values)
        with self._lock:
            is_open = self._open
            if is_open:
                self._offered.append(ticket)
        if not is_open:
            self.settle(ticket, Answer("stopped"))
        elif not self._rung:
            self._rung = True
            with suppress(BlockingIOError):
                self._writer.send(b"\0")

    # Of the runtime

    def begin(self) -> None:
        """Take inputs from now on."""
        with self._lock:
            self._open = True
            self._beaten = now()

    def beat(self) -> None:
        """Note that the runtime looked, and that what woke it was heard."""
        self._beaten = now()
        with suppress(BlockingIOError):
            self._reader.recv(4096)
        # Before the runtime looks at what was offered: whatever comes after its look rings again.
        self._rung = False

    @property
    def waiting(self) -> bool:
        """Whether something was offered that the runtime has not taken up."""
        return bool(self._offered)

    def take(self) -> Ticket | None:
        """Return the next input that was offered."""
        return self._offered.popleft() if self._offered else None

    def settle(self, ticket: Ticket, answer: Answer) -> None:
        """Answer, and free the place of the input."""
        with self._lock:
            self._free[ticket.task].append(ticket.place)
        ticket.reply(answer)

    def close(self, left: Sequence[Ticket]) -> None:
        """Take nothing more; tell all that are left that they come to nothing."""
        with self._lock:
            self._open = False
            waiting = [*left, *self._offered]
            self._offered.clear()
        for ticket in waiting:
            self.settle(ticket, Answer("stopped", ticket.job))

    def hang_up(self) -> None:
        """Give back what the system gave."""
        self._reader.close()
        self._writer.close()


def _places(most: int, samples: Samples) -> int:
    return max(1, min(most, MOST_BYTES // int(samples.inputs[0].nbytes)))


def _with_places(workload: Workload, places: dict[int, int]) -> Workload:
    """Return the workload with a set of inputs for each of these tasks; at first it holds its samples, over again."""
    sets, set_of = list(workload.sets), list(workload.set_of)
    for task, count in places.items():
        inputs = workload.sets[workload.set_of[task]].inputs
        set_of[task] = len(sets)
        sets.append(Samples(inputs[np.arange(count) % len(inputs)], None))
    return replace(workload, sets=tuple(sets), set_of=tuple(set_of))
