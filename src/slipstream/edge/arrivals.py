"""Release times from files: CSV and Parquet traces, read and checked once."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.core.parts import LONGEST_MS, nanoseconds
from slipstream.edge.scenario import Trace
from slipstream.errors import TraceError


def trace_times(trace: Trace, folder: Path) -> np.ndarray:
    """Return the trace's release times in ns, ascending."""
    if trace.times_ms is not None:
        return np.array([nanoseconds(time) for time in trace.times_ms], np.int64)
    path = folder / (trace.path or "")
    if path.suffix == ".parquet":
        return _checked(path, _parquet_column(path, trace.column), first_row=1)
    if path.suffix == ".csv":
        return _checked(path, _csv_column(path, trace.column), first_row=2)
    raise TraceError(f"{path}: unknown kind of trace: expected a .csv or .parquet file")


def _csv_column(path: Path, column: str) -> list[float]:
    values: list[float] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            if column not in (reader.fieldnames or []):
                found = ", ".join(reader.fieldnames or []) or "none"
                raise TraceError(f"{path}: row 1: column '{column}' is missing (found {found})")
            for row in reader:
                values.append(_number(path, reader.line_num, column, row[column]))
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: not UTF-8 at byte {error.start}: expected a text file") from error
    except csv.Error as error:
        raise TraceError(f"{path}: not CSV: {error}") from error
    return values


def _number(path: Path, row: int, column: str, text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        shown = "nothing" if not text else f"'{text[:40]}'"
        raise TraceError(f"{path}: row {row}: {column}: expected a number, got {shown}") from None


def _parquet_column(path: Path, column: str) -> list[float]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else "not a Parquet file"
        raise TraceError(f"{path}: {reason}") from error
    if column not in file.schema_arrow.names:
        raise TraceError(f"{path}: column '{column}' is missing (found {', '.join(file.schema_arrow.names)})")
    table: Any = file.read([column])
    values = table.column(column)
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise TraceError(f"{path}: {column}: expected numbers, got {values.type}")
    if values.null_count:
        raise TraceError(f"{path}: {column}: {values.null_count} rows are empty: expected a number in each")
    return [float(value) for value in values.to_pylist()]


def _checked(path: Path, values: list[float], first_row: int) -> np.ndarray:
    before = 0.0
    for index, value in enumerate(values):
        if not math.isfinite(value) or not 0.0 <= value <= LONGEST_MS:
            expected = f"expected a time between 0 and {LONGEST_MS:g} ms"
            raise TraceError(f"{path}: row {index + first_row}: {expected}, got {value:g}")
        if value < before:
            where = f"{path}: row {index + first_row}"
            raise TraceError(f"{where}: {value:g} is earlier than the row before it: expected ascending times")
        before = value
    return np.array([nanoseconds(value) for value in values], np.int64)
