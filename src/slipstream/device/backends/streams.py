"""Streams: what every backend offers the runtime, and nothing more.

A stream runs one job at a time. The runtime submits runs, blocks until something has ended or time is up, and has a
stream that no longer answers replaced. How that happens on processes or on a GPU is a backend's own affair.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from time import monotonic_ns
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import numpy as np


class Order(NamedTuple):
    """A run that is to be made."""

    model: int
    """Index into the models of the workload."""
    samples: int
    """Index into its sets of samples."""
    sample: int


class Completion(NamedTuple):
    """A run that has ended."""

    stream: int
    ended: int
    """When, on the clock of `now()`."""
    error: str = ""
    """What went wrong; empty if nothing did."""
    device_ns: int = 0
    """How long the device worked on it, by its own clock."""


now = monotonic_ns
"""The time in ns, on the clock that all processes of the machine share."""


class Streams(Protocol):
    """Some streams of a device, with all models of a workload loaded and warm; a context that leaves nothing behind."""

    count: int
    """How many streams there are."""
    restarts: int
    """How often one had to be replaced so far."""
    memory_mb: tuple[float, ...]
    """What the weights of each model take."""

    @property
    def device(self) -> str:
        """What it is, for people."""

    def submit(self, stream: int, order: Order) -> None:
        """Begin a run on an idle stream; return at once."""

    def wait(self, seconds: float | None) -> list[Completion]:
        """Block until a run has ended or the time is up (None: for ever); return all that have ended."""

    def attended(self) -> AbstractContextManager[None]:
        """Return a context in which this thread only submits and waits: it may be moved to where that costs least."""
        return nullcontext()

    def since(self, stream: int) -> int | None:
        """Return since when the stream works on its run; None while it is still being replaced, and not to blame."""

    def wake_by(self, descriptor: int) -> None:
        """Let `wait` return also when there is something to read from a descriptor; whoever asks reads it."""

    def put(self, samples: int, sample: int, values: np.ndarray) -> None:
        """Replace a sample that no run works on, for the next one that does."""

    def output(self, stream: int) -> np.ndarray:
        """Return what the last run of the stream gave, flat; overwritten by its next."""

    def replace(self, stream: int) -> None:
        """Give up on the run of a stream, whatever it does, and make the stream ready for the next."""

    def joules(self) -> float | None:
        """Return a meter of the energy that the device has taken, None where it has none that can be read."""

    def close(self) -> None:
        """End everything."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
