"""Calls of machine code by address, with Numba's own calling convention where arrays are passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from slipstream.jit.private.decorators import callback_at, entry, entry_at

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


BOUND = types.int64(types.int64, types.int64)
WORD = ir.IntType(64)


@intrinsic
def _word_of(_typing, struct):
    """Return the address by which compiled code knows a struct."""

    def generate(context, builder, signature, arguments):
        proxy = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=arguments[0])
        return builder.ptrtoint(proxy.meminfo, WORD)

    return types.int64(struct), generate


@entry
def _address_of(struct):
    return _word_of(struct)


def bound_address(function: Any, arguments: tuple[Any, ...], free: int) -> tuple[int, Any]:
    """Return the address of a C function of two numbers that calls an entry, and what has to be kept alive for it.

    The entry is called with `arguments` (structs and numbers) and then with the first `free` of the two; it returns a
    number. The C function returns -1 if it fails.
    """
    signature = (*map(numba.typeof, arguments), *(types.int64,) * free)
    function.compile(signature)
    result = function.overloads[signature]
    target = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    structs = [isinstance(kind, types.StructRef) for kind in signature[: len(arguments)]]
    words = [_address_of(value) if is_struct else value for value, is_struct in zip(arguments, structs, strict=True)]

    @intrinsic
    def call(_typing, first, second):
        def generate(context, builder, _signature, numbers):
            values = []
            for kind, word, is_struct in zip(signature, words, structs, strict=False):
                value = ir.Constant(WORD, int(word))
                if is_struct:
                    proxy = cgutils.create_struct_proxy(kind)(context, builder)
                    proxy.meminfo = builder.inttoptr(value, proxy.meminfo.type)
                    value = proxy._getvalue()
                values.append(value)
            convention = context.call_conv
            function_type = convention.get_function_type(types.int64, signature)
            pointer = builder.inttoptr(ir.Constant(WORD, target), function_type.as_pointer())
            given = [*values, *numbers[:free]]
            status, found = convention.call_function(builder, pointer, types.int64, signature, given)
            return builder.select(status.is_ok, found, ir.Constant(WORD, -1))

        return types.int64(first, second), generate

    def bound(first, second):
        return call(first, second)

    compiled = numba.cfunc(BOUND)(bound)
    return compiled.address, (compiled, function, arguments)
