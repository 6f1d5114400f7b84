"""Lower bounds of the makespan: longest path, area of all work, and compulsory loads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import diags_array, eye_array, hstack
from scipy.sparse import kron as kron_array

from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.kernel.state import READ
from slipstream.families.taskgraph.scenario import Additive, Lognormal, TaskgraphScenario
from slipstream.families.taskgraph.workload.templates import Template

MARGIN = 1.0 - 1e-9
"""Factor that keeps bounds computed in floating point valid."""
MOST_SUFFIXES = 8
"""Most arrivals for which the area bound of all later work is computed."""


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of the makespan of one graph alone, in ns."""

    path: int
    """Longest path, each task on its fastest processor."""
    area: int
    """Optimal fractional assignment of all work to the processors."""
    loads: int
    """Loads of all tiles whose first access is a read, on all links in parallel; 0 if a processor is at the host."""

    @property
    def best(self) -> int:
        """Greatest of the bounds."""
        return max(self.path, self.area, self.loads)


def least_durations(scenario: TaskgraphScenario, number: int) -> np.ndarray:
    """Return the least possible durations in ns (tasks, kinds) of a graph under the noise model."""
    durations = compiled_scenario(scenario).library.durations[number].copy()
    noise = scenario.noise
    for kind, processors in enumerate(compiled_scenario(scenario).library.kinds):
        if isinstance(noise, Additive) and (noise.kinds is None or processors.name in noise.kinds):
            durations[:, kind] = np.maximum(1, durations[:, kind] + round(noise.floor_ms * 1e6))
        elif isinstance(noise, Lognormal) and (noise.kinds is None or processors.name in noise.kinds):
            durations[:, kind] = 1
    return durations


def longest_path(template: Template, least: np.ndarray) -> int:
    """Return the length of the longest path, with task lengths `least`."""
    ends: list[int] = []
    for task, time in zip(template.tasks, least.tolist(), strict=True):
        ends.append(time + max((ends[parent] for parent in task.parents), default=0))
    return max(ends)


def area(durations: np.ndarray, counts: list[int]) -> int:
    """Return the least time in ns for all work on `counts` processors of each kind, tasks divisible."""
    kinds, rows = np.unique(durations, axis=0, return_counts=True)
    tasks, width = kinds.shape
    if width == 1:
        return -(-int((kinds[:, 0] * rows).sum()) // counts[0])
    if width == 2:
        return int(_area_of_two(kinds * rows[:, None], counts) * MARGIN)
    # Variables: share of each group of equal tasks on each kind, and the time.
    scale = float(kinds.max())
    own = [diags_array(kinds[task] * rows[task] / scale) for task in range(tasks)]
    upper = hstack([*own, -np.array(counts, float)[:, None]])
    equal = hstack([kron_array(eye_array(tasks), np.ones((1, width))), np.zeros((tasks, 1))])
    cost = np.zeros(tasks * width + 1)
    cost[-1] = 1.0
    found = linprog(cost, A_ub=upper, b_ub=np.zeros(width), A_eq=equal, b_eq=np.ones(tasks), bounds=(0, None))
    return int(found.fun * scale * MARGIN) if found.status == 0 else 0


def _area_of_two(work: np.ndarray, counts: list[int]) -> float:
    """Return the area bound for two kinds of processors; `work` is the work of each group of equal tasks on each kind.

    Starts with all tasks on the second kind and moves tasks to the first by speedup until both finish together.
    """
    work = work[np.argsort(work[:, 0] / work[:, 1], kind="stable")].astype(float)
    first = np.concatenate([[0.0], np.cumsum(work[:, 0])]) / counts[0]
    second = (work[:, 1].sum() - np.concatenate([[0.0], np.cumsum(work[:, 1])])) / counts[1]
    moved = int(np.searchsorted(first - second, 0.0))
    # The last group moves in part.
    share = (second[moved - 1] - first[moved - 1]) / (work[moved - 1, 0] / counts[0] + work[moved - 1, 1] / counts[1])
    return float(first[moved - 1] + share * work[moved - 1, 0] / counts[0])


def compulsory_loads(scenario: TaskgraphScenario, number: int) -> int:
    """Return a lower bound of the time of compulsory loads in ns; 0 if a processor is at the host."""
    parts = compiled_scenario(scenario)
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
"""Cache of recent bounds, which are the same for every episode of a scenario."""
MOST_KEPT = 64


def bounds_of(scenario: TaskgraphScenario, number: int) -> Bounds:
    """Return the bounds of one graph."""
    for known, graph, result in _KNOWN:
        if known is scenario and graph == number:
            return result
    template = compiled_scenario(scenario).library.templates[number]
    durations = least_durations(scenario, number)
    path = longest_path(template, durations.min(axis=1))
    result = Bounds(path, area(durations, _counts(scenario)), compulsory_loads(scenario, number))
    _KNOWN.insert(0, (scenario, number, result))
    del _KNOWN[MOST_KEPT:]
    return result


def _counts(scenario: TaskgraphScenario) -> list[int]:
    return [kind.count for kind in compiled_scenario(scenario).library.kinds]


def least_makespan(scenario: TaskgraphScenario, arrivals: np.ndarray, drawn: list[np.ndarray] | None = None) -> int:
    """Return a lower bound of the makespan of an episode with `arrivals`, in ns.

    `drawn` has the drawn durations of each job (tasks, kinds) in ns. Without it the least durations under the noise
    model count, which are near 0 for unbounded noise.
    """
    times, graphs = arrivals["time"].tolist(), arrivals["task"].tolist()
    counts = _counts(scenario)
    best = 0
    for job, (time, graph) in enumerate(zip(times, graphs, strict=True)):
        best = max(best, time + bounds_of(scenario, graph).best)
        if drawn is not None:
            path = longest_path(compiled_scenario(scenario).library.templates[graph], drawn[job].min(axis=1))
            best = max(best, time + max(path, area(drawn[job], counts)))
    # All work that arrives from a time on is done after it.
    for index in range(0, len(times) if len(times) > 1 else 0, max(1, len(times) // MOST_SUFFIXES)):
        later = drawn[index:] if drawn else [least_durations(scenario, graph) for graph in graphs[index:]]
        best = max(best, times[index] + area(np.concatenate(later), counts))
    return best
