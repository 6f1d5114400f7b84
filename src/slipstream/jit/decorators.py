"""Decorators that compile functions, and functions that each family implements for its own state.

Compiled code is stored on disk, in a folder that any edit of the package changes (`jit.cache_folder`), so nothing stale
can be loaded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba.extending import overload

from slipstream.jit.mode import COMPILED as COMPILED  # for those that import it with the decorators
from slipstream.jit.mode import PRIVATE

if PRIVATE:
    from slipstream.jit.private import decorators as means
    from slipstream.jit.private.compile_cache import note_implementation
else:
    from slipstream.jit.plain import decorators as means  # type: ignore[no-redef]
    from slipstream.jit.plain.structs import note_implementation

INNER, ALGEBRA = means.INNER, means.ALGEBRA


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that other compiled functions call: it neither allocates nor raises."""
    return _inner(function, INNER)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a kernel into its callers: a call that passes views of arrays costs more than a small body."""
    return _inner(function, INNER | means.INLINED)


def algebra(function: Callable[..., Any]) -> Any:
    """Compile a function that calls matrix products."""
    return _inner(function, ALGEBRA)


def reduction(function: Callable[..., Any]) -> Any:
    """Compile an `algebra` function whose sums may be taken in any order, several terms at a time."""
    return _inner(function, ALGEBRA | {"fastmath": {"contract", "reassoc", "nsz"}})


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls: it takes structs, and releases the GIL while running."""
    return means.entry(function) if COMPILED else function


def code_of(function: Any, *arguments: Any) -> Any:
    """Return a callable for an entry whose arguments have the types of `arguments`, as fast to call as there is."""
    return means.code_of(function, *arguments) if COMPILED else function


def overload_inside(function: Any, options: dict[str, Any]) -> Any:
    """Register what the decorated function returns for argument types as the compiled form of `function`."""
    return overload(function, strict=False, jit_options=options | means.LINKED)


def family_function(stub: Callable[..., Any]) -> Any:
    """Declare a function that each family implements; compiled callers select by the type of the state, once."""
    implementations: dict[type, Callable[..., Any]] = {}

    @functools.wraps(stub)
    def select(spec: Any, state: Any, *rest: Any) -> Any:
        return implementations[state.struct_type](spec, state, *rest)

    select.implementations = implementations  # type: ignore[attr-defined]
    return select


def implement(function: Any, state_type: type, implementation: Any) -> None:
    """Register a family's implementation of a family function."""
    function.implementations[state_type] = implementation
    if COMPILED:
        note_implementation(state_type, implementation.py_func)

        @overload_inside(function, INNER)
        def select(*arguments: Any) -> Any:
            return implementation.py_func if isinstance(arguments[1], state_type) else None


def _inner(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    return means.inner(function, options) if COMPILED else function
