"""Release times in CSV and Parquet traces: read, validated, written."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Literal

import numpy as np

from slipstream.families.edge.scenario import EdgeScenario, Trace
from slipstream.families.shared.schema import LONGEST_MS, NANOSECONDS_PER_MS, nanoseconds
from slipstream.files.inputs import reading_key
from slipstream.files.tables import Table, read_table, table_error

COLUMN = "arrival_ms"
"""Default column of release times in a trace."""

TraceKind = Literal["csv", "parquet"]


def trace_times(trace: Trace, folder: Path) -> np.ndarray:
    """Return the trace's release times in ns, ascending."""
    if trace.times_ms is not None:
        return np.array([nanoseconds(time) for time in trace.times_ms], np.int64)
    table = read_table(folder / (trace.path or ""), [trace.column])
    return release_times(table, times_ms(table, trace.column))


def task_trace_times(scenario: EdgeScenario, task: int) -> np.ndarray:
    """Return the release times in ns of a task whose arrival is a trace; an error names the key of its file."""
    arrival = scenario.tasks[task].arrival
    assert isinstance(arrival, Trace)
    with reading_key(f"tasks[{task}].arrival.path"):
        return trace_times(arrival, scenario._folder)


def times_ms(table: Table, column: str, unit_ms: float = 1.0) -> np.ndarray:
    """Return a column of times in ms; `unit_ms` is the unit of the column in ms."""
    cells = table.columns[column]
    if not isinstance(cells, np.ndarray) and table.path.suffix.lower() == ".parquet":
        raise table_error(table.path, f"{column}: expected numbers, got string")
    return table.numbers(column) * unit_ms


def release_times(table: Table, values_ms: np.ndarray) -> np.ndarray:
    """Return the times of a table's rows in ns; a time out of range or out of order is an error."""
    wrong = ~((values_ms >= 0.0) & (values_ms <= LONGEST_MS))  # NaN is wrong too in this form
    falls = np.concatenate(([False], values_ms[1:] < values_ms[:-1]))
    if (wrong | falls).any():
        index = int((wrong | falls).argmax())
        value = f"{values_ms[index]:.15g}"
        if wrong[index]:
            raise table.error(index, f"expected a time between 0 and {LONGEST_MS:g} ms, got {value}")
        raise table.error(index, f"{value} is earlier than the row before it: expected ascending times")
    times: np.ndarray = np.rint(values_ms * NANOSECONDS_PER_MS).astype(np.int64)
    return times


def trace_bytes(times_ns: np.ndarray, kind: TraceKind) -> bytes:
    """Return the content of a trace file of `times_ns`, which reads back to the same nanoseconds."""
    times = times_ns / NANOSECONDS_PER_MS
    if kind == "csv":
        return "\n".join([COLUMN, *map(repr, times.tolist()), ""]).encode()
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table({COLUMN: times}), file, compression="zstd")
    return file.getvalue()
