"""Import of jobs from tables: submit time, GPUs, run time, and where known requested time and user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstream.errors import InputError
from slipstream.families.cluster.scenario import LONGEST_S, ClusterScenario, Listed
from slipstream.families.shared.importing import (
    TraceColumns,
    TraceImporter,
    names_per_file,
    read_arrivals,
    times_of,
)
from slipstream.files.tables import Table
from slipstream.files.validation import validated

COLUMNS = TraceColumns(time="submit_s", unit="s", name="user")
MOST_INLINE = 100_000
"""Most jobs inside a scenario file; the sources `swf`, `philly`, `helios` and `openb` read larger files."""


def import_trace(
    scenario: ClusterScenario,
    files: Sequence[Path],
    names: Sequence[str] | None = None,
    columns: TraceColumns = COLUMNS,
) -> ClusterScenario:
    """Return `scenario` with the jobs of the files in place of its own.

    The files have the columns `run_s` (seconds) and, optionally, `gpus`, `requested_s` and the user; `names`, one per
    file, are users too.
    """
    jobs: list[dict[str, Any]] = []
    for path, name in zip(files, names_per_file(files, names), strict=True):
        table = read_arrivals(path, [columns.time, "run_s"], ["gpus", "requested_s", columns.name])
        submitted = times_of(table, columns, LONGEST_S)
        for index, (submit, run) in enumerate(zip(submitted.tolist(), table.numbers("run_s").tolist(), strict=True)):
            jobs.append({"submit_s": submit, "run_s": run, **_further(table, index, name, columns.name)})
    if len(jobs) > MOST_INLINE:
        more = "the sources 'swf', 'philly', 'helios' and 'openb' read larger files"
        raise InputError(f"{len(jobs):,} jobs: expected at most {MOST_INLINE:,} in a scenario; {more}")
    listed = validated({"kind": "list", "jobs": jobs}, Listed, ", ".join(map(str, files)))
    found = scenario.model_copy(update={"jobs": listed})
    found._folder = scenario._folder
    return found


def _further(table: Table, index: int, name: str | None, name_column: str) -> dict[str, Any]:
    """Return the optional keys of a job: those whose cells are not empty."""
    job: dict[str, Any] = {} if name is None else {"user": name}
    if name is None and table.columns.get(name_column, [""] * len(table))[index] not in ("", None):
        job["user"] = str(table.columns[name_column][index])
    for key in ("gpus", "requested_s"):
        cell = table.columns.get(key, [""] * len(table))[index]
        if cell in ("", None):
            continue
        try:
            number = float(cell)
        except (TypeError, ValueError):
            raise table.error(index, f"{key}: expected a number, got '{str(cell)[:40]}'") from None
        job[key] = int(number) if key == "gpus" and number.is_integer() else number
    return job


TRACE_IMPORTER = TraceImporter(COLUMNS, "submit_s and run_s; gpus, requested_s and user where known", import_trace)
