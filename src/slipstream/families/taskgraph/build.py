"""Conversion of a scenario to the arrays of the kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from slipstream.errors import ScenarioError
from slipstream.families.shared.features import GraphShape
from slipstream.families.shared.schema import nanoseconds
from slipstream.families.taskgraph import features as f
from slipstream.families.taskgraph.kernel import state as k
from slipstream.families.taskgraph.kernel.lookahead import upward_ranks
from slipstream.families.taskgraph.scenario import (
    Additive,
    GraphBatch,
    GraphStream,
    GraphTrace,
    Link,
    Lognormal,
    NoNoise,
    ParentsVisible,
    TaskgraphScenario,
    WindowVisible,
)
from slipstream.families.taskgraph.workload.arrivals import trace_rows
from slipstream.families.taskgraph.workload.templates import Library, RaggedArray, Template, library_of
from slipstream.sim.compiled_scenario import CompiledScenario, cached_per_scenario
from slipstream.sim.eventlog import EVENT
from slipstream.sim.kernel.heap import NEVER, empty_heap
from slipstream.sim.kernel.job_stream import BATCH, POISSON, TRACE
from slipstream.sim.kernel.lanes import LOG_MARGIN

EVICTIONS = {"lru": k.LRU, "luf": k.LUF, "belady": k.BELADY}


@dataclass(frozen=True)
class Sizes:
    """Sizes of the arrays of a scenario."""

    jobs: int
    """Jobs of an episode."""
    tasks: int
    """Tasks of the largest graph."""
    tiles: int
    """Tiles of the graph with most tiles."""
    processors: int
    devices: int
    rows: int
    """Candidate rows of an observation, wait included."""
    all_rows: int
    """Candidate rows that heuristics see, wait included."""
    nodes: int
    edges: int
    log_margin: int


@cached_per_scenario
def compiled_scenario(scenario: TaskgraphScenario) -> CompiledScenario[Sizes, Library]:
    """Return the scenario as arrays, with their sizes and its graph library."""
    library = library_of(scenario)
    sizes = _sizes(scenario, library)
    return CompiledScenario(_spec_arrays(scenario, library, sizes), sizes, library)


def _sizes(scenario: TaskgraphScenario, library: Library) -> Sizes:
    arrivals = scenario.arrivals
    jobs = len(arrivals.times_ms) if isinstance(arrivals, GraphTrace) else arrivals.jobs
    tasks = max(template.task_count for template in library.templates)
    tiles = max(len(template.tile_bytes) for template in library.templates)
    edges = max(template.edge_count for template in library.templates)
    processors = scenario.processor_count
    devices = sum(kind.count for kind in scenario.processors if kind.device)
    # A window is at most as large as the largest possible list.
    candidates = min(scenario.window.candidates, jobs * tasks)
    rows = max(candidates, processors) + 1
    return Sizes(
        jobs,
        tasks,
        tiles,
        processors,
        devices,
        rows,
        rows + jobs * tasks + 1,
        min(scenario.window.nodes, jobs * tasks),
        max(1, min(scenario.window.edges, jobs * edges)),
        _log_margin(scenario, library, processors, devices),
    )


def _log_margin(scenario: TaskgraphScenario, library: Library, processors: int, devices: int) -> int:
    """Return the most log rows that one event and the decision before it add.

    Each may start a transfer on every link and a task on every processor. A load evicts at most as many tiles as the
    ratio of the largest to the smallest size, and never more than there are.
    """
    margin = LOG_MARGIN + 2 * (processors + k.LINKS_PER_DEVICE * devices)
    if scenario.links is None or all(kind.memory_mb is None for kind in scenario.processors):
        return margin
    sizes = [size for template in library.templates for size in template.tile_bytes] or [1]
    accesses = max(int(template.used.counts.max()) for template in library.templates)
    leaving = min(-(-max(sizes) // min(sizes)), len(sizes))
    loads = 2 + (scenario.pipeline + scenario.prefetch) * accesses
    return margin + 2 * devices * loads * leaving


def candidate_rows(scenario: TaskgraphScenario) -> int:
    """Return the number of rows of an observation, wait included."""
    return compiled_scenario(scenario).sizes.rows


def all_rows(scenario: TaskgraphScenario) -> int:
    """Return the number of rows that heuristics see, wait included."""
    return compiled_scenario(scenario).sizes.all_rows


def graph(scenario: TaskgraphScenario) -> GraphShape:
    """Return the shape of the observed graph."""
    sizes = compiled_scenario(scenario).sizes
    return GraphShape(f.NODE, sizes.nodes, sizes.edges, sizes.jobs)


def log_margin(scenario: TaskgraphScenario) -> int:
    """Return the most log rows that one event and the decision before it add."""
    return compiled_scenario(scenario).sizes.log_margin


def timescale(scenario: TaskgraphScenario) -> int:
    """Return the mean over graphs, in ns, of the longest path or of work / processors if that is longer."""
    spec = compiled_scenario(scenario).spec
    times = []
    for template in spec["templates"]:
        rows = spec["tasks"][template["first_task"] : template["first_task"] + template["tasks"]]
        times.append(max(int(rows["rank"].max()), int(rows["average"].sum()) // scenario.processor_count))
    return max(1, round(float(np.mean(times))))


def spec_arrays(scenario: TaskgraphScenario) -> dict[str, np.ndarray]:
    """Return the specification arrays, constant during an episode."""
    return compiled_scenario(scenario).spec


def state_arrays(scenario: TaskgraphScenario, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
    """Return new state arrays for `lanes` lanes with event logs of `log_rows` rows."""
    sizes = compiled_scenario(scenario).sizes
    tasks, tiles = sizes.jobs * sizes.tasks, sizes.jobs * sizes.tiles
    links = k.LINKS_PER_DEVICE * sizes.devices
    return {
        "lanes": np.zeros(lanes, k.LANE),
        "jobs": np.zeros((lanes, sizes.jobs), k.JOB_STATE),
        "tasks": np.zeros((lanes, tasks), k.TASK_STATE),
        "tiles": np.zeros((lanes, tiles), k.TILE_STATE),
        "copies": np.zeros((lanes, tiles, 1 + sizes.devices), k.COPY),
        "processors": np.zeros((lanes, sizes.processors), k.PROCESSOR_STATE),
        # One more element, so that removal can shift without a bounds test.
        "holds": np.zeros((lanes, sizes.processors, scenario.pipeline + 1), np.int32),
        "queues": np.zeros((lanes, sizes.processors, tasks + 1 if scenario.mode == "push" else 1), np.int32),
        "memories": np.zeros((lanes, 1 + sizes.devices), k.MEMORY_STATE),
        "links": np.zeros((lanes, links), np.int32),
        "ready": np.zeros((lanes, tasks + 1), np.int32),
        "candidates": np.zeros((lanes, max(tasks, sizes.processors)), np.int32),
        "taken": np.zeros((lanes, sizes.jobs, sizes.processors), np.int32),
        "graph": np.zeros((lanes, sizes.nodes), np.int32),
        "heap": empty_heap(lanes, sizes.processors + links + 1),
        "terms": np.zeros((lanes, 1)),
        "log": np.zeros((lanes, log_rows), EVENT),
    }


# The parts of a specification


def _spec_arrays(scenario: TaskgraphScenario, library: Library, sizes: Sizes) -> dict[str, np.ndarray]:
    processors, nodes = _processors(library, sizes)
    durations = np.concatenate(library.durations)
    kinds = np.zeros(len(library.kinds), k.KIND)
    if not isinstance(scenario.noise, NoNoise):
        chosen = scenario.noise.kinds
        kinds["noisy"] = [chosen is None or kind.name in chosen for kind in library.kinds]
    parts = _graphs(scenario, library, durations, processors["kind"])
    _check_memory(scenario, library, parts["tasks"]["bytes"])
    return {
        "machine": _machine(scenario, sizes),
        "kinds": kinds,
        "processors": processors,
        "nodes": nodes,
        **parts,
        "durations": durations,
        "plans": np.full((len(k.PLANNERS), len(durations)), -1, k.PLAN),
        "arrivals": trace_rows(scenario, library),
    }


def _machine(scenario: TaskgraphScenario, sizes: Sizes) -> np.ndarray:
    record = np.zeros(1, k.MACHINE)
    row = record[0]
    row["processors"], row["devices"] = sizes.processors, sizes.devices
    row["jobs"], row["tasks"], row["tiles"] = sizes.jobs, sizes.tasks, sizes.tiles
    row["transfers"] = scenario.links is not None
    row["peer"] = scenario.links is not None and scenario.links.peer is not None
    row["push"] = scenario.mode == "push"
    row["pipeline"], row["prefetch"] = scenario.pipeline, scenario.prefetch
    row["eviction"] = EVICTIONS[scenario.eviction]
    row["visibility"], row["visible_tasks"] = k.SEE_ALL, NEVER
    if isinstance(scenario.visibility, ParentsVisible):
        row["visibility"] = k.SEE_PARENTS
    elif isinstance(scenario.visibility, WindowVisible):
        row["visibility"], row["visible_tasks"] = k.SEE_WINDOW, scenario.visibility.tasks
    row["arrival"] = TRACE
    if isinstance(scenario.arrivals, GraphTrace):
        times = [nanoseconds(time) for time in scenario.arrivals.times_ms]
        row["mean_gap"] = (times[-1] - times[0]) / max(1, len(times) - 1)
    elif isinstance(scenario.arrivals, GraphBatch):
        row["arrival"] = BATCH
    elif isinstance(scenario.arrivals, GraphStream):
        row["arrival"] = POISSON
        row["mean_gap"] = nanoseconds(scenario.arrivals.gap_ms)
        row["initial_jobs"] = scenario.arrivals.initial_jobs
    if isinstance(scenario.noise, Additive):
        row["noise"], row["spread"] = k.ADDITIVE, nanoseconds(scenario.noise.sd_ms)
        row["floor"] = nanoseconds(scenario.noise.floor_ms)
    elif isinstance(scenario.noise, Lognormal):
        row["noise"], row["spread"] = k.LOGNORMAL, math.sqrt(math.log(1.0 + scenario.noise.cv**2))
    row["rows"], row["all_rows"] = sizes.rows - 1, sizes.all_rows
    row["depth"] = scenario.window.depth
    row["log_margin"] = sizes.log_margin
    row["makespan"] = scenario.reward.makespan
    return record


def capacity_of(memory_mb: float | None) -> int:
    """Return the capacity of a memory in bytes; NEVER if it is unlimited."""
    return NEVER if memory_mb is None else round(memory_mb * 1e6)


def _processors(library: Library, sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    processors = np.zeros(sizes.processors, k.PROCESSOR)
    nodes = np.zeros(1 + sizes.devices, k.NODE)
    nodes[0] = (NEVER, -1)
    number = node = 0
    for index, kind in enumerate(library.kinds):
        for _ in range(kind.count):
            processors[number]["kind"] = index
            if kind.device:
                node += 1
                processors[number]["node"] = node
                nodes[node] = (capacity_of(kind.memory_mb), number)
            number += 1
    return processors, nodes


def transfer_time(link: Link | None, size: int) -> int:
    """Return the time in ns of a transfer of `size` bytes on a link, in exact arithmetic."""
    if link is None:
        return 0
    per_byte = Fraction(1000) / Fraction(link.bandwidth_mb_s)
    return round(link.latency_us * 1000) + math.ceil(size * per_byte)


def _graphs(
    scenario: TaskgraphScenario, library: Library, durations: np.ndarray, kind_of: np.ndarray
) -> dict[str, np.ndarray]:
    """Return templates, tasks, children, accesses, tiles and users, concatenated over all graphs."""
    templates = np.zeros(len(library.templates), k.TEMPLATE)
    tasks = np.zeros(len(durations), k.TASK)
    tasks["least"] = durations[:, kind_of].min(axis=1)
    tasks["average"] = (durations[:, kind_of].sum(axis=1) + len(kind_of) // 2) // len(kind_of)
    tiles = np.zeros(sum(len(template.tile_bytes) for template in library.templates), k.TILE)
    children = np.concatenate([template.children_ragged.values for template in library.templates])
    accesses = np.zeros(sum(len(template.modes) for template in library.templates), k.ACCESS)
    accesses["tile"] = np.concatenate([template.used.values for template in library.templates])
    accesses["mode"] = np.concatenate([template.modes for template in library.templates])
    users: list[np.ndarray] = []
    first = np.zeros(4, np.int64)  # tasks, children, accesses and tiles of the graphs before
    for row, template in zip(templates, library.templates, strict=True):
        sizes = (template.task_count, template.edge_count, len(template.modes), len(template.tile_bytes))
        row["first_task"], row["tasks"], row["first_tile"], row["tiles"] = first[0], sizes[0], first[3], sizes[3]
        _fill_tasks(tasks[first[0] : first[0] + sizes[0]], template, int(first[1]), int(first[2]))
        users.append(_fill_tiles(tiles[first[3] : first[3] + sizes[3]], template, scenario, int(first[2])))
        first += sizes
    return {
        "templates": templates,
        "tasks": tasks,
        "children": children.astype(np.int32),
        "accesses": accesses,
        "tiles": tiles,
        "users": np.concatenate(users).astype(np.int32),
    }


def _fill_tasks(rows: np.ndarray, template: Template, first_child: int, first_access: int) -> None:
    children = template.children_ragged
    rows["number"] = np.arange(len(rows))
    rows["parents"] = template.parents.counts
    rows["accesses"] = template.used.counts
    rows["bytes"] = template.used.sums(np.array(template.tile_bytes, np.int64)[template.used.values])
    rows["first_access"] = first_access + template.used.offsets[:-1]
    rows["children"] = children.counts
    rows["first_child"] = first_child + children.offsets[:-1]
    for times, target in (("average", "rank"), ("least", "path_after")):
        ranks = np.zeros(len(rows), np.int64)
        upward_ranks(children.offsets, children.values, rows[times].copy(), ranks)
        rows[target] = ranks
    # The path after a task excludes the task itself.
    rows["path_after"] -= rows["least"]


def _fill_tiles(rows: np.ndarray, template: Template, scenario: TaskgraphScenario, first_user: int) -> np.ndarray:
    """Fill the tile rows of a graph; return the users of all tiles, concatenated."""
    rows["bytes"] = template.tile_bytes
    if scenario.links is not None:
        for size in set(template.tile_bytes):
            own = rows["bytes"] == size
            for name, time in zip(("load_time", "send_time", "peer_time"), _times(scenario, size), strict=True):
                rows[name][own] = time
    users = RaggedArray.of(template.used.values, template.used.owner, len(rows))
    rows["first_user"], rows["users"] = first_user + users.offsets[:-1], users.counts
    return users.values


def _times(scenario: TaskgraphScenario, size: int) -> tuple[int, int, int]:
    links = scenario.links
    assert links is not None
    return transfer_time(links.to_device, size), transfer_time(links.to_host, size), transfer_time(links.peer, size)


def _check_memory(scenario: TaskgraphScenario, library: Library, needed: np.ndarray) -> None:
    """Raise a ScenarioError if a memory is smaller than the tiles of some task; `needed` has the bytes of each task."""
    if scenario.links is None:
        return
    for kind in scenario.processors:
        too_large = np.flatnonzero(needed > capacity_of(kind.memory_mb))
        if kind.device and len(too_large):
            names = [(graph.name, task) for graph in library.templates for task in graph.task_names()]
            graph, task = names[too_large[0]]
            text = f"processors '{kind.name}': task '{task}' of graph '{graph}' needs"
            size = f"{needed[too_large[0]] / 1e6:g} MB"
            raise ScenarioError(f"{text} {size} at once: expected memory_mb to be at least that")
