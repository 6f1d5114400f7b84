"""Matrices in shared memory, on whose tiles worker processes run the kernels of a tiled graph.

A task that failed may have written a part of its tiles. So a worker first saves those that its task writes, and an
attempt to repeat the task restores them.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slipstream.device.tasks.task import Task
from slipstream.device.workers.ipc import SharedArray, allocate_arrays, shared_file
from slipstream.errors import DeviceError
from slipstream.families.contract import Scenario
from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.engine.tiles import KERNELS, matrices, place, residual
from slipstream.families.taskgraph.kernel.state import WRITE
from slipstream.families.taskgraph.scenario import TaskgraphScenario, Tiled

MOST_WRITTEN = 2
"""Most tiles that a task writes."""
LARGEST_RESIDUAL = 1e-9
"""A result that is off by more is wrong."""


@dataclass(frozen=True)
class TileSetup:
    """What workers need of a graph and its tiles, as JSON-ready data."""

    kind: str
    bytes: int
    tiles: dict[str, Any]
    """Shared array of all tiles: (job, tile, row, column)."""
    saved: dict[str, Any]
    """Shared array of saved tiles: (resource, tile, row, column)."""
    marks: dict[str, Any]
    """Shared array of the tasks whose tiles are saved, by resource: 1 + job x tasks + task."""
    kernels: list[str]
    """Kernel of each task."""
    used: list[list[int]]
    """Tiles of each task."""
    written: list[list[int]]
    """Those that it writes."""


class TileSpace:
    """Tiles of all jobs of a scenario in shared memory, filled before and checked after a run."""

    def __init__(self, scenario: Scenario, resources: int, side: int) -> None:
        graph = checked_graph(scenario)
        assert isinstance(scenario, TaskgraphScenario)
        parts = compiled_scenario(scenario)
        self.side = side
        """Rows and columns of a tile."""
        self._graph = graph
        self._template = parts.library.templates[0]
        self._jobs = parts.sizes.jobs
        count = len(self._template.tile_names)
        shape = (self._jobs, count, side, side)
        arrays, size = allocate_arrays(
            [(shape, "float64"), ((resources, MOST_WRITTEN, side, side), "float64"), ((resources,), "int64")]
        )
        self._file = shared_file(size)
        self._memory = mmap.mmap(self._file, size)
        tiles, saved, marks = arrays
        self._tiles, self._marks = tiles.view(self._memory), marks.view(self._memory)
        tasks = self._template.tasks
        self.setup = TileSetup(
            graph.kind,
            size,
            tiles=tiles.to_dict(),
            saved=saved.to_dict(),
            marks=marks.to_dict(),
            kernels=[task.kernel for task in tasks],
            used=[[tile for tile, _ in task.accesses] for task in tasks],
            written=[[tile for tile, mode in task.accesses if mode & WRITE] for task in tasks],
        )

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of all tiles: (job, tile, row, column)."""
        return self._tiles

    @property
    def descriptor(self) -> int:
        """The descriptor of the shared memory."""
        return self._file

    def to_dict(self) -> dict[str, Any]:
        """Return the setup for a message."""
        return asdict(self.setup)

    def fill(self) -> None:
        """Write the matrices that jobs begin with."""
        self._marks[:] = 0
        for job in range(self._jobs):
            self._copy(job, self._matrices(job), into_tiles=True)

    def residual(self, done: list[int]) -> float:
        """Return how far the results of the jobs `done` are off at most."""
        worst = 0.0
        for job in done:
            before = self._matrices(job)
            after = {letter: matrix.copy() for letter, matrix in before.items()}
            self._copy(job, after, into_tiles=False)
            worst = max(worst, residual(self._graph.kind, before, after))
        return worst

    def _matrices(self, job: int) -> dict[str, np.ndarray]:
        return matrices(self._graph.kind, self._graph.n * self.side, job)

    def _copy(self, job: int, whole: dict[str, np.ndarray], into_tiles: bool) -> None:
        side = self.side
        for tile, name in enumerate(self._template.tile_names):
            where = place(name)
            if where is not None:
                letter, row, column = where
                part = whole[letter][row * side : (row + 1) * side, column * side : (column + 1) * side]
                if into_tiles:
                    self._tiles[job, tile] = part
                else:
                    part[:] = self._tiles[job, tile]

    def close(self) -> None:
        """Free the shared memory."""
        os.close(self._file)
        del self._tiles, self._marks
        self._memory.close()


def checked_graph(scenario: Scenario, option: str = "--tile-side") -> Tiled:
    """Return the only graph of a scenario; raise a DeviceError if it cannot run on real tiles, as `option` asks."""
    if not isinstance(scenario, TaskgraphScenario):
        raise DeviceError(f"{option}: a scenario of the family '{scenario.family}': expected one of 'taskgraph'")
    graph = scenario.graphs[0]
    if len(scenario.graphs) > 1 or not isinstance(graph, Tiled):
        raise DeviceError(f"graphs: expected one graph of the kinds {', '.join(KERNELS)} for {option}")
    return graph


class TileProgram:
    """The kernels of a graph as a program of one worker."""

    def __init__(self, setup: TileSetup, memory: mmap.mmap, resource: int) -> None:
        self._setup = setup
        self._kernels = KERNELS[setup.kind]
        self._tiles = SharedArray(**setup.tiles).view(memory)
        self._saved = SharedArray(**setup.saved).view(memory)[resource]
        self._marks, self._resource = SharedArray(**setup.marks).view(memory), resource

    def __call__(self, task: Task) -> None:
        """Run the kernel of a task on its tiles."""
        tiles, number = self._tiles[task.job], task.part
        mark = 1 + task.job * len(self._setup.kernels) + number
        written = self._setup.written[number]
        if self._marks[self._resource] == mark:
            for place_, tile in enumerate(written):
                tiles[tile] = self._saved[place_]
        else:
            self._marks[self._resource] = 0
            for place_, tile in enumerate(written):
                self._saved[place_] = tiles[tile]
            self._marks[self._resource] = mark
        self._kernels[self._setup.kernels[number]]([tiles[tile] for tile in self._setup.used[number]])
