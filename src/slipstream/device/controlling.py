"""Conditions under which a thread controls a real machine: stop signals, real-time priority, no garbage collection."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a run: a Ctrl-C, a supervisor, a closed terminal."""


class _FirstSignal:
    """Signal handler: the first signal stops in order and restores the previous handlers for the second."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._before = {number: signal.getsignal(number) for number in STOP_SIGNALS}

    def __call__(self, number: int, frame: object) -> None:
        self._stop()
        self.restore()

    def install(self) -> None:
        """Handle the signals, except those that are ignored, as under `nohup`."""
        for number, handler in self._before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self)

    def restore(self) -> None:
        """Restore the previous handlers, where Python installed them."""
        for number, handler in self._before.items():
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def interruptible(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first stop signal, unless an outer context handles the signals already."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or isinstance(signal.getsignal(signal.SIGINT), _FirstSignal):
        yield
        return
    handler = _FirstSignal(stop)
    handler.install()
    try:
        yield
    finally:
        handler.restore()


@contextmanager
def frozen_garbage_collector() -> Iterator[None]:
    """Exempt existing objects from garbage collection, which would delay a decision by milliseconds."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def realtime_priority() -> Iterator[None]:
    """Run this thread with real-time priority, where the system allows it.

    At normal priority it would first wait for the end of a busy worker's time slice, some milliseconds. It sleeps
    almost always, so no other thread starves.
    """
    if not hasattr(os, "sched_setscheduler"):
        yield
        return
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    realtime = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    try:
        os.sched_setscheduler(0, realtime, os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, priority)
