"""The hindsight optimum: solved by hand, by exhaustive search, and never below any policy."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from slipstream.core.bracket import Bracket
from slipstream.core.simulator import Simulator
from slipstream.edge.hindsight import jobs_of
from slipstream.edge.oracle import bracket
from slipstream.edge.relaxation import relaxation
from slipstream.edge.scenario import Closed, EdgeScenario
from slipstream.edge.schedule import Schedule
from slipstream.edge.search import search
from slipstream.errors import InputError
from slipstream.evaluation import compare
from slipstream.policies import find, names
from slipstream.scenario import load
from tests.strategies import edge_scenarios, episode_seeds


def small_instance(seed: int, interference: str = "none") -> EdgeScenario:
    """Return a random episode of a few jobs; half of them live on whole milliseconds, so that events coincide."""
    rng = np.random.default_rng(seed)
    horizon = int(rng.integers(8, 24))
    on_grid = bool(rng.integers(2))

    def duration(least: int, most: int) -> float:
        return float(rng.integers(least, most)) if on_grid else round(float(rng.uniform(least, most)), 3)

    def arrival() -> dict[str, object]:
        kind = str(rng.choice(["trace", "trace", "periodic", "poisson"]))
        if kind == "trace":
            return {"kind": kind, "times_ms": sorted(duration(0, 8) for _ in range(int(rng.integers(1, 4))))}
        if kind == "periodic":
            return {"kind": kind, "period_ms": duration(horizon // 2, horizon), "phase_ms": duration(0, 6)}
        return {"kind": kind, "mean_gap_ms": duration(horizon // 2, horizon)}

    def task(number: int) -> dict[str, object]:
        ladder = sorted(duration(1, 8) for _ in range(int(rng.integers(1, 3))))
        return {
            "name": f"task{number}",
            "model": "m",
            "dataset": "d",
            "num_variants": len(ladder),
            "arrival": arrival(),
            "deadline_ms": duration(2, 12),
            "weight": float(rng.choice([0.5, 1.0, 2.0])),
            "variants": [
                {"latency_ms": latency, "accuracy": float(rng.choice([0.4, 0.6, 1.0])), "demand": 1.0 + rank}
                for rank, latency in enumerate(ladder)
            ],
        }

    return load(
        {
            "family": "edge",
            "horizon_ms": horizon,
            "device": {
                "streams": int(rng.choice([1, 2, 2, 3])),
                "interference": {"kind": interference},
                "latency": {"kind": str(rng.choice(["fixed", "lognormal", "exponential"]))},
                "late": str(rng.choice(["drop", "run"])),
                "queue_limit": int(rng.integers(1, 4)),
                "decision_time_ms": float(rng.choice([0.0, 0.0, 0.5, 1.0])),
            },
            "reward": {
                "on_time_accuracy": float(rng.choice([1.0, 1.0, 0.0, 3.0])),
                "lateness": float(rng.choice([0.0, 0.1, 0.5, 3.0])),
                "drops": float(rng.choice([0.0, 0.1, 0.5, 3.0])),
                "utilisation": float(rng.choice([0.0, 0.0, 0.1, 100.0])),
            },
            "tasks": [task(number) for number in range(int(rng.integers(1, 3)))],
        }
    )


def best_by_search(scenario: EdgeScenario, seed: int) -> float:
    """Return the best reward over every sequence of legal actions; nothing is cut, but no state is looked at twice."""
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(seed)
    known: dict[tuple[object, ...], float] = {}

    def state() -> tuple[object, ...]:
        """Return the clock, what the streams do and which jobs wait: all else follows."""
        header, tasks, queue = simulator.header, simulator.arrays["tasks"][0], simulator.arrays["queue"][0]
        streams = [
            tuple(row[name].item() for name in ("task", "job", "variant", "updated", "work", "rate"))
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


def assert_exact(scenario: EdgeScenario, seed: int) -> Bracket:
    found = bracket(scenario, seed)
    assert found.exact, seed
    assert found.bound == pytest.approx(best_by_search(scenario, seed), abs=1e-5), seed
    return found


def test_the_optimum_of_small_episodes_equals_exhaustive_search():
    proofs = Counter(assert_exact(small_instance(seed), seed).method for seed in range(100))
    # The schedule proves most; what it leaves open is closed by trying the choices themselves.
    assert proofs["schedule"] >= 80
    assert proofs["search"] >= 1


def test_it_does_so_under_interference_too():
    for seed in range(20):
        assert assert_exact(small_instance(seed, "share"), seed).method != "schedule"


@pytest.mark.slow
def test_the_optimum_of_many_more_small_episodes_equals_exhaustive_search():
    for seed in range(1000, 1300):
        assert_exact(small_instance(seed), seed)


@pytest.mark.parametrize("interference", ["none", "share"])
def test_every_bound_alone_holds_what_the_others_find(interference):
    for seed in range(100, 140):
        scenario = small_instance(seed, interference)
        jobs = jobs_of(scenario, Simulator(scenario).play(find("edf", "edge"), seed), seed, "test")
        best, bound = search(scenario, jobs, seed, "test", -math.inf, math.inf, math.inf)
        assert best == bound
        assert best <= relaxation(scenario, jobs) + 1e-9
        if interference == "none":
            assert best <= Schedule(scenario, jobs).solve(10.0)[0] + 1e-9


def test_the_relaxation_holds_where_no_rate_of_a_started_run_is_certain(monkeypatch):
    scenario = load("edge/overload").model_copy(update={"horizon_ms": 500.0})
    jobs = jobs_of(scenario, Simulator(scenario).play(find("edf", "edge"), 0), 0, "test")
    certain = relaxation(scenario, jobs)
    monkeypatch.setattr("slipstream.edge.relaxation.worst_rate", lambda *_: 0.0)
    # A job that starts just in time may then take nothing at all, and still does not expire.
    assert relaxation(scenario, jobs) > certain


def test_a_search_that_runs_out_of_time_still_brackets_the_optimum():
    scenario = small_instance(2)
    jobs = jobs_of(scenario, Simulator(scenario).play(find("edf", "edge"), 2), 2, "test")
    best, bound = search(scenario, jobs, 2, "test", -math.inf, 100.0, 0.0)
    assert best < best_by_search(scenario, 2) < bound


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
    for seed in range(100):
        scenario = small_instance(seed)
        found = bracket(scenario, seed)
        simulator = Simulator(scenario)
        for name in names("edge"):
            events = simulator.play(find(name, "edge"), seed)
            assert simulator.family.metrics(scenario, events)["reward"] <= found.bound + 1e-6, (seed, name)
