"""Trainings on generated scenarios: they repeat, go on where they were, and never see what they are judged on."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

import slipstream
from slipstream.errors import InputError
from slipstream.families.contract import FAMILIES, family_of
from slipstream.learn.algorithms.states import States
from slipstream.learn.generated.scenarios import SEEDS_PER_SPLIT, SPLITS, GeneratedScenarios
from slipstream.learn.generated.scores import EPISODES_EACH, FIRST_RACED, LEAST_SCORE, ScoredScenarios, rank_rules
from slipstream.learn.rollout.batch import Choices
from slipstream.learn.trainer import EXPERT_EPISODES, Trainer
from slipstream.learn.training import train
from slipstream.policies.learned import load_policy
from slipstream.policies.operations import NO_GRAPH
from slipstream.scenario import digest
from slipstream.suite.catalogue import load_suite
from tests.learn.trainings import SMALL, same

GENERAL = SMALL.with_changes({"reinforce.relative": True, "hindsight.relative": True})
KINDS = {
    "ppo": GENERAL,
    "reinforce": GENERAL.with_changes({"algo": "reinforce", "n_envs": 32, "episode_choices": 64}),
    "hindsight": GENERAL.with_changes({"hindsight.rounds": 3, "hindsight.own_rounds": 1}),
}


@pytest.fixture
def few(monkeypatch):
    """Compare rules and networks on few scenarios."""
    monkeypatch.setattr("slipstream.learn.generated.scores.RACE_SCENARIOS", 1)
    monkeypatch.setattr("slipstream.learn.generated.scores.OUTCOME_EPISODES", 2)


@pytest.mark.parametrize("family", FAMILIES)
def test_generated_scenarios_repeat_and_differ_by_number_and_split(family):
    generated, again = GeneratedScenarios.of(family), GeneratedScenarios.of(family)
    found = [digest(generated.scenario(split, number)) for split in SPLITS for number in range(2)]
    assert found == [digest(again.scenario(split, number)) for split in SPLITS for number in range(2)]
    assert len(set(found)) == len(found)
    for number in range(2):
        assert generated.scenario("train", number).family == family


def test_seeds_of_splits_lie_apart_and_beyond_those_of_the_command_line():
    generated = GeneratedScenarios.of("edge")
    ends = [(generated.seed(split, 0), generated.seed(split, SEEDS_PER_SPLIT - 1)) for split in SPLITS]
    assert ends[0][0] > 2**32
    assert all(before[1] < after[0] for before, after in pairwise(ends))


@pytest.mark.parametrize("family", FAMILIES)
def test_no_scenario_of_the_suite_or_the_package_is_trained_on(family):
    generated = GeneratedScenarios.of(family)
    seen = {digest(generated.scenario(split, number)) for split in SPLITS for number in range(3)}
    known = {entry.digest for entry in load_suite().of(family)}
    known |= {digest(slipstream.load(path)) for path in (FAMILIES[family].folder / "scenarios").glob("*.json")}
    assert not seen & known


def test_lanes_learn_from_training_scenarios_only_and_from_new_ones_after_a_while():
    generated = GeneratedScenarios.of("edge")
    trainer = Trainer(generated.scenario("selection", 0), GENERAL, generated=generated)
    first = [group.scenario.name for group in trainer.pool.groups]
    for _ in range(GENERAL.redraw + 1):
        trainer.update()
    second = [group.scenario.name for group in trainer.pool.groups]
    assert len({*first, *second}) == 2 * len(first)
    for name in (*first, *second):
        assert generated.seed("train", 0) <= int(name.removeprefix("edge-")) < generated.seed("train", FIRST_RACED)


def test_horizons_are_in_the_timescale_of_each_scenario():
    generated = GeneratedScenarios.of("edge")
    trainer = Trainer(generated.scenario("selection", 0), GENERAL, generated=generated)
    for _ in range(GENERAL.redraw + 1):
        horizon = GENERAL.ppo.discount_horizon
        for group in trainer.pool.groups:
            own = slice(group.first_lane, group.first_lane + group.count)
            assert (trainer.horizon[own] == horizon * family_of(group.scenario).timescale(group.scenario)).all()
        np.testing.assert_array_equal(trainer.imitation.horizon, trainer.horizon)
        np.testing.assert_array_equal(trainer.algorithm.horizon, trainer.horizon)
        trainer.update()


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_on_generated_scenarios_that_goes_on_does_what_it_would_have_done(kind):
    generated = GeneratedScenarios.of("edge")
    whole, again = (Trainer(generated.scenario("selection", 0), KINDS[kind], generated=generated) for _ in range(2))
    for _ in range(5):
        whole.update()
    arrays, numbers = whole.state()
    again.restore({name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(numbers)))
    for _ in range(3):
        assert whole.update() == again.update()
    same(*(trainer.state()[0] for trainer in (whole, again)))


def test_capacities_of_a_network_grow_with_the_scenarios_and_its_weights_stay():
    generated = GeneratedScenarios.of("edge")
    learner = Trainer(generated.scenario("selection", 0), GENERAL, generated=generated).learner
    weights, before = learner.weights.copy(), learner.layout
    learner.enlarge(1, NO_GRAPH)
    assert learner.layout is before
    learner.enlarge(2 * before.candidates, NO_GRAPH)
    assert learner.layout.candidates == 2 * before.candidates
    assert learner.layout.parameters == before.parameters
    np.testing.assert_array_equal(learner.weights, weights)


def test_random_scores_0_and_the_best_rule_of_each_scenario_100(few):
    generated = GeneratedScenarios.of("edge")
    scored, racers = rank_rules(
        generated, "selection", 0, 2, lambda: 0.0, lambda _: None, ["edf", "lookahead", "random"]
    )
    scores = {racer.name: np.array(racer.rewards).reshape(2, EPISODES_EACH).mean(axis=1) for racer in racers}
    np.testing.assert_allclose(scores["random"], 0.0, atol=1e-9)
    np.testing.assert_allclose(np.maximum(scores["edf"], scores["lookahead"]), 100.0)
    assert len(scored.scales) == 2


def test_a_score_is_limited_where_every_rule_does_as_well_as_chance():
    scored = ScoredScenarios("selection", 0, [(99.0, 100.0), (0.0, 0.0)])
    np.testing.assert_allclose(scored.scores(np.array([100.0, 99.0, 0.0, 0.0])), [10.0, 0.0, 0.0, 0.0])


def test_one_disaster_does_not_outweigh_all_other_scenarios():
    scored = ScoredScenarios("selection", 0, [(-100.0, -50.0)])
    np.testing.assert_allclose(scored.scores(np.array([-50.0, -1e9])), [100.0, LEAST_SCORE])


def test_each_scenario_is_imitated_from_the_rule_that_is_best_there():
    generated = GeneratedScenarios.of("edge")
    settings = GENERAL.with_changes({"warm_start": "random,edf,lookahead"})
    trainer = Trainer(generated.scenario("selection", 0), settings, generated=generated)
    for group in trainer.pool.groups:
        means = {
            name: slipstream.evaluate(group.scenario, name, EXPERT_EPISODES, split="train").mean("reward")
            for name in ("random", "edf", "lookahead")
        }
        assert group.expert is not None
        assert means[group.expert.name] == max(means.values())
    labelled = trainer.collect()
    assert (labelled.label[labelled.made] >= 0).all()


def test_several_experts_are_refused_for_a_single_scenario():
    with pytest.raises(InputError, match="warm start 'edf,lookahead': expected one heuristic for one scenario"):
        Trainer(slipstream.load("edge/tiny"), GENERAL.with_changes({"warm_start": "edf,lookahead"}))


def test_relative_advantages_have_a_mean_size_of_1():
    choices = Choices(np.zeros((4, 1), np.float32), np.zeros((2, 1), np.float32), np.array([0, 2]), np.array([2, 2]))
    states = States.of(choices, np.array([1.0, 5.0, 0.0, 8.0]))
    np.testing.assert_allclose(states.relative().advantages, states.advantages / 3.0)
    zero = States.of(choices, np.zeros(4))
    assert zero.relative() is zero


def test_a_general_training_repeats_goes_on_and_is_told_by_its_card(few, tmp_path):
    settings = GENERAL.with_changes({"network.logarithms": True})
    whole = train("edge", settings, tmp_path / "whole", general=True)

    class StopHereError(Exception):
        pass

    def stop(report):
        if report.steps == 5 * 16 * 32:
            raise StopHereError

    with pytest.raises(StopHereError):
        train("edge", settings, tmp_path / "cut", report=stop, general=True)
    resumed = train("edge", out=tmp_path / "cut", resume=True)
    same(load_policy(tmp_path / "whole" / "last").tensors, load_policy(tmp_path / "cut" / "last").tensors)
    assert [line["reward"] for line in resumed.history] == [line["reward"] for line in whole.history]
    assert load_policy(tmp_path / "whole" / "best").card["scenario"] == "edge/generated"
    assert resumed.outcome == whole.outcome


@pytest.mark.parametrize(
    ("scenario", "changes", "message"),
    [
        ("edge/heavy", {}, "edge/heavy: expected a family to generate scenarios of: edge, "),
        ("edge", {"warm_start": "oracle"}, "warm start 'oracle' with generated scenarios"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_in_one_line(few, scenario, changes, message):
    with pytest.raises(InputError, match=message):
        train(scenario, changes, minutes=0.01, general=True)


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["dag", "taskgraph", "cluster"])
def test_every_family_with_compiled_rules_trains_on_generated_scenarios(few, family, tmp_path):
    changes = {"steps": 600, "n_envs": 16, "groups": 2, "n_steps": 8, "imitation.rollouts": 2, "evaluation_episodes": 2}
    changes |= {"hindsight.rounds": 1, "hindsight.own_rounds": 0, "episode_choices": 16}
    found = train(family, changes, tmp_path / "run", general=True)
    assert found.history
    assert load_policy(tmp_path / "run" / "best").family == family
