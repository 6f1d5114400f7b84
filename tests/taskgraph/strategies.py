"""Hypothesis strategies for taskgraph scenarios: small graphs, small memories, slow links, many ties."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from slipstream.families.taskgraph.scenario import TaskgraphScenario
from tests.strategies import Json

Duration = Callable[[int, int], float]


@st.composite
def taskgraph_scenarios(draw: st.DrawFn) -> TaskgraphScenario:
    """Draw a small valid scenario of the whole machine."""
    duration = _duration(draw)
    graphs = [_graph(draw, duration) for _ in range(draw(st.sampled_from([1, 1, 1, 2])))]
    mode = draw(st.sampled_from(["pull", "pull", "push"]))
    links = _links(draw)
    scenario: Json = {
        "family": "taskgraph",
        "name": "random",
        "processors": _processors(draw, graphs, links is not None),
        "durations": {"kind": "table"},
        "links": links,
        "noise": _noise(draw),
        "graphs": graphs,
        "arrivals": _arrivals(draw, duration),
        "mode": mode,
        "pipeline": draw(st.sampled_from([1, 2])),
        "prefetch": draw(st.sampled_from([0, 1, 3])) if mode == "push" else 0,
        "eviction": draw(st.sampled_from(["lru", "luf", "belady"])),
        "visibility": _visibility(draw),
        "reward": {"makespan": draw(st.sampled_from([1.0, 0.0, 0.3]))},
        "window": {
            "candidates": draw(st.sampled_from([2, 2, 3, 100])),
            "nodes": draw(st.sampled_from([2, 6, 100])),
            "edges": draw(st.sampled_from([2, 5, 100])),
            "depth": draw(st.sampled_from([0, 1, 2, 5])),
        },
    }
    return TaskgraphScenario.model_validate(scenario)


def _duration(draw: st.DrawFn) -> Duration:
    """Return how this scenario draws its durations: on a grid, or any."""
    unit = draw(st.sampled_from([1.0, 1.0, 1.0, 0.5, 1e-5, None]))
    if unit is None:
        return lambda least, most: draw(st.floats(max(least, 1e-6), most))
    return lambda least, most: unit * draw(st.integers(least, most))


def _processors(draw: st.DrawFn, graphs: list[Json], limited: bool) -> list[Json]:
    """Return one to three kinds; memories, where there are links, have room for one to three tasks of the largest."""
    largest = max(
        sum(graph["tiles"].get(tile, graph["tile_bytes"]) for tile in task["accesses"])
        for graph in graphs
        for task in graph["tasks"]
    )
    kinds = []
    for name in ("a", "b", "c")[: draw(st.integers(1, 3))]:
        kind: Json = {"name": name, "count": draw(st.integers(1, 2)), "device": draw(st.integers(0, 3)) > 0}
        room = draw(st.sampled_from([None, 1.0, 1.0, 1.3, 1.3, 2.0]))
        if limited and kind["device"] and room is not None and largest:
            kind["memory_mb"] = largest * room / 1e6
        kinds.append(kind)
    return kinds


def _graph(draw: st.DrawFn, duration: Duration) -> Json:
    tiles = [f"t{number}" for number in range(draw(st.integers(1, 6)))]
    tasks = []
    for number in range(draw(st.one_of(st.integers(1, 9), st.integers(8, 16)))):
        used = draw(st.lists(st.sampled_from(tiles), min_size=draw(st.integers(0, 1)), max_size=3, unique=True))
        accesses = {tile: draw(st.sampled_from(["r", "r", "w", "rw"])) for tile in used}
        after = [f"n{number - back}" for back in (1, 2) if number >= back and draw(st.integers(0, 5)) == 0]
        task: Json = {"name": f"n{number}", "accesses": accesses, "after": after}
        task["duration_ms"] = {kind: duration(1, 6) for kind in ("a", "b", "c")}
        tasks.append(task)
    used_tiles = {tile for task in tasks for tile in task["accesses"]}
    sizes = {tile: draw(st.integers(1, 4)) * 1000 for tile in tiles if tile in used_tiles and draw(st.booleans())}
    return {"kind": "inline", "tasks": tasks, "tiles": sizes, "tile_bytes": 2000}


def _links(draw: st.DrawFn) -> Json | None:
    if draw(st.integers(0, 4)) == 0:
        return None
    links = {"to_device": _link(draw), "to_host": _link(draw)}
    if draw(st.booleans()):
        links["peer"] = _link(draw)
    return links


def _link(draw: st.DrawFn) -> Json:
    return {
        "latency_us": draw(st.sampled_from([0.0, 500.0, 1000.0])),
        "bandwidth_mb_s": draw(st.sampled_from([1.0, 2.0, 4.0, 1.7])),
    }


def _noise(draw: st.DrawFn) -> Json:
    kind = draw(st.sampled_from(["none", "none", "additive", "lognormal"]))
    if kind == "none":
        return {"kind": kind}
    kinds = draw(st.sampled_from([None, ["a"]]))
    size = {"sd_ms": 1.5, "floor_ms": -1.0} if kind == "additive" else {"cv": 0.4}
    return {"kind": kind, "kinds": kinds, **size}


def _visibility(draw: st.DrawFn) -> Json:
    kind = draw(st.sampled_from(["all", "all", "parents", "window", "window"]))
    return {"kind": kind, "tasks": draw(st.integers(1, 8))} if kind == "window" else {"kind": kind}


def _arrivals(draw: st.DrawFn, duration: Duration) -> Json:
    kind = draw(st.sampled_from(["batch", "batch", "poisson", "trace"]))
    jobs = draw(st.sampled_from([1, 1, 2, 3]))
    if kind == "batch":
        return {"kind": kind, "jobs": jobs}
    if kind == "poisson":
        return {"kind": kind, "jobs": jobs, "mean_gap_ms": duration(1, 8), "initial_jobs": draw(st.integers(0, jobs))}
    return {"kind": kind, "times_ms": sorted(duration(0, 20) for _ in range(jobs))}
