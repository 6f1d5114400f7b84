"""Import of arrivals from tables: what the importers of all families share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from slipstream.errors import InputError, TraceError
from slipstream.files.inputs import read_json, show
from slipstream.files.tables import Table, read_table, table_error

NANOSECONDS_PER = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
"""Nanoseconds in each unit of time that a file may use."""

S = TypeVar("S")


@dataclass(frozen=True)
class TraceColumns:
    """Which columns of a table hold what."""

    time: str
    """Times of arrival."""
    unit: str
    """Unit of the times, one of `NANOSECONDS_PER`."""
    name: str
    """What each arrival is of: its task, model, job, graph or user."""

    def __post_init__(self) -> None:
        if self.unit not in NANOSECONDS_PER:
            raise InputError(f"unit '{self.unit}': expected one of {', '.join(NANOSECONDS_PER)}")


@dataclass(frozen=True)
class TraceImporter(Generic[S]):
    """How a family imports arrivals from tables."""

    columns: TraceColumns
    """Default columns."""
    described: str
    """All columns in a phrase, for help."""
    import_trace: Callable[[S, Sequence[Path], Sequence[str] | None, TraceColumns], S]
    """Return a scenario with the arrivals of the files.

    The names, one per file, say what all rows of a file are of; with None, each row has a name.
    """


def read_arrivals(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """Return columns of a .csv, .parquet or .json file; those of `optional` that the file lacks are left out.

    A JSON file holds a list of objects with the columns as keys, or a list of numbers: the first required column.

    Raises:
        TraceError: One line: the file, the row where there is one, what is wrong and what was expected.
    """
    found = _read_json(path, required, optional) if path.suffix.lower() == ".json" else None
    table = read_table(path, required, optional) if found is None else found
    if not len(table):
        raise table_error(path, "has no rows: expected at least one arrival")
    return table


def _read_json(path: Path, required: Sequence[str], optional: Sequence[str]) -> Table:
    rows = read_json(path, "a list of arrivals", TraceError)
    if not isinstance(rows, list):
        raise table_error(path, f"expected a list of numbers or of objects, got {show(rows)}")
    columns: dict[str, list[Any]] = {}
    if all(isinstance(row, int | float) for row in rows) and len(required) == 1:
        columns[required[0]] = rows
    else:
        for index, row in enumerate(rows, 1):
            if not isinstance(row, dict):
                raise table_error(path, f"row {index}: expected an object with {', '.join(required)}, got {show(row)}")
        for name in required:
            missing = [index for index, row in enumerate(rows, 1) if name not in row]
            if missing:
                raise table_error(path, f"row {missing[0]}: '{name}' is missing")
            columns[name] = [row[name] for row in rows]
        for name in optional:
            if any(name in row for row in rows):
                columns[name] = [row.get(name, "") for row in rows]
    return Table(path, np.arange(1, len(rows) + 1), columns)


def times_of(table: Table, columns: TraceColumns, longest_s: float) -> np.ndarray:
    """Return the times of a table in seconds; a time out of range is an error."""
    seconds = table.numbers(columns.time) * (NANOSECONDS_PER[columns.unit] / 1e9)
    wrong = ~((seconds >= 0.0) & (seconds <= longest_s))  # this form also rejects NaN
    if wrong.any():
        index = int(wrong.argmax())
        got = f"{table.numbers(columns.time)[index]:g} {columns.unit}"
        raise table.error(index, f"{columns.time}: expected a time from 0 to {longest_s:g} s, got {got}")
    return seconds


def names_per_file(files: Sequence[Path], names: Sequence[str] | None) -> list[str | None]:
    """Return the name of each file, None where its rows have names.

    Raises:
        InputError: There is another number of names than of files.
    """
    if names and len(names) != len(files):
        raise InputError(f"{len(names)} names for {len(files)} files: expected one per file, or none")
    return [*names] if names else [None] * len(files)


def merged_arrivals(
    files: Sequence[Path], names: Sequence[str] | None, columns: TraceColumns, longest_s: float
) -> tuple[np.ndarray, list[str] | None]:
    """Return the times of all rows of all files in seconds, ascending, and their names where the files have any."""
    times: list[np.ndarray] = []
    found: list[str | None] = []
    for path, name in zip(files, names_per_file(files, names), strict=True):
        table = read_arrivals(path, [columns.time], [columns.name])
        times.append(times_of(table, columns, longest_s))
        if name is None and columns.name in table.columns:
            found += table.texts(columns.name)
        else:
            found += [name] * len(table)
    order = np.argsort(np.concatenate(times), kind="stable")
    listed = [found[index] for index in order.tolist()]
    named = [name for name in listed if name is not None]
    if named and len(named) < len(listed):
        raise InputError(f"column '{columns.name}' is missing in some of the files: expected it in all, or in none")
    return np.concatenate(times)[order], named or None
