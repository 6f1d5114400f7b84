"""Calls of machine code by address, with Numba's own calling convention where arrays are passed."""

from __future__ import annotations

import functools
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


BOUND = types.int64(types.CPointer(types.int64), types.int64, types.int64)
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


def bound_words(function: Any, arguments: tuple[Any, ...], free: int) -> tuple[int, list[int], Any]:
    """Return the address of a C function, the words that its first argument points to, and what keeps it alive.

    Its two other arguments are numbers. It calls an entry with `arguments` (structs and numbers), which it finds in the
    words, and with the first `free` of the two numbers, and returns the number that the entry returns; -1 if it fails.
    """
    kinds = tuple(map(numba.typeof, arguments))
    structs = [isinstance(kind, types.StructRef) for kind in kinds]
    words = [_address_of(value) if is_struct else value for value, is_struct in zip(arguments, structs, strict=True)]
    compiled = _taking_words(function, kinds, free)
    return compiled.address, words, compiled


@functools.cache
def _taking_words(function: Any, kinds: tuple[Any, ...], free: int) -> Any:
    """Compile a C function that calls an entry with arguments of the types `kinds`, which it finds as words."""
    signature = (*kinds, *(types.int64,) * free)
    function.compile(signature)
    result = function.overloads[signature]
    target = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)

    @intrinsic
    def call(_typing, words, first, second):
        def generate(context, builder, _signature, given):
            values = []
            for index, kind in enumerate(kinds):
                value = builder.load(builder.gep(given[0], [ir.Constant(WORD, index)]))
                if isinstance(kind, types.StructRef):
                    proxy = cgutils.create_struct_proxy(kind)(context, builder)
                    proxy.meminfo = builder.inttoptr(value, proxy.meminfo.type)
                    value = proxy._getvalue()
                values.append(value)
            values += given[1 : 1 + free]
            convention = context.call_conv
            function_type = convention.get_function_type(types.int64, signature)
            pointer = builder.inttoptr(ir.Constant(WORD, target), function_type.as_pointer())
            status, found = convention.call_function(builder, pointer, types.int64, signature, values)
            return builder.select(status.is_ok, found, ir.Constant(WORD, -1))

        return types.int64(words, first, second), generate

    def bound(words, first, second):
        return call(words, first, second)

    return numba.cfunc(BOUND)(bound)
