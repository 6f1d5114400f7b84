"""Import of requests from tables: arrival time, prompt and output, and where known the client."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstream.errors import InputError
from slipstream.families.llm.scenario import ListedRequests, LlmScenario
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

COLUMNS = TraceColumns(time="arrival_s", unit="s", name="client")
MOST_INLINE = 100_000
"""Most requests inside a scenario file; requests of the kind 'trace' read larger files."""


def import_trace(
    scenario: LlmScenario,
    files: Sequence[Path],
    names: Sequence[str] | None = None,
    columns: TraceColumns = COLUMNS,
) -> LlmScenario:
    """Return `scenario` with the requests of the files in place of its own.

    The files have the columns `prompt` and `output` (tokens) and, optionally, the client, which is a class; `names`,
    one per file, are clients too.
    """
    requests: list[dict[str, Any]] = []
    for path, name in zip(files, names_per_file(files, names), strict=True):
        table = read_arrivals(path, [columns.time, "prompt", "output"], [columns.name])
        lengths = [_whole(table, column) for column in ("prompt", "output")]
        groups = table.texts(columns.name) if name is None and columns.name in table.columns else [name] * len(table)
        for time, prompt, output, group in zip(
            times_of(table, columns, LONGEST_S).tolist(), *lengths, groups, strict=True
        ):
            requests.append({"arrival_s": time, "prompt": prompt, "output": output, "client": group})
    if len(requests) > MOST_INLINE:
        text = f"{len(requests):,} requests: expected at most {MOST_INLINE:,} in a scenario"
        raise InputError(f"{text}; requests of the kind 'trace' read larger files")
    requests.sort(key=lambda one: one["arrival_s"])
    known = [one.name for one in scenario.classes]
    for one in requests:
        if one["client"] is not None and one["client"] not in known:
            raise InputError(f"no client '{one['client']}' in the scenario: expected one of {', '.join(known)}")
    listed = validated({"kind": "list", "requests": requests}, ListedRequests, ", ".join(map(str, files)))
    data = scenario.model_dump(mode="json", exclude_unset=True)
    piece = {"hash_tokens": scenario.engine.block_tokens}
    data["requests"] = listed.model_dump(mode="json", exclude_unset=True) | piece
    found = LlmScenario.model_validate(data)
    found._folder = scenario._folder
    return found


def _whole(table: Table, column: str) -> list[int]:
    values = table.numbers(column)
    for index, value in enumerate(values.tolist()):
        if not (1.0 <= value <= 1e7 and value == int(value)):
            raise table.error(index, f"{column}: expected a whole number from 1 to 10000000, got {value:g}")
    return [int(value) for value in values.tolist()]


TRACE_IMPORTER = TraceImporter(COLUMNS, "arrival_s, prompt and output; client where known", import_trace)
