"""The study of learning from hindsight trains arms that differ in one thing, and says no more than its intervals do."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from slipstream.scenario import load

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("hindsight_study", ROOT / "benchmarks" / "hindsight.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["hindsight_study"] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules["hindsight_study"]


def test_every_family_has_a_scenario_and_arms_that_differ_in_what_they_learn_from(study):
    assert set(study.SUBJECTS) == {"edge", "dag", "serving", "cluster", "taskgraph"}
    for family, subject in study.SUBJECTS.items():
        scenario, whole = study.scenario_of(subject), load(subject.scenario)
        assert scenario.family == family
        assert (scenario == whole) == (subject.change == "")
        plain, regret, branches = (study.settings_of(subject, arm, 3).to_dict() for arm in study.ARMS)
        assert {key for key in plain if plain[key] != regret[key]} == {"judges"}
        assert {key for key in plain if plain[key] != branches[key]} == {"hindsight"}
        assert plain["seed"] == 3


def test_more_arms_differ_from_the_first_in_when_rewards_come_and_in_who_is_imitated(study):
    subject = study.SUBJECTS["taskgraph"]
    plain, terminal, oracle = (study.settings_of(subject, arm, 3).to_dict() for arm in ("rewards", *study.MORE_ARMS))
    assert {key for key in plain if plain[key] != terminal[key]} == {"reinforce"}
    assert terminal["reinforce"] == {**plain["reinforce"], "terminal": True}
    assert {key for key in plain if plain[key] != oracle[key]} == {"warm_start", "hindsight"}
    assert oracle["warm_start"] == "oracle"


def run_of(*rewards):
    return {"reward": list(rewards), "warm_start": [0.0], "best_heuristic": ["edf", 5.0], "steps": 1000}


def test_a_difference_is_claimed_only_where_the_interval_leaves_out_nothing(study):
    found = {
        "rewards": [run_of(1.0, 3.0), run_of(4.0), run_of(3.0)],
        "regret": [run_of(1.0), run_of(3.1), run_of(1.9)],
        "branches": [run_of(2.0), run_of(9.0), run_of(2.0)],
    }
    figures = study.summary(found)
    assert figures["rewards"]["mean"] == pytest.approx(3.0)
    # The differences are -1, -0.9 and -1.1; t(2) is 4.303, the standard error 0.1 / sqrt(3).
    assert figures["regret"]["ahead"]["low"] == pytest.approx(-1.0 - 4.3027 * 0.1 / 3**0.5, abs=1e-4)
    assert study.verdict(figures) == "`regret` harms, `branches` makes no sure difference"
    assert "-1.00 [-1.25, -0.75]" in study.table({"edge": figures})


def test_chosen_arms_get_a_line_each_next_to_the_rewards(study):
    found = {"rewards": [run_of(1.0), run_of(4.0)], "terminal": [run_of(0.0), run_of(3.0)]}
    lines = study.table_of_arms({"taskgraph": study.summary(found)}, ("rewards", "terminal")).splitlines()
    assert lines[2] == "| taskgraph | `rewards` | 2.50 |  | 1 k |"
    assert lines[3] == "| taskgraph | `terminal` | 1.50 | -1.00 [-1.00, -1.00] | 1 k |"
    assert study.chosen_arms("rewards,oracle") == ("rewards", "oracle")
    for wrong, message in (("rewards,none", "unknown: none"), ("oracle", "expected `rewards` among them")):
        with pytest.raises(argparse.ArgumentTypeError, match=message):
            study.chosen_arms(wrong)


def test_what_is_done_is_not_trained_again(study, tmp_path, monkeypatch):
    for arm in study.ARMS:
        study.place_of(tmp_path, "edge", arm, 0).write_text(json.dumps(run_of(1.0)))
    monkeypatch.setattr(study, "learn", None)
    study.measure(tmp_path, ["edge"], seeds=1, seconds=1.0, episodes=1, processes=1)
    assert set(study.gather(tmp_path, "edge", 1)) == set(study.ARMS)
