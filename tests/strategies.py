"""Hypothesis strategies for scenarios, and the scripts that drive two simulators alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from slipstream.families.edge.scenario import EdgeScenario

Json = dict[str, Any]
Duration = Callable[[int, int], float]
"""Draws a duration in milliseconds between two whole numbers of the scenario's unit."""

ARRIVALS = ["periodic", "poisson", "bursty", "trace", "closed"]


@st.composite
def plain_edge_scenarios(draw: st.DrawFn) -> EdgeScenario:
    """Draw a small valid scenario without memory, preemption and power, and no interference but `share`.

    More often than not it is on a coarse time grid, so that events coincide.
    """
    return EdgeScenario.model_validate(_plain(draw, _duration(draw)))


@st.composite
def edge_scenarios(draw: st.DrawFn) -> EdgeScenario:
    """Draw a small valid scenario of the whole machine; one time in three a plain one."""
    added = draw(st.sampled_from(_ADDED))
    duration = _duration(draw)
    scenario = _plain(draw, duration)
    if added is not None:
        interference, priorities, memory, preemption, power, batches = added
        _add_interference(draw, scenario, interference, priorities)
        _add_memory(draw, duration, scenario, memory)
        _add_preemption(draw, duration, scenario, preemption)
        if power:
            _add_power(draw, scenario)
        if batches:
            _add_batches(draw, duration, scenario)
    return EdgeScenario.model_validate(scenario)


def in_short_runs(test: Callable[..., None], examples: int, *strategies: st.SearchStrategy[Any], **more: Any) -> None:
    """Put a test to the same examples every time, as different from each other as can be.

    In a long run Hypothesis goes on to vary each example some seven times, and what is added to a plain scenario stays
    the same meanwhile. It does so only after the first ten. What is given as `more` goes to its settings.
    """
    brief = settings(max_examples=10, deadline=None, database=None, suppress_health_check=list(HealthCheck), **more)
    for number in range(math.ceil(examples / 10)):
        seed(number)(brief(given(*strategies)(test)))()


def action_scripts() -> st.SearchStrategy[int]:
    """Draw the seed of a script for `scripted_action`."""
    return st.integers(0, 2**32 - 1)


def episode_seeds() -> st.SearchStrategy[int]:
    """Draw the seed of an episode, over the whole range that is allowed."""
    return st.one_of(st.integers(0, 9), st.integers(0, 2**62 - 1))


def scripted_action(script_seed: int, n: int, mask: Sequence[int]) -> int:
    """Return the action at the n-th choice: mostly a legal row, sometimes wait, rarely any row at all."""
    lot = _hash(script_seed, n)
    kind, pick = lot % 100, lot // 100
    if kind < 82:
        legal = [row for row, allowed in enumerate(mask) if allowed]
        return legal[pick % len(legal)]
    if kind < 95:
        return len(mask) - 1
    return pick % len(mask)


def often_eager_action(script_seed: int, n: int, mask: Sequence[int]) -> int:
    """Return the action at the n-th choice; every second script waits only where it must, and keeps a machine full."""
    legal = [row for row, allowed in enumerate(mask) if allowed and row < len(mask) - 1]
    if script_seed % 2 or not legal:
        return scripted_action(script_seed, n, mask)
    return legal[_hash(script_seed, n) // 100 % len(legal)]


def _hash(seed: int, n: int) -> int:
    """Return 32 well-mixed bits (the finaliser of MurmurHash3), unrelated to the simulators' own numbers."""
    h = (seed ^ (n * 0x9E3779B1 + 0x7F4A7C15)) & 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor & 0xFFFFFFFF
    return h ^ h >> 16


_WEIGHTS = st.sampled_from([1.0, 0.0, 0.5, 3.0, 0.1])
_DEMANDS = st.one_of(st.sampled_from([1.0, 1.0, 0.5, 2.0, 2.87]), st.floats(0.1, 8.0))
_LATENCIES = st.one_of(
    st.just({"kind": "fixed"}),
    st.just({"kind": "fixed"}),
    st.builds(lambda cv: {"kind": "lognormal", "cv": cv}, st.floats(0.01, 2.0)),
    st.just({"kind": "exponential"}),
)
_SHARES = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.floats(0.0, 1.0))
_SLOWDOWNS = st.one_of(st.sampled_from([1.0, 1.25, 2.0, 0.5, 0.5]), st.floats(0.2, 5.0))
_SIZES = st.one_of(st.sampled_from([1.0, 2.0, 2.5, 3.0, 4.0, 0.0]), st.floats(0.0, 5.0))
_TRUTHS = st.one_of(st.sampled_from([1.0, 0.5, 1.5, 2.0, 3.0]), st.floats(0.2, 5.0))
"""What runs really take, in multiples of the profile."""
_WATTS = st.one_of(st.sampled_from([0.0, 1.0, 2.5, 10.0]), st.floats(0.0, 60.0))


