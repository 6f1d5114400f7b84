"""Planners: what they host is what they say, the program finds known optima, and bad luck is handled."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slipstream.families.serving import features as f
from slipstream.families.serving.metrics import deployments_of, metrics
from slipstream.families.serving.plans import PlanningState, next_move, planning_state
from slipstream.families.serving.policies import infaas, load_proportional, milp, sommelier
from slipstream.families.serving.solver import highs, largest_base, solve, solve_integer, undominated
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.eventlog import digest
from slipstream.sim.simulator import Simulator

PLANNERS = [
    *("static", "random", "lfu", "load-proportional", "infaas", "clipper-ha", "clipper-ht", "sommelier"),
    *("milp", "milp-rehearsed", "milp-thorough", "milp-throughput"),
]


def fleet(**changes: Any) -> PlanningState:
    """Return one model with a fast and an accurate variant on three accelerators of one kind."""
    now = PlanningState(
        model=np.array([0, 0]),
        variant=np.array([0, 1]),
        kind=np.array([0, 0]),
        accuracy=np.array([80.0, 100.0]),
        peak=np.array([100.0, 40.0]),
        load=np.zeros(2),
        latency=np.array([0.01, 0.025]),
        batch_latency=np.array([0.01, 0.025]),
        hosted=np.zeros(2, np.int64),
        demand=np.array([100.0]),
        observed=np.array([100.0]),
        recent_peak=np.zeros(1),
        slo=np.array([0.2]),
        fleet=np.array([3]),
        interval=5.0,
        headroom=1.0,
        shortage=1000.0,
        accuracy_weight=1.0,
        served_share=1.0,
        gap=0.0,
        seconds=10.0,
        first=True,
        coin=0.5,
    )
    return replace(now, **changes)


ALL = np.ones(2, bool)


@pytest.mark.parametrize(
    ("demand", "headroom", "counts"),
    [
        # Three accurate ones serve 120; for more, one of them has to be fast: 180; then two: 240.
        (100.0, 1.0, [0, 3]),
        (130.0, 1.0, [1, 2]),
        (100.0, 1.5, [1, 2]),
        (200.0, 1.0, [2, 1]),
        (290.0, 1.0, [3, 0]),
    ],
)
def test_known_optima(demand: float, headroom: float, counts: list[int]) -> None:
    now = fleet(demand=np.array([demand]))
    found = solve(now, ALL, np.array([headroom]))
    assert milp(replace(now, headroom=headroom)).tolist() == counts
    assert found.gap <= 1e-6


def test_headroom_is_bought_only_for_its_price() -> None:
    # Three accurate ones have 1.2 of capacity. For 1.8, 100 of 180 are answered at 80%: 0.2 less for all of them. The
    # price is whole up to 1.27 and a quarter from there on.
    cheap, dear = fleet(headroom=1.8, shortage=0.9), fleet(headroom=1.8, shortage=2.0)
    assert milp(cheap).tolist() == [0, 3]
    assert milp(dear).tolist() == [1, 2]


def test_more_than_the_fleet_can_do_lowers_the_base() -> None:
    found = solve(fleet(demand=np.array([600.0])), ALL, np.ones(1))
    assert found.counts.tolist() == [3, 0]
    assert found.base == pytest.approx(0.5, rel=0.01)
    assert largest_base(fleet(), np.array([600.0])) == pytest.approx(0.5)


def test_weights_between_accuracy_and_amount() -> None:
    now = fleet(demand=np.array([300.0]), served_share=0.0)
    # Only what is asked for by weight: with a price below the loss of accuracy, less is served, and better.
    assert milp(replace(now, shortage=0.0)).tolist() == [0, 3]
    assert milp(replace(now, shortage=0.0, accuracy_weight=0.0, served_share=1.0)).tolist() == [3, 0]


def test_a_load_that_does_not_pay_is_not_made() -> None:
    hosted = np.array([1, 2])
    now = fleet(hosted=hosted, demand=np.array([118.0]), first=False)
    assert milp(now).tolist() == [0, 3]
    assert milp(replace(now, load=np.array([1.0, 1.0]))).tolist() == [1, 2]


def test_dominated_columns_are_left_out() -> None:
    now = fleet(accuracy=np.array([80.0, 80.0]))
    assert undominated(now).tolist() == [True, False]
    equal = fleet(accuracy=np.array([80.0, 80.0]), peak=np.array([50.0, 50.0]))
    assert undominated(equal).tolist() == [True, False]
    assert undominated(fleet()).tolist() == [True, True]


def test_another_solver_plugs_in() -> None:
    asked = []

    def recording(program: Any) -> Any:
        asked.append(program)
        return highs(program)

    assert solve(fleet(), ALL, np.ones(1), solver=recording).counts.tolist() == [0, 3]
    assert len(asked) == 1


def test_the_gap_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "slipstream.families.serving.policies"):
        milp(fleet())
    assert "plan: gap 0.0000" in caplog.text


def test_infaas_replicates_then_speeds_up() -> None:
    # Two accurate ones keep up with 70; for 130, two are accurate and one is fast.
    assert infaas(fleet(observed=np.array([70.0]))).tolist() == [0, 2]
    assert infaas(fleet(observed=np.array([130.0]))).tolist() == [1, 2]


def test_load_proportional_takes_the_most_accurate_that_keeps_up() -> None:
    assert load_proportional(fleet(demand=np.array([110.0]))).tolist() == [0, 3]
    assert load_proportional(fleet(demand=np.array([130.0]))).tolist() == [3, 0]


def test_sommelier_keeps_the_accelerators_of_each_model() -> None:
    now = fleet(
        model=np.array([0, 0, 1]),
        variant=np.array([0, 1, 2]),
        kind=np.zeros(3, np.int64),
        accuracy=np.array([80.0, 100.0, 90.0]),
        peak=np.array([100.0, 40.0, 50.0]),
        load=np.zeros(3),
        latency=np.array([0.01, 0.025, 0.02]),
        batch_latency=np.array([0.01, 0.025, 0.02]),
        hosted=np.array([0, 2, 1]),
        demand=np.array([150.0, 10.0]),
        observed=np.array([150.0, 10.0]),
        recent_peak=np.zeros(2),
        slo=np.array([0.2, 0.2]),
        first=False,
    )
    assert sommelier(now).tolist() == [2, 0, 1]


def test_moves_free_first_and_lead_to_the_target() -> None:
    scenario: Any = load("serving/tiny")
    simulator = Simulator(scenario)
    simulator.reset(0)
    target = np.zeros(7)
    target[[0, 1]] = 1
    while True:
        _, rows, mask = simulator.observe()
        move = next_move(target[: (len(mask) - 1) // 2], rows, mask)
        if move == len(mask) - 1:
            break
        simulator.step(move)
    now = planning_state(*simulator.observe()[:2])
    assert now.hosted.tolist() == target[: len(now.hosted)].tolist()
    assert now.fleet.tolist() == [1, 2]


def test_a_plan_that_was_given_up_is_forgotten() -> None:
    planner = find("milp", "serving")
    scenarios: list[Any] = [load("serving/small"), load("serving/tiny")]
    for scenario in scenarios:
        simulator = Simulator(scenario)
        simulator.reset(0)
        # Only the first move of the plan is made.
        assert simulator.observe()[2][planner.choose(*simulator.observe())]


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_serves_most_requests_and_plans_the_same_twice(name: str) -> None:
    scenario: Any = load("serving/tiny")
    first, second = (Simulator(scenario).play(find(name, "serving"), 3) for _ in range(2))
    assert digest(first) == digest(second)
    assert metrics(scenario, first)["violation_ratio"] < (1.0 if name == "random" else 0.6)
    if name.startswith(("static", "clipper")):
        assert deployments_of(first).switches == 0


def test_rules_of_mode_route_prefer_time_or_accuracy() -> None:
    scenario: Any = load("serving/route")
    figures = {
        name: metrics(scenario, Simulator(scenario).play(find(name, "serving"), 3)) for name in ("eft", "most-accurate")
    }
    assert figures["most-accurate"]["effective_accuracy"] > figures["eft"]["effective_accuracy"]
    assert figures["eft"]["p50_ms"] < figures["most-accurate"]["p50_ms"]
    assert f.SEND != f.HOST


def large() -> PlanningState:
    """Return twenty models with four variants each on four kinds of accelerators: 320 columns."""
    rng = np.random.default_rng(5)
    model, rung, kind = (place.ravel() for place in np.indices((20, 4, 4)))
    peak = rng.uniform(150.0, 250.0, 20)[model] * 0.6**rung * 1.5**kind
    return fleet(
        model=model,
        variant=4 * model + rung,
        kind=kind,
        accuracy=rng.uniform(60.0, 80.0, 20)[model] + 5.0 * rung,
        peak=peak,
        load=np.full(320, 0.05),
        latency=1.0 / peak,
        batch_latency=1.0 / peak,
        hosted=rng.integers(0, 2, 320) * (rung == 1),
        demand=rng.uniform(100.0, 900.0, 20),
        observed=np.zeros(20),
        recent_peak=np.zeros(20),
        slo=np.full(20, 0.2),
        fleet=np.full(4, 30),
        shortage=0.4,
        gap=0.003,
        first=False,
    )


def test_of_many_columns_the_best_are_enough() -> None:
    now, programs = large(), []

    def recording(program: Any) -> Any:
        programs.append(program)
        return highs(program)

    found = solve(now, np.ones(320, bool), np.full(20, 1.5), solver=recording)
    assert len(programs[-1].value) == 320
    # All columns at once, and the gap that was proven without looking at them.
    every = solve_integer(programs[-1])
    assert every is not None
    assert found.value <= every.value * 1.003
    assert every.value <= found.value * (1.0 + found.gap) + 1e-9
    assert found.gap < 0.01
    assert (np.bincount(now.kind, found.counts) <= now.fleet).all()
