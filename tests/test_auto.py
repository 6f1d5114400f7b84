"""`auto`: races policies on training episodes of the scenario, keeps the result, and says why."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import slipstream
from slipstream.errors import PolicyError
from slipstream.evaluation import compare
from slipstream.policies import auto, base
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator
from tests.resampling import suite_data


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep choices in a folder of the test's own."""
    monkeypatch.setattr(auto, "_folder", lambda: tmp_path / "auto")
    return tmp_path / "auto"


def small(**more: object) -> dict[str, object]:
    data = suite_data("dag", "small")
    data["arrivals"] = {"kind": "poisson", "jobs": 5, "mean_gap_s": 60.0, "initial_jobs": 2}
    return {**data, **more}


@pytest.mark.thorough
def test_it_plays_the_winner_of_the_race_and_keeps_it(own_store: Path) -> None:
    scenario = load(small())
    policy = find("auto", "dag")
    events = Simulator(scenario).play(policy, 5)
    choice = auto.choice_for(scenario)
    assert np.array_equal(Simulator(scenario).play(find(choice.policy, "dag"), 5), events)
    assert choice.policy in choice.reason
    assert "training episodes" in choice.reason
    assert {"fifo", "fair", "sjf-cp"} <= set(choice.rewards)
    assert any(name.startswith("rollout(") for name in choice.rewards)
    stored = list(own_store.iterdir())
    assert len(stored) == 1
    # What is stored is played, without another race.
    stored[0].write_text(json.dumps({"policy": "fifo", "reason": "stored"}))
    assert auto.choice_for(scenario).policy == "fifo"
    assert find("auto", "dag").policy_for(scenario).name == "fifo"  # type: ignore[attr-defined]
    # A copy plays what the policy has chosen, in another process too.
    assert pickle.loads(pickle.dumps(policy)).policy_for(load(small())).name == choice.policy
    assert pickle.loads(pickle.dumps(find("auto", "dag"))).policy_for(scenario).name == "fifo"
    # Damage means a new race.
    stored[0].write_text("{")
    assert auto.choice_for(scenario) == choice


@pytest.mark.usefixtures("own_store")
def test_another_scenario_has_a_choice_of_its_own() -> None:
    played = []

    def race(scenario: object) -> auto.Choice:
        played.append(scenario)
        return auto.Choice("fifo", "given")

    for executors in (5, 6, 5):
        auto.choice_for(load(small(executors=executors)), race)  # type: ignore[arg-type]
    assert len(played) == 2


def test_a_more_complicated_policy_must_be_surely_ahead() -> None:
    race = auto.Race(load(small()))
    race.rewards = {"plain": [1.0, 2.0, 3.0, 4.0], "noisy": [9.0, -5.0, 3.0, 8.0], "sure": [2.0, 3.1, 4.0, 5.2]}
    assert not race.is_ahead("noisy", "plain")
    assert race.is_ahead("sure", "plain")
    assert not race.is_ahead("plain", "plain")


def test_a_race_is_bounded_by_work_that_no_clock_measures() -> None:
    scenario = load(small())
    race = auto.Race(scenario)
    fair = find("fair", "dag")
    rollout = find("rollout(fair)", "dag")
    work = race.work(rollout, fair)  # type: ignore[arg-type]
    assert work == auto.Race(scenario).work(rollout, fair) > 0  # type: ignore[arg-type]
    assert race.is_longer_than(fair, 5)
    assert not race.is_longer_than(fair, auto.NO_LIMIT)
    long = auto.choose_policy(scenario, effort=auto.Effort(decisions=5, work=0))
    assert (long.policy, long.rewards) == ("fair", {})
    short = auto.choose_policy(scenario, effort=auto.Effort(decisions=auto.NO_LIMIT, work=1))
    assert "simulates too much: rollout(" in short.reason
    assert not any(name.startswith("rollout(") for name in short.rewards)


def test_a_planner_takes_more_of_the_work_than_a_rule() -> None:
    scenario = load("serving/tiny")
    race, planner = auto.Race(scenario), find("infaas", "serving")
    assert race.is_longer_than(planner, auto.PLANNER_WORK)
    assert not race.is_longer_than(planner, 1000 * auto.PLANNER_WORK)


def test_where_decisions_cannot_wait_nothing_is_simulated_ahead() -> None:
    moves: list[tuple[int, int]] = []
    choice = auto.choose_policy(load(small()), lambda *at: moves.append(at), auto.ON_DEVICE)
    assert not any(name.startswith("rollout(") for name in choice.rewards)
    assert "simulate" not in choice.reason
    assert moves[-1] == (len(choice.rewards), len(choice.rewards))


def test_policies_of_other_packages_race_but_their_choice_is_not_stored(own_store: Path) -> None:
    @slipstream.chooser("dag")
    def last_of_all(global_row, rows, mask):  # type: ignore[no-untyped-def]
        """Take the last legal row but waiting."""
        last = len(mask) - 1
        for index in range(len(mask) - 1):
            if mask[index]:
                last = index
        return last

    try:
        assert "last-of-all" in find("auto", "dag").choice(load(small())).rewards  # type: ignore[attr-defined]
        assert not own_store.exists()
    finally:
        del base._REGISTRY["dag"]["last-of-all"]


@pytest.mark.usefixtures("own_store")
def test_it_is_the_policy_of_a_run_that_names_none() -> None:
    found = slipstream.run(small())
    assert (found.policy, found.about["policy"]) == ("auto", "auto")
    named = slipstream.run(small(), found.about["plays"])
    assert named.digest == found.digest
    assert found.about["command"] == named.about["command"]


@pytest.mark.usefixtures("own_store")
def test_it_is_compared_like_any_other_policy() -> None:
    found = compare(load(small()), ["fifo", "auto"], episodes=2)
    assert [(one.policy, one.kind) for one in found.evaluations] == [("fifo", "heuristic"), ("auto", "model-based")]
    with pytest.raises(PolicyError, match="expected a simulator"):
        find("auto", "dag").choose(np.zeros(1), np.zeros((1, 1)), np.ones(1, bool))
