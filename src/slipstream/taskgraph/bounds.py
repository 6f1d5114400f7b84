"""Times that no schedule can beat, proven: the longest path, the work on all processors, and what has to be loaded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from slipstream.taskgraph.build import built
from slipstream.taskgraph.scenario import Additive, Lognormal, TaskgraphScenario
from slipstream.taskgraph.state import READ
from slipstream.taskgraph.templates import Template

MARGIN = 1.0 - 1e-9
"""What is kept of a bound that was worked out in floating point."""
MOST_SUFFIXES = 8
"""From how many arrivals on the work of all that follow is looked at."""


@dataclass(frozen=True)
class Bounds:
    """Least times of one graph alone, in ns."""

    path: int
    """Along the longest path, each task where it is fastest."""
    area: int
    """All work, divided among the processors as well as can be."""
    loads: int
    """Every tile that is read first has to come to a device, where there are devices only, on all links at once."""

    @property
    def best(self) -> int:
        """The greatest of them."""
        return max(self.path, self.area, self.loads)


def least_durations(scenario: TaskgraphScenario, number: int) -> np.ndarray:
    """Return the least that each task of a graph can take on each kind of processor, whatever its luck."""
    durations = built(scenario).library.durations[number].copy()
    noise = scenario.noise
    for kind, processors in enumerate(scenario.processors):
        if isinstance(noise, Additive) and (noise.kinds is None or processors.name in noise.kinds):
            durations[:, kind] = np.maximum(1, durations[:, kind] + round(noise.floor_ms * 1e6))
        elif isinstance(noise, Lognormal) and (noise.kinds is None or processors.name in noise.kinds):
            durations[:, kind] = 1
    return durations


def longest_path(template: Template, least: np.ndarray) -> int:
    """Return the greatest sum of durations along a path."""
    ends: list[int] = []
    for task, time in zip(template.tasks, least.tolist(), strict=True):
        ends.append(time + max((ends[parent] for parent in task.parents), default=0))
    return max(ends)


def area(durations: np.ndarray, counts: list[int]) -> int:
    """Return the least time in which so many processors of each kind can do all work, tasks taken as divisible."""
    kinds, rows = np.unique(durations, axis=0, return_counts=True)
    tasks, width = kinds.shape
    if width == 1:
        return -(-int((kinds[:, 0] * rows).sum()) // counts[0])
    # Variables: how many tasks of each sort go to each kind, in shares, and the time.
    scale = float(kinds.max())
    upper = np.zeros((width, tasks * width + 1))
    for kind in range(width):
        upper[kind, kind:-1:width] = kinds[:, kind] * rows / scale
        upper[kind, -1] = -counts[kind]
    equal = np.zeros((tasks, tasks * width + 1))
    for task in range(tasks):
        equal[task, task * width : (task + 1) * width] = 1.0
    cost = np.zeros(tasks * width + 1)
    cost[-1] = 1.0
    found = linprog(cost, A_ub=upper, b_ub=np.zeros(width), A_eq=equal, b_eq=np.ones(tasks), bounds=(0, None))
    return int(found.fun * scale * MARGIN) if found.status == 0 else 0


def compulsory_loads(scenario: TaskgraphScenario, number: int) -> int:
    """Return the least time for what has to be loaded; 0 where some processor works on the host."""
    parts = built(scenario)
    if scenario.links is None or parts.sizes.devices < parts.sizes.processors:
        return 0
    template = parts.library.templates[number]
    first: dict[int, int] = {}
    for task in template.tasks:
        for tile, mode in task.accesses:
            first.setdefault(tile, mode)
    first_tile = int(parts.spec["templates"][number]["first_tile"])
    rows = parts.spec["tiles"][[first_tile + tile for tile, mode in first.items() if mode & READ]]
    return -(-int(rows["load_time"].sum()) // parts.sizes.devices)


_KNOWN: list[tuple[TaskgraphScenario, int, Bounds]] = []
"""The bounds asked for last: every episode of a scenario has the same."""
MOST_KEPT = 64


def bounds_of(scenario: TaskgraphScenario, number: int) -> Bounds:
    """Return the bounds of one graph."""
    for known, graph, result in _KNOWN:
        if known is scenario and graph == number:
            return result
    template = built(scenario).library.templates[number]
    durations = least_durations(scenario, number)
    path = longest_path(template, durations.min(axis=1))
    result = Bounds(path, area(durations, _counts(scenario)), compulsory_loads(scenario, number))
    _KNOWN.insert(0, (scenario, number, result))
    del _KNOWN[MOST_KEPT:]
    return result


def _counts(scenario: TaskgraphScenario) -> list[int]:
    return [kind.count for kind in scenario.processors]


def least_makespan(scenario: TaskgraphScenario, arrivals: np.ndarray) -> int:
    """Return a time before which no schedule can end an episode with these arrivals."""
    times, graphs = arrivals["time"].tolist(), arrivals["task"].tolist()
    best = 0
    for time, graph in zip(times, graphs, strict=True):
        best = max(best, time + bounds_of(scenario, graph).best)
    # All that arrives from some time on has to be done after it.
    for index in range(0, len(times) if len(times) > 1 else 0, max(1, len(times) // MOST_SUFFIXES)):
        durations = np.concatenate([least_durations(scenario, graph) for graph in graphs[index:]])
        best = max(best, times[index] + area(durations, _counts(scenario)))
    return best
