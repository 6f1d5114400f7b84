"""A damaged folder of a training: resuming and reporting end with one line that names the place."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest

from slipstream.errors import InputError
from slipstream.learn.files import read_history
from slipstream.learn.settings import TrainSettings
from slipstream.learn.training import train
from slipstream.policies.learned import load_tensors, save_tensors

SHORT = TrainSettings(steps=64, n_envs=4, n_steps=8, groups=2, evaluate_every=1, evaluation_episodes=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    train("edge/tiny", SHORT, folder, command="slipstream train edge/tiny")
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def told(folder):
    """Return the line with which going on ends."""
    before = {path: path.read_bytes() for path in folder.rglob("*.json*") if path.is_file()}
    with pytest.raises(InputError) as caught:
        train("edge/tiny", out=folder, resume=True)
    assert str(caught.value).isprintable()
    assert {path: path.read_bytes() for path in before} == before
    return str(caught.value)


def edit(path, *keys, value):
    data = json.loads(path.read_text())
    place = data
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("keys", "value", "expected"),
    [
        (["settings"], [1], "run.json: settings: expected an object, got a list"),
        (["settings", "n_envs"], "many", "run.json: settings.n_envs: expected a whole number, got 'many'"),
        (["settings", "n_envs"], 10**12, "n_envs is 1000000000000: expected at most 65,536"),
        (["settings", "ppo"], None, "run.json: settings.ppo: expected an object"),
        (["settings", "ppo", "clip"], 0.2, "settings.ppo: unknown keys clip: expected learning_rate, n_epochs"),
        (["settings", "ppo", "clip_range"], True, "run.json: settings.ppo.clip_range: expected a number, got true"),
        (["settings", "algo"], ["ppo"], "run.json: settings.algo: expected 'ppo' or 'reinforce', got a list"),
        (["settings", "network", "width"], 0, "network.width is 0: expected a number from 1 to 4096"),
        (["settings", "network", "width"], 10**9, "network.width is 1000000000: expected a number from 1 to 4096"),
        (["settings", "hidden"], [7], "run.json: settings.hidden: expected a list of texts, got a list"),
        (["scenario_file"], "edge/tiny", "run.json: scenario_file: expected an object, got 'edge/tiny'"),
        (["scenario_file", "family"], [1], "unknown family a list"),
        (["version"], 1, "run.json: version: expected a text, got 1"),
    ],
)
def test_what_was_asked_for(folder, keys, value, expected):
    edit(folder / "run.json", *keys, value=value)
    assert expected in told(folder)


@pytest.mark.parametrize(
    ("keys", "value", "expected"),
    [
        (["notes"], [], "state.json: notes: expected a JSON object, got a list"),
        (["notes", "best"], "high", "state.json: notes.best: expected a number, got 'high'"),
        (["notes", "planned"], 1, "state.json: notes.planned: expected true or false, got 1"),
        (["numbers"], None, "state.json: numbers: expected a JSON object, got null"),
        (["numbers"], {}, "state.json: does not fit this training ('drawn_at')"),
        (["numbers", "update"], -1, "state.json: does not fit this training (numbers: expected update"),
        (["numbers", "drawn_at"], [1], "state.json: does not fit this training (numbers: expected update"),
        (["arrays"], {"file": 7}, "arrays: expected an object with 'file' and 'sha256'"),
        (["arrays", "file"], "gone", "gone: no such file"),
    ],
)
def test_the_state_to_go_on_from(folder, keys, value, expected):
    edit(folder / "state" / "state.json", *keys, value=value)
    assert expected in told(folder)


def test_arrays_that_belong_to_another_training(folder):
    path = folder / "state" / "state.json"
    arrays = load_tensors(path.parent, json.loads(path.read_text())["arrays"], "arrays")
    lanes = next(name for name in sorted(arrays) if name.startswith("lanes/"))
    network = next(name for name in sorted(arrays) if name.startswith("network/") and arrays[name].ndim == 2)
    for name, array in (
        (lanes, np.zeros(3, np.uint8)),
        ("algorithm/0/step", np.zeros(3, np.float32)),
        ("algorithm/0/exp_avg", np.zeros(3, np.float32)),
        (network, np.zeros((1, 1), np.float32)),
        ("algorithm/999/exp_avg", np.zeros(3, np.float32)),
        ("algorithm/x/exp_avg", np.zeros(3, np.float32)),
    ):
        edit(path, "arrays", value=save_tensors(path.parent, "state", {**arrays, name: array}))
        assert "does not fit this training" in told(folder)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[1]", "line 1: expected a JSON object, got a list"),
        ("{}", "line 1: update: expected a number, got nothing"),
        ('{"update": [1]}', "line 1: update: expected a number, got a list"),
        ('{"update": NaN}', "line 1: update: expected a finite number"),
        ("[" * 100_000, "line 1: is nested too deeply"),
    ],
)
def test_a_line_of_the_history(folder, line, expected):
    (folder / "history.jsonl").write_text(f"{line}\n")
    with pytest.raises(InputError) as caught:
        read_history(folder)
    assert expected in str(caught.value)
    assert expected in told(folder)


@pytest.mark.parametrize("name", ["run.json", "history.jsonl", "state/state.json"])
def test_a_pipe_in_the_place_of_a_file(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(InputError, match="is not a regular file"):
        train("edge/tiny", out=folder, resume=True)
