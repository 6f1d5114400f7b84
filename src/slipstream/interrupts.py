"""Ctrl-C and termination signals: each ends the command by a KeyboardInterrupt, and none is lost.

An exception raised inside a finaliser or a callback from compiled code does not propagate: Python reports it and
continues. Such a signal is redelivered after a short delay, as is one that arrives during an import. During a
compilation, or while a set of files is renamed, signals are deferred.
"""

from __future__ import annotations

import _thread
import atexit
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
REDELIVERY_S = 0.02
"""Delay after which a signal is redelivered."""


class _State:
    """State of signal handling; used by the main thread only, which handles all signals."""

    def __init__(self) -> None:
        self.handled = False
        self.reset()

    def reset(self) -> None:
        """Forget all signals."""
        self.received: int | None = None
        self.depth = 0
        self.waiting = False
        self.over = False


_state = _State()


def exit_silently_during_startup() -> None:
    """Restore the default action of Ctrl-C in the command `slipstream`: exit without a traceback, until `handled`.

    Other processes that import the package keep their handler.
    """
    command = Path(sys.argv[0]).stem if sys.argv else ""
    if command == "slipstream" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def handled() -> Iterator[None]:
    """Turn termination signals into a KeyboardInterrupt within the block; ignored signals stay ignored.

    `received` returns the signal. Outside the main thread, and when nested, it has no effect.
    """
    if _state.handled or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    report = sys.unraisablehook
    _state.reset()
    _state.handled = True
    try:
        sys.unraisablehook = _redelivering(report)
        for number, handler in before.items():
            if handler not in (signal.SIG_IGN, None):
                signal.signal(number, _on_signal)
        yield
    finally:
        _state.handled = False
        for number, handler in before.items():
            if signal.getsignal(number) is _on_signal:
                signal.signal(number, handler)
        sys.unraisablehook = report


def received() -> int | None:
    """Return the number of the first signal that was received; None if there was none."""
    return _state.received


def ignore_from_now_on() -> None:
    """Ignore further signals, because the process is about to exit."""
    _state.over = True


def ignore_at_exit() -> None:
    """Ignore signals during interpreter shutdown, which would print tracebacks for them."""
    if threading.current_thread() is threading.main_thread():
        atexit.register(lambda: [signal.signal(number, signal.SIG_IGN) for number in SIGNALS])


@contextmanager
def deferred() -> Iterator[None]:
    """Defer signals until the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    defer()
    try:
        yield
    finally:
        stop_deferring()


def defer() -> None:
    """Defer signals until the matching `stop_deferring`; calls nest. Main thread only."""
    _state.depth += 1


def stop_deferring() -> None:
    """End the innermost `defer`; at the outermost level, raise a KeyboardInterrupt if a signal was deferred."""
    _state.depth -= 1
    if _state.depth == 0 and _state.waiting:
        _state.waiting = False
        raise KeyboardInterrupt


@contextmanager
def as_normal_end() -> Iterator[None]:
    """Treat a signal as the normal end of the block, not as an interruption."""
    try:
        yield
    except KeyboardInterrupt:
        _state.received = None


def _on_signal(number: int, frame: FrameType | None) -> None:
    if _state.over:
        return
    _state.received = number if _state.received is None else _state.received
    if _state.depth:
        _state.waiting = True
        return
    if _importing(frame):
        _redeliver(number)
        return
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    """Return whether `frame` runs inside an import, where extension modules replace an exception by their own."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _redeliver(number: int) -> None:
    """Send signal `number` to the main thread again after a delay, if signals are still handled then."""

    def again() -> None:
        if not _state.handled:
            return
        if hasattr(signal, "pthread_kill"):  # a signal of the operating system also ends a sleep
            signal.pthread_kill(threading.main_thread().ident or 0, number)
        else:
            _thread.interrupt_main(signal.Signals(number))

    timer = threading.Timer(REDELIVERY_S, again)
    timer.daemon = True
    timer.start()


def _redelivering(report: Any) -> Any:
    """Return an unraisable hook that redelivers lost signals; without a signal, it calls `report`."""

    def hook(about: Any) -> None:
        number = _state.received
        if number is None:
            report(about)
        elif issubclass(about.exc_type, KeyboardInterrupt):
            _redeliver(number)
        # Other errors of half-built objects are consequences of the signal and are not reported.

    return hook
