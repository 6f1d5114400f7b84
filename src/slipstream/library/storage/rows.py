"""Types of the columns of the library's database: SQLite itself accepts any value in any column."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.families.contract import FAMILIES
from slipstream.files.inputs import show
from slipstream.library.storage.records import NAME

SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Kind:
    """The set of values of a column."""

    expected: str
    """Description for error messages."""
    holds: Callable[[Any], bool]


TEXT = Kind("a text", lambda value: isinstance(value, str))
NAMED = Kind("the name of a model", lambda value: isinstance(value, str) and NAME.fullmatch(value) is not None)
FAMILY = Kind("the name of a family", lambda value: isinstance(value, str) and value in FAMILIES)
HASH = Kind("a SHA-256 in hex", lambda value: isinstance(value, str) and SHA256.fullmatch(value) is not None)
COUNT = Kind("a whole number from 0", lambda value: type(value) is int and value >= 0)
SOME = Kind("a whole number from 0, or nothing", lambda value: value is None or COUNT.holds(value))
NUMBER = Kind("a finite number", lambda value: type(value) in (int, float) and math.isfinite(value))
FLAG = Kind("0 or 1", lambda value: type(value) is int and value in (0, 1))

TABLES: dict[str, dict[str, Kind]] = {
    "model": {"name": NAMED, "family": FAMILY, "created": TEXT},
    "version": {"id": COUNT, "model": NAMED, "number": COUNT, "sha256": HASH, "operation": TEXT, "created": TEXT},
    "parent": {"version": COUNT, "parent": COUNT},
    "scenario": {"digest": TEXT, "family": FAMILY, "name": TEXT, "text": TEXT, "folder": TEXT, "traits": TEXT},
    "owned": {"model": NAMED, "scenario": TEXT, "held_out": FLAG},
    "evaluation": {
        "policy": TEXT,
        "scenario": TEXT,
        "split": TEXT,
        "seed": COUNT,
        "reward": NUMBER,
        "code": TEXT,
    },
    "optimum_bounds": {
        "scenario": TEXT,
        "split": TEXT,
        "seed": COUNT,
        "best_known": NUMBER,
        "bound": NUMBER,
        "exact": FLAG,
        "code": TEXT,
    },
    "run": {
        "id": COUNT,
        "time": TEXT,
        "version": COUNT,
        "scenario": TEXT,
        "split": TEXT,
        "seed": COUNT,
        "reward": NUMBER,
    },
    "alias": {"name": NAMED, "version": COUNT},
    "event": {
        "id": COUNT,
        "time": TEXT,
        "operation": TEXT,
        "model": NAMED,
        "before": SOME,
        "after": SOME,
        "reason": TEXT,
        "evidence": TEXT,
    },
}
"""Columns of every table and their types."""


def row_fault(table: str, columns: Sequence[str], row: Sequence[Any]) -> str | None:
    """Return what is wrong with the values `row` of `columns`; None if nothing is."""
    for column, value in zip(columns, row, strict=True):
        kind = TABLES[table][column]
        if not kind.holds(value):
            found = f"{len(value)} bytes" if isinstance(value, bytes) else show(value)
            return f"{table}.{column}: expected {kind.expected}, got {found}"
    return None
