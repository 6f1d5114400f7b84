"""Structs of arrays that compiled code takes as one argument: Numba's structrefs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import types
from numba.experimental import structref

from slipstream.jit.mode import COMPILED, PRIVATE

if PRIVATE:
    from slipstream.jit.private.structs import read_by_loads

CACHE_LINE = 64
"""Bytes."""


def struct(struct_type: type[types.StructRef], proxy: type, fields: list[str]) -> None:
    """Define a struct of arrays with the given fields, of the class `proxy` in Python.

    Both classes must be at module level: a stored kernel finds its types by their importable names.
    """
    structref.register(struct_type)
    if PRIVATE:
        read_by_loads(struct_type)
    structref.define_proxy(proxy, struct_type, fields)


def make_struct(make: Any, struct_type: type[types.StructRef], arrays: dict[str, np.ndarray]) -> Any:
    """Build a struct through its compiled constructor, or a namespace of record arrays where nothing is compiled."""
    if COMPILED:
        return make(*arrays.values())
    views = {name: array.view(np.recarray) if array.dtype.names else array for name, array in arrays.items()}
    return SimpleNamespace(**views, struct_type=struct_type)


def on_cache_lines(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return copies of arrays that begin at a cache line each: a record in more lines than it needs costs time."""
    return {name: _on_cache_lines(array) for name, array in arrays.items()}


def _on_cache_lines(array: np.ndarray) -> np.ndarray:
    memory = np.empty(array.nbytes + CACHE_LINE, np.uint8)
    begin = -memory.ctypes.data % CACHE_LINE
    copy = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
