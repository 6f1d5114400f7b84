"""Random small scenarios from a seed: every mode, links or none, memories that are tight, noise, several jobs."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.scenario import load


def random_scenario(seed: int, least: int, most: int) -> Any:
    """Return a scenario with so many tasks in all; in mode push, where each is chosen for twice, with half as many."""
    rng = np.random.default_rng([seed, 7])
    push = rng.random() < 0.25
    tasks = int(rng.integers(least, max(least, most // 2 if push else most) + 1))
    jobs = 2 if tasks % 2 == 0 and rng.random() < 0.25 else 1
    tiles = [f"t{number}" for number in range(int(rng.integers(2, 6)))]
    graph = {"kind": "inline", "tile_bytes": 1000, "tasks": [_task(rng, n, tiles) for n in range(tasks // jobs)]}
    linked = rng.random() < 0.7
    gpus = {"name": "gpu", "count": int(rng.integers(1, 3)), "device": True}
    if linked and rng.random() < 0.6:
        gpus["memory_mb"] = float(rng.integers(3, 5)) / 1000.0
    processors = [gpus, *([{"name": "cpu", "count": 1}] if rng.random() < 0.7 else [])]
    links: dict[str, Any] = {"to_device": _link(rng), "to_host": _link(rng)}
    if rng.random() < 0.3:
        links["peer"] = _link(rng)
    noise: dict[str, Any] = {"kind": "additive", "sd_ms": 1.0, "floor_ms": -1.0} if rng.random() < 0.3 else {}
    return load(
        {
            "family": "taskgraph",
            "processors": processors,
            "durations": {"kind": "table"},
            "links": links if linked else None,
            "graphs": [graph],
            "arrivals": {"kind": "trace", "times_ms": [float(3 * number) for number in range(jobs)]},
            "mode": "push" if push else "pull",
            "pipeline": int(rng.integers(1, 3)),
            "prefetch": int(rng.integers(0, 2)) if push else 0,
            "eviction": str(rng.choice(["lru", "luf", "belady"])),
            "visibility": {"kind": str(rng.choice(["all", "parents"]))},
            **({"noise": noise} if noise else {}),
        }
    )


def _task(rng: np.random.Generator, number: int, tiles: list[str]) -> dict[str, Any]:
    used = rng.permutation(tiles)[: int(rng.integers(0, 4))].tolist()
    return {
        "name": f"n{number}",
        "accesses": {tile: str(rng.choice(["r", "r", "w", "rw"])) for tile in used},
        "after": [f"n{number - 1}"] if number and rng.random() < 0.3 else [],
        "duration_ms": {"gpu": float(rng.integers(1, 5)), "cpu": float(rng.integers(2, 9))},
    }


def _link(rng: np.random.Generator) -> dict[str, Any]:
    return {"latency_us": float(rng.choice([0.0, 500.0])), "bandwidth_mb_s": float(rng.choice([0.5, 1.0, 2.0]))}
