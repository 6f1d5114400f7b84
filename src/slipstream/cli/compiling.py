"""The first use of a family compiles it: here that is told, and how far it is, to whoever sits before the terminal.

And a Ctrl-C is heeded meanwhile, which the compiler would lose.
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
"""Of compiling in all, before anything is said: a rule of one's own compiles in less, every time."""
AGAIN_S = 10.0


class CompileTeller:
    """Listens to the compiler; says once what goes on, and now and then how much is done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._deep = self._count = 0
        self._began = self._spent = self._told = 0.0

    def on_start(self) -> None:
        """Hear that a function is being compiled; those it calls are compiled meanwhile."""
        if self._deep == 0:
            self._began = perf_counter()
        self._deep += 1
        self._tell()

    def on_end(self) -> None:
        """Hear that it is done."""
        self._deep -= 1
        self._count += 1
        self._tell()
        if self._deep == 0:
            self._spent += perf_counter() - self._began

    def _tell(self) -> None:
        spent = self._spent + perf_counter() - self._began
        if spent < PATIENCE_S or (self._told and spent < self._told + AGAIN_S):
            return
        if not self._told:
            self._console.print("Compiling the simulator: this happens once on a machine, and takes half a minute.")
        else:
            self._console.print(f"Compiling: {self._count} functions in {spent:.0f} s so far.")
        self._told = spent


class InterruptKeeper:
    """Holds a Ctrl-C, and other signals, until the function that is being compiled is done.

    Where one strikes in the midst, the compiler is called back from code that cannot pass it on.
    """

    def on_start(self) -> None:
        """Hear that a function is being compiled."""
        if threading.current_thread() is threading.main_thread():
            interrupts.hold()

    def on_end(self) -> None:
        """Hear that it is done."""
        if threading.current_thread() is threading.main_thread():
            interrupts.release()


def listen(*hearers: CompileTeller | InterruptKeeper) -> Callable[[], None]:
    """Notify `hearers` of every compilation; return a function that ends this."""
    from slipstream.jit import events

    def on_start() -> None:
        for hearer in hearers:
            hearer.on_start()

    def on_end() -> None:
        for hearer in hearers:
            hearer.on_end()

    return events.listen(on_start, on_end)


class _WhenCompilerComes(MetaPathFinder):
    """Begins to listen when compiled code is imported, and not before: the compiler takes time to import."""

    def __init__(self, *hearers: CompileTeller | InterruptKeeper) -> None:
        self._hearers = hearers

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Find nothing; only look what is imported."""
        if fullname == "slipstream.jit.decorators":
            listen(*self._hearers)
        return None


@contextmanager
def compiles_told(console: Console) -> Iterator[None]:
    """Tell of compiling that takes long, on a terminal; heed a Ctrl-C meanwhile, anywhere."""
    if "slipstream.jit.decorators" in sys.modules:
        yield
        return
    keeper = InterruptKeeper()
    finder = _WhenCompilerComes(CompileTeller(console), keeper) if console.is_terminal else _WhenCompilerComes(keeper)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
