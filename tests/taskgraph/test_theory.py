"""What is known without simulating, and what others have measured on the same graphs."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.families.taskgraph.invariants import check
from slipstream.families.taskgraph.metrics import metrics, tasks_of, transfers_of
from slipstream.policies.base import find, names
from slipstream.scenario import builtin_names, load
from slipstream.sim.simulator import Simulator

LINK = {"bandwidth_mb_s": 1000.0}
LINKS = {"to_device": LINK, "to_host": LINK}
KERNELS = ("POTRF", "TRSM", "SYRK", "GEMM")
BUILT_INS = [name for name in builtin_names() if name.startswith("taskgraph/")]


def in_order_of_submission(eviction: str, tiles: int, n: int = 14):
    """Return a Cholesky on one GPU with room for some tiles; a window of one task keeps the order of submission."""
    return load(
        {
            "family": "taskgraph",
            "processors": [{"name": "gpu", "count": 1, "device": True, "memory_mb": float(tiles)}],
            "links": LINKS,
            "durations": {"kind": "table", "kernels_ms": {kernel: {"gpu": 1.0} for kernel in KERNELS}},
            "graphs": [{"kind": "cholesky", "n": n, "tile_bytes": 1_000_000}],
            "visibility": {"kind": "window", "tasks": 1},
            "eviction": eviction,
        }
    )


@pytest.mark.parametrize(("eviction", "loads"), [("lru", 543), ("belady", 381)])
def test_loads_of_a_cholesky_in_its_own_order(eviction, loads):
    # 14 x 14 tiles, 105 of them, room for 26: counted by another program.
    events = Simulator(in_order_of_submission(eviction, 26)).play(find("fifo", "taskgraph"), 0)
    assert int((transfers_of(events).variant == 0).sum()) == loads


def test_a_window_of_one_keeps_the_order_of_submission():
    events = Simulator(in_order_of_submission("lru", 26, n=6)).play(find("fifo", "taskgraph"), 0)
    assert tasks_of(events).task.tolist() == list(range(56))


def test_with_room_for_all_every_tile_is_loaded_once():
    events = Simulator(in_order_of_submission("lru", 105)).play(find("fifo", "taskgraph"), 0)
    transfers = transfers_of(events)
    assert sorted(transfers.task.tolist()) == list(range(105))
    assert set(transfers.variant.tolist()) == {0}


@pytest.mark.parametrize("eviction", ["lru", "luf", "belady"])
def test_more_memory_never_costs_belady_a_load_and_nobody_beats_it(eviction):
    loads = []
    for tiles in (6, 12, 26, 60):
        found = {}
        for rule in ("belady", eviction):
            events = Simulator(in_order_of_submission(rule, tiles, n=10)).play(find("fifo", "taskgraph"), 0)
            found[rule] = int((transfers_of(events).variant == 0).sum())
        assert found["belady"] <= found[eviction]
        loads.append(found["belady"])
    assert loads == sorted(loads, reverse=True)


@pytest.mark.parametrize("name", BUILT_INS)
def test_every_policy_ends_every_built_in_within_the_laws(name):
    scenario = load(name)
    simulator = Simulator(scenario)
    for policy in names("taskgraph"):
        events = simulator.play(find(policy, "taskgraph"), 3)
        check(events, scenario)
        figures = metrics(scenario, events)
        assert figures["ratio_to_bound"] >= 1.0
        assert figures["busy_share"] + figures["stall_share"] <= 1.0 + 1e-9


def test_the_reward_is_minus_the_makespan():
    scenario = load("taskgraph/unrolled")
    figures = metrics(scenario, Simulator(scenario).play(find("mct", "taskgraph"), 3))
    assert figures["reward"] == -figures["makespan_ms"]


@pytest.mark.parametrize(("kind", "mean", "sd"), [("additive", None, None), ("lognormal", 8.0, 2.4)])
def test_noise_has_its_moments(kind, mean, sd):
    noise = {"kind": kind, **({"sd_ms": 1.0, "floor_ms": -5.0} if kind == "additive" else {"cv": 0.3})}
    scenario = load(
        {
            "family": "taskgraph",
            "processors": [{"name": "gpu", "count": 1}, {"name": "cpu", "count": 1}],
            "durations": {"kind": "table", "kernels_ms": {"GEMM": {"gpu": 8.0, "cpu": 8.0}}},
            "noise": {**noise, "kinds": ["gpu"]},
            "graphs": [{"kind": "gemm", "n": 16}],
        }
    )
    tasks = tasks_of(Simulator(scenario).play(find("fifo", "taskgraph"), 0))
    times = (tasks.end - tasks.start) / 1e6
    # Kinds that are equally fast are numbered by name: the GPU is the second.
    noisy = times[tasks.variant == 1]
    # Some 2,000 draws: standard errors of 0.02 and 0.05.
    assert noisy.mean() == pytest.approx(mean or 8.0, abs=0.2)
    assert noisy.std() == pytest.approx(sd or 1.0, rel=0.1)
    assert np.all(times[tasks.variant == 0] == 8.0)
