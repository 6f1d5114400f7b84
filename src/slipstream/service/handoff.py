"""Calls from other threads to an event loop, with one wake-up of the loop for all queued calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress


class Handoff:
    """Queue of calls for the thread of an event loop."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = False
        self.wakeups = 0
        """Number of wake-ups of the loop."""

    def connect(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make `loop` execute the calls, also those queued before."""
        self._loop = loop
        loop.call_soon_threadsafe(self._run)

    def hand(self, call: Callable[[], None]) -> None:
        """Queue `call` for the loop, from any thread; calls are made in order."""
        self._calls.append(call)
        # The loop resets the flag before it reads the queue, so a call that finds it set will be read.
        if not self._woken and self._loop is not None:
            self._woken = True
            self.wakeups += 1
            with suppress(RuntimeError):  # the loop is closed: the call is no longer needed
                self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        self._woken = False
        while self._calls:
            call = self._calls.popleft()
            try:
                call()
            except Exception as error:  # the other calls are still made
                assert self._loop is not None
                self._loop.call_exception_handler({"message": "a call that was handed in failed", "exception": error})
