"""Calls of C callbacks by address: arrays are passed as pointers and sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slipstream.jit.plain.decorators import INNER, callback_at, entry, inner

RULE = types.float64(types.CPointer(types.float64))
REALS, BYTES = types.CPointer(types.float64), types.CPointer(types.int8)
POINTER, INTEGER = ir.IntType(8).as_pointer(), ir.IntType(64)
CHOICE = types.int64(REALS, types.int64, REALS, types.int64, types.int64, BYTES)


def rule_address(function: Callable[..., Any]) -> tuple[int, Any]:
    """Compile `row -> float`; return its address and the object that keeps it alive."""
    compiled = callback_at(RULE, function)
    return compiled.address, compiled


def choice_address(function: Callable[..., Any]) -> tuple[int, Any]:
    """Compile `(globals, rows, mask) -> index`; return its address and the object that keeps it alive."""
    choose = entry(function)

    def call(globals_data, width, rows_data, count, columns, mask_data):
        index = -1
        try:
            global_row = numba.carray(globals_data, (width,))
            rows = numba.carray(rows_data, (count, columns))
            index = choose(global_row, rows, numba.carray(mask_data, (count,)))
        except Exception:
            index = -1
        return index

    # Not stored: Numba identifies `choose` by a number that is another one in every process.
    compiled = numba.cfunc(CHOICE)(call)
    return compiled.address, compiled


@intrinsic
def _call_rule_at(_typing, address, row):
    def generate(context, builder, signature, arguments):
        function_type = ir.FunctionType(ir.DoubleType(), [POINTER])
        function = builder.inttoptr(arguments[0], function_type.as_pointer())
        return builder.call(function, [builder.inttoptr(arguments[1], POINTER)])

    return types.float64(types.int64, types.uintp), generate


@intrinsic
def _call_choice_at(_typing, address, global_row, width, rows, count, columns, mask):
    def generate(context, builder, signature, arguments):
        function_type = ir.FunctionType(INTEGER, [POINTER, INTEGER, POINTER, INTEGER, INTEGER, POINTER])
        function = builder.inttoptr(arguments[0], function_type.as_pointer())
        values = [
            builder.inttoptr(value, POINTER) if kind == types.uintp else value
            for kind, value in zip(signature.args[1:], arguments[1:], strict=True)
        ]
        return builder.call(function, values)

    size, data = types.int64, types.uintp
    return types.int64(types.int64, data, size, data, size, size, data), generate


def _call_rule(address, row):
    """Return the score of a contiguous float64 row by the rule at `address`."""
    return _call_rule_at(address, row.ctypes.data)


def _call_choice(address, global_row, rows, mask):
    """Return the index of the row chosen by the function at `address`, -1 if it failed."""
    count, columns = rows.shape
    return _call_choice_at(
        address, global_row.ctypes.data, global_row.shape[0], rows.ctypes.data, count, columns, mask.ctypes.data
    )


call_rule, call_choice = inner(_call_rule, INNER), inner(_call_choice, INNER)
