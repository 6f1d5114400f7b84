"""Graph templates of jobs: tasks in the order of submission, their accesses to tiles, and their dependencies.

A task depends on the last writer of each of its tiles and, if it writes a tile, on its readers since then: sequential
task flow, as in StarPU. Templates are arrays, because large graphs have many tasks; `tasks` gives them as objects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from slipstream.errors import ScenarioError
from slipstream.families.shared.schema import nanoseconds
from slipstream.families.taskgraph.scenario import MOST_TASKS_IN_ALL, Processors, TaskgraphScenario
from slipstream.files.inputs import reading_key

READ, WRITE = 1, 2
"""Access modes, as bits."""
MODES = {"r": READ, "w": WRITE, "rw": READ | WRITE}

BaseMs = float | Mapping[str, float] | None
"""Instead of a kernel's durations: milliseconds at speed 1, or by kind of processor."""


@dataclass(frozen=True, eq=False)
class RaggedArray:
    """Lists of different lengths, concatenated (CSR format)."""

    offsets: np.ndarray
    """Start of each list in `values`, and the end of the last one."""
    values: np.ndarray

    @classmethod
    def of(cls, owner: np.ndarray, values: np.ndarray, count: int) -> RaggedArray:
        """Return the lists of `values` by `owner`, 0 to `count` - 1, in the given order."""
        order = np.argsort(owner, kind="stable")
        return cls(np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]), values[order])

    @property
    def counts(self) -> np.ndarray:
        """Length of each list."""
        counts: np.ndarray = np.diff(self.offsets)
        return counts

    @property
    def owner(self) -> np.ndarray:
        """Index of the list of each value."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Return the sum of the integer `weights` of the values of each list."""
        total = np.concatenate([[0], np.cumsum(weights)])
        sums: np.ndarray = total[self.offsets[1:]] - total[self.offsets[:-1]]
        return sums

    def tuples(self) -> list[tuple[Any, ...]]:
        """Return the lists as tuples."""
        values, offsets = self.values.tolist(), self.offsets.tolist()
        return [tuple(values[begin:end]) for begin, end in pairwise(offsets)]


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
    """Distinct kernels of its tasks."""
    kernel_of: np.ndarray
    """Index of each task's kernel in `kernels`."""
    used: RaggedArray
    """Distinct tiles of each task."""
    modes: np.ndarray
    """Access mode of each element of `used`."""
    parents: RaggedArray
    """Parents of each task, ascending."""
    tile_bytes: tuple[int, ...]
    task_names: Callable[[], Sequence[str]]
    name_tiles: Callable[[], Sequence[str]]
    base_ms: Mapping[int, BaseMs]
    """Durations of tasks that do not use a kernel's."""

    @property
    def task_count(self) -> int:
        """Number of tasks."""
        return len(self.kernel_of)

    @cached_property
    def tile_names(self) -> tuple[str, ...]:
        """Names of the tiles."""
        return tuple(self.name_tiles())

    @cached_property
    def tasks(self) -> tuple[TaskTemplate, ...]:
        """Tasks as objects."""
        kernels = [self.kernels[kernel] for kernel in self.kernel_of.tolist()]
        pairs = list(zip(self.used.values.tolist(), self.modes.tolist(), strict=True))
        offsets = self.used.offsets.tolist()
        accesses = [tuple(pairs[begin:end]) for begin, end in pairwise(offsets)]
        bases = [self.base_ms.get(number) for number in range(self.task_count)]
        rows = zip(self.task_names(), kernels, accesses, self.parents.tuples(), bases, strict=True)
        return tuple(TaskTemplate(*row) for row in rows)

    @property
    def edge_count(self) -> int:
        """Number of edges."""
        return len(self.parents.values)

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Edges as (parent, child)."""
        return tuple(zip(self.parents.values.tolist(), self.parents.owner.tolist(), strict=True))

    @cached_property
    def children_ragged(self) -> RaggedArray:
        """Children of each task, ascending."""
        return RaggedArray.of(self.parents.values, self.parents.owner, self.task_count)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of each task as tuples."""
        return tuple(self.children_ragged.tuples())


def find_parents(used: RaggedArray, modes: np.ndarray, after: np.ndarray) -> RaggedArray:
    """Return the parents of each task: by its accesses, and by the further pairs (task, parent) of `after`.

    The accesses of a tile are in the order of submission. A read depends on the last write before it, a write on all
    accesses from that write on.
    """
    tasks = len(used.offsets) - 1
    order = np.argsort(used.values, kind="stable")
    tile, task, writes = used.values[order], used.owner[order], (modes[order] & WRITE) > 0
    positions = np.arange(len(tile))
    begin = np.searchsorted(tile, tile)
    written = np.maximum.accumulate(np.where(writes, positions, -1))
    before = np.concatenate([[-1], written[:-1]])[: len(tile)]
    before = np.where(before >= begin, before, -1)
    # A write depends on all accesses since the last write, included; without one, on all since the first access.
    from_position = np.where(before >= 0, before, begin)
    counts = np.where(writes, positions - from_position, before >= 0)
    child = np.repeat(task, counts)
    offset = np.arange(len(child)) - np.repeat(np.cumsum(counts) - counts, counts)
    parent = task[np.repeat(from_position, counts) + offset]
    child, parent = np.concatenate([child, after[:, 0]]), np.concatenate([parent, after[:, 1]])
    pairs = np.unique(child * tasks + parent)
    return RaggedArray.of(pairs // tasks, pairs % tasks, tasks)


class GraphBuilder:
    """Builder of a template from single tasks."""

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
        """Return the number of a tile; add it if it is new."""
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
        """Add a task in the order of submission; return its number."""
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
        """Return the template of the added tasks."""
        task, tile, mode = np.array(self._accesses, np.int64).reshape(-1, 3).T
        used = RaggedArray.of(task, tile, len(self.names))
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
    """Graphs of a scenario and the expected durations of their tasks."""

    templates: tuple[Template, ...]
    durations: tuple[np.ndarray, ...]
    """Durations of each template (tasks, kinds) in ns."""
    kinds: tuple[Processors, ...]
    """Kinds of processors in the order of their numbers: by total duration of all graphs, then devices, then by name.

    The order in which a scenario lists them has no effect.
    """


def library_of(scenario: TaskgraphScenario) -> Library:
    """Return the graphs of a scenario with their durations."""
    from slipstream.families.taskgraph.workload.durations import kernel_table
    from slipstream.families.taskgraph.workload.sources import read_graph

    templates: list[Template] = []
    tasks = 0
    for index, graph in enumerate(scenario.graphs):
        with reading_key(f"graphs[{index}].path") if hasattr(graph, "path") else nullcontext():
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
    """Return the sort key of equally fast kinds: devices first, then by name."""
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
    # In the order of the tasks, so that an error names the first missing kernel.
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
    """Return the digest of all graphs and their expected durations."""
    content = hashlib.sha256()
    for template, durations in zip(library.templates, library.durations, strict=True):
        accesses = [task.accesses for task in template.tasks]
        content.update(repr((template.name, template.edges, accesses, template.tile_bytes)).encode())
        content.update(durations.astype("<i8").tobytes())
    return {"templates": len(library.templates), "sha256": content.hexdigest()}
