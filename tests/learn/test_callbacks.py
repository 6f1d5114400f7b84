"""Callbacks see every rollout, update and evaluation in order; the history is also a table."""

from __future__ import annotations

import csv
import json

import pytest

import slipstream
from slipstream.learn.training import train
from tests.learn.trainings import SMALL


def table_of(folder):
    with (folder / "history.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_callbacks_are_called_in_order_with_what_happened(tmp_path):
    calls = []
    names = ("on_rollout", "on_update", "on_evaluation")
    callbacks = {name: lambda event, name=name: calls.append((name, event)) for name in names}
    result = train("edge/tiny", SMALL, tmp_path / "run", **callbacks)
    rollouts, updates, evaluations = ([event for called, event in calls if called == name] for name in names)
    assert [name for name, _ in calls[:5]] == ["on_rollout", "on_update"] * 2 + ["on_evaluation"]
    assert [event.update for event in rollouts] == [event.update for event in updates] == list(range(1, 9))
    assert [event.steps for event in rollouts] == [event.steps for event in updates]
    assert updates[-1].steps == result.steps
    assert [event.phase for event in rollouts] == ["imitation"] * 3 + ["ppo"] * 5
    assert set(rollouts[0].figures) == {"reward_rate", "candidates"}
    assert {"policy", "value", "entropy", "kl", "clipped"} <= set(updates[-1].figures)
    assert [event.figures["reward"] for event in evaluations] == [line["reward"] for line in result.history]
    assert evaluations[-1].figures["best_reward"] == result.reward
    assert all(event.policy == tmp_path / "run" / "best" for event in evaluations)


def test_callbacks_change_nothing_and_what_they_raise_ends_the_training(tmp_path):
    class StopHereError(Exception):
        pass

    def stop(event):
        if event.update == 5:
            raise StopHereError

    with pytest.raises(StopHereError):
        train("edge/tiny", SMALL, tmp_path / "run", on_update=stop)
    events = []
    resumed = slipstream.train("edge/tiny", out=tmp_path / "run", resume=True, on_evaluation=events.append)
    assert [event.update for event in events] == [6, 8]
    assert [line["reward"] for line in resumed.history] == [
        line["reward"] for line in train("edge/tiny", SMALL).history
    ]


def test_the_history_is_a_table_too(tmp_path):
    train("edge/tiny", SMALL, tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    table = table_of(tmp_path / "run")
    assert [float(row["reward"]) for row in table] == [line["reward"] for line in lines]
    for row, line in zip(table, lines, strict=True):
        assert {key for key, value in row.items() if value} == set(line)
    assert table[0]["imitation"]
    assert not table[-1]["imitation"]
