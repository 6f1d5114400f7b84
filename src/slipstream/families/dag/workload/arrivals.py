"""Arrival times of jobs from the scenario or from CSV and Parquet traces."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.errors import ScenarioError
from slipstream.families.dag.scenario import MOST_JOBS, DagScenario, JobTrace, PoissonStream
from slipstream.families.dag.workload.templates import Library
from slipstream.families.shared.schema import LONGEST_S, NANOSECONDS_PER_S, nanoseconds_of
from slipstream.files.inputs import reading_key
from slipstream.files.tables import read_table

ANY = -1
"""Template of an arrival whose template is drawn at random."""


def trace_of(scenario: DagScenario, library: Library) -> tuple[np.ndarray, np.ndarray]:
    """Return the ascending arrival times of a trace in ns and their templates; empty if there is no trace."""
    trace = scenario.arrivals
    if not isinstance(trace, JobTrace):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    times, names = _rows(scenario, trace)
    if names is None:
        return times, np.full(len(times), ANY, np.int64)
    for index, name in enumerate(names):
        if name not in library.names:
            known = ", ".join([*library.names][:10])
            more = ", ..." if len(library.names) > 10 else ""
            text = f"arrivals: row {index + 1}: no job '{name}' in the source: expected one of {known}{more}"
            raise ScenarioError(text)
    return times, np.array([library.names[name] for name in names], np.int64)


def resolved_arrivals(scenario: DagScenario) -> dict[str, Any]:
    """Return the arrivals as part of the scenario digest, with traces written out."""
    trace = scenario.arrivals
    if not isinstance(trace, JobTrace):
        data = trace.model_dump(mode="json", exclude={"rate_hz"})
        return data | {"mean_gap_s": trace.gap_s} if isinstance(trace, PoissonStream) else data
    times, names = _rows(scenario, trace)
    return {"kind": "trace", "times_ns": times.tolist(), "names": names}


def _rows(scenario: DagScenario, trace: JobTrace) -> tuple[np.ndarray, list[str] | None]:
    if trace.times_s is not None:
        return np.array([nanoseconds_of(time) for time in trace.times_s], np.int64), trace.names
    with reading_key("arrivals.path"):
        return _read_rows(scenario, trace)


def _read_rows(scenario: DagScenario, trace: JobTrace) -> tuple[np.ndarray, list[str] | None]:
    columns = [trace.column] if trace.name_column is None else [trace.column, trace.name_column]
    table = read_table(scenario._folder / (trace.path or ""), columns)
    seconds = table.numbers(trace.column)
    wrong = ~((seconds >= 0.0) & (seconds <= LONGEST_S))  # this form also rejects NaN
    falls = np.concatenate(([False], seconds[1:] < seconds[:-1]))
    if (wrong | falls).any():
        index = int((wrong | falls).argmax())
        if wrong[index]:
            raise table.error(index, f"expected a time between 0 and {LONGEST_S:g} s, got {seconds[index]:.15g}")
        raise table.error(index, f"{seconds[index]:.15g} is earlier than the row before it: expected ascending times")
    if not 1 <= len(table) <= MOST_JOBS:
        raise ScenarioError(f"{table.path}: has {len(table):,} arrivals: expected 1 to {MOST_JOBS:,}")
    names = table.texts(trace.name_column) if trace.name_column is not None else None
    return np.rint(seconds * NANOSECONDS_PER_S).astype(np.int64), names
