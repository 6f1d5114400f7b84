"""Workflow instances of WfCommons (format 1.5): tasks with run times, and the files that they read and write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipstream.errors import TraceError
from slipstream.families.shared.schema import LONGEST_MS
from slipstream.families.taskgraph.scenario import WfCommons
from slipstream.families.taskgraph.workload.templates import GraphBuilder, Template
from slipstream.files.inputs import read_object
from slipstream.files.tables import table_error

LEAST_MS = 1e-6


def template(graph: WfCommons, path: Path) -> Template:
    """Return the template of a file: workflow files become tiles, and its listed parents are added."""
    data = read_object(path, "a workflow in the format 1.5 of WfCommons", TraceError)
    try:
        workflow = data["workflow"]
        tasks = {task["id"]: task for task in workflow["specification"]["tasks"]}
        sizes = {file["id"]: file["sizeInBytes"] for file in workflow["specification"].get("files", [])}
        times = {task["id"]: float(task["runtimeInSeconds"]) for task in workflow["execution"]["tasks"]}
        return _template(graph, path, tasks, sizes, times)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise table_error(path, f"{error!r}: expected a workflow in the format 1.5 of WfCommons") from error


def _template(
    graph: WfCommons, path: Path, tasks: dict[str, Any], sizes: dict[str, int], times: dict[str, float]
) -> Template:
    builder = GraphBuilder(1)
    numbers: dict[str, int] = {}
    for name in _topological_order(path, tasks):
        task = tasks[name]
        read, written = task.get("inputFiles", []), task.get("outputFiles", [])
        for file in [*read, *written]:
            builder.tile(file, max(1, int(sizes.get(file, 1))))
        accesses = [*((file, "r") for file in read), *((file, "w") for file in written)]
        base = max(LEAST_MS, times[name] * 1000.0 * graph.scale)
        if not base <= LONGEST_MS:
            raise table_error(path, f"task '{name}' takes {times[name]:g} s: expected at most {LONGEST_MS / 1e3:g}")
        after = [numbers[parent] for parent in task.get("parents", [])]
        numbers[name] = builder.task(name, name.rpartition("_")[0] or name, accesses, after, base)
    return builder.template(path.stem)


def _topological_order(path: Path, tasks: dict[str, Any]) -> list[str]:
    """Return the tasks in topological order, otherwise in the order of the file."""
    order: list[str] = []
    done: set[str] = set()
    left = list(tasks)
    while left:
        ready = [name for name in left if done.issuperset(tasks[name].get("parents", []))]
        if not ready:
            raise table_error(path, f"task '{left[0]}' waits for itself or for an unknown one")
        order += ready
        done.update(ready)
        left = [name for name in left if name not in done]
    return order
