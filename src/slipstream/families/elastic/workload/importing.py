"""Import of jobs from tables: arrival time, model and work, and where known GPUs and weight."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstream.errors import InputError
from slipstream.families.elastic.scenario import MOST_GPUS, ElasticScenario, GavelTrace, ListedJobs
from slipstream.families.shared.importing import (
    TraceColumns,
    TraceImporter,
    names_per_file,
    read_arrivals,
    times_of,
)
from slipstream.families.shared.schema import LONGEST_S
from slipstream.files.tables import Table
from slipstream.files.validation import validated

COLUMNS = TraceColumns(time="arrival_s", unit="s", name="model")


def import_trace(
    scenario: ElasticScenario,
    files: Sequence[Path],
    names: Sequence[str] | None = None,
    columns: TraceColumns = COLUMNS,
) -> ElasticScenario:
    """Return `scenario` with the jobs of the files in place of its own.

    The files have the columns `model` and `work`, and optionally `gpus` (one number) and `weight`; `names`, one per
    file, are models too. Without a model a job has the first one, without work that of the scenario's first job.
    """
    if isinstance(scenario.jobs, GavelTrace):
        raise InputError("the scenario has jobs of a trace of Gavel, and no models: expected one with models")
    listed = scenario.jobs.jobs if isinstance(scenario.jobs, ListedJobs) else scenario.jobs.templates
    first, known = listed[0], [one.name for one in scenario.models]
    jobs: list[dict[str, Any]] = []
    for path, name in zip(files, names_per_file(files, names), strict=True):
        table = read_arrivals(path, [columns.time], [columns.name, "work", "gpus", "weight"])
        for index, time in enumerate(times_of(table, columns, LONGEST_S).tolist()):
            job = {"model": name or first.model, "work": first.work, **_further(table, index, name, columns.name)}
            if job["model"] not in known:
                raise InputError(f"no model '{job['model']}' in the scenario: expected one of {', '.join(known)}")
            jobs.append({"arrival_s": time, **job})
    jobs.sort(key=lambda one: float(one["arrival_s"]))
    data = scenario.model_dump(mode="json", exclude_unset=True)
    data["jobs"] = {"kind": "list", "jobs": jobs}
    found = validated(data, ElasticScenario, ", ".join(map(str, files)))
    found._folder = scenario._folder
    return found


def _further(table: Table, index: int, name: str | None, name_column: str) -> dict[str, Any]:
    """Return the optional keys of a job: those whose cells are not empty."""
    found: dict[str, Any] = {}
    cells = {key: table.columns.get(key, [""] * len(table))[index] for key in (name_column, "work", "gpus", "weight")}
    if name is None and cells[name_column] not in ("", None):
        found["model"] = str(cells[name_column])
    for key in ("work", "gpus", "weight"):
        if cells[key] in ("", None):
            continue
        try:
            value = float(cells[key])
        except (TypeError, ValueError):
            raise table.error(index, f"{key}: expected a number, got '{str(cells[key])[:40]}'") from None
        if key == "gpus" and not (value == value // 1 and 1 <= value <= MOST_GPUS):
            raise table.error(index, f"gpus: expected a whole number from 1 to {MOST_GPUS}, got {value:g}")
        found[key] = [int(value)] if key == "gpus" else value
    return found


TRACE_IMPORTER = TraceImporter(COLUMNS, "arrival_s; model, work, gpus and weight where known", import_trace)
