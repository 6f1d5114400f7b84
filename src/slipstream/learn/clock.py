"""Clock of a training: seconds of work without those of compilation, which happens once per version of the code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from types import TracebackType

from slipstream.jit import events


class TrainingClock:
    """Counts the seconds of a training while entered; time in which a function is compiled does not count."""

    def __init__(self) -> None:
        self._before = 0.0
        """Seconds of the runs before this one."""
        self._began = perf_counter()
        self._compiling = 0
        self._compile_began = self._compiled = 0.0
        self._lock = threading.Lock()
        self._end_listening: Callable[[], None] | None = None

    def __enter__(self) -> TrainingClock:
        self._began = perf_counter()
        self._end_listening = events.listen(self._on_start, self._on_end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._end_listening is not None:
            self._end_listening()

    def add(self, seconds: float) -> None:
        """Count `seconds` of earlier runs of the training too."""
        self._before += seconds

    @property
    def seconds(self) -> float:
        """Seconds of the training."""
        with self._lock:
            now = perf_counter()
            compiling = now - self._compile_began if self._compiling else 0.0
            return self._before + now - self._began - self._compiled - compiling

    def _on_start(self) -> None:
        with self._lock:
            if self._compiling == 0:
                self._compile_began = perf_counter()
            self._compiling += 1

    def _on_end(self) -> None:
        with self._lock:
            self._compiling -= 1
            if self._compiling == 0:
                self._compiled += perf_counter() - self._compile_began
