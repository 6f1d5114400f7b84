"""`slipstream train`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.progress import Progress

from slipstream.learn.trainer import Trainer

SMALL = ["--set", "n_envs=8", "--set", "n_steps=16", "--set", "evaluate_every=2", "--set", "evaluation_episodes=1"]
SMALL += ["--warm-start", "none"]


def test_a_training_leaves_a_policy_that_other_commands_take(slipstream):
    code, output, _ = slipstream("train", "edge/tiny", "--steps", 512, *SMALL, "--out", "run", "--json")
    assert code == 0
    figures = json.loads(output)
    assert figures["steps"] == 512
    assert [line["update"] for line in figures["history"]] == [2, 4]
    code, output, _ = slipstream("compare", "edge/tiny", "--policies", "edf,run/best", "--episodes", 1, "--json")
    assert code == 0
    assert [one["policy"] for one in json.loads(output)["policies"]] == ["edf", "run/best"]


def test_resume_goes_on_to_the_steps_that_were_planned_however_long_that_takes(slipstream, monkeypatch):
    update = Trainer.update

    def stop_after_three(self):
        if self.update_number == 3:
            raise KeyboardInterrupt
        return update(self)

    monkeypatch.setattr(Trainer, "update", stop_after_three)
    code, _, _ = slipstream("train", "edge/tiny", "--steps", 1024, *SMALL, "--out", "run")
    assert code == 130
    monkeypatch.setattr(Trainer, "update", update)
    # As if the training had taken hours before it was interrupted.
    path = Path("run/state/state.json")
    state = json.loads(path.read_text())
    state["notes"]["seconds"] = 1e6
    path.write_text(json.dumps(state))
    code, output, _ = slipstream("train", "edge/tiny", "--resume", "--out", "run", "--json")
    assert code == 0
    assert json.loads(output)["steps"] == 1024


def test_bad_input_is_told_in_one_line(slipstream):
    for words, message in (
        (["edge/tiny", "--out", "run", "--set", "ppo.clip_range"], "expected a setting and its value"),
        (["edge/tiny", "--out", "run", "--set", "ppo.clap=1"], "unknown setting 'ppo.clap'"),
        (["edge/tiny", "--out", "run", "--warm-start", "edff"], "did you mean 'edf'"),
        (["edge/nowhere", "--out", "run"], "edge/nowhere"),
        (["edge/tiny", "--out", "run", "--resume"], "holds no training"),
        (["edge/tiny", "--resume"], "--resume: expected the folder of the training to continue, by --out"),
        (["edge/tiny", "--out", "run", "--set", "lanes=16"], "unknown setting 'lanes': did you mean 'n_envs'?"),
        (["serving/tiny", "--out", "run", "--warm-start", "milp"], "'milp' is no heuristic that can be imitated"),
        (["edge/tiny", "--out", "run", "--algo", "dqn"], "expected 'ppo' or 'reinforce'"),
    ):
        code, _, errors = slipstream("train", *words)
        assert code == 2
        assert message in errors
        assert len(errors.strip().splitlines()) == 1
        assert not Path("run").exists()
        assert not Path("runs").exists()


FEW = ["--set", "evaluation_episodes=1", "--warm-start", "none"]


@pytest.mark.parametrize("words", [["--steps", 300], ["--set", "steps=300"]])
def test_a_number_of_steps_is_kept_however_it_is_given_and_said_before_the_training(slipstream, words):
    code, output, told = slipstream("train", "edge/tiny", *words, *FEW, "--out", "run", "--json")
    assert code == 0
    assert json.loads(output)["steps"] == 512  # every one of the 256 lanes makes as many choices
    assert "training ends after 300 steps (512 in whole rollouts of 512)" in told.splitlines()
    about = json.loads(Path("run/run.json").read_text())
    assert about["limits"] == {"steps": 300, "minutes": None}


def test_a_number_of_steps_is_kept_to_within_a_rollout(slipstream):
    code, output, told = slipstream("train", "edge/tiny", "--steps", 300, *SMALL, "--out", "run", "--json")
    assert (code, json.loads(output)["steps"]) == (0, 384)
    assert "training ends after 300 steps (384 in whole rollouts of 128)" in told


def test_of_steps_and_minutes_whichever_is_over_first_ends_a_training(slipstream):
    words = ["train", "edge/tiny", *SMALL, "--json"]
    code, output, told = slipstream(*words, "--steps", 256, "--minutes", 30, "--out", "short")
    assert (code, json.loads(output)["steps"]) == (0, 256)
    assert "256 steps, or 30 minutes, whichever is over first" in told
    code, output, _ = slipstream(*words, "--steps", 10**9, "--minutes", 0.1, "--out", "long")
    assert code == 0
    assert 256 < json.loads(output)["steps"] < 10**7


def test_a_training_that_goes_on_takes_a_new_limit(slipstream):
    words = ["train", "edge/tiny", *SMALL, "--out", "run", "--json"]
    slipstream(*words, "--steps", 256)
    code, output, told = slipstream(*words, "--resume", "--steps", 512)
    assert (code, json.loads(output)["steps"]) == (0, 512)
    assert "training ends after 512 steps" in told
    code, output, told = slipstream(*words, "--resume")
    assert (code, json.loads(output)["steps"]) == (0, 512)
    assert "training ends after 512 steps" in told


@pytest.mark.thorough
def test_a_training_stopped_before_it_was_planned_goes_on_with_its_minutes(slipstream, monkeypatch):
    update = Trainer.update

    def stop_after_three(self):
        if self.update_number == 3:
            raise KeyboardInterrupt
        return update(self)

    monkeypatch.setattr(Trainer, "update", stop_after_three)
    assert slipstream("train", "edge/tiny", "--minutes", 0.2, *SMALL, "--out", "run")[0] == 130
    monkeypatch.setattr(Trainer, "update", update)
    code, output, told = slipstream("train", "edge/tiny", "--resume", "--out", "run", "--json")
    assert code == 0
    assert "training ends after 0.2 minutes" in told
    assert 5.0 < json.loads(output)["seconds"] < 60.0  # it took the time to plan, and kept to its minutes


def test_a_setting_that_is_given_twice_is_refused(slipstream):
    for command in (["train", "edge/tiny"], ["sweep", "edge/tiny"], ["library", "update", "mine", "edge/tiny"]):
        out = [] if command[0] == "library" else ["--out", "run"]
        code, _, told = slipstream(*command, *out, "--steps", 100, "--set", "steps=200")
        assert code == 2
        assert told == "error: --set steps=200: steps is given already, as 100: expected one value\n"


def test_a_sweep_keeps_to_its_steps_and_says_so(slipstream):
    words = [
        "sweep",
        "edge/tiny",
        "--out",
        "sweep",
        "--seeds",
        1,
        "--knob",
        "ppo.clip_range=0.1",
        "--episodes",
        1,
        *FEW,
    ]
    code, _, told = slipstream(*words, "--set", "steps=300")
    assert code == 0
    assert "training ends after 300 steps (512 in whole rollouts of 512)" in told
    scores = [json.loads(path.read_text()) for path in Path("sweep").rglob("score.json")]
    assert [score["steps"] for score in scores] == [512, 512]


def test_a_line_that_is_repeated_says_for_how_long(monkeypatch, capsys):
    from slipstream.cli import training_progress
    from slipstream.learn.training_run import Report

    clock = iter((0.0, 1.0, 2.0, 32.0))
    monkeypatch.setattr(training_progress, "perf_counter", lambda: next(clock))
    progress = training_progress.TrainingProgress(Progress(disable=True))
    # One reading when it is made, one per line, one that asks whether the last line is old.
    progress.show(Report(0, 0, 0.0, "reference", {}, None, None, "edf", 0.0))
    progress.print_if_old()
    progress.print_line()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"playing heuristics on held-out episodes: edf{tail}" for tail in ("", " (31 s)")]
