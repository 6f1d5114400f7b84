"""Structs of arrays that compiled code takes as one argument: Numba's structrefs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import types
from numba.experimental import structref

from slipstream.jit.decorators import entry
from slipstream.jit.mode import COMPILED, PRIVATE

if PRIVATE:
    from slipstream.jit.private.structs import read_by_loads
else:
    from slipstream.jit.plain.structs import note_implementation

CACHE_LINE = 64
"""Bytes."""


def struct(*fields: str) -> Callable[[type[types.StructRef]], type[types.StructRef]]:
    """Return a decorator that defines a class as the compiled type of a struct of arrays with these `fields`.

    The class must be at module level: a stored kernel finds its types by their importable names.
    """

    def define(struct_type: type[types.StructRef]) -> type[types.StructRef]:
        names = {"__module__": struct_type.__module__, "__qualname__": f"{struct_type.__qualname__}.Proxy"}
        proxy = type("Proxy", (structref.StructRefProxy,), names)
        struct_type.Proxy = proxy  # under the importable name that it was given
        structref.register(struct_type)
        if PRIVATE:
            read_by_loads(struct_type)
        else:
            note_implementation(struct_type, struct_type)
        structref.define_proxy(proxy, struct_type, list(fields))

        def make(*arrays: Any) -> Any:
            return proxy(*arrays)

        # The package whose edits make stored code stale, and a file of its own for every struct.
        make.__module__, make.__qualname__ = struct_type.__module__, f"{struct_type.__module__}.{struct_type.__name__}"
        _CONSTRUCTORS[struct_type] = fields, entry(make)
        return struct_type

    return define


_CONSTRUCTORS: dict[type[types.StructRef], tuple[tuple[str, ...], Any]] = {}
"""The fields and the compiled constructor of every struct."""


def make_struct(struct_type: type[types.StructRef], arrays: dict[str, np.ndarray]) -> Any:
    """Return a struct over `arrays`, which are given by field; a namespace of record arrays where nothing is compiled.

    Raises:
        KeyError: A field has no array.
    """
    fields, make = _CONSTRUCTORS[struct_type]
    if COMPILED:
        return make(*(arrays[name] for name in fields))
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
