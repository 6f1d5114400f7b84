"""The policy that simulates ahead: honest about the future, deterministic, and better than its base."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from slipstream.errors import PolicyError
from slipstream.evaluation import compare
from slipstream.families.contract import FAMILIES
from slipstream.policies.base import ModelBased, PlanMaker, Policy, find
from slipstream.policies.plan_rollout import PlanRollout
from slipstream.policies.rollout import Estimate, Rollout
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator
from tests.resampling import RULES, SCENARIOS, altered, decisions, family_of, same, suite_data

NAMES = sorted(SCENARIOS)
UNCHANGED = ("now", "seed", "key", "status", "asked", "choices", "events", "reward", "mistakes")
"""Fields of a lane that a decision leaves as they are; others hold what rows were computed from."""


def rollout(family: str, seed: int = 0, peeks: bool = False) -> Rollout:
    base = find(RULES[family], family_of(family))
    kind = PlanRollout if isinstance(base, PlanMaker) else Rollout
    return kind(family_of(family), [base], seed=seed, futures=4, candidates=4, peeks=peeks)


def other_futures(simulator: Simulator) -> list[dict[str, np.ndarray]]:
    """Return states that a policy cannot tell from the simulator's: altered by hand, and with other futures."""
    true = simulator.save()
    found = [altered(simulator, np.random.default_rng(number)) for number in range(3)]
    if simulator.family.name == "edge":
        # What a job has done is computed from what was drawn for it, which a resampled state does not hold.
        return found
    for key in (1001, 1002, 1003):
        simulator.restore(true)
        simulator.resample(key)
        found.append(simulator.save())
    simulator.restore(true)
    return found


@pytest.mark.parametrize("family", NAMES)
def test_its_actions_do_not_depend_on_the_future(family: str) -> None:
    policy = rollout(family)
    compared = 0
    for simulator in decisions(family, 3, 6):
        others = other_futures(simulator)
        before = simulator.save()["lanes"][list(UNCHANGED)]
        estimate = policy.estimate(simulator)
        assert np.array_equal(before, simulator.save()["lanes"][list(UNCHANGED)])
        for state in others:
            simulator.restore(state)
            other = policy.estimate(simulator)
            assert np.array_equal(estimate.actions, other.actions)
            assert np.array_equal(estimate.totals, other.totals, equal_nan=True)
        compared += len(estimate.actions) > 1
    assert compared > 3


@pytest.mark.parametrize("family", NAMES)
def test_a_policy_that_plays_the_true_future_fails_that_test(family: str) -> None:
    policy = rollout(family, peeks=True)
    for simulator in decisions(family, 3, 6):
        others = other_futures(simulator)[1:]
        found = policy.estimate(simulator)
        for state in others:
            simulator.restore(state)
            if not np.array_equal(found.totals, policy.estimate(simulator).totals, equal_nan=True):
                return
    pytest.fail("the true future was not seen")


@pytest.mark.parametrize("family", NAMES)
def test_it_is_deterministic_for_its_seed(family: str) -> None:
    simulator = next(one for one in decisions(family, 3, 6) if len(rollout(family).estimate(one).actions) > 1)
    one, copy, other = rollout(family), pickle.loads(pickle.dumps(rollout(family))), rollout(family, seed=1)
    totals = one.estimate(simulator).totals
    assert np.array_equal(totals, copy.estimate(simulator).totals, equal_nan=True)
    assert not np.array_equal(totals, other.estimate(simulator).totals, equal_nan=True)


@pytest.mark.parametrize("family", NAMES)
def test_whole_episodes_are_those_of_its_single_decisions(family: str) -> None:
    scenario, policy = SCENARIOS[family](), rollout(family)
    assert isinstance(policy, ModelBased)
    assert isinstance(policy, Policy)
    simulator = Simulator(scenario)
    whole = simulator.play(policy, 2, "train")
    # A small log is flushed on the way.
    margin = simulator.family.log_margin(scenario)
    assert np.array_equal(Simulator(scenario, log_rows=56 + margin).play(policy, 2, "train"), whole)
    simulator.reset(2, "train")
    while simulator.asking:
        simulator.step(policy.decide(simulator))
    assert np.array_equal(simulator.log(), whole)


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("dag", "rollout(fifo)"),
        ("taskgraph", "rollout(fifo)"),
        ("cluster", "rollout(fifo)"),
        ("serving-route", "rollout(most-accurate)"),
    ],
)
def test_it_is_ahead_of_its_base(family: str, name: str) -> None:
    base = name[len("rollout(") : -1]
    found = compare(SCENARIOS[family](), [base, name], episodes=4, seed=100, split="train")
    assert found.evaluations[1].policy == name
    assert found.difference(name, base, "reward")[0] > 0.0


def test_a_candidate_is_judged_by_the_base_that_plays_on_best() -> None:
    bases = [find(name, "dag") for name in ("fifo", "srpt")]
    both = Rollout("dag", bases, futures=4, candidates=4)
    simulator = next(one for one in decisions("dag", 3, 6) if len(both.estimate(one).actions) > 2)
    found = both.estimate(simulator)
    alone = [Rollout("dag", [base], futures=4, candidates=9).estimate(simulator) for base in bases]
    for number, action in enumerate(found.actions.tolist()):
        means = [float(one.means[one.actions.tolist().index(action)]) for one in alone]
        assert found.means[number] == pytest.approx(max(means))


