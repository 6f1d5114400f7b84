"""Dispatchers and callbacks as Numba documents them, with reference counts and Numba's own cache."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba

from slipstream.jit.cache_folder import OTHERS_WRITE, cache_folder, make_folder

INNER: dict[str, Any] = {"error_model": "numpy", "fastmath": False}
"""Options of kernels."""

ALGEBRA: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
"""Options of functions with matrix products: a product and a sum may be one operation."""

INLINED: dict[str, Any] = {}
"""What an inlined kernel has in addition: nothing, LLVM decides."""

LINKED: dict[str, Any] = {}
"""What a function that only compiled functions call has in addition: nothing, Numba compiles all alike."""


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls."""
    return inner(function, {"error_model": "numpy"})


def inner(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Compile a function with `options`; Numba makes machine code of each, all that it calls included."""
    with _numba_cache(function) as cached:
        return numba.njit(nogil=True, cache=cached, **options)(function)


def code_of(function: Any, *arguments: Any) -> Any:
    """Return the entry itself, which dispatches by the types of its arguments at every call."""
    return function


def entry_at(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile an entry now, for one signature."""
    with _numba_cache(function) as cached:
        return numba.njit(signature, nogil=True, error_model="numpy", cache=cached)(function)


def callback_at(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile a C callback now, for one signature."""
    with _numba_cache(function) as cached:
        return numba.cfunc(signature, cache=cached, error_model="numpy")(function)


@contextmanager
def _numba_cache(function: Callable[..., Any]) -> Iterator[bool]:
    """Set the folder of Numba's cache; give whether `function` may be stored there.

    Numba does not notice edits of other files that a function depends on. Those of the package are part of the
    folder's name; functions of other packages are compiled in every process.
    """
    folder = _private_folder() if str(function.__module__).partition(".")[0] == "slipstream" else None
    if folder is None:
        yield False
        return
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        yield True
    finally:
        numba.config.CACHE_DIR = before


@cache
def _private_folder() -> Path | None:
    """Return a folder that only this user can enter, since Numba unpickles all that it finds; None if there is none."""
    folder = cache_folder() / "numba"
    try:
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode) or not os.access(folder, os.W_OK):
        return None
    if hasattr(os, "geteuid"):
        if found.st_uid != os.geteuid() or found.st_mode & OTHERS_WRITE:
            return None
        folder.chmod(0o700)  # Numba makes it again, open to readers, where another process has removed it
    return folder
