"""Policy folders: written whole, loaded without torch, refused with a sentence when something is off."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save as torch_save

import slipstream
from slipstream.errors import PolicyError
from slipstream.learn.networks.networks import CandidateScorer, NetworkSettings
from slipstream.policies import find
from slipstream.policies.learned import load_policy, save_policy, save_tensors, shipped


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
        ({"weights": {"file": "x\0y", "sha256": "0"}}, "x\\\\x00y: .*null"),
        ({"weights": {"file": "..", "sha256": "0"}}, "lies elsewhere"),
        ({"weights": {"file": ["x"], "sha256": "0"}}, "expected an object with 'file' and 'sha256'"),
        ({"format": [1]}, "format is a list: expected 1"),
        ({"family": ["edge"]}, "family is a list: expected one of edge"),
        ({"scenario": {"a": 1}}, "scenario: expected a text, got an object"),
        ({"features": {"candidates": 7, "globals": None}}, "features.candidates: expected a list of texts"),
        ({"features": {"candidates": [[1]], "globals": []}}, "features.candidates: expected a list of texts"),
        ({"operations": [{"kind": 7}]}, r"operations\[0\]: expected an object of texts"),
        (
            {"operations": [{"kind": "relu", "source": "rows", "target": "rows"}] * 1001},
            "1,001 operations: expected at",
        ),
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


def rewrite(folder, tensors):
    """Put other tensors into a policy, with the hash that belongs to them."""
    change(folder, weights=save_tensors(folder, "weights", tensors))


def test_weights_of_types_that_a_network_cannot_have_are_refused(folder):
    tensors = dict(load_policy(folder).tensors)
    name = next(iter(tensors))
    for value, message in (
        (np.full_like(tensors[name], np.nan), "expected finite numbers of 32 bits"),
        (np.full(tensors[name].shape, 1e300), "expected finite numbers of 32 bits"),
        (tensors[name].astype(np.complex64), "expected"),
        (tensors[name][:-1], "has shape"),
        (tensors[name][None], "has shape"),
    ):
        rewrite(folder, {**tensors, name: value})
        with pytest.raises(PolicyError, match=message):
            load_policy(folder)
    content = torch_save({key: torch.from_numpy(value.copy()).to(torch.bfloat16) for key, value in tensors.items()})
    (folder / "half.safetensors").write_bytes(content)
    change(folder, weights={"file": "half.safetensors", "sha256": hashlib.sha256(content).hexdigest()})
    with pytest.raises(PolicyError, match="holds numbers of type 'BF16': expected one that NumPy has"):
        load_policy(folder)


def test_a_network_that_would_fill_the_memory_is_refused(folder):
    card, tensors = json.loads((folder / "policy.json").read_text()), dict(load_policy(folder).tensors)
    wide = {"wide": np.zeros((40_000, 32), np.float32), "bias": np.zeros(40_000, np.float32)}
    more = [
        {"kind": "linear", "source": "rows", "target": f"r{n}", "weight": "wide", "bias": "bias"} for n in range(900)
    ]
    rewrite(folder, {**tensors, **wide})
    change(folder, operations=[*card["operations"], *more])
    with pytest.raises(PolicyError, match=r"operations: keep 36,\d+,\d+ numbers for each candidate"):
        load_policy(folder)


def test_files_of_a_policy_that_are_no_files_are_refused(folder, tmp_path):
    weights = next(folder.glob("*.safetensors"))
    weights.rename(tmp_path / "elsewhere")
    weights.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PolicyError, match="leads out of the folder"):
        load_policy(folder)
    weights.unlink()
    os.mkfifo(weights)
    with pytest.raises(PolicyError, match="is not a regular file"):
        load_policy(folder)
    (folder / "policy.json").unlink()
    os.mkfifo(folder / "policy.json")
    with pytest.raises(PolicyError, match="is not a regular file"):
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
