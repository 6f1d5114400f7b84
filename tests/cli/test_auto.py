"""`auto` as the policy of commands that name none: what it plays and why is told, and choosing is bounded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstream.policies import auto
from slipstream.policies.base import applicable
from slipstream.runs import Run
from slipstream.scenario import load
from tests.cli.conftest import slipstream as slipstream  # the fixture


@pytest.fixture(autouse=True)
def own_store(monkeypatch, tmp_path):
    """Keep choices in a folder of the test's own."""
    monkeypatch.setattr(auto, "_folder", lambda: tmp_path / "auto")


def test_a_run_without_a_policy_says_what_auto_plays_and_why(slipstream):
    code, output, _ = slipstream("run", "edge/tiny", "--log", "run.parquet")
    assert code == 0
    chosen = auto.choose_policy(load("edge/tiny"), effort=auto.QUICK)
    assert f"auto plays '{chosen.policy}': {chosen.reason}." in " ".join(output.split())
    data = json.loads(slipstream("run", "edge/tiny", "--json")[1])
    assert data["policy"] == "auto"
    assert data["choice"] == {"policy": chosen.policy, "reason": chosen.reason}
    named = json.loads(slipstream("run", "edge/tiny", "--policy", chosen.policy, "--json")[1])
    assert named["digest"] == data["digest"]
    assert "choice" not in named
    about = Run.load("run.parquet").about
    assert (about["policy"], about["plays"]) == ("auto", chosen.policy)
    assert f"--policy {chosen.policy} " in about["command"]
    assert slipstream("report", "run.parquet")[0] == 0
    assert f"auto, which played {chosen.policy}" in Path("report.html").read_text()


def test_auto_is_the_first_line_of_a_comparison_of_all(slipstream, monkeypatch):
    monkeypatch.setattr("slipstream.cli.common.console._width", 200)
    code, output, _ = slipstream("compare", "edge/tiny", "--episodes", "2")
    assert code == 0
    names = [line.split()[0] for line in output.splitlines() if line.split()[1:2] in (["heuristic"], ["model-based"])]
    assert names[0] == "auto"
    assert sorted(names[1:]) == sorted(applicable(load("edge/tiny")))
    assert "auto plays '" in output
    data = json.loads(slipstream("compare", "edge/tiny", "-n", "2", "-p", "all,learned-heavy", "--json")[1])
    kinds = {one["policy"]: one["kind"] for one in data["policies"]}
    assert (kinds["auto"], kinds["edf"], kinds["learned-heavy"]) == ("model-based", "heuristic", "trained")
    played = {one["policy"]: one["metrics"]["reward"]["values"] for one in data["policies"]}
    assert played["auto"] == played[data["choice"]["policy"]]


def test_a_comparison_of_named_policies_races_none(slipstream, tmp_path):
    code, output, _ = slipstream("compare", "edge/tiny", "--policies", "edf,stf", "--episodes", "1", "--json")
    assert (code, "choice" in json.loads(output)) == (0, False)
    assert not (tmp_path / "auto").exists()


def test_requests_cannot_be_raced_on(slipstream):
    code, output, errors = slipstream("execute", "edge/cpu-mini", "--policy", "auto", "--listen", "127.0.0.1:0")
    assert (code, output) == (2, "")
    assert "--policy auto with --listen: requests cannot be raced on" in errors


def test_a_comparison_of_heuristics_has_no_auto_and_races_none(slipstream, tmp_path):
    words = ("--policies", "heuristics, learned-heavy", "--episodes", "1", "--json")
    code, output, _ = slipstream("compare", "edge/tiny", *words)
    assert code == 0
    played = [one["policy"] for one in json.loads(output)["policies"]]
    assert sorted(played) == sorted([*applicable(load("edge/tiny")), "learned-heavy"])
    assert not (tmp_path / "auto").exists()
