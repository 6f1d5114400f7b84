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
    """Return the best reward over every sequence of legal actions; nothing is cut, but no state is looked at twice."""
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(seed)
    known: dict[tuple[object, ...], float] = {}

    def state() -> tuple[object, ...]:
        """Return the clock, what the streams do and which jobs wait: without interference all else follows."""
        header, tasks, queue = simulator.header, simulator.arrays["tasks"][0], simulator.arrays["queue"][0]
        streams = [
            (row["task"].item(), row["job"].item(), row["variant"].item(), row["updated"].item())
            if row["task"] >= 0
            else bool(row["parked"] == header["events"])
            for row in simulator.arrays["streams"][0]
        ]
        waiting = [
            (task, ring["index"][(row["head"] + place) % len(ring)].item())
            for task, (row, ring) in enumerate(zip(tasks, queue, strict=True))
            for place in range(row["length"])
        ]
        return (header["now"].item(), tuple(streams), tuple(waiting))

    def best_from_here() -> float:
        if not simulator.asking:
            return 0.0
        here = state()
        if here not in known:
            before = {name: array.copy() for name, array in simulator.arrays.items()}
            known[here] = -np.inf
            for action in np.flatnonzero(simulator.observe()[2]).tolist():
                simulator.step(action)
                known[here] = max(known[here], float(simulator.header["reward"]) + best_from_here())
                for name, array in before.items():
                    simulator.arrays[name][...] = array
        return known[here]

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
