"""The hindsight optimum: solved by hand, by exhaustive search, and never below any policy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from slipstream.core.simulator import Simulator
from slipstream.edge.oracle import bracket
from slipstream.edge.scenario import Closed, EdgeScenario
from slipstream.errors import InputError
from slipstream.evaluation import compare
from slipstream.policies import find, names
from slipstream.scenario import load
from tests.strategies import edge_scenarios, episode_seeds


def small_instance(seed: int) -> EdgeScenario:
    """Return a random episode of a few jobs without interference."""
    rng = np.random.default_rng(seed)
    tasks = []
    for number in range(int(rng.integers(1, 3))):
        ladder = sorted(rng.integers(1, 8, size=int(rng.integers(1, 3))).tolist())
        tasks.append(
            {
                "name": f"task{number}",
                "model": "m",
                "dataset": "d",
                "num_variants": len(ladder),
                "arrival": {"kind": "trace", "times_ms": sorted(rng.integers(0, 8, size=2).tolist())},
                "deadline_ms": int(rng.integers(2, 12)),
                "weight": float(rng.choice([0.5, 1.0, 2.0])),
                "variants": [
                    {"latency_ms": latency, "accuracy": 0.4 + 0.2 * rank} for rank, latency in enumerate(ladder)
                ],
            }
        )
    device = {
        "streams": int(rng.integers(1, 3)),
        "interference": {"kind": "none"},
        "latency": {"kind": str(rng.choice(["fixed", "lognormal"]))},
        "late": str(rng.choice(["drop", "run"])),
        "queue_limit": 4,
    }
    return load({"family": "edge", "horizon_ms": int(rng.integers(8, 24)), "device": device, "tasks": tasks})


def best_by_search(scenario: EdgeScenario, seed: int) -> float:
    """Return the best reward over every sequence of legal actions."""
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(seed)
    known: dict[bytes, float] = {}

    def best_from_here() -> float:
        if not simulator.asking:
            return 0.0
        before = {name: array.copy() for name, array in simulator.arrays.items()}
        for past in ("reward", "elapsed", "choices", "illegal", "step_began", "step_busy_time", "chosen_events"):
            simulator.header[past] = 2
        key = b"".join(simulator.arrays[name].tobytes() for name in ("lanes", "tasks", "streams", "queue", "heap"))
        restore(before)
        if key not in known:
            legal = np.flatnonzero(simulator.observe()[2])
            known[key] = -np.inf
            for action in legal:
                simulator.step(int(action))
                known[key] = max(known[key], float(simulator.header["reward"]) + best_from_here())
                restore(before)
        return known[key]

    def restore(before: dict[str, np.ndarray]) -> None:
        for name, array in before.items():
            simulator.arrays[name][...] = array

    return best_from_here()


def test_the_optimum_of_tiny_is_the_one_found_by_hand():
    found = bracket(load("edge/tiny"), seed=0)
    assert found.exact
    assert found.bound == pytest.approx(5.0)


def test_the_bracket_holds_the_result_of_exhaustive_search_and_mostly_meets_it():
    exact = 0
    for seed in range(100):
        scenario = small_instance(seed)
        found = bracket(scenario, seed)
        searched = best_by_search(scenario, seed)
        assert found.best_known - 1e-5 <= searched <= found.bound + 1e-5, seed
        if found.exact:
            assert searched == pytest.approx(found.bound, abs=1e-5), seed
            exact += 1
    assert exact >= 90


@settings(max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(edge_scenarios(), episode_seeds())
def test_no_policy_exceeds_the_bound_on_any_machine(device: EdgeScenario, seed: int) -> None:
    if any(isinstance(task.arrival, Closed) for task in device.tasks):
        with pytest.raises(InputError, match="closed-loop"):
            bracket(device, seed, seconds=0.2)
        return
    found = bracket(device, seed, seconds=0.2)
    assert found.best_known <= found.bound + 1e-6


@pytest.mark.parametrize("name", ["edge/heavy", "edge/overload", "edge/drone"])
def test_the_built_ins_are_bracketed(name):
    comparison = compare(name, "edf,lookahead", episodes=1, seed=10_000, oracle_seconds=1.0)
    found = comparison.brackets[0]
    assert not found.exact
    assert 0.85 * found.bound < found.best_known < found.bound
    places = comparison.to_dict()["oracle"]["places"]
    assert places["edf"] < places["lookahead"] <= found.best_known / found.bound + 1e-12


def test_every_policy_of_a_small_episode_lies_below_the_optimum():
    for seed, name in itertools.product(range(10), names("edge")):
        scenario = small_instance(seed)
        found = bracket(scenario, seed)
        simulator = Simulator(scenario)
        events = simulator.play(find(name, "edge"), seed)
        assert simulator.family.metrics(scenario, events)["reward"] <= found.bound + 1e-6
