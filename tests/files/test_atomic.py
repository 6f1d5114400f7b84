"""Files appear whole or not at all, whoever else writes them and whenever the writer stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from slipstream import interrupts
from slipstream.errors import InputError
from slipstream.files import atomic
from slipstream.files.atomic import AtomicFile, open_growing, remove_unfinished_in, replace_file, scratch_folder
from slipstream.sim.eventlog import EVENT, LogWriter, read


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def test_nothing_is_seen_before_it_is_whole(tmp_path):
    path = tmp_path / "result"
    path.write_bytes(b"old")
    with AtomicFile(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
        file.commit()
    assert path.read_bytes() == b"new"
    assert listing(tmp_path) == ["result"]


def test_what_is_not_put_in_place_is_removed(tmp_path):
    def fail():
        with AtomicFile(tmp_path / "result") as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert listing(tmp_path) == []


def test_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "result"
    contents = [bytes([number]) * 300_000 for number in range(4)]

    def write(content):
        for _ in range(20):
            replace_file(path, content)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert not path.exists() or path.read_bytes() in contents
    assert path.read_bytes() in contents
    assert listing(tmp_path) == ["result"]


def test_two_logs_of_one_name_stay_apart(tmp_path):
    import numpy as np

    path = tmp_path / "log.parquet"
    first, second = LogWriter(path, {"seed": 1}), LogWriter(path, {"seed": 2})
    rows = np.zeros(5, EVENT)
    first.write(rows)
    second.write(rows[:3])
    first.close()
    assert (len(read(path)[0]), read(path)[1]["seed"]) == (5, 1)
    second.close()
    assert (len(read(path)[0]), read(path)[1]["seed"]) == (3, 2)
    assert listing(tmp_path) == ["log.parquet"]


def test_a_file_that_is_to_be_new_does_not_replace_one(tmp_path):
    replace_file(tmp_path / "run.json", b"first", new=True)
    with pytest.raises(FileExistsError):
        replace_file(tmp_path / "run.json", b"second", new=True)
    assert (tmp_path / "run.json").read_bytes() == b"first"
    assert listing(tmp_path) == ["run.json"]


def test_a_file_of_a_folder_is_not_written_outside(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "mine").write_bytes(b"keep")
    (tmp_path / "home" / "card").symlink_to(tmp_path / "mine")
    with pytest.raises(InputError, match="leads out of the folder"):
        replace_file(tmp_path / "home" / "card", b"new", inside=tmp_path / "home")
    assert (tmp_path / "mine").read_bytes() == b"keep"


def test_a_growing_file_is_a_regular_one(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: is a pipe: expected the name of a file to write"):
        open_growing(tmp_path / "pipe")
    for append, content in ((False, b"one"), (True, b"oneone"), (False, b"one")):
        with open_growing(tmp_path / "lines", append) as file:
            file.write(b"one")
        assert (tmp_path / "lines").read_bytes() == content


def test_what_killed_writers_left_can_be_removed(tmp_path):
    (tmp_path / "deep").mkdir()
    AtomicFile(tmp_path / "deep" / "one").write(b"half")
    (tmp_path / "deep" / "whole").write_bytes(b"")
    remove_unfinished_in(tmp_path)
    assert listing(tmp_path / "deep") == ["whole"]


def test_a_scratch_folder_is_removed_with_what_is_in_it(tmp_path):
    def fail():
        with scratch_folder(tmp_path) as folder:
            (folder / "file").write_bytes(b"")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with scratch_folder(tmp_path) as folder:
        (folder / "file").write_bytes(b"")
        folder.rename(tmp_path / "kept")
    assert listing(tmp_path) == ["kept"]


WRITER = """
import os, sys
from pathlib import Path
from slipstream.files.atomic import AtomicFile, scratch_folder
folder = Path(sys.argv[1])
file = AtomicFile(folder / "result")
file.write(b"half")
opened = scratch_folder(folder)
opened.__enter__()
if os.fork() == 0:
    sys.exit()  # a child leaves alone what its parent writes
os.wait()
print(sorted(path.name.split("-")[0] for path in folder.iterdir()))
raise SystemExit(3)
"""


def test_a_process_removes_its_own_unfinished_files_when_it_ends(tmp_path):
    done = subprocess.run([sys.executable, "-c", WRITER, tmp_path], capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "['.slipstream', '.slipstream']"
    assert listing(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_files_that_belong_together_appear_together_despite_a_signal(tmp_path, monkeypatch, number):
    commit = AtomicFile.commit

    def received(self, new=False):
        commit(self, new)
        os.kill(os.getpid(), number)

    monkeypatch.setattr(AtomicFile, "commit", received)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), interrupts.handled():
            atomic.write_files({tmp_path / name: name.encode() for name in "abc"}, overwrite=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert listing(tmp_path) == ["a", "b", "c"]
