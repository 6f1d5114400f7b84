"""Calls that other threads hand to an event loop: one wake-up of the loop for all that wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress


class Handoff:
    """A queue of calls to be made in the thread of an event loop."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = False
        self.wakeups = 0
        """How often the loop was woken."""

    def connect(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have `loop` make the calls, also those handed in before."""
        self._loop = loop
        loop.call_soon_threadsafe(self._run)

    def hand(self, call: Callable[[], None]) -> None:
        """Have the loop make a call, after those that were handed in before; from any thread."""
        self._calls.append(call)
        # The loop clears the mark before it looks: a call that finds it set is seen by that look.
        if not self._woken and self._loop is not None:
            self._woken = True
            self.wakeups += 1
            with suppress(RuntimeError):  # the loop has been closed: nobody waits for the call any more
                self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        self._woken = False
        while self._calls:
            call = self._calls.popleft()
            try:
                call()
            except Exception as error:  # of one call: the others are made all the same
                assert self._loop is not None
                self._loop.call_exception_handler({"message": "a call that was handed in failed", "exception": error})
