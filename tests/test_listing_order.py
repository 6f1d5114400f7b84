"""No result depends on the order in which a scenario lists its resources: every optimum is that of any other order.

Optima of tiny episodes are found here by trying every action of every choice, with no bound and no pruning, so they owe
nothing to the oracles.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from slipstream.evaluation import evaluate
from slipstream.families.contract import family_of
from slipstream.policies.base import applicable
from slipstream.scenario import digest, dump, load
from slipstream.sim.simulator import Simulator

Json = dict[str, Any]
REPEATED = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
MOST_STEPS = 20_000
"""Actions that are tried in one episode; larger ones are not looked at."""


class TooLargeError(Exception):
    """An episode has more ways to go on than a test has time for."""


def optimum(scenario: Any, seed: int) -> float:
    """Return the best total reward of an episode over all sequences of legal actions."""
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(seed)
    steps = 0

    def best_from_here(earned: float) -> float:
        nonlocal steps
        if not simulator.asking:
            return earned
        here, best = simulator.save(), -np.inf
        for action in np.flatnonzero(simulator.observe()[2].copy()).tolist():
            steps += 1
            if steps > MOST_STEPS:
                raise TooLargeError
            simulator.step(action)
            best = max(best, best_from_here(earned + float(simulator.header["reward"])))
            simulator.restore(here)
        return float(best)

    return best_from_here(0.0)


# Scenarios that are small enough to be solved by trying everything


@st.composite
def taskgraphs(draw: st.DrawFn, links: bool = False) -> tuple[Json, str]:
    """Draw a few tasks on two or three kinds of processors, some of which are quicker for some tasks."""
    names = ["a", "b", "c"][: draw(st.integers(2, 3 if not links else 2))]
    tasks = []
    for number in range(draw(st.integers(1, 4 if not links else 3))):
        tile = {f"t{draw(st.integers(0, 1))}": draw(st.sampled_from(["r", "rw"]))} if links else {}
        after = [f"n{other}" for other in range(number) if draw(st.integers(0, 2)) == 0]
        times = {name: float(draw(st.integers(1, 9))) for name in names}
        tasks.append({"name": f"n{number}", "duration_ms": times, "after": after, "accesses": tile})
    kinds: list[Json] = [{"name": name, "count": draw(st.integers(1, 1 + (not links)))} for name in names]
    if links:
        kinds[0]["device"] = True
    link = {"bandwidth_mb_s": 1.0}
    noise: Json = {"kind": "lognormal", "cv": 0.3} if draw(st.booleans()) else {"kind": "none"}
    return {
        "family": "taskgraph",
        "processors": kinds,
        "links": {"to_device": link, "to_host": link} if links else None,
        "graphs": [{"kind": "inline", "tasks": tasks, "tile_bytes": 1000}],
        "noise": noise,
        "mode": draw(st.sampled_from(["pull", "pull", "push"])),
        "pipeline": draw(st.sampled_from([1, 1, 2])),
    }, "processors"


@st.composite
def dags(draw: st.DrawFn) -> tuple[Json, str]:
    """Draw one or two jobs of a few stages on two classes of executors."""
    classes = [
        {"name": name, "count": 1, "speed": draw(st.sampled_from([0.5, 1.0, 2.0, 3.0]))} for name in ("slow", "fast")
    ]
    jobs = []
    for number in range(draw(st.integers(1, 2))):
        stages = []
        for stage in range(draw(st.integers(1, 2))):
            parents = ["s0"] if stage and draw(st.booleans()) else []
            length = float(draw(st.integers(1, 6)))
            stages.append(
                {"name": f"s{stage}", "tasks": draw(st.integers(1, 2)), "duration_s": length, "parents": parents}
            )
        jobs.append({"name": f"j{number}", "stages": stages})
    return {
        "family": "dag",
        "executors": 2,
        "classes": classes,
        "moving_delay_s": draw(st.sampled_from([0.0, 1.0])),
        "warmup_delay_s": 0.0,
        "arrivals": {"kind": "trace", "times_s": [0.0] * len(jobs), "names": [job["name"] for job in jobs]},
        "jobs": {"kind": "inline", "jobs": jobs},
    }, "classes"


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Json, str]:
    """Draw a few jobs on two kinds of nodes of different speed and size."""
    nodes = [
        {"name": name, "count": 1, "gpus": draw(st.integers(1, 2)), "speed": draw(st.sampled_from([0.5, 1.0, 2.0]))}
        for name in ("old", "new")
    ]
    total = sum(kind["gpus"] for kind in nodes)
    jobs = [
        {
            "submit_s": float(draw(st.integers(0, 3))),
            "gpus": draw(st.integers(1, min(2, total))),
            "run_s": float(draw(st.integers(1, 9))),
        }
        for _ in range(draw(st.integers(1, 4)))
    ]
    return {
        "family": "cluster",
        "nodes": nodes,
        "placement": draw(st.sampled_from(["first-fit", "best-fit", "consolidate"])),
        "backfill": draw(st.sampled_from(["greedy", "easy"])),
        "jobs": {"kind": "list", "jobs": jobs},
    }, "nodes"


@st.composite
def servings(draw: st.DrawFn) -> tuple[Json, str]:
    """Draw a few requests that are routed to accelerators of two kinds."""
    kinds = [{"name": name, "count": draw(st.integers(1, 2))} for name in ("cpu", "gpu")]
    latency = {kind["name"]: [float(draw(st.integers(2, 20)))] for kind in kinds}
    times = sorted(float(draw(st.integers(0, 20))) for _ in range(draw(st.integers(1, 4))))
    variants = [{"name": "v", "accuracy": 90.0, "latency_ms": latency, "load_s": 0.0}]
    arrivals = {"kind": "trace", "times_ms": times}
    return {
        "family": "serving",
        "mode": draw(st.sampled_from(["route", "plan"])),
        "planning": {"interval_s": 0.03, "moves": 1},
        "accelerators": kinds,
        "batch_sizes": [1],
        "slo_share": 1.0,
        "models": [{"name": "m", "slo_ms": 25.0, "variants": variants, "arrivals": arrivals}],
        "initial": [{"variant": "v", "accelerator": kind["name"], "count": kind["count"]} for kind in kinds],
        "service": {"kind": "lognormal", "cv": 0.3} if draw(st.booleans()) else {"kind": "fixed"},
    }, "accelerators"


@st.composite
def edges(draw: st.DrawFn) -> tuple[Json, str]:
    """Draw a few jobs on two streams of different priority that slow each other down."""
    tasks = []
    for name in ("camera", "alarm"):
        times = sorted(float(draw(st.integers(0, 6))) for _ in range(draw(st.integers(1, 2))))
        ladder = [("fast", draw(st.integers(1, 4)), 0.5), ("full", draw(st.integers(4, 8)), 1.0)]
        tasks.append(
            {
                "name": name,
                "model": "builtin:resnet",
                "dataset": "cifar10",
                "num_variants": 2,
                "arrival": {"kind": "trace", "times_ms": times},
                "deadline_ms": float(draw(st.integers(4, 12))),
                "variants": [
                    {"name": variant, "latency_ms": float(latency), "accuracy": accuracy}
                    for variant, latency, accuracy in ladder
                ],
            }
        )
    device = {
        "streams": 2,
        "interference": {"kind": "share", "total_throughput": draw(st.sampled_from([1.0, 1.5]))},
        "latency": {"kind": draw(st.sampled_from(["fixed", "lognormal"]))},
        "late": "drop",
        "decision_time_ms": draw(st.sampled_from([0.0, 0.0, 0.5])),
        "stream_priorities": [0, draw(st.integers(0, 2))],
    }
    return {"family": "edge", "horizon_ms": 30.0, "device": device, "tasks": tasks}, "device.stream_priorities"


FAMILIES: dict[str, Callable[[], Any]] = {
    "edge": edges,
    "dag": dags,
    "taskgraph": taskgraphs,
    "taskgraph with links": lambda: taskgraphs(links=True),
    "serving": servings,
    "cluster": clusters,
}


def in_every_order(data: Json, key: str) -> list[Any]:
    """Return the scenario with its resources listed in every order."""
    found = []
    *outer, last = key.split(".")
    inner = data
    for name in outer:
        inner = inner[name]
    for order in itertools.permutations(inner[last]):
        changed = {**inner, last: list(order)}
        found.append(load({**data, outer[0]: changed} if outer else changed))
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_listing_resources_in_another_order_changes_no_optimum(family: str) -> None:
    solved = 0

    @settings(REPEATED, max_examples=40)
    @given(FAMILIES[family](), st.integers(0, 5))
    def check(drawn: tuple[Json, str], seed: int) -> None:
        nonlocal solved
        try:
            found = [optimum(scenario, seed) for scenario in in_every_order(*drawn)]
        except TooLargeError:
            assume(False)
        solved += 1
        np.testing.assert_allclose(found, found[0], rtol=1e-9, atol=1e-9)

    check()
    assert solved >= 20


@pytest.mark.parametrize("family", FAMILIES)
def test_the_oracle_brackets_the_same_optimum_in_every_order(family: str) -> None:
    solved = 0

    @settings(REPEATED, max_examples=12)
    @given(FAMILIES[family](), st.integers(0, 5))
    def check(drawn: tuple[Json, str], seed: int) -> None:
        nonlocal solved
        scenarios = in_every_order(*drawn)
        try:
            best = optimum(scenarios[0], seed)
        except TooLargeError:
            assume(False)
        for scenario in scenarios:
            found = family_of(scenario).oracle(scenario, seed, "test", 2.0)
            assert found.best_known <= best + 1e-5
            assert found.bound >= best - 1e-5
            if found.exact:
                solved += 1
                assert found.best_known == pytest.approx(best, abs=1e-5)

    check()
    assert solved > 0 or family == "serving", "serving has a bound and no exact optimum"


LISTED = {
    "dag": ("dag/small", "classes", [{"name": "b", "count": 3, "speed": 2.0}, {"name": "a", "count": 7, "speed": 0.5}]),
    "taskgraph": ("taskgraph/unrolled", "processors", None),
    "serving": ("serving/tiny", "accelerators", None),
    "cluster": (
        "cluster/tiny",
        "nodes",
        [{"name": "b", "count": 1, "gpus": 2, "speed": 0.5}, {"name": "a", "count": 1, "gpus": 2}],
    ),
}
"""Scenarios of families that have kinds of resources, where they are listed, and what is listed there."""


@pytest.mark.parametrize("family", LISTED)
def test_no_policy_earns_more_in_another_order(family: str) -> None:
    name, key, listed = LISTED[family]
    data = json.loads(dump(load(name)))
    if listed is not None:
        data |= {key: listed, "placement": "best-fit"} if family == "cluster" else {key: listed, "executors": 10}
    scenarios = in_every_order(data, key)
    assert len(scenarios) > 1
    assert len({digest(scenario) for scenario in scenarios}) == 1
    for policy in applicable(scenarios[0]):
        earned = {float(evaluate(scenario, policy, 2, 0, "test").mean("reward")) for scenario in scenarios}
        assert len(earned) == 1, policy
