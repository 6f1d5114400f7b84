"""Planners by local search: plan simulations predict what the machine does, and plans are the better for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slipstream.families.serving.kernel.lookahead import PEAK_TO_MEAN, UNSEEN_FACTOR, DemandModel, DemandScenarios
from slipstream.families.serving.kernel.plan_simulation import simulate_plan
from slipstream.families.serving.local_search import (
    THOROUGH,
    LocalSearchPlanner,
    PlanEvaluator,
    SearchSettings,
    improve,
    stratified_gaps,
)
from slipstream.families.serving.metrics import metrics
from slipstream.families.serving.plans import PlanFunction, PlanningState
from slipstream.families.serving.workload.generator import Settings, generate
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.eventlog import digest
from slipstream.sim.simulator import Simulator
from tests.serving.test_policies import fleet

GAPS = stratified_gaps()
QUICK, ACCURATE = [0.004, 0.011, 8.0, 0.8], [0.02, 0.055, 8.0, 1.0]
"""Accelerators as a plan simulation describes them."""


def machine(rate: float, quick: int, accurate: int) -> Any:
    """Return the scenario of such accelerators, under the default rules."""
    latency = {"quick": [4.0, 5.0, 7.0, 11.0], "accurate": [20.0, 25.0, 35.0, 55.0]}
    return load(
        {
            "family": "serving",
            "accelerators": [{"name": "gpu", "count": quick + accurate}],
            "models": [
                {
                    "name": "m",
                    "slo_ms": 120.0,
                    "variants": [
                        {"name": "quick", "accuracy": 80.0, "latency_ms": {"gpu": latency["quick"]}},
                        {"name": "accurate", "accuracy": 100.0, "latency_ms": {"gpu": latency["accurate"]}},
                    ],
                    "arrivals": {"kind": "poisson", "rate_hz": rate},
                }
            ],
            "initial": [
                {"variant": name, "accelerator": "gpu", "count": count}
                for name, count in (("quick", quick), ("accurate", accurate))
                if count
            ],
            "duration_s": 30.0,
            "planning": {"interval_s": 1e6},
        }
    )


MIXTURES = [(100.0, 0, 1), (150.0, 0, 1), (300.0, 0, 1), (250.0, 1, 1), (600.0, 1, 1), (1500.0, 1, 1)]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("rate", "quick", "accurate"), MIXTURES)
def test_a_plan_simulation_predicts_what_the_machine_does(rate: float, quick: int, accurate: int, whole: bool) -> None:
    scenario = machine(rate, quick, accurate)
    played = metrics(scenario, Simulator(scenario).play(find("eft", "serving"), 0))["on_time_accuracy"]
    members = np.array([QUICK] * quick + [ACCURATE] * accurate)
    assert simulate_plan(GAPS, 1500, rate, 0.12, members, whole) == pytest.approx(played, abs=0.03)


def test_a_crowd_does_not_halve_what_is_answered() -> None:
    # In batches of eight, an accurate one answers 145 a second.
    crowded = machine(200.0, 0, 1)
    hopeless: Any = load(crowded.model_dump(mode="json") | {"drop": "hopeless"})
    answered = {
        scenario.drop: metrics(scenario, Simulator(scenario).play(find("eft", "serving"), 0))["on_time_accuracy"]
        for scenario in (crowded, hopeless)
    }
    assert answered["crowded"] > 0.95 * 145.0 / 200.0
    assert answered["hopeless"] < 0.5 * 145.0 / 200.0


def test_nobody_answers_nothing() -> None:
    assert simulate_plan(GAPS, 100, 10.0, 0.1, np.zeros((0, 4)), True) == 0.0


def test_a_single_request_at_a_time_is_always_on_time() -> None:
    assert simulate_plan(np.ones(1), 100, 1.0, 0.12, np.array([ACCURATE]), True) == 1.0
    assert simulate_plan(np.ones(1), 100, 1.0, 0.019, np.array([ACCURATE]), True) == 0.0


@pytest.mark.parametrize("accelerators", [1, 2, 3])
def test_a_drained_simulation_counts_each_request_once(accelerators: int) -> None:
    # All are answered on time; what is under way at the warm-up and at the end tells nothing about that.
    members = np.array([ACCURATE] * accelerators)
    assert simulate_plan(GAPS, 300, 30.0 * accelerators, 0.12, members, True) == 1.0
    counted = [simulate_plan(GAPS, requests, 30.0, 0.12, members, False) for requests in range(300, 340)]
    assert max(counted) > 1.0 > min(counted)


# What may come


def test_before_anything_was_seen_a_peak_of_twice_the_mean_may_come() -> None:
    demand = DemandModel().predict(fleet())
    assert demand.rates[:3, 0].tolist() == [100.0, 120.0, 100.0 * PEAK_TO_MEAN]
    assert (demand.weights / demand.rates).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("chance", [0.0, 0.01])
def test_more_than_a_burst_comes_as_often_as_it_is_said(chance: float) -> None:
    demand = DemandModel(chance).predict(fleet())
    assert demand.rates[3, 0] == 100.0 * PEAK_TO_MEAN * UNSEEN_FACTOR
    likely = demand.weights / demand.rates
    assert likely[3, 0] == pytest.approx(chance)
    assert likely.sum() == pytest.approx(1.0)


def test_bursts_that_were_seen_are_expected_again() -> None:
    demand_model = DemandModel()
    demand_model.predict(fleet())
    likely = []
    for rate in (10.0, 10.0, 400.0, 10.0):
        demand = demand_model.predict(fleet(demand=np.array([rate]), observed=np.array([rate]), first=False))
        likely.append(float(demand.weights[2, 0] / demand.rates[2, 0]))
    assert likely[3] > likely[1]
    assert 350.0 < demand.rates[2, 0] < 400.0
    assert demand.expected.tolist() == [10.0]


def test_a_sample_that_no_forecast_explains_is_believed() -> None:
    demand_model = DemandModel()
    assert demand_model.predict(fleet(observed=np.array([300.0]))).expected.tolist() == [300.0]
    assert demand_model.predict(fleet(observed=np.array([120.0]))).expected.tolist() == [100.0]


def test_a_new_episode_begins_without_memories() -> None:
    demand_model = DemandModel()
    first = demand_model.predict(fleet())
    demand_model.predict(fleet(demand=np.array([900.0]), first=False))
    again = demand_model.predict(fleet())
    assert first.rates.tolist() == again.rates.tolist()
    assert first.weights.tolist() == again.weights.tolist()


# Plans


def evaluator_at(now: PlanningState, *rates: float) -> PlanEvaluator:
    """Return the evaluator of one model at certain rates, each as likely."""
    listed = np.array(rates)[:, None]
    return PlanEvaluator(now, DemandScenarios(listed, listed / len(rates)), GAPS)


@pytest.mark.parametrize(("rate", "counts"), [(100.0, [0, 3]), (150.0, [1, 2]), (260.0, [3, 0])])
def test_moves_lead_to_the_best_deployment(rate: float, counts: list[int]) -> None:
    # Without batches, one answers 100 or 40 a second.
    plays = evaluator_at(fleet(), rate)
    found = improve(plays, np.zeros(2, np.int64))
    assert found.tolist() == counts
    every = [np.array([quick, 3 - quick]) for quick in range(4)]
    assert plays.total_value(found) == max(plays.total_value(one) for one in every)


def test_no_accelerator_is_left_idle_or_used_twice() -> None:
    found = improve(evaluator_at(fleet(fleet=np.array([5])), 10.0), np.zeros(2, np.int64))
    assert found.sum() <= 5
    assert improve(evaluator_at(fleet(), 250.0), np.zeros(2, np.int64)).sum() == 3


def test_a_switch_has_to_be_worth_its_load() -> None:
    hosted = np.array([2, 1])
    now = fleet(hosted=hosted, first=False)
    assert improve(evaluator_at(now, 150.0), hosted).tolist() == [1, 2]
    # A load that lasts until the next plan brings nothing, and half the capacity is needed meanwhile.
    slow = replace(now, load=np.array([0.5, 0.5]))
    assert improve(evaluator_at(slow, 150.0), hosted).tolist() == [2, 1]


def two_models(**changes: Any) -> PlanningState:
    """Return two models with a variant each, of which an accelerator answers 100 requests a second."""
    alike = {"accuracy": 90.0, "peak": 100.0, "batch_latency": 0.01, "latency": 0.01, "slo": 0.1}
    return fleet(model=np.array([0, 1]), **{name: np.full(2, value) for name, value in alike.items()} | changes)


def test_accelerators_go_to_the_model_that_needs_them() -> None:
    now = two_models(demand=np.array([220.0, 20.0]), hosted=np.array([1, 2]), first=False)
    rates = np.array([[180.0, 20.0]])
    found = improve(PlanEvaluator(now, DemandScenarios(rates, rates), GAPS), now.hosted)
    assert found.tolist() == [2, 1]


def only_quick(now: PlanningState) -> np.ndarray:
    """Return a plan that no single move makes better at a low rate: requests go to the quick ones as long as it can."""
    return np.array([3, 0])


def only_accurate(now: PlanningState) -> np.ndarray:
    return np.array([0, 3])


def planned(now: PlanningState, settings: SearchSettings, *begin: PlanFunction) -> list[int]:
    """Return the second plan of a planner that begins from some others."""
    planner = LocalSearchPlanner("mine", "", *begin, settings=settings)
    planner._plan(replace(now, first=True))
    return [int(count) for count in planner._plan(now)]


@pytest.mark.parametrize(("chance", "counts"), [(0.0, [2, 2]), (THOROUGH.unseen_probability, [3, 1])])
def test_of_deployments_that_bear_all_that_was_seen_the_one_with_most_to_spare_is_taken(
    chance: float, counts: list[int]
) -> None:
    # Two answer 200 a second: enough for a peak of 160, not for half as much again; one is enough for 60.
    rates = np.array([80.0, 20.0])
    now = two_models(demand=rates, observed=rates, fleet=np.array([4]))
    planner = LocalSearchPlanner(
        "mine", "", lambda _: np.array([2, 2]), settings=replace(THOROUGH, unseen_probability=chance)
    )
    assert planner._plan(now).tolist() == counts


LOW = {"demand": np.array([30.0]), "observed": np.array([30.0])}
TIMID = replace(THOROUGH, whole_model_moves=False)


def test_a_local_optimum_is_left_by_another_start_or_by_a_whole_model_move() -> None:
    trapped = fleet(hosted=np.array([3, 0]), first=False, **LOW)
    assert planned(trapped, TIMID, only_quick) == [3, 0]
    assert planned(trapped, TIMID, only_quick, only_accurate) == [0, 3]
    assert planned(trapped, THOROUGH, only_quick)[0] == 0


def test_what_is_hosted_stays_where_nothing_is_better() -> None:
    settled = fleet(hosted=np.array([0, 3]), first=False, **LOW)
    assert planned(settled, THOROUGH, only_quick, only_accurate) == [0, 3]
    # A load costs more until the next plan than the accurate ones bring in.
    slow = fleet(hosted=np.array([3, 0]), first=False, load=np.array([0.5, 0.5]), **LOW)
    assert planned(slow, THOROUGH, only_quick, only_accurate) == [3, 0]


def test_whole_model_moves_use_no_accelerator_twice() -> None:
    plays = PlanEvaluator(fleet(), DemandScenarios(np.array([[70.0]]), np.array([[70.0]])), GAPS, THOROUGH)
    for quick, accurate in ((3, 0), (2, 1), (1, 1)):
        found = improve(plays, np.array([quick, accurate]))
        assert found.min() >= 0
        assert found.sum() <= 3
        assert plays.total_value(found) >= plays.total_value(np.array([quick, accurate]))


def test_plans_are_the_same_in_every_episode_with_the_same_requests() -> None:
    scenario: Any = load("serving/tiny")
    fresh = digest(Simulator(scenario).play(find("milp-thorough", "serving"), 3))
    Simulator(scenario).play(find("milp-thorough", "serving"), 4)
    assert digest(Simulator(scenario).play(find("milp-thorough", "serving"), 3)) == fresh


@pytest.mark.parametrize("name", ["milp-rehearsed", "milp-thorough"])
def test_local_search_is_ahead_of_the_program_in_bursts(name: str) -> None:
    settings = Settings(models=4, accelerators=8, kinds=2, load=1.2, arrivals="bursty", duration_s=45.0, load_s=0.5)
    data = generate(settings, 100).model_dump(mode="json")
    bursty: Any = load(data | {"planning": {"interval_s": 5.0}})
    gained = {
        one: metrics(bursty, Simulator(bursty).play(find(one, "serving"), 0, "train"))["on_time_accuracy"]
        for one in ("milp", name)
    }
    assert gained[name] > gained["milp"] + 0.02
