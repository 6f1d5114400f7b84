"""Outcomes in words and numbers, and the race that decides what they are measured against."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.event import trigger_event

import slipstream
from slipstream.errors import InputError
from slipstream.learn import clock, defaults
from slipstream.learn.outcome import judge_outcome, suggest
from slipstream.learn.race import ROUNDS, play_within, race
from slipstream.learn.reference import Reference
from slipstream.policies.base import applicable, find
from slipstream.sim.simulator import Simulator


class Ticks:
    """A clock that advances by one at every look."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


@pytest.mark.parametrize(
    ("gap", "verdict", "words"),
    [
        ([1.0, 2.0, 3.0], "ahead", "Ahead: reward 12.0 against 10.0 of edf, the best heuristic, better by 2.0"),
        ([-1.0, -2.0, -3.0], "behind", "Behind: reward 8.0 against 10.0 of edf, the best heuristic, worse by 2.0"),
        ([-1.0, 0.0, 1.0], "level", "Level: reward 10.0 against 10.0 of edf, the best heuristic, a difference of"),
        ([5.0], "level", "Level: reward 15.0 against 10.0 of edf, the best heuristic, a difference of +5.0 (one"),
    ],
)
def test_the_verdict_follows_the_interval_of_the_paired_difference(gap, verdict, words):
    reference = np.array([10.0] * 3)
    outcome = judge_outcome("edf", reference[: len(gap)] + np.array(gap), reference, ["more time"])
    assert outcome.verdict == verdict
    assert outcome.episodes == len(gap)
    assert outcome.sentences()[0].startswith(words)
    assert outcome.sentences()[1:] == ([] if verdict == "ahead" else ["Try: more time."])


@pytest.mark.parametrize(
    ("warm_start", "imitable", "advice"),
    [
        (None, True, "a warm start (--warm-start auto, or the name of a heuristic)"),
        (None, False, None),  # auto found nothing to imitate, or would find nothing
        ("edf", True, "another warm start than edf (--warm-start NAME)"),
    ],
)
def test_advice_names_no_warm_start_that_was_tried_or_does_not_exist(warm_start, imitable, advice):
    tries = suggest("edge/tiny", None, "edf", warm_start, 1.0, shipped=False, imitable=imitable)
    assert [one for one in tries if "warm" in one] == ([] if advice is None else [advice])


@pytest.mark.thorough
def test_a_training_where_nothing_can_be_imitated_does_not_advise_to_imitate():
    result = slipstream.train("serving/tiny", {"steps": 64, "evaluation_episodes": 2}, warm_start="auto")
    assert result.outcome.verdict != "ahead"
    assert not any("--warm-start" in one for one in result.outcome.suggestions)


def test_an_episode_within_a_time_has_the_reward_that_evaluation_finds():
    scenario = slipstream.load("edge/heavy")
    for name in ("edf", "lookahead"):
        expected = slipstream.evaluate(scenario, name, 1, 3, "eval").mean("reward")
        found = play_within(Simulator(scenario), find(name, "edge"), 3, "eval", np.inf, Ticks())
        assert found == expected
    assert play_within(Simulator(scenario), find("edf", "edge"), 3, "eval", 0.0, Ticks()) is None


def test_a_race_ranks_by_training_episodes_and_is_the_same_every_time():
    scenario = slipstream.load("edge/heavy")
    first, second = (race(scenario, None, Ticks()) for _ in range(2))
    assert first.to_dict() == second.to_dict()
    ranking = first.to_dict()["ranking"]
    best = ranking[0]
    assert best["episodes"] == ROUNDS[-1]
    expected = slipstream.evaluate(scenario, best["policy"], ROUNDS[-1], 0, "train").mean("reward")
    assert best["reward"] == pytest.approx(expected)
    assert first.warm_start == first.to_dict()["warm_start"] == best["policy"]
    assert sorted(row["policy"] for row in ranking) == sorted(applicable(scenario))


