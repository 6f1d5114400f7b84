"""Graphs as templates of jobs: tasks in the order of submission, what they do with which tiles, and who waits for whom.

A task waits for the last writer of each of its tiles, and where it writes one, for those that read it since: so a
sequential program becomes a graph, as in StarPU.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slipstream.core.parts import nanoseconds
from slipstream.errors import ScenarioError
from slipstream.taskgraph.scenario import TaskgraphScenario

READ, WRITE = 1, 2
"""What an access does, as bits."""
MODES = {"r": READ, "w": WRITE, "rw": READ | WRITE}


@dataclass(frozen=True)
class TaskTemplate:
    """One task."""

    name: str
    kernel: str
    accesses: tuple[tuple[int, int], ...]
    """(tile, mode), each tile once."""
    parents: tuple[int, ...]
    """Ascending."""
    base_ms: float | Mapping[str, float] | None = None
    """In place of a kernel's durations: at speed 1, or by kind of processor."""


@dataclass(frozen=True)
class Template:
    """One graph."""

    name: str
    tasks: tuple[TaskTemplate, ...]
    tile_names: tuple[str, ...]
    tile_bytes: tuple[int, ...]

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """All (parent, child)."""
        return tuple((parent, child) for child, task in enumerate(self.tasks) for parent in task.parents)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The children of each task, ascending."""
        lists: list[list[int]] = [[] for _ in self.tasks]
        for parent, child in self.edges:
            lists[parent].append(child)
        return tuple(tuple(ones) for ones in lists)


class GraphBuilder:
    """Collects tasks one by one, and finds out what each waits for."""

    def __init__(self, tile_bytes: int) -> None:
        self.common_size = tile_bytes
        self.tasks: list[TaskTemplate] = []
        self.tiles: dict[str, int] = {}
        self.sizes: list[int] = []
        self._writer: list[int] = []
        self._readers: list[list[int]] = []

    def tile(self, name: str, size: int | None = None) -> int:
        """Return the number of a tile, new or known."""
        if name not in self.tiles:
            self.tiles[name] = len(self.tiles)
            self.sizes.append(self.common_size if size is None else size)
            self._writer.append(-1)
            self._readers.append([])
        return self.tiles[name]

    def task(
        self,
        name: str,
        kernel: str,
        accesses: Iterable[tuple[str, str]],
        after: Iterable[int] = (),
        base_ms: float | Mapping[str, float] | None = None,
    ) -> int:
        """Submit a task; return its number."""
        number = len(self.tasks)
        modes: dict[int, int] = {}
        for tile_name, access in accesses:
            tile = self.tile(tile_name)
            modes[tile] = modes.get(tile, 0) | MODES[access]
        parents = set(after)
        for tile, mode in modes.items():
            if self._writer[tile] >= 0:
                parents.add(self._writer[tile])
            if mode & WRITE:
                parents.update(self._readers[tile])
                self._writer[tile] = number
                self._readers[tile] = []
            else:
                self._readers[tile].append(number)
        self.tasks.append(TaskTemplate(name, kernel, tuple(modes.items()), tuple(sorted(parents)), base_ms))
        return number

    def template(self, name: str) -> Template:
        """Return the graph."""
        return Template(name, tuple(self.tasks), tuple(self.tiles), tuple(self.sizes))


@dataclass(frozen=True)
class Library:
    """The graphs of a scenario, and how long their tasks are expected to take."""

    templates: tuple[Template, ...]
    durations: tuple[np.ndarray, ...]
    """Of each template: (tasks, kinds) ns."""


def library_of(scenario: TaskgraphScenario) -> Library:
    """Return the graphs of a scenario with their durations."""
    from slipstream.taskgraph.durations import kernel_table
    from slipstream.taskgraph.sources import read_graph

    templates = tuple(read_graph(graph, scenario._folder) for graph in scenario.graphs)
    table = kernel_table(scenario)
    return Library(templates, tuple(_durations(scenario, template, table) for template in templates))


def _durations(scenario: TaskgraphScenario, template: Template, table: Mapping[str, Mapping[str, float]]) -> np.ndarray:
    kinds = scenario.processors
    known: dict[str, list[int]] = {}
    rows = []
    for task in template.tasks:
        if isinstance(task.base_ms, float):
            rows.append([max(1, nanoseconds(task.base_ms / kind.speed)) for kind in kinds])
            continue
        if task.base_ms is not None:
            rows.append(_by_kind(scenario, f"task '{task.name}'", task.base_ms))
            continue
        if task.kernel not in known:
            if task.kernel not in table:
                text = f"durations: none for kernel '{task.kernel}' of graph '{template.name}'"
                raise ScenarioError(f"{text}: expected one of {', '.join(table) or 'no kernel'}")
            known[task.kernel] = _by_kind(scenario, f"kernel '{task.kernel}'", table[task.kernel])
        rows.append(known[task.kernel])
    return np.array(rows, np.int64)


def _by_kind(scenario: TaskgraphScenario, what: str, times: Mapping[str, float]) -> list[int]:
    for kind in scenario.processors:
        if kind.name not in times:
            text = f"durations: {what} has none for processors of kind '{kind.name}'"
            raise ScenarioError(f"{text}: expected one for each kind")
    return [max(1, nanoseconds(times[kind.name])) for kind in scenario.processors]


def digest_of_graphs(scenario: TaskgraphScenario) -> dict[str, Any]:
    """Return the digest of all graphs and expected durations."""
    library = library_of(scenario)
    content = hashlib.sha256()
    for template, durations in zip(library.templates, library.durations, strict=True):
        accesses = [task.accesses for task in template.tasks]
        content.update(repr((template.name, template.edges, accesses, template.tile_bytes)).encode())
        content.update(durations.astype("<i8").tobytes())
    return {"templates": len(library.templates), "sha256": content.hexdigest()}
