"""Import of requests from tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstream.errors import InputError
from slipstream.families.serving.scenario import MOST_SEGMENTS, ServingScenario
from slipstream.families.shared.importing import (
    TraceColumns,
    TraceImporter,
    names_per_file,
    read_arrivals,
    times_of,
)
from slipstream.families.shared.schema import LONGEST_S

COLUMNS = TraceColumns(time="arrival_ms", unit="ms", name="model")
MOST_INLINE = MOST_SEGMENTS
"""Most requests inside a scenario file."""


def import_trace(
    scenario: ServingScenario,
    files: Sequence[Path],
    names: Sequence[str] | None = None,
    columns: TraceColumns = COLUMNS,
) -> ServingScenario:
    """Return `scenario` with requests that arrive at the times of the files; other models stay as they are.

    The column of names, or `names` with one per file, says which model is asked.
    """
    times: dict[str, list[float]] = {}
    for path, name in zip(files, names_per_file(files, names), strict=True):
        required = [columns.time] if name is not None else [columns.time, columns.name]
        table = read_arrivals(path, required)
        models = [name] * len(table) if name is not None else table.texts(columns.name)
        for model, time in zip(models, times_of(table, columns, LONGEST_S).tolist(), strict=True):
            times.setdefault(model, []).append(round(time * 1e3, 6))
    if sum(map(len, times.values())) > MOST_INLINE:
        raise InputError(f"{sum(map(len, times.values())):,} requests: expected at most {MOST_INLINE:,}")
    known = [model.name for model in scenario.models]
    for name in times:
        if name not in known:
            raise InputError(f"no model '{name}' in the scenario: expected one of {', '.join(known)}")
    data: dict[str, Any] = scenario.model_dump(mode="json", exclude_unset=True)
    for model in data["models"]:
        if model["name"] in times:
            model["arrivals"] = {"kind": "trace", "times_ms": sorted(times[model["name"]])}
    found = ServingScenario.model_validate(data)
    found._folder = scenario._folder
    return found


TRACE_IMPORTER = TraceImporter(COLUMNS, "arrival_ms, and model", import_trace)
