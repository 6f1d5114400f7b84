"""Structs of arrays that compiled code takes as one argument.

These are Numba's structrefs with one change. Reading a field of a structref counts a reference, which needs the
run-time that kernels are compiled without (`jit.decorators.INNER`); here a read in a kernel is a plain load. The entry
point, called from Python, holds the only reference that is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, imputils
from numba.core.datamodel import default_manager, models
from numba.core.typing.templates import AttributeTemplate
from numba.experimental import structref
from numba.extending import infer_getattr, lower_getattr_generic, lower_setattr_generic

from slipstream.jit.decorators import COMPILED, entry

CACHE_LINE = 64
"""Bytes."""

DATA_WORD = 3
"""Place of the data pointer in Numba's MemInfo, in words: reference count, destructor, its argument, data."""


def struct(*fields: str) -> Callable[[type[types.StructRef]], type[types.StructRef]]:
    """Define the decorated class as the compiled type of a struct of arrays with these fields.

    It must stand at module level: a cached kernel finds its types by their importable names.
    """

    def define(struct_type: type[types.StructRef]) -> type[types.StructRef]:
        names = {"__module__": struct_type.__module__, "__qualname__": f"{struct_type.__qualname__}.Proxy"}
        proxy = type("Proxy", (structref.StructRefProxy,), names)
        struct_type.Proxy = proxy  # under the importable name that it was given
        default_manager.register(struct_type, models.StructRefModel)
        _define_fields(struct_type)
        structref.define_proxy(proxy, struct_type, list(fields))

        @entry
        def make(*arrays: Any) -> Any:
            return proxy(*arrays)

        _CONSTRUCTORS[struct_type] = fields, make
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
    """Return copies of arrays that each begin with a cache line: a record in more lines than it needs costs time."""
    return {name: _on_cache_lines(array) for name, array in arrays.items()}


def _on_cache_lines(array: np.ndarray) -> np.ndarray:
    room = np.empty(array.nbytes + CACHE_LINE, np.uint8)
    begin = -room.ctypes.data % CACHE_LINE
    copy = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _load(builder: Any, pointer: Any) -> Any:
    """Load what never changes: the compiler need not load it again after it stored something elsewhere."""
    kind = pointer.type.pointee
    if isinstance(kind, ir.Aggregate):
        value = ir.Constant(kind, ir.Undefined)
        for place in range(len(kind)):
            element = builder.gep(pointer, [ir.IntType(32)(0), ir.IntType(32)(place)], inbounds=True)
            value = builder.insert_value(value, _load(builder, element), place)
        return value
    value = builder.load(pointer)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _data(context: Any, builder: Any, typ: Any, value: Any) -> Any:
    """Return the fields of a struct, in memory."""
    reference = cgutils.create_struct_proxy(typ)(context, builder, value=value)
    words = builder.bitcast(reference.meminfo, ir.IntType(8).as_pointer().as_pointer())
    data = _load(builder, builder.gep(words, [ir.Constant(ir.IntType(64), DATA_WORD)]))
    pointer = builder.bitcast(data, context.get_value_type(typ.get_data_type()).as_pointer())
    return context.make_data_helper(builder, typ.get_data_type(), ref=pointer)


def _define_fields(struct_type: type[types.StructRef]) -> None:
    @infer_getattr
    class Fields(AttributeTemplate):
        key = struct_type

        def generic_resolve(self, typ: Any, attr: str) -> Any:
            return typ.field_dict.get(attr)

    @lower_getattr_generic(struct_type)
    def read(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
        field = _load(builder, _data(context, builder, typ, value)._get_ptr_by_name(attr))
        if context.enable_nrt:
            return imputils.impl_ret_borrowed(context, builder, typ.field_dict[attr], field)
        return field

    @lower_setattr_generic(struct_type)
    def write(context: Any, builder: Any, signature: Any, arguments: Any, attr: str) -> None:
        typ, value_type = signature.args
        fields = _data(context, builder, typ, arguments[0])
        field_type = typ.field_dict[attr]
        value = context.cast(builder, arguments[1], value_type, field_type)
        context.nrt.incref(builder, field_type, value)
        context.nrt.decref(builder, field_type, getattr(fields, attr))
        setattr(fields, attr, value)
