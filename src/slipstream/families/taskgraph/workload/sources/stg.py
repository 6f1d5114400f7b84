"""Graphs of the Standard Task Graph Set (Kasahara Laboratory): one line per task, with its time and its parents.

The first and the last task of a file are dummies without a time, the entry and exit nodes; they are left out.
"""

from __future__ import annotations

from pathlib import Path

from slipstream.errors import TraceError
from slipstream.families.shared.schema import LONGEST_MS
from slipstream.families.taskgraph.scenario import Stg
from slipstream.families.taskgraph.workload.templates import GraphBuilder, Template
from slipstream.files.inputs import read_text
from slipstream.files.tables import table_error


def template(graph: Stg, path: Path) -> Template:
    """Return the graph of a file; each task writes one tile, and reads those of its parents."""
    rows = _rows(path)
    builder = GraphBuilder(graph.tile_bytes)
    numbers: dict[int, int] = {}
    for line, (task, units, parents) in rows.items():
        for parent in parents:
            if parent >= task:
                raise table_error(path, f"row {line}: task {task} waits for {parent}: expected an earlier one")
        if units * graph.unit_ms > LONGEST_MS:
            raise table_error(path, f"row {line}: {units} units: expected at most {LONGEST_MS / graph.unit_ms:g}")
        if units > 0:
            tiles = [(f"out {parent}", "r") for parent in parents if parent in numbers]
            own = (f"out {task}", "w")
            numbers[task] = builder.task(f"task {task}", "STG", [*tiles, own], base_ms=units * graph.unit_ms)
    if not builder.names:
        raise table_error(path, "no task has a processing time: expected at least one")
    return builder.template(path.stem)


def _rows(path: Path) -> dict[int, tuple[int, int, list[int]]]:
    """Return task, processing time and parents of each line, by the number of the line."""
    lines = read_text(path, "a graph of the Standard Task Graph Set", TraceError).splitlines()
    rows: dict[int, tuple[int, int, list[int]]] = {}
    count = -1
    for line, text in enumerate(lines, 1):
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        try:
            cells = [int(cell) for cell in text.split()]
        except ValueError:
            raise table_error(path, f"row {line}: expected whole numbers, got '{text.strip()[:40]}'") from None
        if count < 0:
            count = cells[0] + 2  # the two dummies are not counted
        elif len(cells) < 3 or len(cells) != 3 + cells[2]:
            raise table_error(path, f"row {line}: expected a task, its time, a number of parents and these")
        else:
            rows[line] = (cells[0], cells[1], cells[3:])
    if count < 0:
        raise table_error(path, "is empty: expected a graph of the Standard Task Graph Set")
    if len(rows) != count:
        raise table_error(path, f"found {len(rows)} tasks: expected {count} as row 1 says, with two dummies")
    return rows