def test_a_race_out_of_time_still_has_a_result():
    found = race(slipstream.load("edge/heavy"), 0.5, Ticks())
    assert len(found.ranking) == 1
    assert found.dropped


def test_what_waits_where_planners_decide_is_no_warm_start():
    found = race(slipstream.load("serving/tiny"), None, lambda: 0.0)
    assert not isinstance(find(found.best, "serving"), slipstream.policies.base.Heuristic)
    assert found.warm_start is None
    routed = race(slipstream.load("serving/route"), 50.0, lambda: 0.0)
    assert routed.warm_start in ("eft", "most-accurate")


def test_family_defaults_give_way_to_what_is_given_and_belong_to_the_automatic_warm_start():
    scenario = slipstream.load("edge/heavy")
    rounds = defaults.FAMILY_DEFAULTS["edge"]["hindsight.rounds"]
    assert defaults.default_settings(scenario, {}).hindsight.rounds == rounds
    assert defaults.default_settings(scenario, {"hindsight.rounds": 3}).hindsight.rounds == 3
    assert defaults.default_settings(scenario, {"warm_start": "edf"}).hindsight.rounds == 0
    assert defaults.default_settings(scenario, {"warm_start": None}).hindsight.rounds == 0
    small = defaults.default_settings(scenario, {"steps": 30_000})
    assert small.n_envs * small.n_steps * defaults.ROLLOUTS <= 30_000
    assert defaults.default_settings(scenario, {"steps": 30_000, "n_envs": 64}).n_envs == 64


def test_rollouts_are_sized_to_the_time():
    scenario = slipstream.load("edge/tiny")
    settings = defaults.TrainSettings()
    slow = defaults.sized_to(scenario, settings, {}, 100.0, 20.0, Ticks())
    assert slow.n_envs * slow.n_steps == 128  # 128 choices a second
    given = defaults.sized_to(scenario, settings, {"n_envs": 256}, 100.0, 20.0, Ticks())
    assert given.n_envs == 256
    whole = defaults.sized_to(scenario, settings.with_changes({"algo": "reinforce"}), {}, 1000.0, 10.0, Ticks())
    assert (whole.n_envs, whole.n_steps) == (128, 10)


def test_a_reference_comes_back_from_its_file_and_a_damaged_one_is_refused():
    reference = Reference("edf", np.array([1.0, 2.0]), np.array([3.0]), {"ranking": []})
    again = Reference.from_dict(reference.to_dict(), "here")
    assert again.to_dict() == reference.to_dict()
    assert again.reward == 1.5
    for damaged in (None, {}, {"heuristic": "edf", "selection": [], "outcome": [1]}, {"heuristic": 1}):
        with pytest.raises(InputError, match=r"^here"):
            Reference.from_dict(damaged, "here")


def test_a_training_from_python_says_in_short_what_came_of_it(tmp_path):
    changes = {"steps": 2000, "evaluation_episodes": 2}
    result = slipstream.train("edge/tiny", changes, tmp_path / "run", warm_start="auto")
    assert repr(result).startswith(f"Training(edge/tiny: {result.outcome.short}; ")
    assert repr(result).endswith(f"policy: {tmp_path / 'run' / 'best'})")
    assert len(repr(result)) < 250
    kept = slipstream.train("edge/tiny", changes, warm_start="none")
    assert "in memory" in repr(kept)
    assert kept.settings.warm_start is None


def test_the_clock_of_a_training_stands_still_while_functions_are_compiled(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(clock, "perf_counter", lambda: now[0])
    with clock.TrainingClock() as counted:
        counted.add(5.0)
        now[0] += 1.0
        with trigger_event("numba:compile"):
            now[0] += 30.0
            with trigger_event("numba:compile"):  # a callee
                now[0] += 4.0
            assert counted.seconds == 6.0
        now[0] += 2.0
        assert counted.seconds == 8.0
    with trigger_event("numba:compile"):
        now[0] += 1.0
        assert counted.seconds == 9.0
