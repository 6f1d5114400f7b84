"""Graphs written out in the scenario or in a JSON file."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from slipstream.errors import TraceError
from slipstream.families.taskgraph.scenario import GraphDescription
from slipstream.families.taskgraph.workload.templates import GraphBuilder, Template
from slipstream.files.inputs import read_object
from slipstream.files.tables import table_error


def template(graph: GraphDescription, name: str) -> Template:
    """Return the template of a graph description."""
    builder = GraphBuilder(graph.tile_bytes)
    numbers: dict[str, int] = {}
    for task in graph.tasks:
        for tile in task.accesses:
            builder.tile(tile, graph.tiles.get(tile))
        after = [numbers[other] for other in task.after]
        kernel = task.kernel or task.name
        numbers[task.name] = builder.task(task.name, kernel, task.accesses.items(), after, task.duration_ms)
    return builder.template(name)


def template_of_file(path: Path) -> Template:
    """Return the template of a graph file."""
    data = read_object(path, "a graph", TraceError)
    try:
        graph = GraphDescription.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"])
        raise table_error(path, f"{location}: {first['msg']}" if location else first["msg"]) from error
    return template(graph, path.stem)
