"""Graphs as templates of jobs: tasks in the order of submission, what they do with which tiles, and who waits for whom.

A task waits for the last writer of each of its tiles, and where it writes one, for those that read it since: so a
sequential program becomes a graph, as in StarPU. Templates are arrays, because large graphs have many tasks; whoever
goes through them one by one asks for `tasks`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from slipstream.errors import ScenarioError
from slipstream.families.shared.schema import nanoseconds
from slipstream.families.taskgraph.scenario import MOST_TASKS_IN_ALL, Processors, TaskgraphScenario

READ, WRITE = 1, 2
"""What an access does, as bits."""
MODES = {"r": READ, "w": WRITE, "rw": READ | WRITE}

BaseMs = float | Mapping[str, float] | None
"""In place of a kernel's durations: milliseconds at speed 1, or by kind of processor."""


@dataclass(frozen=True, eq=False)
class Lists:
    """A list for each of many things, one behind the other."""

    first: np.ndarray
    """Where each begins, and where the last ends."""
    values: np.ndarray

    @classmethod
    def of(cls, owner: np.ndarray, values: np.ndarray, count: int) -> Lists:
        """Return the values by their owners, in the order in which they are given."""
        order = np.argsort(owner, kind="stable")
        return cls(np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]), values[order])

    @property
    def counts(self) -> np.ndarray:
        """How long each is."""
        counts: np.ndarray = np.diff(self.first)
        return counts

    @property
    def owner(self) -> np.ndarray:
        """Whose each value is."""
        return np.repeat(np.arange(len(self.first) - 1), self.counts)

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Return the sum over each list of a whole number per value."""
        total = np.concatenate([[0], np.cumsum(weights)])
        sums: np.ndarray = total[self.first[1:]] - total[self.first[:-1]]
        return sums

    def tuples(self) -> list[tuple[Any, ...]]:
        """Return each as a tuple."""
        values, first = self.values.tolist(), self.first.tolist()
        return [tuple(values[begin:end]) for begin, end in pairwise(first)]


@dataclass(frozen=True)
class TaskTemplate:
    """One task."""

    name: str
    kernel: str
    accesses: tuple[tuple[int, int], ...]
    """(tile, mode), each tile once."""
    parents: tuple[int, ...]
    """Ascending."""
    base_ms: BaseMs


@dataclass(frozen=True, eq=False)
class Template:
    """One graph."""

    name: str
    kernels: tuple[str, ...]
    """What its tasks do, each once."""
    kernel_of: np.ndarray
    """Of each task, its place in `kernels`."""
    used: Lists
    """The tiles that each task uses, each once."""
    modes: np.ndarray
    """What it does with each of them."""
    parents: Lists
    """The tasks that each waits for, ascending."""
    tile_bytes: tuple[int, ...]
    task_names: Callable[[], Sequence[str]]
    name_tiles: Callable[[], Sequence[str]]
    base_ms: Mapping[int, BaseMs]
    """Of tasks whose durations are their own."""

    @property
    def task_count(self) -> int:
        """How many tasks it has."""
        return len(self.kernel_of)

    @cached_property
    def tile_names(self) -> tuple[str, ...]:
        """What the tiles are called."""
        return tuple(self.name_tiles())

    @cached_property
    def tasks(self) -> tuple[TaskTemplate, ...]:
        """The tasks one by one."""
        kernels = [self.kernels[kernel] for kernel in self.kernel_of.tolist()]
        pairs = list(zip(self.used.values.tolist(), self.modes.tolist(), strict=True))
        first = self.used.first.tolist()
        accesses = [tuple(pairs[begin:end]) for begin, end in pairwise(first)]
        bases = [self.base_ms.get(number) for number in range(self.task_count)]
        rows = zip(self.task_names(), kernels, accesses, self.parents.tuples(), bases, strict=True)
        return tuple(TaskTemplate(*row) for row in rows)

    @property
    def edge_count(self) -> int:
        """How many edges it has."""
        return len(self.parents.values)

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """All (parent, child)."""
        return tuple(zip(self.parents.values.tolist(), self.parents.owner.tolist(), strict=True))

    @cached_property
    def children_lists(self) -> Lists:
        """The tasks that wait for each, ascending."""
        return Lists.of(self.parents.values, self.parents.owner, self.task_count)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The same one by one."""
        return tuple(self.children_lists.tuples())


