"""The prefetch hint as LLVM's intrinsic, on the memory of an array."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from slipstream.jit.structs import CACHE_LINE

READ, KEEP, DATA = 0, 3, 1
"""Arguments of LLVM's prefetch: memory to read, to keep in all caches, not code."""


@intrinsic
def prefetch(_typing, array, index, line):
    """Request cache line number `line` of `array[index]`."""

    def generate(context, builder, signature, arguments):
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        begin = builder.mul(arguments[1], cgutils.unpack_tuple(builder, view.strides)[0])
        offset = builder.add(begin, builder.mul(arguments[2], ir.IntType(64)(CACHE_LINE)))
        number, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        address = builder.gep(builder.bitcast(view.data, byte), [offset])
        hint = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, hint, "llvm.prefetch.p0")
        builder.call(function, [address, number(READ), number(KEEP), number(DATA)])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate
