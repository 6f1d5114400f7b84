"""Import of arrivals of jobs from tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slipstream.errors import InputError
from slipstream.families.dag.scenario import MOST_JOBS, DagScenario, JobTrace
from slipstream.families.dag.workload.arrivals import trace_of
from slipstream.families.dag.workload.templates import library_of
from slipstream.families.shared.importing import TraceColumns, TraceImporter, merged_arrivals
from slipstream.families.shared.schema import LONGEST_S

COLUMNS = TraceColumns(time="arrival_s", unit="s", name="job")


def import_trace(
    scenario: DagScenario, files: Sequence[Path], names: Sequence[str] | None = None, columns: TraceColumns = COLUMNS
) -> DagScenario:
    """Return `scenario` with jobs that arrive at the times of the files.

    The column of names, or `names` with one per file, says which job of the source arrives; else it is drawn.
    """
    times, named = merged_arrivals(files, names, columns, LONGEST_S)
    if len(times) > MOST_JOBS:
        raise InputError(f"{len(times):,} arrivals: expected at most {MOST_JOBS:,}")
    names_key = {} if named is None else {"names": named}
    trace = JobTrace.model_validate({"kind": "trace", "times_s": times.tolist(), **names_key})
    found = scenario.model_copy(update={"arrivals": trace})
    found._folder = scenario._folder
    trace_of(found, library_of(found))  # raises an error for an unknown job
    return found


TRACE_IMPORTER = TraceImporter(COLUMNS, "arrival_s, and job where a trace names jobs of the source", import_trace)
