"""Links in folders that are passed on: no command reads or writes outside of the folder through one."""

from __future__ import annotations

import json
import shutil

import pytest

from slipstream.policies.learned import shipped

TRAIN = ("train", "edge/tiny", "--steps", "128", "--set", "n_envs=8", "--set", "n_steps=16", "--out", "trained")
SWEEP = ("sweep", "edge/tiny", "--steps", "128", "--set", "n_envs=8", "--set", "n_steps=16", "--seeds", "1")
SWEEP += ("--episodes", "2", "--knob", "ppo.clip_range=0.1", "--out", "swept")


def moved_out(path, outside):
    """Put a file or folder elsewhere, and a link in its place; return what is outside, to compare."""
    shutil.move(path, outside)
    path.symlink_to(outside)
    return snapshot(outside)


def snapshot(path):
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [(file.name, file.read_bytes() if file.is_file() else b"") for file in files]


def refused(result, *words):
    code, _, error = result
    assert code == 2, error
    (line,) = [told for told in error.strip().splitlines() if not told.startswith("training ends after")]
    for word in words:
        assert word in line
    return line


@pytest.fixture
def policy(tmp_path):
    return shutil.copytree(shipped("edge")["learned-heavy"], tmp_path / "policy")


@pytest.mark.parametrize("which", ["policy.json", "weights"])
@pytest.mark.parametrize(
    "words",
    [
        ("run", "edge/tiny", "--policy", "policy"),
        ("compare", "edge/tiny", "--policies", "edf,policy"),
        ("library", "add", "first", "policy", "--library", "lib"),
        ("bench", "suite", "--policy", "policy", "--family", "edge", "--practice"),
    ],
    ids=lambda words: words[0],
)
def test_the_files_of_a_policy_lie_in_its_folder(slipstream, policy, tmp_path, words, which):
    (path,) = policy.glob(f"{which}*")
    moved_out(path, tmp_path / "outside")
    refused(slipstream(*words), path.name)


@pytest.fixture
def trained(slipstream, tmp_path):
    code, _, error = slipstream(*TRAIN)
    assert code == 0, error
    return tmp_path / "trained"


@pytest.mark.parametrize("entry", ["run.json", "history.jsonl", "state", "best", "last", "tensorboard"])
def test_a_training_goes_on_inside_its_folder_only(slipstream, trained, tmp_path, entry):
    before = moved_out(trained / entry, tmp_path / "outside")
    refused(slipstream(*TRAIN, "--resume"), entry, "leads out of the folder")
    assert snapshot(tmp_path / "outside") == before


def test_the_curve_of_a_training_lies_in_its_folder(slipstream, trained, tmp_path):
    assert slipstream("run", "edge/tiny", "--policy", "edf", "--log", "run.parquet")[0] == 0
    moved_out(trained / "history.jsonl", tmp_path / "outside")
    result = slipstream("report", "run.parquet", "--training", "trained", "--out", "page.html")
    refused(result, "history.jsonl", "leads out of the folder")
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("entry", ["trainings", "trainings/default", "trainings/default/seed-0"])
def test_a_sweep_goes_on_inside_its_folder_only(slipstream, tmp_path, entry):
    code, _, error = slipstream(*SWEEP)
    assert code == 0, error
    before = moved_out(tmp_path / "swept" / entry, tmp_path / "outside")
    refused(slipstream(*SWEEP, "--resume"), "leads out of the folder")
    assert snapshot(tmp_path / "outside") == before


@pytest.mark.parametrize("entry", ["library.sqlite", "versions", "incoming"])
def test_a_library_lies_in_its_folder(slipstream, tmp_path, entry):
    add = ("library", "add", "first", "learned-heavy", "--episodes", "2", "--library", "lib")
    assert slipstream(*add)[0] == 0
    before = moved_out(tmp_path / "lib" / entry, tmp_path / "outside")
    for words in (add, ("library", "list", "--library", "lib"), ("library", "choose", "edge/tiny", "--library", "lib")):
        refused(slipstream(*words), entry, "leads out of the folder")
    assert snapshot(tmp_path / "outside") == before


def test_a_version_of_a_library_is_no_link(slipstream, tmp_path):
    assert slipstream("library", "add", "first", "learned-heavy", "--episodes", "2", "--library", "lib")[0] == 0
    (version,) = (tmp_path / "lib" / "versions").iterdir()
    moved_out(version, tmp_path / "outside")
    code, output, _ = slipstream("library", "verify", "--library", "lib", "--json")
    assert code == 1
    assert "is a link: expected a folder" in json.dumps(json.loads(output))


def test_results_of_a_leaderboard_lie_in_its_folder(slipstream, tmp_path):
    (tmp_path / "handed-in").mkdir()
    (tmp_path / "secret.json").write_text('{"secret": true}')
    (tmp_path / "handed-in" / "mine.json").symlink_to(tmp_path / "secret.json")
    line = refused(slipstream("bench", "leaderboard", "handed-in"), "mine.json", "leads out of the folder")
    assert "secret" not in line
