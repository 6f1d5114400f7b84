"""Which columns of a row a rule reads, so that a simulator need not write the others for it."""

from __future__ import annotations

import dis
from collections.abc import Callable
from itertools import islice
from typing import Any


def columns_read(function: Callable[..., Any]) -> frozenset[int] | None:
    """Return the columns that a rule of one row reads; None unless each use of the row is plainly `row[CONSTANT]`."""
    row = function.__code__.co_varnames[0]
    steps = list(dis.get_instructions(function))
    columns = set()
    for place, step in enumerate(steps):
        if step.argval != row:
            if isinstance(step.argval, tuple) and row in step.argval:
                return None
            continue
        index, subscript = islice(steps, place + 1, place + 3)
        column = _constant(index, function.__globals__)
        is_read = subscript.opname == "BINARY_SUBSCR" or subscript.argrepr == "[]"
        if not step.opname.startswith("LOAD_FAST") or column is None or not is_read:
            return None
        columns.add(column)
    return frozenset(columns)


def _constant(step: dis.Instruction, names: dict[str, Any]) -> int | None:
    """Return the number that an instruction loads, None if it loads something else."""
    if step.opname == "LOAD_GLOBAL":
        value = names.get(step.argval)
    else:
        value = step.argval if step.opname in ("LOAD_CONST", "LOAD_SMALL_INT") else None
    return value if type(value) is int and value >= 0 else None
