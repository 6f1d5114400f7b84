"""Compiled code: two decorators, and functions that each family implements for its own state.

What is compiled is kept on disk (`jit.compile_cache`), in a folder that any edit of the package changes
(`jit.cache_folder`), so nothing stale can be loaded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
from numba import njit
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature
from numba.extending import overload

from slipstream.jit import numba_linking
from slipstream.jit.compile_cache import keep_compiled, note_implementation

COMPILED = not numba.config.DISABLE_JIT
"""False under NUMBA_DISABLE_JIT=1: the same functions run as plain Python, for debuggers and mutation tests."""

INNER: dict[str, Any] = {"_nrt": False, "error_model": "numpy", "fastmath": False, "forceinline": False}
"""Kernels never allocate, so they need no reference counts; nor do they raise, so a division needs no check.

Leaving the counts out doubles the speed: they are atomic, and every access to an array of a struct would pay two. What
is not said here a function would take over from whoever calls it first: it would be compiled once for each kind of
caller, and all that an inlined one calls would be inlined too.
"""

ALGEBRA: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
"""Matrix products count references and so need Numba's run-time; a product and a sum may be one operation."""


def _njit(function: Callable[..., Any], **options: Any) -> Any:
    """Return the dispatcher of a function, which keeps its code on disk."""
    compiled = njit(**options)(function)
    if COMPILED:
        keep_compiled(compiled, function)
    return compiled


def _inside(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function that only compiled functions call."""
    compiled = _njit(function, nogil=True, **numba_linking.OPTIONS, **options)
    return numba_linking.keep_inside(compiled) if COMPILED else compiled


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that other compiled functions call: it neither allocates nor raises."""
    return _inside(function, **INNER)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a kernel into its callers: a call that hands over views of arrays costs more than a small body."""
    return _inside(function, **INNER | {"forceinline": True})


def algebra(function: Callable[..., Any]) -> Any:
    """Compile a function that calls matrix products."""
    return _inside(function, **ALGEBRA)


def reduction(function: Callable[..., Any]) -> Any:
    """Compile an `algebra` function whose sums may be taken in any order, several terms at a time."""
    return _inside(function, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls: it takes structs, and releases the GIL while running."""
    return _njit(function, nogil=True, error_model="numpy")


def code_of(function: Any, *arguments: Any) -> Any:
    """Return the code of an entry for arguments of these types.

    Called by itself, the entry would look at the types of all its arguments first, every time.
    """
    return function.compile(tuple(map(numba.typeof, arguments))) if COMPILED else function


def entry_at(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile now for one signature."""
    compiled = _njit(function, nogil=True, error_model="numpy")
    if COMPILED:
        compiled.compile(signature)
    return compiled


def callback_at(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile now as a C callback for one signature."""
    callback = CFunc(function, normalize_signature(signature), locals={}, options={"error_model": "numpy"})
    keep_compiled(callback, function)
    callback.compile()
    return callback


def overload_inside(function: Any, options: dict[str, Any]) -> Any:
    """Let compiled code call what the decorated function returns for the types of the arguments."""
    return overload(function, strict=False, jit_options=options | numba_linking.OPTIONS)


def family_function(stub: Callable[..., Any]) -> Any:
    """Declare a function that each family implements; compiled callers choose by the type of the state, once."""
    implementations: dict[type, Callable[..., Any]] = {}

    @functools.wraps(stub)
    def choose(spec: Any, state: Any, *rest: Any) -> Any:
        return implementations[state.struct_type](spec, state, *rest)

    choose.implementations = implementations  # type: ignore[attr-defined]
    return choose


def implement(function: Any, state_type: type, implementation: Any) -> None:
    """Register a family's implementation of a family function."""
    function.implementations[state_type] = implementation
    if COMPILED:
        note_implementation(state_type, implementation.py_func)

        @overload_inside(function, INNER)
        def choose(*arguments: Any) -> Any:
            return implementation.py_func if isinstance(arguments[1], state_type) else None
