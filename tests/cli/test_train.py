"""`slipstream train`."""

from __future__ import annotations

import json
from pathlib import Path

from slipstream.learn.trainer import Trainer

SMALL = ["--set", "lanes=8", "--set", "rollout=16", "--set", "evaluate_every=2", "--set", "evaluation_episodes=1"]


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
        (["edge/tiny", "--out", "run", "--set", "ppo.clip"], "expected a setting and its value"),
        (["edge/tiny", "--out", "run", "--set", "ppo.clap=1"], "unknown setting 'ppo.clap'"),
        (["edge/tiny", "--out", "run", "--warm-start", "edff"], "did you mean 'edf'"),
        (["edge/nowhere", "--out", "run"], "edge/nowhere"),
        (["edge/tiny", "--out", "run", "--resume"], "holds no training"),
        (["edge/tiny", "--out", "run", "--algo", "dqn"], "expected 'ppo' or 'reinforce'"),
    ):
        code, _, errors = slipstream("train", *words)
        assert code == 2
        assert message in errors
        assert len(errors.strip().splitlines()) == 1
