"""Structs whose fields compiled code reads as plain loads.

Numba counts a reference whenever a field of a structref is read, which needs the run-time that kernels are compiled
without (`private.decorators.INNER`). Here a read in a kernel is a load; the entry point, called from Python, holds the
only reference that is needed.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, imputils
from numba.extending import lower_getattr_generic

DATA_WORD = 3
"""Index of the data pointer in Numba's MemInfo, in words: reference count, destructor, its argument, data."""


def read_by_loads(struct_type: type[types.StructRef]) -> None:
    """Replace the reading of fields of a struct type that `structref.register` defined: the last definition counts."""

    @lower_getattr_generic(struct_type)
    def read(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
        field = _load(builder, _data(context, builder, typ, value)._get_ptr_by_name(attr))
        if context.enable_nrt:
            return imputils.impl_ret_borrowed(context, builder, typ.field_dict[attr], field)
        return field


def _load(builder: Any, pointer: Any) -> Any:
    """Load a value that never changes, marked so: LLVM need not load it again after a store elsewhere."""
    kind = pointer.type.pointee
    if isinstance(kind, ir.Aggregate):
        value = ir.Constant(kind, ir.Undefined)
        for index in range(len(kind)):
            element = builder.gep(pointer, [ir.IntType(32)(0), ir.IntType(32)(index)], inbounds=True)
            value = builder.insert_value(value, _load(builder, element), index)
        return value
    value = builder.load(pointer)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _data(context: Any, builder: Any, typ: Any, value: Any) -> Any:
    """Return a helper for the fields of the struct `value`, in memory."""
    reference = cgutils.create_struct_proxy(typ)(context, builder, value=value)
    words = builder.bitcast(reference.meminfo, ir.IntType(8).as_pointer().as_pointer())
    data = _load(builder, builder.gep(words, [ir.Constant(ir.IntType(64), DATA_WORD)]))
    pointer = builder.bitcast(data, context.get_value_type(typ.get_data_type()).as_pointer())
    return context.make_data_helper(builder, typ.get_data_type(), ref=pointer)
