"""The scenarios of Slipstream-Bench v2, as they were made: `freeze_suite.py` writes them into the package.

Every family has the same ten: three sizes, three loads, and four shifts away from `medium`, which is where a policy is
expected to be at home. What is shifted is a rate, the kind of work, the hardware, or the error of the
durations that a policy observes: 20%.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import slipstream
from slipstream.families.contract import FAMILIES, family_of
from slipstream.families.shared.variation import Variation

KINDS = {
    "small": "size",
    "medium": "size",
    "large": "size",
    "light": "load",
    "heavy": "load",
    "bursty": "load",
    "shifted-rates": "shift",
    "shifted-work": "shift",
    "shifted-hardware": "shift",
    "shifted-profiles": "shift",
}
"""The ten of a family, and what each is about."""


def generated(family: str, seed: int, **settings: Any) -> dict[str, Any]:
    """Return the data of a generated scenario."""
    generator = FAMILIES[family].generator
    assert generator is not None
    found: dict[str, Any] = generator.generate(generator.settings(**settings), seed).model_dump(
        mode="json", exclude_unset=True
    )
    return found


def edge() -> dict[str, dict[str, Any]]:
    """Classifiers with deadlines on a device with streams, for three seconds."""
    builtin: dict[str, Any] = {name: slipstream.load(f"edge/{name}") for name in ("light", "medium", "heavy")}
    short = {"horizon_ms": 3000.0}
    home = builtin["medium"].model_copy(update=short)
    data = home.model_dump(mode="json", exclude_unset=True)
    size = {"horizon_ms": 3000.0, "deadline_low": 0.7, "deadline_high": 1.2}

    def varied(variation: Variation) -> dict[str, Any]:
        changed: dict[str, Any] = family_of(home).vary(home, variation, 101).model_dump(mode="json", exclude_unset=True)
        return changed

    hardware = {**data["device"], "streams": 3, "interference": {"kind": "share", "total_throughput": 1.6}}
    return {
        "small": generated("edge", 1, periodic_tasks=2, poisson_tasks=1, utilisation=0.6, **size),
        "medium": data,
        "large": generated("edge", 2, periodic_tasks=8, poisson_tasks=8, utilisation=0.9, streams=4, **size),
        "light": builtin["light"].model_dump(mode="json", exclude_unset=True) | short,
        "heavy": builtin["heavy"].model_dump(mode="json", exclude_unset=True) | short,
        "bursty": generated("edge", 3, periodic_tasks=2, poisson_tasks=0, bursty_tasks=6, utilisation=0.7, **size),
        "shifted-rates": varied(Variation(load=1.3, rate=0.5)),
        "shifted-work": generated("edge", 4, ladder="geometric", criticalities=3, utilisation=0.7, **size),
        "shifted-hardware": {**data, "device": hardware},
        "shifted-profiles": varied(Variation(profile_error=0.2)),
    }


def dag() -> dict[str, dict[str, Any]]:
    """Jobs that are graphs of stages, on executors."""
    home = generated("dag", 21, executors=10, jobs=30, load=0.9)
    bursts = [250.0 * burst + 5.0 * place for burst in range(5) for place in range(6)]
    gap = home["arrivals"]["mean_gap_s"]
    classes = [{"name": "fast", "count": 4, "speed": 1.5}, {"name": "slow", "count": 6, "speed": 0.6}]
    return {
        "small": generated("dag", 20, executors=5, jobs=10, load=0.9, templates=20),
        "medium": home,
        "large": generated("dag", 22, executors=40, jobs=80, load=0.9),
        "light": generated("dag", 23, executors=10, jobs=30, load=0.5),
        "heavy": generated("dag", 24, executors=10, jobs=30, load=1.5),
        "bursty": {**home, "arrivals": {"kind": "trace", "times_s": bursts}},
        "shifted-rates": {**home, "arrivals": {**home["arrivals"], "mean_gap_s": round(gap / 1.6, 6)}},
        "shifted-work": generated("dag", 25, executors=10, jobs=30, load=0.9, source="ml-workflow", templates=30),
        "shifted-hardware": {**home, "classes": classes, "moving_delay_s": 5.0},
        "shifted-profiles": {**home, "stragglers": {"probability": 0.5, "factor": 1.4}},
    }


def taskgraph() -> dict[str, dict[str, Any]]:
    """Tiled linear algebra on CPUs and GPUs."""
    home = generated("taskgraph", 31, sizes="6,8", noise_cv=0.1)
    bursts = [200.0 * burst for burst in range(3) for _ in range(4)]
    stream = {"jobs": 8, "sizes": "4,6", "noise_cv": 0.1}
    return {
        "small": generated("taskgraph", 30, sizes="3,4", noise_cv=0.1),
        "medium": home,
        "large": generated("taskgraph", 32, sizes="10,12", gpus=4, cpus=8, noise_cv=0.1),
        "light": generated("taskgraph", 33, mean_gap_ms=100.0, **stream),
        "heavy": generated("taskgraph", 34, mean_gap_ms=30.0, **stream),
        "bursty": {**generated("taskgraph", 35, **stream), "arrivals": {"kind": "trace", "times_ms": bursts}},
        "shifted-rates": generated("taskgraph", 36, mean_gap_ms=60.0, **stream),
        "shifted-work": generated("taskgraph", 37, graphs="layered", sizes="5,7,9", noise_cv=0.1),
        "shifted-hardware": generated(
            "taskgraph", 38, sizes="6,8", gpus=1, cpus=4, bandwidth_mb_s=6000.0, noise_cv=0.1
        ),
        "shifted-profiles": {**home, "noise": {"kind": "lognormal", "cv": 0.2}},
    }


def serving() -> dict[str, dict[str, Any]]:
    """Models with ladders of variants on a fleet, for half a minute."""
    size: dict[str, Any] = {"models": 4, "accelerators": 9, "duration_s": 30.0, "load_s": 0.5}
    found = _serving(size)
    return {name: {**scenario, "drop": "crowded"} for name, scenario in found.items()}


def _serving(size: dict[str, Any]) -> dict[str, dict[str, Any]]:
    home = generated("serving", 41, load=0.8, arrivals="poisson", **size)
    faster = generated("serving", 41, load=1.1, arrivals="poisson", **size)
    fleet = {kind["name"]: kind for kind in home["accelerators"]}
    others = [{**fleet[name], "count": count} for name, count in (("kind-0", 5), ("kind-1", 3), ("kind-2", 1))]
    return {
        "small": generated("serving", 40, load=0.8, arrivals="poisson", **{**size, "models": 2, "accelerators": 4}),
        "medium": home,
        "large": generated("serving", 42, load=0.8, arrivals="poisson", **{**size, "models": 8, "accelerators": 24}),
        "light": generated("serving", 43, load=0.4, arrivals="poisson", **size),
        "heavy": generated("serving", 44, load=1.4, arrivals="poisson", **size),
        "bursty": generated("serving", 45, load=0.8, arrivals="bursty", **{**size, "duration_s": 60.0}),
        "shifted-rates": faster,
        "shifted-work": generated(
            "serving", 46, load=0.8, arrivals="diurnal", split="equal", **{**size, "variants": 2}
        ),
        "shifted-hardware": {**home, "accelerators": others},
        "shifted-profiles": {**home, "service": {"kind": "lognormal", "cv": 0.2}},
    }


def cluster() -> dict[str, dict[str, Any]]:
    """Training jobs that want GPUs of a cluster."""
    size: dict[str, Any] = {"nodes": 4, "gpus": 4, "jobs": 4000, "episode_jobs": 128, "workload": "heavy-tailed"}
    home = generated("cluster", 51, load=1.0, **size)
    kind = home["nodes"][0]
    mixed = [{**kind, "name": "old", "count": 2, "speed": 0.6}, {**kind, "name": "new", "count": 2, "speed": 1.4}]
    wrong = {**home["jobs"], "most_overestimate": 1.4}
    return {
        "small": generated("cluster", 50, load=1.0, **{**size, "nodes": 2, "episode_jobs": 64}),
        "medium": home,
        "large": generated("cluster", 52, load=1.2, **{**size, "nodes": 16, "episode_jobs": 384}),
        "light": generated("cluster", 53, load=0.7, **size),
        "heavy": generated("cluster", 54, load=1.6, **size),
        "bursty": generated("cluster", 55, load=1.0, **{**size, "workload": "bursty"}),
        "shifted-rates": generated("cluster", 56, load=1.3, **{**size, "workload": "diurnal"}),
        "shifted-work": generated("cluster", 57, load=1.0, **{**size, "workload": "lublin"}),
        "shifted-hardware": {**home, "nodes": mixed, "placement": "first-fit"},
        "shifted-profiles": {**home, "jobs": wrong},
    }


DESCRIPTIONS = {
    "small": "A small machine at a middling load.",
    "medium": "A middling machine at a middling load: where a policy is at home.",
    "large": "A large machine at a middling load.",
    "light": "Little work.",
    "heavy": "More work than the machine can do well.",
    "bursty": "Work that comes in bursts.",
    "shifted-rates": "Shift: work comes more often than at home, or at other times.",
    "shifted-work": "Shift: another kind of work.",
    "shifted-hardware": "Shift: another machine.",
    "shifted-profiles": "Shift: durations that are off by 20% from what a policy is told.",
}


def scenarios() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the data of every scenario, by family and name."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for make in (edge, dag, taskgraph, serving, cluster):
        made = make()
        assert list(made) == list(KINDS)
        found[make.__name__] = {
            name: {**data, "name": f"bench-v2-{name}", "description": _description(name, data)}
            for name, data in made.items()
        }
    return found


def _description(name: str, data: dict[str, Any]) -> str:
    made = str(data.get("description", ""))
    own = made[made.index("slipstream generate") :] if "slipstream generate" in made else ""
    return " ".join(filter(None, [DESCRIPTIONS[name], f"From: {own}" if own else ""]))


def no_two_alike(digests: dict[str, str]) -> None:
    """Refuse scenarios that are the same work under two names."""
    names, counts = np.unique(list(digests.values()), return_counts=True)
    assert counts.max() == 1, [key for key, value in digests.items() if value in names[counts > 1]]
