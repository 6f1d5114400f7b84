"""The benchmark of default trainings: results are kept as they come, and a run that was stopped continues."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import slipstream
from slipstream.suite import load_suite

SHORT = ("--families", "edge", "--steps", "2000", "--json")


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "benchmarks"))
    return importlib.import_module("default_training")


@pytest.fixture
def run(benchmark, monkeypatch, capsys):
    """Return a function that runs the benchmark, and returns its exit code and the figures that it prints."""

    def run(results, *words):
        monkeypatch.setattr(sys, "argv", ["default_training.py", "--results", str(results), *words])
        code = benchmark.main()
        output = capsys.readouterr().out
        return code, json.loads(output) if output else None

    return run


@pytest.mark.thorough
def test_finished_trainings_are_kept_and_those_that_were_interrupted_go_on(tmp_path, run, monkeypatch):
    results = tmp_path / "results.json"
    code, first = run(results, *SHORT, "--scenarios", "small")
    assert code == 0
    (name,) = first["results"]
    row = first["results"][name]
    rules = next(entry for entry in load_suite().of("edge") if entry.name == "small").reference.rules
    assert row["rules"].keys() == rules.keys()
    best = row["best_rule"]
    assert row["rules"][best]["reward"] == pytest.approx(max(float(rewards.mean()) for rewards in rules.values()))
    assert row["rules"][best]["ahead"] == pytest.approx(row["reward"] - row["rules"][best]["reward"])
    assert first["families"] == {"edge": {"ahead": 0, "level": 0, "behind": 0} | {row["verdict"]: 1}}
    assert json.loads(results.read_text())["results"] == first["results"]
    # As if the process had been killed after the training, before its result was written.
    results.unlink()
    code, second = run(results, *SHORT, "--scenarios", "small")
    assert code == 0
    assert {**second["results"][name], "seconds": 0.0} == {**row, "seconds": 0.0}
    code, more = run(results, *SHORT, "--scenarios", "small", "--episodes", "4")
    assert (code, more["results"][name]["episodes"]) == (0, 4)
    assert more["results"][name]["outcome"] == row["outcome"]
    _, second = run(results, *SHORT, "--scenarios", "small")
    assert second["results"][name]["reward"] == row["reward"]
    monkeypatch.setattr(slipstream, "train", lambda *_: pytest.fail("trained again"))
    code, third = run(results, *SHORT, "--scenarios", "small")
    assert (code, third["results"]) == (0, second["results"])
    code, figures = run(results, "--families", "edge", "--steps", "3000")
    assert (code, figures) == (2, None)


def test_a_policy_is_ahead_only_if_it_is_ahead_of_every_rule(benchmark):
    ours = np.array([3.0, 4.0, 5.0])
    rows = benchmark.differences(ours, {"worse": ours - 1.0, "even": ours[::-1]})
    assert (rows["worse"]["ahead"], rows["worse"]["low"]) == (1.0, 1.0)
    assert benchmark.verdict(rows) == "level"
    assert benchmark.verdict(benchmark.differences(ours, {"worse": ours - 1.0})) == "ahead"
    assert benchmark.verdict(benchmark.differences(ours, {"worse": ours - 1.0, "best": ours + 1.0})) == "behind"


def test_unknown_names_are_refused_in_one_line(tmp_path, run):
    for words in (("--families", "edgy"), ("--families", "edge", "--scenarios", "tinny")):
        assert run(tmp_path / "results.json", *words) == (2, None)
    assert not list(tmp_path.iterdir())
