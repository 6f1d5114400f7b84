"""Compiled code: two decorators, and functions that each family implements for its own state.

Numba's cache does not notice an edit in a function that another file calls. So the cache folder is named by a hash of
every module that holds kernels: any edit gives a new folder, and nothing stale can be loaded.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import cfunc, njit
from numba.extending import overload

from slipstream.core import inner

COMPILED = not numba.config.DISABLE_JIT
"""False under NUMBA_DISABLE_JIT=1: the same functions run as plain Python, for debuggers and mutation tests."""

PACKAGE = Path(__file__).parents[1]
MARK = b"slipstream.core.jit"

INNER: dict[str, Any] = {"_nrt": False, "error_model": "numpy", "fastmath": False, "forceinline": False}
"""Kernels never allocate, so they need no reference counts; nor do they raise, so a division needs no check.

Leaving the counts out doubles the speed: they are atomic, and every access to an array of a struct would pay two. What
is not said here a function would take over from whoever calls it first: it would be compiled once for each kind of
caller, and all that an inlined one calls would be inlined too.
"""

ALGEBRA: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
"""Matrix products count references and so need Numba's run-time; a product and a sum may be one operation."""


def kernel_sources() -> list[Path]:
    """Return every module of the package that compiles something: those that import this one, this one, and `inner`."""
    own = {Path(__file__), Path(inner.__file__)}
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path in own or MARK in path.read_bytes()]


@functools.cache
def cache_folder() -> Path:
    """Return the folder of compiled kernels, keyed by their sources, the compiler and its flags."""
    content = hashlib.sha256()
    for path in kernel_sources():
        content.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes())
    flags = (numba.__version__, llvmlite.__version__, np.__version__, numba.config.BOUNDSCHECK, numba.config.OPT)
    content.update(repr(flags).encode())
    folder = _cache_root() / "kernels" / content.hexdigest()[:24]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _cache_root() -> Path:
    chosen = os.environ.get("SLIPSTREAM_CACHE_DIR")
    if chosen:
        return Path(chosen)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slipstream"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return home
    except OSError:
        # A read-only home (containers, CI) must not stop anybody: compile once per user of the machine instead.
        return Path(tempfile.gettempdir()) / f"slipstream-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"


@contextmanager
def _cache_here() -> Iterator[None]:
    """Point Numba at our folder; it reads the setting when a function is decorated."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder())
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def _decorate(decorator: Callable[..., Any], function: Callable[..., Any], *signature: Any, **options: Any) -> Any:
    with _cache_here():
        try:
            return decorator(*signature, cache=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache function" not in str(error):
                raise
            # A function typed at a prompt has no file to key a cache on.
            return decorator(*signature, **options)(function)


def _inside(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function that only compiled functions call."""
    compiled = _decorate(njit, function, nogil=True, **inner.OPTIONS, **options)
    return inner.keep_inside(compiled) if COMPILED else compiled


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
    return _decorate(njit, function, nogil=True, error_model="numpy")


def code_of(function: Any, *arguments: Any) -> Any:
    """Return the code of an entry for arguments of these types.

    Called by itself, the entry would look at the types of all its arguments first, every time.
    """
    return function.compile(tuple(map(numba.typeof, arguments))) if COMPILED else function


def entry_at(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile now for one signature."""
    return _decorate(njit, function, signature, nogil=True, error_model="numpy")


def callback_at(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile now as a C callback for one signature."""
    return _decorate(cfunc, function, signature, error_model="numpy")


def overload_inside(function: Any, options: dict[str, Any]) -> Any:
    """Let compiled code call what the decorated function returns for the types of the arguments."""
    return overload(function, strict=False, jit_options=options | inner.OPTIONS)


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

        @overload_inside(function, INNER)
        def choose(*arguments: Any) -> Any:
            return implementation.py_func if isinstance(arguments[1], state_type) else None
