"""Constraints: a policy that buys its reward with the waits of a few jobs does not become the best of a training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import slipstream
from slipstream.dashboard.runs import RunsFolder
from slipstream.errors import InputError
from slipstream.families.contract import FAMILIES, Constraint
from slipstream.learn import training_run
from slipstream.learn.constraints import check_constraints, greatest_excess
from slipstream.learn.outcome import judge_outcome
from slipstream.learn.reference import Reference

SHORT = {"steps": 3000, "n_envs": 16, "n_steps": 16, "imitation.rollouts": 3, "evaluate_every": 2}
LONGEST = "wait_max_s"


def test_every_constraint_is_on_a_metric_of_its_family():
    constrained = {name: family.constraints for name, family in FAMILIES.items() if family.constraints}
    assert list(constrained) == ["cluster"]
    for name, constraints in constrained.items():
        evaluation = slipstream.evaluate(f"{name}/tiny", FAMILIES[name].default_policy, episodes=1)
        assert {constraint.metric for constraint in constraints} <= evaluation.values.keys()


def test_an_excess_is_the_share_above_the_limit_on_the_episodes_that_both_played():
    constraints = [Constraint("mean", 0.1, 10.0), Constraint("longest", 0.25, 0.0)]
    trained = {"mean": np.array([100.0, 132.0]), "longest": np.array([100.0, 200.0])}
    heuristic = {"mean": np.array([100.0, 100.0, 9e9]), "longest": np.array([80.0, 80.0, 0.0])}
    mean, longest = check_constraints(constraints, trained, heuristic)
    assert (mean.value, mean.heuristic_value, mean.limit, mean.kept) == (116.0, 100.0, pytest.approx(120.0), True)
    assert (longest.value, longest.limit, longest.kept) == (150.0, 100.0, False)
    assert greatest_excess((mean, longest)) == pytest.approx(0.5)
    assert greatest_excess(()) == 0.0


def test_where_the_heuristic_has_nothing_of_a_metric_the_slack_is_the_limit():
    (check,) = check_constraints([Constraint("wait", 0.1, 10.0)], {"wait": np.array([9.0])}, {"wait": np.zeros(1)})
    assert check.kept
    (check,) = check_constraints([Constraint("wait", 0.1, 0.0)], {"wait": np.array([9.0])}, {"wait": np.zeros(1)})
    assert check.excess == 9.0


def test_an_outcome_names_the_constraints_that_are_broken():
    constraints = [Constraint("wait_mean_s", 0.1, 0.0), Constraint(LONGEST, 0.25, 0.0)]
    trained = {"wait_mean_s": np.array([105.0]), LONGEST: np.array([43298.0])}
    checks = check_constraints(constraints, trained, {"wait_mean_s": np.array([100.0]), LONGEST: np.array([13149.0])})
    outcome = judge_outcome("sjf", np.array([2.0, 3.0]), np.array([1.0, 1.0]), [], checks)
    assert outcome.sentences()[1:] == [
        "Broken constraint: wait_max_s 43,298.0 against 13,149.0 of sjf, expected at most 16,436.2."
    ]
    data = json.loads(json.dumps(outcome.to_dict()))
    assert [one["kept"] for one in data["constraints"]] == [True, False]


def test_a_reference_keeps_the_metrics_of_constraints_and_refuses_damaged_ones():
    metrics = {"selection": {LONGEST: np.array([1.0, 2.0])}, "outcome": {LONGEST: np.array([3.0])}}
    reference = Reference("sjf", np.array([1.0, 2.0]), np.array([3.0]), {}, metrics)
    again = Reference.from_dict(json.loads(json.dumps(reference.to_dict())), "here")
    assert again.to_dict() == reference.to_dict()
    without = {key: value for key, value in reference.to_dict().items() if key != "constrained"}
    assert Reference.from_dict(without, "here").constrained == {}
    for damaged in (3, {"selection": 3}, {"selection": {LONGEST: "1"}}, {"outcome": {LONGEST: []}}):
        with pytest.raises(InputError, match=r"^here\.constrained"):
            Reference.from_dict({**without, "constrained": damaged}, "here")


def found_by_evaluations(monkeypatch, rewards, waits):
    """Let the evaluations of a training find `rewards` and longest waits, of which 100 s are the limit."""
    found = iter(zip(rewards, waits, strict=True))
    played = training_run.metrics_within

    def metrics_within(*arguments):
        reward, wait = next(found, (-9.0, 900.0))
        metrics = played(*arguments)
        return {"reward": metrics["reward"] * 0.0 + reward, LONGEST: metrics[LONGEST] * 0.0 + wait}

    def rewards_within(*arguments):
        return metrics_within(*arguments, ("reward", LONGEST))["reward"]

    monkeypatch.setattr(training_run, "metrics_within", metrics_within)
    monkeypatch.setattr(training_run, "rewards_within", rewards_within)
    monkeypatch.setattr(type(FAMILIES["cluster"]), "constraints", (Constraint(LONGEST, -1.0, 100.0),))


@pytest.mark.parametrize(
    ("constraints", "rewards", "waits", "best"),
    [
        (True, [1.0, 5.0, 3.0, 2.0], [80.0, 300.0, 99.0, 80.0], 2),  # the highest reward is bought with waits
        (True, [1.0, 5.0, 3.0, 2.0], [400.0, 300.0, 200.0, 250.0], 2),  # all break it: the one that does least
        (False, [1.0, 5.0, 3.0, 2.0], [80.0, 300.0, 99.0, 80.0], 1),
    ],
)
def test_the_best_policy_is_the_best_of_those_that_keep_the_constraints(
    tmp_path, monkeypatch, constraints, rewards, waits, best
):
    found_by_evaluations(monkeypatch, rewards, waits)
    changes = {**SHORT, "constraints": constraints, "evaluation_episodes": 2}
    result = slipstream.train("cluster/light", changes, tmp_path / "run", warm_start="sjf")
    card = json.loads((tmp_path / "run" / "best" / "policy.json").read_text())
    assert result.reward == rewards[best]
    assert card["steps"] == result.history[best]["steps"]
    assert ("constraint_excess" in result.history[0]) == constraints
    assert bool(result.outcome.constraints) == constraints
    assert RunsFolder(tmp_path).entry("run").about["best_reward"] == rewards[best]


def test_a_training_compares_the_waits_of_its_policy_with_those_of_the_best_heuristic(tmp_path):
    result = slipstream.train("cluster/light", {**SHORT, "evaluation_episodes": 2}, tmp_path / "run", warm_start="sjf")
    about = json.loads(Path(tmp_path, "run", "run.json").read_text())
    heuristic = about["reference"]["heuristic"]
    expected = slipstream.evaluate("cluster/light", heuristic, 2, 0, "eval").of(LONGEST)
    assert about["reference"]["constrained"]["selection"][LONGEST] == pytest.approx(expected)
    best = max(result.history, key=lambda line: (-line["constraint_excess"], line["reward"]))
    trained = slipstream.evaluate("cluster/light", result.policy, 2, 0, "eval").of(LONGEST)
    assert best[LONGEST] == pytest.approx(trained.mean())
    assert [check.metric for check in result.outcome.constraints] == ["wait_mean_s", LONGEST]
    assert about["outcome"]["constraints"] == [check.to_dict() for check in result.outcome.constraints]
    # A resumed training remembers what its best policy exceeds.
    again = slipstream.train("cluster/light", {"steps": 4000}, tmp_path / "run", resume=True)
    assert again.history[: len(result.history)] == result.history
    assert again.reward == max(again.history, key=lambda line: (-line["constraint_excess"], line["reward"]))["reward"]