_MACHINES = list(
    product(
        ["as it is", "roofline", "matrix"],
        [False, True],
        ["none", "loads", "limit", "both", "both"],
        ["none", "stage", "stage", "restart", "resume", "resume"],
        [False, True],
    )
)
_BATCHES = [False, True, True, False, True]
"""Whether the n-th machine has batches, modulo their number: a number that shares no factor with what is combined."""
_ADDED = [
    *[None] * (len(_MACHINES) // 2),
    *((*machine, _BATCHES[number % len(_BATCHES)]) for number, machine in enumerate(_MACHINES)),
]
"""What is added to a plain scenario: interference, priorities, memory, preemption, power, batches, or nothing."""


def _duration(draw: st.DrawFn) -> Duration:
    """Return how this scenario draws its durations: on a grid, or any."""
    unit = draw(st.sampled_from([1.0, 1.0, 1.0, 0.5, 0.001, None]))
    if unit is None:
        return lambda least, most: draw(st.floats(max(least, 1e-6), most))
    return lambda least, most: unit * draw(st.integers(least, most))


def _plain(draw: st.DrawFn, duration: Duration) -> Json:
    # Only traces can come to an end before the horizon: one scenario in four has nothing else.
    kinds = draw(st.sampled_from([ARRIVALS, ARRIVALS, ARRIVALS, ["trace"]]))
    # Up to five tasks as a rule; with more, the event heap has more than one block.
    count = draw(st.one_of(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.integers(6, 9)))
    tasks = [_task(draw, duration, index, kinds) for index in range(count)]
    _mistake_profiles(draw, tasks)
    streams = draw(st.integers(1, 4))
    return {
        "family": "edge",
        "name": "random",
        "horizon_ms": _horizon(draw, duration, tasks),
        "device": {
            "streams": streams,
            "interference": _interference(draw, streams),
            "latency": draw(_LATENCIES),
            "late": draw(st.sampled_from(["drop", "run"])),
            "queue_limit": draw(st.sampled_from([1, 1, 2, 2, 3, 4, 16])),
            "decision_time_ms": _decision_time(draw, duration),
        },
        "reward": {
            "on_time_accuracy": draw(_WEIGHTS),
            "lateness": draw(_WEIGHTS),
            "drops": draw(_WEIGHTS),
            "utilisation": draw(_WEIGHTS),
        },
        "tasks": tasks,
    }


def _decision_time(draw: st.DrawFn, duration: Duration) -> float:
    """Draw no decision time half of the time, else one as long as a short run or a tenth of it."""
    if draw(st.booleans()):
        return 0.0
    return duration(1, 4) * draw(st.sampled_from([1.0, 1.0, 0.1]))


def _interference(draw: st.DrawFn, streams: int) -> Json:
    if draw(st.integers(0, 3)) == 0:
        return {"kind": "none"}
    # As many units of throughput as streams or as co-runners: equal demands then run at exactly full rate.
    throughput = st.one_of(st.sampled_from([1.0, 1.25, 2.0, float(streams)]), st.floats(0.6, 2.5))
    return {"kind": "share", "total_throughput": draw(throughput)}


def _task(draw: st.DrawFn, duration: Duration, index: int, kinds: list[str]) -> Json:
    ladder = _ladder(draw, duration)
    task: Json = {
        "name": f"task-{index}",
        "model": "builtin:resnet",
        "dataset": "cifar10",
        "num_variants": len(ladder),
        "arrival": _arrival(draw, duration, draw(st.sampled_from(kinds))),
        "weight": draw(_WEIGHTS),
        "criticality": draw(st.integers(0, 2)),
        "variants": ladder,
    }
    if task["arrival"]["kind"] != "periodic" or draw(st.booleans()):
        tightest, loosest = draw(st.sampled_from([(1, 4), (3, 15), (10, 60)]))
        task["deadline_ms"] = duration(tightest, loosest)
    return task


def _ladder(draw: st.DrawFn, duration: Duration) -> list[Json]:
    latencies = sorted(duration(1, 12) for _ in range(draw(st.integers(1, 4))))
    return [
        {"latency_ms": latency, "accuracy": draw(st.sampled_from([0.0, 0.5, 0.7, 0.9, 1.0])), "demand": draw(_DEMANDS)}
        for latency in latencies
    ]


def _mistake_profiles(draw: st.DrawFn, tasks: list[Json]) -> None:
    """Let one scenario in three have wrong profiles; some of its variants are as profiled all the same."""
    if draw(st.integers(0, 2)) == 0:
        variants = [variant for task in tasks for variant in task["variants"]]
        for variant, truth in zip(variants, _scattered(draw, _TRUTHS, len(variants)), strict=True):
            variant["actual_ms"] = truth * variant["latency_ms"] if truth != 1.0 else None


def _arrival(draw: st.DrawFn, duration: Duration, kind: str) -> Json:
    if kind == "periodic":
        period = duration(2, 20)
        jitter = draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])) * period
        return {"kind": kind, "period_ms": period, "phase_ms": duration(0, 10), "jitter_ms": jitter}
    if kind == "poisson":
        return {"kind": kind, "mean_gap_ms": duration(2, 20)}
    if kind == "bursty":
        gaps = {"calm_gap_ms": duration(5, 30), "burst_gap_ms": duration(1, 6)}
        return {"kind": kind, **gaps, "calm_ms": duration(5, 40), "burst_ms": duration(2, 20)}
    if kind == "trace":
        return {"kind": kind, "times_ms": sorted(duration(0, 60) for _ in range(draw(st.integers(0, 12))))}
    return {"kind": kind, "phase_ms": duration(0, 10), "think_ms": duration(0, 8), "retry_ms": duration(1, 8)}