def test_names_give_the_bases() -> None:
    assert [base.name for base in find("rollout(sjf-cp, fair)", "dag").bases] == ["sjf-cp", "fair"]  # type: ignore[attr-defined]
    assert find("rollout", "cluster").name == "rollout(saf)"
    assert find("rollout(wfp3)", "cluster").name == "rollout(wfp3)"
    with pytest.raises(PolicyError, match="unknown policy 'sjf-pc' of family 'dag': did you mean 'sjf-cp'"):
        find("rollout(sjf-pc)", "dag")
    assert find("rollout", "serving").name == "rollout(milp-thorough)"
    with pytest.raises(PolicyError, match="'eft' makes no plans: expected planners only"):
        find("rollout(milp,eft)", "serving")


@pytest.mark.thorough
def test_a_network_can_play_on() -> None:
    learned = next(iter(sorted((FAMILIES["dag"].folder / "learned").iterdir()))).name
    policy = Rollout("dag", [find(learned, "dag")], futures=2, candidates=3)
    simulator = decisions("dag", 3, 12)[1]
    first = policy.estimate(simulator)
    assert len(first.actions) > 1
    assert np.isfinite(first.totals).all()
    before = simulator.save()
    find(learned, "dag").run(simulator, 1)  # type: ignore[attr-defined]
    after = simulator.save()
    simulator.restore(before)
    simulator.step(int(first.actions[0]))
    assert same(after, simulator.save())


def test_an_action_must_lead_by_more_than_a_standard_error() -> None:
    actions = np.array([7, 3])
    assert Estimate(actions, np.array([[0.0, 1.0], [0.0, 1.2]])).action == 3
    assert Estimate(actions, np.array([[0.0, 3.0], [0.0, -2.0]])).action == 7
    assert Estimate(actions, np.array([[0.0, 0.0], [0.0, 0.0]])).action == 7


def test_candidates_that_are_surely_behind_are_given_up() -> None:
    actions = np.array([7, 3, 5])
    # Two futures say too little, four say that the last candidate is behind.
    unlike = np.array([[1.0, 2.0, -9.0], [1.0, 0.5, -8.0], [1.0, 1.4, -9.0], [1.0, 0.7, -8.5]])
    assert Estimate(actions, unlike[:2]).candidates_left().tolist() == [0, 1, 2]
    assert Estimate(actions, unlike).candidates_left().tolist() == [0, 1]
    more = np.vstack([unlike, [[1.0, 1.9, np.nan], [1.0, 2.0, np.nan]]])
    assert Estimate(actions, more).last.tolist() == [0, 1]
    assert Estimate(actions, more).action == 3
    # The first is played in all futures: in those to come it may be ahead after all.
    certain = np.repeat([[0.0, 2.0, 1.0]], 4, axis=0)
    assert Estimate(actions, certain).candidates_left().tolist() == [0, 1]
    assert Estimate(actions, np.repeat([[2.0, 2.0, 1.0]], 4, axis=0)).candidates_left().tolist() == [0]


def test_a_certain_rest_is_decided_after_four_futures_where_the_base_leads() -> None:
    data = suite_data("taskgraph", "small")
    data.pop("noise")
    simulator = Simulator(load(data), log_rows=0)
    simulator.reset(1)
    policy = Rollout("taskgraph", [find("mct", "taskgraph")])
    counts = set()
    while simulator.asking:
        found = policy.estimate(simulator)
        if found.action == found.actions[0]:
            counts.add(len(found.totals))
        simulator.step(found.action)
    assert counts == {0, 4}


@pytest.mark.parametrize(("family", "name"), [("serving", "rollout(eft)"), ("serving-route", "rollout(milp)")])
def test_bases_must_apply_to_the_scenario(family: str, name: str) -> None:
    simulator = decisions(family, 3, 6)[0]
    with pytest.raises(PolicyError, match=r"does not apply: it (routes|plans)"):
        find(name, "serving").decide(simulator)  # type: ignore[attr-defined]


def test_plans_of_all_planners_are_candidates() -> None:
    """The base's plan comes first; that of another planner, and staying as it is, are tried too."""
    simulator = decisions("serving", 3, 1)[0]
    wait = simulator.family.candidate_rows(simulator.scenario) - 1
    policy = PlanRollout("serving", [find("infaas", "serving")], futures=2)
    found = policy.estimate(simulator)
    tried = {tuple(plan[plan < wait].tolist()) for plan in found.plans}
    assert () in tried
    assert (found.plans[:, -1] == wait).all()
    for name in ("infaas", "milp", "static"):
        copy = Simulator(simulator.scenario, log_rows=0)
        copy.restore(simulator.save())
        planner, rows = find(name, "serving"), []
        while copy.header["now"] == simulator.header["now"]:
            rows.append(int(planner.choose(*copy.observe())))
            copy.step(rows[-1])
        assert tuple(rows[:-1]) in tried
        if name == "infaas":
            assert found.plans[0, : len(rows)].tolist() == rows


def test_it_plans_better_than_the_planner_that_it_begins_with() -> None:
    data = {**suite_data("serving", "medium"), "duration_s": 8.0}
    found = compare(load(data), ["static", "rollout(static)"], episodes=2, seed=100, split="train")
    assert found.difference("rollout(static)", "static", "reward")[0] > 0.0


def test_a_plan_is_carried_out_to_its_end() -> None:
    simulator = decisions("serving", 3, 1)[0]
    policy = PlanRollout("serving", [find("infaas", "serving")], futures=4)
    now, plan = int(simulator.header["now"]), policy.estimate(simulator).plan
    taken = []
    while simulator.header["now"] == now:
        taken.append(policy.decide(simulator))
        simulator.step(taken[-1])
    assert taken == plan[: len(taken)].tolist()
    assert len(taken) > 2
    # The next plan is made for the next decision.
    assert len(policy.estimate(simulator).plans) > 1
