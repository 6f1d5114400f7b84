"""Notification of compilations, through Numba's event API (documented in its developer manual)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import event


class _CompileListener(event.Listener):
    """Calls one function when a function begins to be compiled, another when it is done."""

    def __init__(self, on_start: Callable[[str], None], on_end: Callable[[], None]) -> None:
        self._on_start, self._on_end = on_start, on_end

    def on_start(self, event: Any) -> None:
        """Hear that a compilation begins."""
        function = getattr((event.data or {}).get("dispatcher"), "py_func", None)
        self._on_start(getattr(function, "__module__", None) or "")  # generated functions have no module

    def on_end(self, _event: Any) -> None:
        """Hear that a compilation ends."""
        self._on_end()


def listen(on_start: Callable[[str], None], on_end: Callable[[], None]) -> Callable[[], None]:
    """Call `on_start` and `on_end` around every compilation of a function; return a function that ends this.

    `on_start` gets the name of the module that defines the function; empty if it is not known.
    """
    listener = _CompileListener(on_start, on_end)
    event.register("numba:compile", listener)
    return lambda: event.unregister("numba:compile", listener)
