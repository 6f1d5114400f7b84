"""Ctrl-C and the signals that ask a process to end: each ends the command by a KeyboardInterrupt, none is lost.

An exception that strikes inside a finaliser or a callback from compiled code cannot be passed on: Python reports it and
goes on. Such a strike is repeated a moment later, as is one that comes while a module is imported. Where it would do
harm, in the midst of a compilation or while files that belong together appear, it is held until that is over.
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
AGAIN_S = 0.02
"""After which a strike is repeated that could not be passed on."""


class _State:
    """What has struck, and whether it has to wait; signals are handled by the main thread only, and so is this."""

    def __init__(self) -> None:
        self.heeded = False
        self.reset()

    def reset(self) -> None:
        """Forget what has struck."""
        self.struck: int | None = None
        self.depth = 0
        self.waiting = False
        self.over = False


_state = _State()


def end_silently_while_starting() -> None:
    """Let a Ctrl-C end the command `slipstream` at once, without a traceback, until it is `heeded`.

    A process that only imports the package keeps its own handler.
    """
    command = Path(sys.argv[0]).stem if sys.argv else ""
    if command == "slipstream" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def heeded() -> Iterator[None]:
    """Turn every signal that asks this process to end into a KeyboardInterrupt; signals that are ignored stay so.

    `struck` then tells which one it was. In another thread than the main one, and inside itself, it changes nothing.
    """
    if _state.heeded or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    report = sys.unraisablehook
    _state.reset()
    _state.heeded = True
    try:
        sys.unraisablehook = _repeating(report)
        for number, handler in before.items():
            if handler not in (signal.SIG_IGN, None):
                signal.signal(number, _strike)
        yield
    finally:
        _state.heeded = False
        for number, handler in before.items():
            if signal.getsignal(number) is _strike:
                signal.signal(number, handler)
        sys.unraisablehook = report


def struck() -> int | None:
    """Return the number of the signal that ended the command; None if none did."""
    return _state.struck


def ignore_from_now_on() -> None:
    """Ignore further signals while the process ends; what it has to say is said, and its end is near."""
    _state.over = True


def ignore_at_exit() -> None:
    """Ignore signals from the moment at which the interpreter begins to end: it would tell of them by tracebacks."""
    if threading.current_thread() is threading.main_thread():
        atexit.register(lambda: [signal.signal(number, signal.SIG_IGN) for number in SIGNALS])


@contextmanager
def held() -> Iterator[None]:
    """Hold strikes until the block is over."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    hold()
    try:
        yield
    finally:
        release()


def hold() -> None:
    """Hold strikes from now on, until as many calls of `release`; only in the main thread."""
    _state.depth += 1


def release() -> None:
    """Hold strikes no longer, and let the one that waits strike now."""
    _state.depth -= 1
    if _state.depth == 0 and _state.waiting:
        _state.waiting = False
        raise KeyboardInterrupt


@contextmanager
def ends_quietly() -> Iterator[None]:
    """Take a signal as the usual way to end the block: nothing was interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        _state.struck = None


def _strike(number: int, frame: FrameType | None) -> None:
    if _state.over:
        return
    _state.struck = number if _state.struck is None else _state.struck
    if _state.depth:
        _state.waiting = True
        return
    if _importing(frame):
        _repeat(number)
        return
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    """Return whether a module is being imported: compiled modules turn an exception there into one of their own."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _repeat(number: int) -> None:
    """Let a signal strike once more in a moment, if it is still heeded then."""

    def again() -> None:
        if not _state.heeded:
            return
        if hasattr(signal, "pthread_kill"):  # a signal of the system, which also ends a sleep
            signal.pthread_kill(threading.main_thread().ident or 0, number)
        else:
            _thread.interrupt_main(signal.Signals(number))

    timer = threading.Timer(AGAIN_S, again)
    timer.daemon = True
    timer.start()


def _repeating(report: Any) -> Any:
    """Return a hook that repeats strikes which could not be passed on, and leaves to `report` what is none's fault."""

    def hook(about: Any) -> None:
        number = _state.struck
        if number is None:
            report(about)
        elif issubclass(about.exc_type, KeyboardInterrupt):
            _repeat(number)
        # What else an object says that is half made is no news after a strike.

    return hook
