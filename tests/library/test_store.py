"""Versions, aliases and events on disk: whole or not at all, whoever is stopped in the middle."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from slipstream.errors import LibraryError
from slipstream.library.storage.records import KnownScenario
from slipstream.library.storage.store import (
    APPLICATION,
    DATABASE,
    FORMAT,
    INCOMING,
    SCHEMA,
    VERSIONS,
    Entry,
    Run,
    Store,
)
from slipstream.library.storage.verifying import DAMAGE, LEFTOVER, verify

FILES = {"policy.json": b"{}", "weights.safetensors": b"1234"}


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "library", create=True)
    yield opened
    opened.close()


def publish(store, model="one", files=FILES, **more):
    return store.publish(Entry(model, "edge", "add", files, "a test", **more))


def interleave(folder, rounds, seed):
    script = Path(__file__).with_name("writers.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder), str(rounds), str(seed)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.thorough
def test_two_writers_that_are_killed_at_random_points_lose_nothing(tmp_path):
    told = interleave(tmp_path / "library", 200, 0)
    # The test means something only if many were killed, and many got through.
    assert told["killed"] >= 60
    assert told["finished"] >= 200
    assert told["promised"] >= 400


def test_keeping_records_needs_no_compiler_and_no_torch():
    code = (
        "import sys, slipstream.library.storage.store, slipstream.library.storage.verifying;"
        "print([m for m in ('numba', 'torch', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_versions_are_numbered_within_their_model_and_know_their_parents(store):
    first, other = publish(store), publish(store, "two", {"policy.json": b"2"})
    second = publish(store, files={"policy.json": b"3"}, parents=(first, other))
    assert [version.label for version in store.versions()] == ["one@v1", "two@v1", "one@v2"]
    assert store.version("one@v2").parents == ("one@v1", "two@v1")
    assert store.version("one@v2") == second
    assert {path.name: path.read_bytes() for path in store.verified_folder(first).iterdir()} == FILES


def test_a_name_stands_for_a_version_only_once_it_is_told_to(store):
    first = publish(store, use=True)
    second = publish(store, files={"policy.json": b"3"})
    assert store.version("one") == first
    store.record_event("rollback", "one", "by hand", {"because": 1}, use=second)
    assert store.version("one").label == "one@v2"
    event = store.events("one")[-1]
    assert (event.before, event.after, event.reason, event.evidence) == ("one@v1", "one@v2", "by hand", {"because": 1})


def test_a_name_that_somebody_else_moved_meanwhile_is_left_alone(store):
    first = publish(store, use=True)
    second, third = (publish(store, files={"policy.json": text}) for text in (b"2", b"3"))
    store.record_event("update accepted", "one", "a test", {}, second, first)
    with pytest.raises(
        LibraryError, match="changed by another writer meanwhile: expected it at one@v1; one@v3 is kept"
    ):
        store.record_event("update accepted", "one", "a test", {}, third, first)
    assert store.version("one") == second
    assert len(store.events("one")) == 4


def test_the_same_content_is_kept_once_and_may_belong_to_two_models(store):
    first, second = publish(store), publish(store, "two")
    assert store.verified_folder(first) == store.verified_folder(second)
    assert len(list((store.folder / VERSIONS).iterdir())) == 1
    assert verify(store.folder) == []


def test_a_failed_transaction_leaves_nothing(store):
    publish(store, use=True)
    with pytest.raises(LibraryError, match="is for 'edge': expected a policy of that family"):
        store.publish(Entry("one", "dag", "add", {"policy.json": b"x"}, "a test", use=True))
    assert [version.label for version in store.versions()] == ["one@v1"]
    assert [finding.kind for finding in verify(store.folder)] == [LEFTOVER]


def test_scenarios_change_owners_with_the_version_that_takes_them(store):
    for digest in ("a", "b"):
        store.remember(KnownScenario(digest, "edge", f"edge/{digest}", "{}", "/", {"x": 1.0}))
    publish(store, owned=["a", "b"], use=True)
    publish(store, "two", {"policy.json": b"2"}, owned=["b"], held_out=["a"], taken_from="one", use=True)
    assert store.owned() == {"one": ["a"], "two": ["b"]}
    assert store.owned(held_out=True) == {"two": ["a"]}
    assert store.scenarios()["a"].traits == {"x": 1.0}


def test_runs_come_back_newest_last(store):
    store.remember(KnownScenario("a", "edge", "edge/a", "{}", "/", {}))
    version = publish(store)
    store.record(Run(version.id, "a", "eval", seed, float(seed)) for seed in range(5))
    assert [run.seed for run in store.runs(version, "a", 3)] == [2, 3, 4]


def test_what_other_code_earned_does_not_count(store):
    store.remember(KnownScenario("a", "edge", "edge/a", "{}", "/", {}))
    store.keep_rewards("p", "a", "eval", "old", {1: 5.0, 2: 6.0})
    store.keep_rewards("p", "a", "eval", "new", {1: 7.0})
    assert store.rewards("p", "a", "eval", "new") == {1: 7.0}
    assert store.rewards("p", "a", "eval", "old") == {2: 6.0}
    assert store.best_rewards("a", "eval", "new") == {1: (7.0, 1)}


# Libraries of format 1, whose split was called namespace and whose table of optimum bounds was called bracket


@pytest.fixture
def old(tmp_path):
    folder = tmp_path / "old"
    folder.mkdir()
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        for statement in SCHEMA:
            database.execute(statement.replace("split", "namespace").replace("optimum_bounds", "bracket"))
        database.execute("INSERT INTO model VALUES ('one', 'edge', 'then')")
        database.execute("INSERT INTO version VALUES (1, 'one', 1, ?, 'add', 'then')", ("0" * 64,))
        database.execute("INSERT INTO scenario VALUES ('a', 'edge', 'edge/a', '{}', '/', '{}')")
        database.execute("INSERT INTO evaluation VALUES ('p', 'a', 'eval', 3, 0.5, 'code')")
        database.execute("INSERT INTO bracket VALUES ('a', 'eval', 3, 0.5, 0.75, 0, 'code')")
        database.execute("INSERT INTO run VALUES (1, 'then', 1, 'a', 'test', 4, 0.25)")
        database.execute(f"PRAGMA application_id = {APPLICATION}")
        database.execute("PRAGMA user_version = 1")
        database.commit()
    return folder


def format_of(folder):
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


def test_a_library_of_the_old_format_is_migrated_with_its_records(old):
    for _ in range(2):  # the second opening finds the new format
        with closing(Store(old)) as store:
            assert store.rewards("p", "a", "eval", "code") == {3: 0.5}
            assert store.optimum_bounds("a", "eval", "code") == {3: (0.5, 0.75, False)}
            assert store.runs(store.version("one@v1"), "a", 5) == [Run(1, "a", "test", 4, 0.25)]
            assert store.check_database() == []
        assert format_of(old) == FORMAT
    with closing(Store(old)) as store:  # and it is written as a new one is
        store.keep_optimum_bounds("a", "eval", "code", {5: (1.0, 1.0, True)})
        store.record([Run(1, "a", "eval", 6, 1.5)])
        assert store.optimum_bounds("a", "eval", "code")[5] == (1.0, 1.0, True)


def test_a_database_of_the_old_format_with_a_trigger_is_refused_unchanged(old):
    with closing(sqlite3.connect(old / DATABASE)) as database:
        database.execute("CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM model; END")
        database.commit()
    before = (old / DATABASE).read_bytes()
    with pytest.raises(LibraryError, match=r"^[^\n]*its tables are not those of a library: expected a whole library$"):
        Store(old)
    assert (old / DATABASE).read_bytes() == before


def test_a_library_of_the_old_format_that_cannot_be_written_is_named_in_one_line(old):
    with closing(sqlite3.connect(old / DATABASE)) as writer:
        writer.execute("BEGIN EXCLUSIVE")  # another writer that does not end
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("slipstream.library.storage.store.BUSY_TIMEOUT_S", 0.0)
            with pytest.raises(LibraryError, match=r"^[^\n]*database is locked: expected [^\n]*$"):
                Store(old)
        writer.execute("ROLLBACK")
    assert format_of(old) == 1


# Damage


def damages(folder):
    return [f"{one.place}: {one.what}" for one in verify(folder) if one.kind == DAMAGE]


def test_a_tampered_file_is_refused_by_its_hash_and_named(store):
    version = publish(store)
    (store.verified_folder(version) / "weights.safetensors").write_bytes(b"1235")
    with pytest.raises(LibraryError, match=r"one@v1: .*not those that were published: expected sha256"):
        store.verified_folder(version)
    (found,) = damages(store.folder)
    assert found.startswith("one@v1: ")
    assert "not those that were published" in found


@pytest.mark.parametrize("change", ["truncate", "remove", "add", "remove folder"])
def test_every_change_of_a_version_folder_is_found(store, change):
    version = publish(store)
    whole = publish(store, "two", {"policy.json": b"2"})
    folder = store.verified_folder(version)
    if change == "truncate":
        (folder / "weights.safetensors").write_bytes(b"12")
    elif change == "add":
        (folder / "more").write_bytes(b"")
    else:
        for path in folder.iterdir():
            path.unlink()
        if change == "remove folder":
            folder.rmdir()
    (found,) = damages(store.folder)
    assert found.startswith("one@v1: ")
    store.verified_folder(whole)


def test_publishing_the_same_content_again_heals_a_damaged_folder(store):
    version = publish(store)
    (store.verified_folder(version) / "weights.safetensors").write_bytes(b"12")
    publish(store)
    store.verified_folder(version)
    assert damages(store.folder) == []


def test_a_truncated_database_is_named_and_no_version_folder_is_touched(store):
    for number in range(30):
        publish(store, files={"policy.json": str(number).encode()})
    store.close()
    path = store.folder / DATABASE
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert damages(store.folder)
    assert all(found.startswith(DATABASE) for found in damages(store.folder))
    assert len(list((store.folder / VERSIONS).iterdir())) == 30
    path.write_bytes(b"no database at all, but long enough to look like one" * 50)
    assert damages(store.folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE alias SET version = 2", "another model"),
        ("UPDATE alias SET version = 3 WHERE name = 'one'", "by its last event for one@v1"),
        ("DELETE FROM alias", "stands for nothing"),
        ("DELETE FROM event; DELETE FROM alias; DELETE FROM version WHERE id = 1", "a version between is lost"),
        ("PRAGMA foreign_keys = OFF; UPDATE alias SET version = 99", "refers to a version that is not there"),
    ],
)
def test_records_that_contradict_each_other_are_named(store, change, message):
    publish(store, use=True)
    publish(store, "two", {"policy.json": b"2"})
    publish(store, files={"policy.json": b"3"})
    with sqlite3.connect(store.path) as database:
        database.executescript(change)
    assert any(message in found for found in damages(store.folder)), damages(store.folder)


def test_what_an_interrupted_writer_left_is_no_damage(store):
    publish(store)
    (store.folder / INCOMING / "writing-x").mkdir()
    (store.folder / VERSIONS / "0123").mkdir()
    findings = verify(store.folder)
    assert [finding.kind for finding in findings] == [LEFTOVER, LEFTOVER]
    assert [finding.place for finding in findings] == [f"{VERSIONS}/0123", f"{INCOMING}/writing-x"]


# Bad input


def test_what_is_no_library_is_refused_in_one_line(tmp_path):
    with pytest.raises(LibraryError, match="holds no library"):
        Store(tmp_path / "nowhere")
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute("CREATE TABLE other (x)")
    with pytest.raises(LibraryError, match="another program's database"):
        Store(tmp_path)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("two", "expected one of one"),
        ("one@v9", "expected one of v1 to v1"),
        ("one@9", "as in 'cholesky@v3'"),
        ("../one", "as in 'cholesky@v3'"),
        ("one", "has no version in use"),
    ],
)
def test_unknown_versions_are_refused_in_one_line(store, reference, message):
    publish(store)
    with pytest.raises(LibraryError, match=message):
        store.version(reference)


def test_a_library_without_models_says_so(store):
    with pytest.raises(LibraryError, match="it holds none yet: expected `slipstream library add`"):
        store.version("one")


def test_names_that_could_leave_the_folder_are_refused(store):
    for name in ("", "../x", "a/b", ".x", "x" * 65):
        with pytest.raises(LibraryError, match="expected a name of letters"):
            publish(store, name)
