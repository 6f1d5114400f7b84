"""Calls of machine code by address, with Numba's own calling convention where arrays are passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slipstream.jit.private.decorators import callback_at, entry_at

RULE = types.float64(types.CPointer(types.float64))
CHOICE_ARGUMENTS = (types.float64[::1], types.float64[:, ::1], types.int8[::1])
CHOICE = types.int64(*CHOICE_ARGUMENTS)


def rule_address(function: Callable[..., Any]) -> tuple[int, Any]:
    """Compile `row -> float`; return its address and the object that keeps it alive."""
    compiled = callback_at(RULE, function)
    return compiled.address, compiled


def choice_address(function: Callable[..., Any]) -> tuple[int, Any]:
    """Compile `(globals, rows, mask) -> index`; return its address and the object that keeps it alive."""
    compiled = entry_at(CHOICE, function)
    result = compiled.overloads[CHOICE_ARGUMENTS]
    return result.library.get_pointer_to_function(result.fndesc.llvm_func_name), compiled


@intrinsic
def call_rule(_typing, address, row):
    """Return the score of a contiguous float64 row by the rule at `address`."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[1])(context, builder, arguments[1]).data
        function_type = ir.FunctionType(ir.DoubleType(), [data.type])
        return builder.call(builder.inttoptr(arguments[0], function_type.as_pointer()), [data])

    return types.float64(types.int64, row), generate


@intrinsic
def call_choice(_typing, address, global_row, rows, mask):
    """Return the index of the row chosen by the function at `address`, -1 if it failed."""

    def generate(context, builder, signature, arguments):
        convention = context.call_conv
        function_type = convention.get_function_type(types.int64, CHOICE_ARGUMENTS)
        pointer = builder.inttoptr(arguments[0], function_type.as_pointer())
        status, chosen = convention.call_function(builder, pointer, types.int64, CHOICE_ARGUMENTS, arguments[1:])
        return builder.select(status.is_ok, chosen, ir.Constant(ir.IntType(64), -1))

    return types.int64(types.int64, *CHOICE_ARGUMENTS), generate
