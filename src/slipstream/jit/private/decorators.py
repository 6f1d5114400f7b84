"""Dispatchers and callbacks whose code `private.compile_cache` stores and `private.linking` links into callers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature

from slipstream.jit.private.compile_cache import CompileCache
from slipstream.jit.private.linking import OPTIONS, link_only

INNER: dict[str, Any] = {"_nrt": False, "error_model": "numpy", "fastmath": False, "forceinline": False}
"""Options of kernels: they never allocate, so they need no reference counts; nor raise, so a division needs no check.

Without the counts kernels run twice as fast: the counts are atomic, and every access to an array of a struct would pay
for two. A function inherits each option that is not stated here from its first caller: it would be compiled once for
each kind of caller, and all that an inlined function calls would be inlined too.
"""

ALGEBRA: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
"""Options of functions with matrix products: these count references; a product and a sum may be one operation."""

INLINED: dict[str, Any] = {"forceinline": True}
"""What an inlined kernel has in addition."""

LINKED = OPTIONS
"""What a function that only compiled functions call has in addition."""


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls; store its machine code."""
    compiled = numba.njit(nogil=True, error_model="numpy")(function)
    _store(compiled, function)
    return compiled


def inner(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Compile a function that only compiled functions call, with `options`; store its intermediate code."""
    compiled = numba.njit(nogil=True, **LINKED, **options)(function)
    _store(compiled, function)
    return link_only(compiled)


def code_of(function: Any, *arguments: Any) -> Any:
    """Return the machine code of an entry for the types of `arguments`: a call of it skips the dispatch by type."""
    return function.compile(tuple(map(numba.typeof, arguments)))


def entry_at(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile an entry now, for one signature."""
    compiled = entry(function)
    compiled.compile(signature)
    return compiled


def callback_at(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile a C callback now, for one signature; store its machine code."""
    callback = CFunc(function, normalize_signature(signature), locals={}, options={"error_model": "numpy"})
    _store(callback, function)
    callback.compile()
    return callback


def _store(compiled: Any, function: Callable[..., Any]) -> None:
    """Set the cache of a dispatcher or callback that is not compiled yet, if its function is in a file."""
    source = Path(inspect.getfile(function))
    if source.is_file():  # one that was typed at a prompt is not
        compiled._cache = CompileCache(function, source.absolute())
