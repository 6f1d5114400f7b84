"""Calls of a policy's machine code by its address, so that one compiled loop serves every policy.

A rule maps one candidate row to a score; a choice maps (globals, rows, mask) to the index of a row. Both are compiled
for one fixed signature; compiled loops get the address as a number and call the function there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slipstream.jit.mode import COMPILED, PRIVATE

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


__all__ = ["call_choice", "call_rule", "choice_address", "rule_address"]
