"""Asking the processor for memory before it is needed: compiled hints that change nothing but the time a loop takes."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from slipstream.jit.decorators import COMPILED, inlined
from slipstream.jit.structs import CACHE_LINE

MOST_LINES = 16
"""Lines of one record that are asked for: a processor keeps few requests open, more would only queue up."""

READ, KEEP, DATA = 0, 3, 1
"""What LLVM's prefetch is told: memory to read, to keep in all caches, not code."""

if COMPILED:

    @intrinsic
    def prefetch(_typing, array, place, line):
        """Ask for a cache line of `array[place]`."""

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

else:

    def prefetch(array, place, line):
        """Ask for nothing: plain Python has no such hint."""


@inlined
def prefetch_record(array, place, size):
    """Ask for the first bytes of `array[place]`, so many."""
    for line in range(min((size + CACHE_LINE - 1) // CACHE_LINE, MOST_LINES)):
        prefetch(array, place, line)
