"""A damaged library: `verify` names the damage, `list` shows it beside what is whole, no command breaks."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import suppress

import pytest

from slipstream.errors import LibraryError
from slipstream.library import Library
from slipstream.library.storage.store import DATABASE, VERSIONS, Store
from slipstream.library.storage.verifying import DAMAGE, verify
from slipstream.policies.learned import shipped
from tests.library.policies import linear_policy


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A library of two models."""
    folder = tmp_path_factory.mktemp("whole")
    opened = Library(folder / "library", create=True, episodes=2)
    for name, weight in (("one", 1.0), ("two", -1.0)):
        policy = linear_policy(folder / name, "edge", {"slack": weight})
        opened.add(name, policy, ["edge/tiny"])
    opened.store.close()
    return folder / "library"


@pytest.fixture
def folder(whole, tmp_path):
    """A copy to damage; SQLite's own copy, since another process may have the file open."""
    (tmp_path / "library").mkdir()
    source, target = sqlite3.connect(whole / DATABASE), sqlite3.connect(tmp_path / "library" / DATABASE)
    source.backup(target)
    source.close()
    target.close()
    (tmp_path / "library" / VERSIONS).mkdir()
    for version in (whole / VERSIONS).iterdir():
        (tmp_path / "library" / VERSIONS / version.name).mkdir()
        for file in version.iterdir():
            (tmp_path / "library" / VERSIONS / version.name / file.name).write_bytes(file.read_bytes())
    return tmp_path / "library"


def change(folder, *statements):
    database = sqlite3.connect(folder / DATABASE)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


DAMAGES = {
    "UPDATE event SET evidence = '{' WHERE id = 1": "event 1: is not JSON at line 1, column 2",
    "UPDATE event SET evidence = '[1]' WHERE id = 1": "event 1: expected a JSON object, got a list",
    "UPDATE event SET time = x'00ff' WHERE id = 1": "event.time: expected a text, got 2 bytes",
    "UPDATE version SET sha256 = '../../../etc' WHERE model = 'one'": "version.sha256: expected a SHA-256 in hex",
    "UPDATE version SET number = 'x' WHERE model = 'one'": "version.number: expected a whole number from 0, got 'x'",
    "UPDATE model SET family = 'boats' WHERE name = 'one'": "model.family: expected the name of a family, got 'boats'",
    "UPDATE scenario SET text = '['": "text: is not JSON",
    'UPDATE scenario SET text = \'{"family": "edge"}\'': "is required",
    'UPDATE scenario SET traits = \'{"a": "b"}\'': "traits: expected numbers",
    "UPDATE scenario SET traits = 'NaN'": "expected a finite number",
    "UPDATE scenario SET text = json_set(text, '$.horizon_ms', 7)": "is another scenario than was remembered",
    "UPDATE evaluation SET reward = 'much'": "evaluation.reward: expected a finite number, got 'much'",
    "UPDATE evaluation SET seed = -1 WHERE seed = 1000000 AND policy LIKE 'heuristic edf'": "evaluation.seed: expected",
    "UPDATE alias SET version = 77 WHERE name = 'one'": "refers to a version that is not there",
    "UPDATE alias SET version = 2 WHERE name = 'one'": "stands for two@v1, which is a version of another model",
    "DELETE FROM model WHERE name = 'one'": "refers to a model that is not there",
    "DELETE FROM scenario": "refers to a scenario that is not there",
    "DELETE FROM version WHERE model = 'one'": "refers to a version that is not there",
    "DROP TABLE owned": "its tables are not those of a library",
    "CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM model; END": "its tables are not those of a library",
    "CREATE VIEW v AS SELECT 1": "its tables are not those of a library",
}


@pytest.mark.parametrize("statement", DAMAGES)
def test_every_damage_of_the_records_is_named_and_no_command_breaks(folder, statement):
    change(folder, statement)
    found = verify(folder)
    assert any(one.kind == DAMAGE and DAMAGES[statement] in one.what for one in found), found
    assert all(one.what.isprintable() and one.place.isprintable() for one in found)
    try:
        opened = Library(folder, episodes=2)
    except LibraryError:
        return
    rows = opened.models()
    assert all(row["error"].isprintable() for row in rows if "error" in row)
    for ask in (lambda: opened.show("one"), lambda: opened.choose("edge/tiny"), lambda: opened.policy("one")):
        with suppress(LibraryError):
            ask()
    opened.store.close()


@pytest.mark.parametrize(
    "harm",
    ["UPDATE version SET sha256 = 'x' WHERE model = 'one'", "UPDATE alias SET version = 2 WHERE name = 'one'", "file"],
)
def test_a_damaged_model_is_listed_as_unreadable_and_the_other_as_ever(folder, harm):
    before = {row["model"]: row for row in models(folder)}
    if harm == "file":
        place = Store(folder).folder_of(Store(folder).version("one"))
        (place / "policy.json").write_text("{}")
    else:
        change(folder, harm)
    rows = models(folder)
    errors = [row for row in rows if "error" in row]
    assert errors
    assert all(row["model"] in ("one", "") for row in errors)
    (other,) = [row for row in rows if row["model"] == "two"]
    assert "error" not in other
    assert other["regret"] == before["two"]["regret"]


def models(folder):
    opened = Library(folder, episodes=2)
    rows = opened.models()
    opened.store.close()
    return rows


def test_files_in_the_way_are_named(folder):
    place = Store(folder).folder_of(Store(folder).version("one"))
    os.mkfifo(place / "pipe")
    (folder / VERSIONS / "odd\x1b[2J").mkdir()
    (folder / VERSIONS / os.fsdecode(b"raw\xff")).mkdir()
    (folder / VERSIONS / os.fsdecode(b"raw\xff") / os.fsdecode(b"\xff")).write_bytes(b"1")
    found = verify(folder)
    assert any("pipe: expected a plain file" in one.what for one in found)
    assert {f"{VERSIONS}/odd\\x1b[2J", f"{VERSIONS}/raw\\udcff"} <= {one.place for one in found}


def test_the_commands_tell_the_damage_in_lines(folder, slipstream):
    change(
        folder, "UPDATE event SET evidence = '[' WHERE id = 1", "UPDATE version SET number = 'x' WHERE model = 'one'"
    )
    for words, code in ((("verify",), 1), (("list", "--episodes", 2), 0), (("show", "one"), 2)):
        ended, output, error = slipstream("library", *words, "--library", folder)
        assert ended == code
        assert "Traceback" not in output + error
        assert "version.number" in output + error
    ended, output, _ = slipstream("library", "verify", "--library", folder, "--json")
    assert ended == 1
    assert not json.loads(output)["whole"]


def test_a_copy_without_its_empty_folders_takes_further_models(folder):
    opened = Library(folder, episodes=2)
    version = opened.add("three", shipped("edge")["learned-heavy"], ["edge/tiny"])
    assert opened.show(version.label)["model"] == "three"
    opened.store.close()
