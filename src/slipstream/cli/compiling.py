"""Progress messages while a family's kernels are compiled, and signals deferred until a function is compiled.

The first use of a family compiles it, which takes long; the compiler would lose a Ctrl-C that strikes meanwhile.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from time import perf_counter
from typing import TYPE_CHECKING, Any

from slipstream import interrupts

if TYPE_CHECKING:
    from rich.console import Console

PATIENCE_S = 1.5
"""Total compile time before the first message: a user's own rule compiles in less, every time."""
AGAIN_S = 10.0
"""Time between two messages."""


class CompileProgress:
    """Prints that kernels are being compiled, and every `AGAIN_S` how many are done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._depth = self._count = 0
        self._began = self._spent = self._last_message = 0.0

    def on_start(self) -> None:
        """Note that compilation of a function begins; its callees are compiled within it."""
        if self._depth == 0:
            self._began = perf_counter()
        self._depth += 1
        self._print()

    def on_end(self) -> None:
        """Note that compilation of a function ended."""
        self._depth -= 1
        self._count += 1
        self._print()
        if self._depth == 0:
            self._spent += perf_counter() - self._began

    def _print(self) -> None:
        spent = self._spent + perf_counter() - self._began
        if spent < PATIENCE_S or (self._last_message and spent < self._last_message + AGAIN_S):
            return
        if not self._last_message:
            self._console.print("Compiling the simulator: this happens once on a machine, and takes half a minute.")
        else:
            self._console.print(f"Compiling: {self._count} functions in {spent:.0f} s.")
        self._last_message = spent


class SignalDeferral:
    """Defers Ctrl-C and other signals until the function that is being compiled is done.

    During compilation Python is called back from C code, which cannot propagate the exception of a signal.
    """

    def on_start(self) -> None:
        """Defer signals."""
        if threading.current_thread() is threading.main_thread():
            interrupts.defer()

    def on_end(self) -> None:
        """Deliver the signals that were deferred."""
        if threading.current_thread() is threading.main_thread():
            interrupts.stop_deferring()


def listen(*callbacks: CompileProgress | SignalDeferral) -> Callable[[], None]:
    """Notify `callbacks` of every compilation; return a function that ends this."""
    from slipstream.jit import events

    def on_start() -> None:
        for callback in callbacks:
            callback.on_start()

    def on_end() -> None:
        for callback in callbacks:
            callback.on_end()

    return events.listen(on_start, on_end)


class _OnCompilerImport(MetaPathFinder):
    """Registers the listener when compiled code is first imported; importing Numba before would delay every command."""

    def __init__(self, *callbacks: CompileProgress | SignalDeferral) -> None:
        self._callbacks = callbacks

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return None, so that the usual finders search; register the listener on the way."""
        if fullname == "slipstream.jit.decorators":
            listen(*self._callbacks)
        return None


@contextmanager
def compiler_progress(console: Console) -> Iterator[None]:
    """Print progress of long compilations if `console` is a terminal; defer signals during compilation."""
    if "slipstream.jit.decorators" in sys.modules:
        yield
        return
    deferral = SignalDeferral()
    finder = (
        _OnCompilerImport(CompileProgress(console), deferral) if console.is_terminal else _OnCompilerImport(deferral)
    )
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
