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
FAMILIES = "slipstream.families."
"""What the names of the families' modules begin with."""


class CompileProgress:
    """Prints whose kernels are being compiled; on a terminal, also how many functions are done, every `AGAIN_S`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._family = ""
        self._announced: set[str] = set()
        self._depth = self._count = 0
        self._began = self._spent = self._last_message = 0.0

    def on_start(self, module: str) -> None:
        """Note that compilation of a function of `module` begins; its callees are compiled within it."""
        family = module.removeprefix(FAMILIES).partition(".")[0] if module.startswith(FAMILIES) else ""
        if self._depth == 0:
            self._began = perf_counter()
        if family and family != self._family:
            self._family = family
            self._began, self._spent = perf_counter(), 0.0
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
        if spent < PATIENCE_S:
            return
        if self._family not in self._announced:
            what = f"the {self._family} kernels" if self._family else "kernels"
            self._console.print(f"Compiling {what} (first use; cached afterwards) ...")
            self._announced.add(self._family)
        elif self._console.is_terminal and spent >= self._last_message + AGAIN_S:
            self._console.print(f"Compiling: {self._count} functions in {spent:.0f} s.")
        else:
            return
        self._last_message = spent


class SignalDeferral:
    """Defers Ctrl-C and other signals until the function that is being compiled is done.

    During compilation Python is called back from C code, which cannot propagate the exception of a signal.
    """

    def on_start(self, _module: str) -> None:
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

    def on_start(module: str) -> None:
        for callback in callbacks:
            callback.on_start(module)

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
    """Print that kernels are compiled, if it takes long, to `console`; defer signals during compilation."""
    if "slipstream.jit.decorators" in sys.modules:
        yield
        return
    finder = _OnCompilerImport(CompileProgress(console), SignalDeferral())
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
