"""Calls of machine code by its address: of policies by compiled loops, and of compiled loops by code in C.

A rule maps one candidate row to a score; a choice maps (globals, rows, mask) to the index of a row. Both are compiled
for one fixed signature; compiled loops get the address as a number and call the function there, so that one compiled
loop serves every policy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from slipstream.jit.mode import COMPILED, PRIVATE

C_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
"""Type of a function of two numbers that code in C calls; the first argument is an address that belongs to it."""


def bound_address(function: Any, arguments: tuple[Any, ...], free: int) -> tuple[int, int, Any] | None:
    """Return the addresses of a `C_FUNCTION` that calls an entry and of its first argument, and what keeps them alive.

    The entry is called with `arguments` and then with the first `free` of the two numbers. None where entries are known
    by documented means only, which give no address: C then calls Python (`callback_address`).
    """
    if not PRIVATE:
        return None
    from slipstream.jit.private.funcptr import bound_words

    address, words, owner = bound_words(function, arguments, free)
    content = (ctypes.c_int64 * len(words))(*words)
    return address, ctypes.addressof(content), (owner, content, arguments)


def callback_address(function: Callable[[int, int], int]) -> tuple[int, int, Any]:
    """Return the same for a Python function of two numbers."""
    callback = C_FUNCTION(lambda _words, first, second: function(first, second))
    return ctypes.cast(callback, ctypes.c_void_p).value or 0, 0, callback


if PRIVATE:
    from slipstream.jit.private.funcptr import call_choice, call_rule, choice_address, rule_address
elif COMPILED:
    from slipstream.jit.plain.funcptr import call_choice, call_rule, choice_address, rule_address
else:
    _FUNCTIONS: list[Callable[..., Any]] = []
    """Where nothing is compiled, an 'address' is an index into this list."""

    def rule_address(function: Callable[..., Any]) -> tuple[int, Any]:
        """Return the index of a rule, and the rule."""
        _FUNCTIONS.append(function)
        return len(_FUNCTIONS) - 1, function

    choice_address = rule_address

    def call_rule(address, row):
        """Return the score of a row by the rule at `address`."""
        return _FUNCTIONS[address](row)

    def call_choice(address, global_row, rows, mask):
        """Return the index of the row chosen by the function at `address`."""
        return _FUNCTIONS[address](global_row, rows, mask)


__all__ = ["call_choice", "call_rule", "callback_address", "choice_address", "rule_address"]
