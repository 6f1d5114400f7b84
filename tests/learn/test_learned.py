"""Policy folders: written whole, loaded without torch, refused with a sentence when something is off."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import slipstream
from slipstream.errors import PolicyError
from slipstream.learn.networks import CandidateScorer, NetworkSettings
from slipstream.policies import find
from slipstream.policies.learned import load_policy, save_policy, shipped


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    network = CandidateScorer(32, 16, NetworkSettings(8))
    save_policy(tmp_path / "mine", "edge", network.operations(), network.arrays(), {"scenario": "edge/heavy"})
    return tmp_path / "mine"


def change(folder, **changes):
    card = json.loads((folder / "policy.json").read_text())
    (folder / "policy.json").write_text(json.dumps({**card, **changes}))


def test_a_policy_comes_back_as_it_was_and_its_folder_is_a_policy(folder):
    policy = find(str(folder), "edge")
    assert policy.name == str(folder)
    assert load_policy(folder).name == "mine"
    assert slipstream.evaluate("edge/tiny", str(folder), 1).policy == str(folder)
    again = load_policy(folder)
    for name, tensor in policy.tensors.items():
        np.testing.assert_array_equal(tensor, again.tensors[name])


def test_two_folders_of_the_same_name_are_two_policies(folder):
    network = CandidateScorer(32, 16, NetworkSettings(8))
    other = folder.parent / "other" / "mine"
    save_policy(other, "edge", network.operations(), network.arrays(), {})
    comparison = slipstream.compare("edge/tiny", f"{folder},{other},{folder}", 1)
    assert [one.policy for one in comparison.evaluations] == [str(folder), str(other)]


def test_loading_and_playing_need_no_torch(folder):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import slipstream\n"
        f"print(slipstream.evaluate('edge/tiny', {str(folder)!r}, 1).mean('reward'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == slipstream.evaluate("edge/tiny", str(folder), 1).mean("reward")


def test_writing_again_leaves_one_version(folder):
    network = CandidateScorer(32, 16, NetworkSettings(8))
    save_policy(folder, "edge", network.operations(), network.arrays(), {})
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".safetensors"]
    load_policy(folder)


def test_columns_that_differ_are_named(folder):
    features = json.loads((folder / "policy.json").read_text())["features"]
    renamed = {**features, "candidates": ["shoe_size", *features["candidates"][1:]]}
    change(folder, features=renamed)
    with pytest.raises(PolicyError, match="it saw shoe_size, which edge has not; edge shows slack, which it never saw"):
        load_policy(folder)
    change(folder, features={**features, "globals": features["globals"][::-1]})
    with pytest.raises(PolicyError, match=r"features.globals: the order of the columns differs"):
        load_policy(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 99}, "format is 99: expected 1"),
        ({"family": "submarine"}, "family is 'submarine'"),
        ({"features": 7}, "features: expected an object"),
        ({"operations": "none"}, "expected a list of operations"),
        ({"operations": [{"kind": "linear"}]}, r"missing keys \['source', 'target'\]"),
        ({"operations": [{"kind": "exec", "source": "rows", "target": "x"}]}, "not among those that can be compiled"),
        ({"weights": {}}, "expected an object with 'file' and 'sha256'"),
        ({"weights": {"file": "../../x", "sha256": "0"}}, "lies elsewhere"),
        ({"weights": {"file": "x.safetensors", "sha256": "0"}}, "no such file: expected the weights"),
    ],
)
def test_a_damaged_card_is_refused_with_a_sentence(folder, changes, message):
    change(folder, **changes)
    with pytest.raises(PolicyError, match=message):
        load_policy(folder)


def test_damaged_weights_are_refused(folder):
    weights = next(folder.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    with pytest.raises(PolicyError, match="is not the file that"):
        load_policy(folder)
    (folder / "policy.json").write_text("{")
    with pytest.raises(PolicyError, match="is not JSON at line 1"):
        load_policy(folder)


def test_a_folder_without_a_policy_is_an_unknown_policy(tmp_path):
    with pytest.raises(PolicyError, match="unknown policy"):
        find(str(tmp_path), "edge")
    with pytest.raises(PolicyError, match="expected the folder of a trained policy"):
        load_policy(tmp_path)


@pytest.mark.parametrize("name", shipped("edge"))
def test_shipped_policies_are_small_say_where_they_come_from_and_play(name):
    folder = shipped("edge")[name]
    assert sum(path.stat().st_size for path in Path(folder).iterdir()) <= 300_000
    policy = load_policy(folder)
    scenario = slipstream.load(policy.card["scenario"])
    assert policy.card["scenario_digest"] == slipstream.scenario.digest(scenario)
    assert policy.card["command"].startswith("slipstream train")
    assert slipstream.evaluate(scenario, name, 1).mean("reward") > slipstream.evaluate(scenario, "edf", 1).mean(
        "reward"
    )
