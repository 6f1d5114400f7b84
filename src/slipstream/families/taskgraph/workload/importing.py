"""Import of arrivals of graphs from tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slipstream.errors import InputError
from slipstream.families.shared.importing import TraceColumns, TraceImporter, merged_arrivals
from slipstream.families.shared.schema import LONGEST_S
from slipstream.families.taskgraph.scenario import MOST_JOBS, GraphTrace, TaskgraphScenario
from slipstream.families.taskgraph.workload.arrivals import trace_rows
from slipstream.families.taskgraph.workload.templates import library_of

COLUMNS = TraceColumns(time="arrival_ms", unit="ms", name="graph")


def import_trace(
    scenario: TaskgraphScenario,
    files: Sequence[Path],
    names: Sequence[str] | None = None,
    columns: TraceColumns = COLUMNS,
) -> TaskgraphScenario:
    """Return `scenario` with graphs that arrive at the times of the files.

    The column of names, or `names` with one per file, says which graph arrives; else it is drawn.
    """
    times, named = merged_arrivals(files, names, columns, LONGEST_S)
    if len(times) > MOST_JOBS:
        raise InputError(f"{len(times):,} arrivals: expected at most {MOST_JOBS:,}")
    listed = [round(time * 1e3, 6) for time in times.tolist()]
    names_key = {} if named is None else {"names": named}
    trace = GraphTrace.model_validate({"kind": "trace", "times_ms": listed, **names_key})
    found = scenario.model_copy(update={"arrivals": trace})
    found._folder = scenario._folder
    trace_rows(found, library_of(found))  # raises an error for an unknown graph
    return found


TRACE_IMPORTER = TraceImporter(COLUMNS, "arrival_ms, and graph where a trace names graphs", import_trace)
