"""`slipstream bench`: the suite from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import slipstream as slipstream  # the fixture


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return the data of honest results on one family."""
    from slipstream.suite import load_suite, measure, players_of
    from slipstream.suite import results as gather

    part = load_suite().only(["cluster"])
    players, _ = players_of(["sjf"], part)
    return gather(part, players, measure(part, players))


def test_the_speed_is_measured_without_the_name_of_a_command(slipstream):
    for words in (("edge/tiny",), ("speed", "edge/tiny")):
        code, output, _ = slipstream("bench", *words, "--seconds", "0.1", "--json")
        assert code == 0
        assert json.loads(output)["events_per_s"] > 0.0


def test_a_suite_run_is_written_verified_and_the_same_again(slipstream, results):
    words = ("bench", "suite", "--policy", "sjf", "--family", "cluster")
    code, output, _ = slipstream(*words, "--out", "sjf.json", "--picture", "sjf.png", "--json")
    assert code == 0
    assert json.loads(output) == results
    assert json.loads(Path("sjf.json").read_text()) == results
    assert Path("sjf.png").stat().st_size > 1000
    assert not list(Path().glob("*.unfinished"))
    Path("printed.json").write_text(output)
    for file in ("sjf.json", "printed.json"):
        code, output, _ = slipstream("bench", "verify", file)
        assert (code, output.split()) == (0, [f"{file}:", "accepted."])
    Path("sjf.json").write_text(Path("sjf.json").read_text().replace('"best_rule": "', '"best_rule": "x'))
    code, output, _ = slipstream("bench", "verify", "sjf.json")
    assert code == 1
    assert "sjf.json: families.cluster.best_rule: 'x" in output
    assert output.endswith("sjf.json: rejected.\n")
    code, output, _ = slipstream("bench", "verify", "sjf.json", "--json")
    assert (code, json.loads(output)["accepted"]) == (1, False)


def test_the_table_has_a_row_for_the_family_and_one_for_each_scenario(slipstream, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, output, _ = slipstream("bench", "suite", "--policy", "sjf", "--family", "cluster")
    assert code == 0
    output = " ".join(output.split())
    assert "0 is random, 100 the best known in hindsight" in output
    assert {"gain", "over", "best", "rule"} <= set(output.split())
    assert "shifted-profiles" in output


def test_practice_is_scored_but_not_handed_in(slipstream):
    words = ("bench", "suite", "--policy", "sjf", "--family", "cluster", "--practice")
    code, output, _ = slipstream(*words, "--json")
    assert code == 0
    assert json.loads(output)["seeds"]["split"] == "eval"
    code, _, errors = slipstream(*words, "--out", "x.json")
    assert code == 2
    assert "practice results are not submitted" in errors


def test_policies_are_found_from_where_the_file_lies(slipstream):
    from slipstream.policies.learned import shipped
    from slipstream.suite import load_suite, players_of

    place = Path("here/deep")
    place.mkdir(parents=True)
    Path("mine").symlink_to(shipped("edge")["learned-heavy"])
    players, _ = players_of(["mine"], load_suite())
    moved = players["edge"].relative_to_folder(place)
    assert moved.source == "../../mine"
    assert (moved.folder / moved.source / "policy.json").is_file()


def test_a_leaderboard_ranks_a_folder_and_needs_no_network(slipstream, results):
    Path("all").mkdir()
    Path("all/sjf.json").write_text(json.dumps({**results, "title": "<b>mine</b>"}))
    code, output, _ = slipstream("bench", "leaderboard", "all", "--json")
    assert code == 0
    rows = json.loads(output)["ranking"]["cluster"]
    assert [row["score"]["mean"] for row in rows] == sorted((row["score"]["mean"] for row in rows), reverse=True)
    assert [row["title"] for row in rows if row["own"]] == ["<b>mine</b>"]
    page = Path("leaderboard.html").read_text()
    assert "&lt;b&gt;mine&lt;/b&gt;" in page
    assert "<b>mine" not in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("suite", "--policy", "sjf", "--family", "sea"), "unknown family 'sea'"),
        (("suite", "--policy", "nobody"), "unknown policy 'nobody'"),
        (("verify", "none.json"), "none.json: no such file"),
        (("leaderboard", "nowhere"), "nowhere: no such folder"),
        (("leaderboard", "."), "holds no results"),
    ],
)
def test_bad_input_ends_with_one_line(slipstream, words, message):
    code, _, errors = slipstream("bench", *words)
    assert code == 2
    assert message in errors
    assert errors.strip().count("\n") == 0