def _horizon(draw: st.DrawFn, duration: Duration, tasks: list[Json]) -> float:
    """Draw a horizon by which some 5 to 80 jobs are released, unless the traces end sooner."""
    per_ms = sum(_releases_per_ms(task) for task in tasks)
    if per_ms == 0.0:
        return duration(10, 150)
    grid = duration(1, 1)
    return max(1, round(draw(st.integers(5, 80)) / per_ms / grid)) * grid


def _releases_per_ms(task: Json) -> float:
    arrival = task["arrival"]
    if arrival["kind"] == "periodic":
        return 1.0 / float(arrival["period_ms"])
    if arrival["kind"] == "poisson":
        return 1.0 / float(arrival["mean_gap_ms"])
    if arrival["kind"] == "bursty":
        calm, burst = float(arrival["calm_ms"]), float(arrival["burst_ms"])
        return (calm / float(arrival["calm_gap_ms"]) + burst / float(arrival["burst_gap_ms"])) / (calm + burst)
    if arrival["kind"] == "closed":
        return 1.0 / (float(arrival["think_ms"]) + float(task["variants"][0]["latency_ms"]))
    return 0.0


# What the plain machine does not have


def _variants(scenario: Json) -> list[Json]:
    return [variant for task in scenario["tasks"] for variant in task["variants"]]