def find_parents(used: Lists, modes: np.ndarray, after: np.ndarray) -> Lists:
    """Return what each task waits for: by its tiles, and by pairs (task, parent) besides.

    The accesses of a tile stand in the order of submission. One that reads waits for the last before it that writes,
    one that writes for all from that one on.
    """
    tasks = len(used.first) - 1
    order = np.argsort(used.values, kind="stable")
    tile, task, writes = used.values[order], used.owner[order], (modes[order] & WRITE) > 0
    places = np.arange(len(tile))
    begin = np.searchsorted(tile, tile)
    written = np.maximum.accumulate(np.where(writes, places, -1))
    before = np.concatenate([[-1], written[:-1]])[: len(tile)]
    before = np.where(before >= begin, before, -1)
    # Who writes waits for the stretch since the last writer, with it; without one, for all since the first access.
    from_place = np.where(before >= 0, before, begin)
    counts = np.where(writes, places - from_place, before >= 0)
    child = np.repeat(task, counts)
    offset = np.arange(len(child)) - np.repeat(np.cumsum(counts) - counts, counts)
    parent = task[np.repeat(from_place, counts) + offset]
    child, parent = np.concatenate([child, after[:, 0]]), np.concatenate([parent, after[:, 1]])
    pairs = np.unique(child * tasks + parent)
    return Lists.of(pairs // tasks, pairs % tasks, tasks)


class GraphBuilder:
    """Collects tasks one by one."""

    def __init__(self, tile_bytes: int) -> None:
        self.common_size = tile_bytes
        self.names: list[str] = []
        self.tiles: dict[str, int] = {}
        self.sizes: list[int] = []
        self._kernels: dict[str, int] = {}
        self._kernel_of: list[int] = []
        self._accesses: list[tuple[int, int, int]] = []
        self._after: list[tuple[int, int]] = []
        self._base_ms: dict[int, BaseMs] = {}

    def tile(self, name: str, size: int | None = None) -> int:
        """Return the number of a tile, new or known."""
        if name not in self.tiles:
            self.tiles[name] = len(self.tiles)
            self.sizes.append(self.common_size if size is None else size)
        return self.tiles[name]

    def task(
        self,
        name: str,
        kernel: str,
        accesses: Iterable[tuple[str, str]],
        after: Iterable[int] = (),
        base_ms: BaseMs = None,
    ) -> int:
        """Submit a task; return its number."""
        number = len(self.names)
        modes: dict[int, int] = {}
        for tile_name, access in accesses:
            tile = self.tile(tile_name)
            modes[tile] = modes.get(tile, 0) | MODES[access]
        self.names.append(name)
        self._kernel_of.append(self._kernels.setdefault(kernel, len(self._kernels)))
        self._accesses += [(number, tile, mode) for tile, mode in modes.items()]
        self._after += [(number, parent) for parent in after]
        if base_ms is not None:
            self._base_ms[number] = base_ms
        return number

    def template(self, name: str) -> Template:
        """Return the graph."""
        task, tile, mode = np.array(self._accesses, np.int64).reshape(-1, 3).T
        used = Lists.of(task, tile, len(self.names))
        return Template(
            name,
            tuple(self._kernels),
            np.array(self._kernel_of),
            used,
            mode,
            find_parents(used, mode, np.array(self._after, np.int64).reshape(-1, 2)),
            tuple(self.sizes),
            lambda: self.names,
            lambda: list(self.tiles),
            self._base_ms,
        )


@dataclass(frozen=True)
class Library:
    """The graphs of a scenario, and how long their tasks are expected to take."""

    templates: tuple[Template, ...]
    durations: tuple[np.ndarray, ...]
    """Of each template: (tasks, kinds) ns."""
    kinds: tuple[Processors, ...]
    """Kinds of processors in the order of their numbers: the fastest on all graphs first, then devices, then by name.

    The order in which a scenario lists them decides nothing.
    """


def library_of(scenario: TaskgraphScenario) -> Library:
    """Return the graphs of a scenario with their durations."""
    from slipstream.families.taskgraph.workload.durations import kernel_table
    from slipstream.families.taskgraph.workload.sources import read_graph

    templates: list[Template] = []
    tasks = 0
    for graph in scenario.graphs:
        templates.append(read_graph(graph, scenario._folder))
        tasks += templates[-1].task_count
        if tasks > MOST_TASKS_IN_ALL:
            text = f"graphs: the first {len(templates)} have {tasks:,} tasks"
            raise ScenarioError(f"{text}: expected at most {MOST_TASKS_IN_ALL:,} in all of them")
    table = kernel_table(scenario)
    listed = [_durations(scenario, template, table) for template in templates]
    totals = [sum(int(rows[:, kind].sum()) for rows in listed) for kind in range(len(scenario.processors))]
    order = sorted(range(len(totals)), key=lambda kind: (totals[kind], *_tie(scenario.processors[kind])))
    kinds = tuple(scenario.processors[kind] for kind in order)
    return Library(tuple(templates), tuple(np.ascontiguousarray(rows[:, order]) for rows in listed), kinds)


def _tie(kind: Processors) -> tuple[bool, str]:
    """Return what decides between kinds that are equally fast: devices first, then the name."""
    return not kind.device, kind.name


def _durations(scenario: TaskgraphScenario, template: Template, table: Mapping[str, Mapping[str, float]]) -> np.ndarray:
    kinds = scenario.processors
    rows = np.zeros((template.task_count, len(kinds)), np.int64)
    by_kernel = np.ones(template.task_count, bool)
    for number, base in template.base_ms.items():
        by_kernel[number] = False
        if isinstance(base, Mapping):
            rows[number] = _by_kind(scenario, f"task '{template.task_names()[number]}'", base)
        elif base is not None:
            rows[number] = [max(1, nanoseconds(base / kind.speed)) for kind in kinds]
    # In the order in which tasks name them, so that the first that is missing is the one that is told.
    for kernel in dict.fromkeys(template.kernel_of[by_kernel].tolist()):
        name = template.kernels[kernel]
        if name not in table:
            text = f"durations: none for kernel '{name}' of graph '{template.name}'"
            raise ScenarioError(f"{text}: expected one of {', '.join(table) or 'no kernel'}")
        rows[by_kernel & (template.kernel_of == kernel)] = _by_kind(scenario, f"kernel '{name}'", table[name])
    return rows


def _by_kind(scenario: TaskgraphScenario, what: str, times: Mapping[str, float]) -> list[int]:
    for kind in scenario.processors:
        if kind.name not in times:
            text = f"durations: {what} has none for processors of kind '{kind.name}'"
            raise ScenarioError(f"{text}: expected one for each kind")
    return [max(1, nanoseconds(times[kind.name])) for kind in scenario.processors]


def digest_of_graphs(library: Library) -> dict[str, Any]:
    """Return the digest of all graphs and expected durations."""
    content = hashlib.sha256()
    for template, durations in zip(library.templates, library.durations, strict=True):
        accesses = [task.accesses for task in template.tasks]
        content.update(repr((template.name, template.edges, accesses, template.tile_bytes)).encode())
        content.update(durations.astype("<i8").tobytes())
    return {"templates": len(library.templates), "sha256": content.hexdigest()}
