"""`slipstream library`: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstream.library.storage.store import Store
from tests.library.policies import linear_policy

FAST = {"dispatch": 5.0, "latency": -5.0}
SLOW = {"dispatch": 5.0, "latency": 5.0}


@pytest.fixture
def filled(slipstream):
    """Return the command line in a folder with a library of two models."""
    for name, weights in (("fast", FAST), ("slow", SLOW)):
        folder = linear_policy(Path(name), "edge", weights, "edge/tiny")
        code, output, _ = slipstream("library", "add", name, folder, "--episodes", 2)
        assert code == 0
        assert f"{name}@v1 added, in use." in output
    return slipstream


def test_bad_input_begins_no_library(slipstream):
    folder = linear_policy(Path("fast"), "edge", FAST, "edge/tiny")
    code, _, errors = slipstream("library", "add", "../fast", folder)
    assert code == 2
    assert "expected a name" in errors
    for words, told in (
        (["nowhere"], "nowhere"),
        ([folder, "--scenario", "edge/nowhere"], "edge/nowhere"),
        ([folder, "--held-out", "nowhere.json"], "nowhere.json"),
        ([folder, "--scenario", "dag/tiny"], "dag/tiny: 'fast' is for 'edge': expected a scenario of that family"),
    ):
        code, _, errors = slipstream("library", "add", "fast", *words)
        assert code == 2
        assert told in errors
        assert not Path("library").exists()


def test_a_library_without_models_has_no_curve(slipstream):
    Store(Path("library"), create=True).close()
    code, _, errors = slipstream("library", "tradeoff", "--out", "curve.png")
    assert code == 2
    assert "library: holds no model yet: expected `slipstream library add`" in errors
    assert not Path("curve.png").exists()


def test_models_are_listed_and_shown(filled):
    code, output, _ = filled("library", "list", "--episodes", 2, "--json")
    assert code == 0
    rows = json.loads(output)
    assert [row["model"] for row in rows] == ["fast", "slow"]
    assert rows[0]["scenarios"] == ["edge/tiny"]
    code, output, _ = filled("library", "list", "--episodes", 2)
    assert "fast@v1" in output
    code, output, _ = filled("library", "show", "fast", "--episodes", 2)
    assert code == 0
    assert "fast@v1 (in use)" in output
    assert "added from" in output


def test_a_choice_names_what_other_commands_take(filled):
    code, output, _ = filled("library", "choose", "edge/tiny", "--episodes", 2, "--json")
    assert code == 0
    choice = json.loads(output)
    assert choice["known"]
    code, output, _ = filled("compare", "edge/tiny", "--policies", choice["policy"], "--episodes", 1, "--json")
    assert code == 0
    code, output, _ = filled("library", "choose", "edge/tiny", "--episodes", 2)
    assert "Chosen in " in output


def test_a_rollback_is_told_and_logged(filled):
    slow = linear_policy(Path("slower"), "edge", {"dispatch": 5.0, "latency": 4.0}, "edge/tiny")
    filled("library", "add", "fast", slow, "--use", "--reason", "injected", "--episodes", 2)
    code, output, _ = filled("library", "rollback", "fast", "--reason", "it was slow")
    assert code == 0
    assert "rolled back from fast@v2 to fast@v1: it was slow" in output
    code, output, _ = filled("library", "rollback", "fast", "--auto", "--runs", 2, "--episodes", 2, "--json")
    assert json.loads(output)["after"] is None


def test_damage_ends_with_1_and_its_name(filled):
    code, output, _ = filled("library", "verify")
    assert (code, output) == (0, "library: whole.\n")
    weights = next(Path("library/versions").glob("*/*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1])
    code, output, _ = filled("library", "verify", "--json")
    assert code == 1
    (finding,) = json.loads(output)["findings"]
    assert finding["kind"] == "damage"
    assert "@v1" in finding["place"]


def test_the_curve_is_printed_and_painted(filled):
    code, output, _ = filled("library", "tradeoff", "--out", "curve.png", "--episodes", 2)
    assert code == 0
    assert "best single rule" in " ".join(output.split())
    assert Path("curve.png").read_bytes().startswith(b"\x89PNG")
    code, output, _ = filled("library", "tradeoff", "--episodes", 2, "--json")
    (curve,) = json.loads(output)
    assert [point["count"] for point in curve["points"]] == [1, 2]


def test_bad_input_is_told_in_one_line(filled):
    for words, message in (
        (["show", "nobody"], "expected one of fast, slow"),
        (["show", "fast@v7"], "expected one of v1 to v1"),
        (["choose", "edge/nowhere"], "edge/nowhere"),
        (["add", "new", "nowhere"], "expected the folder of a trained policy"),
        (["merge", "fast", "fast", "--into", "both"], "at least two different versions"),
        (["merge", "fast", "slow", "--into", "both", "--average"], "no parent in common"),
        (["rollback", "fast"], "never at an earlier version"),
        (["rollback", "fast", "--auto", "--to", "v1"], "expected one of them"),
        (["tradeoff", "--out", "/dev/null/curve.png"], "not a directory"),
        (["list", "--library", "elsewhere"], "holds no library"),
        (["update", "fast", "edge/tiny", "--set", "ppo.clap=1", "--steps", 1], "unknown setting 'ppo.clap'"),
        (["update", "fast", "taskgraph/tiny", "--steps", 1], "expected a scenario of that family"),
    ):
        code, _, errors = filled("library", *words)
        assert code == 2, (words, errors)
        assert message in errors
        assert len(errors.strip().splitlines()) == 1, errors
    assert not Path("elsewhere").exists()
