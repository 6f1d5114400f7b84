"""Columns of a row that a rule reads; the simulator writes only these for it."""

from __future__ import annotations

import dis
from collections.abc import Callable, Sequence
from typing import Any


def columns_read(function: Callable[..., Any]) -> frozenset[int] | None:
    """Return the columns that a rule of one row reads; None unless each use of the row is plainly `row[CONSTANT]`."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_argcount != 1:
        return None
    row, steps, columns = code.co_varnames[0], list(dis.get_instructions(function)), set()
    for position, step in enumerate(steps):
        if step.argval == row or (isinstance(step.argval, tuple) and row in step.argval):
            column = _column(steps[position : position + 3], function.__globals__)
            if column is None:
                return None
            columns.add(column)
    return frozenset(columns)


def _column(steps: Sequence[dis.Instruction], names: dict[str, Any]) -> int | None:
    """Return the column that three instructions read of a row; None if they do anything else."""
    if len(steps) < 3 or steps[0].opname not in ("LOAD_FAST", "LOAD_FAST_BORROW"):
        return None
    _, index, subscript = steps
    if subscript.opname != "BINARY_SUBSCR" and subscript.argrepr != "[]":
        return None
    if index.opname == "LOAD_GLOBAL":
        value = names.get(index.argval)
    else:
        value = index.argval if index.opname in ("LOAD_CONST", "LOAD_SMALL_INT") else None
    return value if type(value) is int and value >= 0 else None
