"""Interface of device backends: streams that run one job at a time.

The runtime submits runs, blocks until a run has ended or a timeout, and replaces a stream that does not respond. A
backend implements this with processes or on a GPU.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from time import monotonic_ns
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import numpy as np


class RunRequest(NamedTuple):
    """A run to be made: a model on a sample."""

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
    """Error message; empty if the run succeeded."""
    device_ns: int = 0
    """Time that the device worked on the run, by its own clock."""


now = monotonic_ns
"""The time in ns, on the clock that all processes of the machine share."""


class Machine(Protocol):
    """What runs work on numbered resources: streams of a device, or worker processes; a context manager."""

    count: int
    """Number of resources."""
    restarts: int
    """Number of resources replaced."""

    def wait(self, seconds: float | None) -> list[Completion]:
        """Block until a run has ended or `seconds` have passed (None: no limit); return all that have ended."""

    def controller_migration(self) -> AbstractContextManager[None]:
        """Return a context in which the machine may move this thread to other cores; it only submits and waits."""
        return nullcontext()

    def since(self, stream: int) -> int | None:
        """Return the time at which a resource began its run; None while the resource is being replaced."""

    def replace(self, stream: int) -> None:
        """Abort the run of a resource and make the resource ready for the next."""

    def close(self) -> None:
        """Stop everything and free it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Streams(Machine, Protocol):
    """Streams of a device with all models of a workload loaded and warm; a context manager that frees them."""

    memory_mb: tuple[float, ...]
    """Size of the weights of each model."""

    @property
    def device(self) -> str:
        """Return a description of the device."""

    @property
    def hardware(self) -> str:
        """Return the hardware in a line: processor, cores or memory, threads, and the versions of the engines."""

    def submit(self, stream: int, request: RunRequest) -> None:
        """Begin a run on an idle `stream`; return at once."""

    def watch_descriptor(self, descriptor: int) -> None:
        """Make `wait` return also when `descriptor` is readable; the caller reads it."""

    def put(self, samples: int, sample: int, values: np.ndarray) -> None:
        """Replace a sample that no run is using."""

    def output(self, stream: int) -> np.ndarray:
        """Return the flat output of the stream's last run; the next run overwrites it."""

    def joules(self) -> float | None:
        """Return the reading of the device's energy meter, None if there is none."""
