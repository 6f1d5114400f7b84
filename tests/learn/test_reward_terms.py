"""The study of the reward's terms trains without them, judges with them, and writes only between its markers."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

import slipstream
from slipstream.scenario import digest

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("groups=1", "n_envs=4", "n_steps=16", "threads=1", "evaluation_episodes=1", "ppo.batch_size=64")


@pytest.fixture
def study():
    spec = importlib.util.spec_from_file_location("reward_terms", ROOT / "benchmarks" / "reward_terms.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_term_left_out_changes_nothing_else(study):
    scenario = slipstream.load("edge/overload")
    changed = slipstream.load(study.without(scenario, "drops"))
    assert changed.reward.drops == 0.0
    assert digest(changed.model_copy(update={"reward": scenario.reward})) == digest(scenario)


def test_every_term_in_use_is_left_out_once_and_the_page_holds_what_was_printed(study, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{study.BEGIN}\nold\n{study.END}\n\nafter\n")
    settings = [f"--set={one}" for one in SMALL]
    options = ["--json", "--steps=64", "--episodes=2", "--scenarios=edge/tiny", f"--write={page}", *settings]
    monkeypatch.setattr(sys, "argv", ["reward_terms.py", *options])
    study.main()
    result = json.loads(capsys.readouterr().out)
    found = result["scenarios"]["edge/tiny"]
    assert found["weights"] == {"on_time_accuracy": 1.0, "lateness": 0.5, "drops": 0.5}
    assert list(found["policies"]) == [study.ALL, *(f"without {term}" for term in found["weights"])]
    assert all(figure["difference"] == 0.0 for figure in found["policies"][study.ALL].values())
    text = page.read_text()
    assert text == f"before\n\n{study.BEGIN}\n\n{study.markdown(result)}\n\n{study.END}\n\nafter\n"
    assert study.filled(text, study.markdown(result)) == text


def test_a_page_without_markers_is_refused_before_the_work(study):
    with pytest.raises(SystemExit, match="no place for the tables"):
        study.filled("no markers", "tables")


def test_the_page_on_reinforcement_learning_has_the_markers(study):
    assert study.filled((ROOT / "docs" / "rl.md").read_text(encoding="utf-8"), "tables").count("tables\n") >= 1
