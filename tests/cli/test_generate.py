"""`slipstream generate`."""

from __future__ import annotations

import json
import shlex

import pytest

from slipstream.families.edge.workload.generator import Settings, generate
from slipstream.families.shared.generator import option
from slipstream.scenario import digest, dump, load
from tests.cli.test_files import tree


def test_every_setting_is_an_option(slipstream, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    _, output, _ = slipstream("generate", "edge", "--help")
    for name in Settings.model_fields:
        assert f" {option(name)} " in output


def test_options_reach_the_settings(slipstream):
    words = ["--streams", "3", "--utilisation", "0.25", "--utilisation-of", "mean", "--rate-hz", "50", "--late", "run"]
    code, output, _ = slipstream("generate", "edge", "--seed", "7", *words)
    assert code == 0
    wish = Settings(streams=3, utilisation=0.25, utilisation_of="mean", rate_hz=50.0, late="run")
    assert output == dump(generate(wish, 7))


def test_the_command_in_the_description_makes_the_same_bytes(slipstream):
    _, output, _ = slipstream("generate", "edge", "--seed", "7", "--ladder", "geometric", "--slowdown", "3")
    command = shlex.split(json.loads(output)["description"].removeprefix("Generated: "))
    assert slipstream(*command[1:])[1] == output


def test_scenarios_go_to_a_folder_one_file_for_each_seed(slipstream, tmp_path):
    code, output, _ = slipstream("generate", "edge", "--seed", "7", "--count", "3", "--out", "sets")
    assert code == 0
    assert output == "Written: 3 scenarios, sets/edge-7.json to sets/edge-9.json\n"
    assert tree(tmp_path) == ["sets", "sets/edge-7.json", "sets/edge-8.json", "sets/edge-9.json"]
    assert (tmp_path / "sets" / "edge-8.json").read_text() == slipstream("generate", "edge", "--seed", "8")[1]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_traces_lie_beside_the_scenario_and_run(kind, slipstream, tmp_path):
    words = ("generate", "edge", "--seed", "7", "--horizon-ms", "300", "--trace", kind, "--out", "one.json", "--json")
    code, output, _ = slipstream(*words)
    assert code == 0
    (file,) = json.loads(output)["files"]
    assert file == {"path": "one.json", "seed": 7, "digest": digest(load(tmp_path / "one.json"))}
    assert len(tree(tmp_path)) == 2 + 8
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    released = [
        json.loads(slipstream("run", name, "--seed", seed, "--json")[1])["metrics"]["released"]
        for name, seed in (("one.json", 7), ("one.json", 8))
    ]
    assert released[0] == released[1] > 20
    assert slipstream(*words, "--force")[0] == 0
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


BAD = {
    "several to nowhere": (("--count", "2"), "--out is missing: several scenarios, or one with traces, need files"),
    "traces to nowhere": (("--trace", "csv"), "--out is missing"),
    "several to one file": (("--count", "2", "--out", "a.json"), "a.json: is one file for 2 scenarios: expected a fol"),
    "file for a folder": (("--count", "2", "--out", "taken"), "taken: is a file: expected a folder, or a name that"),
    "folder in a file": (("--count", "2", "--out", "taken/sets"), "taken/sets/edge-0.json: cannot be written"),
    "file in a file": (("--out", "taken/one.json"), "taken/one.json: cannot be written"),
    "existing file": (("--out", "old.json"), "old.json: exists already: expected a new name, or --force"),
    "value out of range": (("--jitter", "2"), "generate edge: jitter: must be at most 1, got 2"),
    "wishes that contradict": (("--deadline-low", "3"), "generate edge: deadline_low is above deadline_high"),
    "seed too large": (("--seed", 2**62 - 1, "--count", 2, "--out", "sets"), "expected a number from 0 to 2**62 - 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_wishes_end_with_one_line_and_no_file(case, slipstream, tmp_path):
    (tmp_path / "taken").write_text("")
    (tmp_path / "old.json").write_text("")
    words, expected = BAD[case]
    code, output, error = slipstream("generate", "edge", *words)
    assert (code, output) == (2, "")
    assert expected in error
    assert len(error.strip().splitlines()) == 1
    assert tree(tmp_path) == ["old.json", "taken"]
    assert (tmp_path / "old.json").read_text() == ""