def _scattered(draw: st.DrawFn, values: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Return many values, of which only a few are drawn: Hypothesis gives up on scenarios that take too many draws."""
    few, lot = draw(st.lists(values, min_size=1, max_size=5)), draw(st.integers(0, 2**32 - 1))
    return [few[_hash(lot, place) % len(few)] for place in range(count)]


def _give_each_variant(draw: st.DrawFn, scenario: Json, key: str, values: st.SearchStrategy[Any]) -> None:
    variants = _variants(scenario)
    for variant, value in zip(variants, _scattered(draw, values, len(variants)), strict=True):
        variant[key] = value


def _add_interference(draw: st.DrawFn, scenario: Json, kind: str, priorities: bool) -> None:
    """Add another kind of interference, and priorities if there is a kind that can have them."""
    device = scenario["device"]
    if kind == "roofline":
        device["interference"] = {"kind": kind}
        _give_each_variant(draw, scenario, "compute_share", _SHARES)
        _give_each_variant(draw, scenario, "bandwidth_share", _SHARES)
    elif kind == "matrix":
        size = draw(st.sampled_from([len(scenario["tasks"]), len(_variants(scenario))]))
        entries = _scattered(draw, _SLOWDOWNS, size * size)
        device["interference"] = {
            "kind": kind,
            "slowdowns": [entries[at : at + size] for at in range(0, size**2, size)],
        }
    if device["interference"]["kind"] in ("share", "roofline") and priorities:
        device["stream_priorities"] = [draw(st.integers(0, 2)) for _ in range(device["streams"])]


def _add_memory(draw: st.DrawFn, duration: Duration, scenario: Json, kind: str) -> None:
    """Add load times, or a memory so small that weights make room for each other all the time, or both."""
    _give_each_variant(draw, scenario, "memory_mb", _SIZES)
    if kind in ("loads", "both"):
        times = [0.0, duration(1, 1), duration(1, 6), duration(1, 6)]
        _give_each_variant(draw, scenario, "load_ms", st.sampled_from(times))
    if kind in ("limit", "both"):
        largest = max(float(variant["memory_mb"]) for variant in _variants(scenario))
        scenario["device"]["memory_mb"] = max(largest, 1.0) * draw(st.sampled_from([1.0, 1.25, 1.5, 2.0]))


def _add_preemption(draw: st.DrawFn, duration: Duration, scenario: Json, kind: str) -> None:
    """Add preemption, with a cost half of the time."""
    device = scenario["device"]
    if kind == "none":
        return
    if kind == "stage":
        device["decision_time_ms"] = 0.0
        _give_each_variant(draw, scenario, "stages", st.integers(1, 5))
    device["preemption"] = {"kind": kind, "cost_ms": duration(1, 2) if draw(st.booleans()) else 0.0}


def _add_power(draw: st.DrawFn, scenario: Json) -> None:
    if draw(st.booleans()):
        scenario["device"] |= {"idle_w": draw(_WATTS), "busy_w": draw(_WATTS)}
        scenario["reward"]["energy"] = draw(_WEIGHTS)
        _give_each_variant(draw, scenario, "power_w", st.one_of(st.none(), _WATTS))


def _add_batches(draw: st.DrawFn, duration: Duration, scenario: Json) -> None:
    """Add batches to some tasks, of which every second waits a while for a fuller one, and let more jobs arrive."""
    device = scenario["device"]
    device["queue_limit"] = draw(st.sampled_from([2, 3, 4, 16]))
    for task in scenario["tasks"]:
        sizes = draw(st.sampled_from([[], [2], [2], [3], [2, 3], [2, 4]]))
        least: dict[int, float] = {}
        for variant in task["variants"] if sizes else []:
            batches, before = [], 0.0
            for size in sizes:
                share = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))
                before = max(before, least.get(size, 0.0), variant["latency_ms"] * (1.0 + share * (size - 1)))
                least[size] = before
                batches.append({"size": size, "latency_ms": before, "power_w": draw(st.one_of(st.none(), _WATTS))})
            variant["batches"] = batches
        if sizes and draw(st.booleans()):
            task["fill_ms"] = duration(0, 6)
