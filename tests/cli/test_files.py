"""Files appear together or not at all."""

from __future__ import annotations

import pytest

from slipstream.errors import InputError
from slipstream.files.atomic import write_files


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_files_and_their_folders_are_written(tmp_path):
    write_files({tmp_path / "a" / "b" / "x": b"1", tmp_path / "y": b"2"}, overwrite=False)
    assert tree(tmp_path) == ["a", "a/b", "a/b/x", "y"]
    assert (tmp_path / "a" / "b" / "x").read_bytes() == b"1"


def test_nothing_is_written_where_one_file_exists(tmp_path):
    (tmp_path / "y").write_bytes(b"old")
    with pytest.raises(InputError, match="y: exists already: expected a new name, or --force to overwrite it"):
        write_files({tmp_path / "x": b"1", tmp_path / "y": b"2"}, overwrite=False)
    assert tree(tmp_path) == ["y"]
    assert (tmp_path / "y").read_bytes() == b"old"
    write_files({tmp_path / "x": b"1", tmp_path / "y": b"2"}, overwrite=True)
    assert (tmp_path / "y").read_bytes() == b"2"


def test_nothing_is_left_where_one_file_cannot_be_written(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match=r"file/y: cannot be written \(.*\): expected a writable place"):
        write_files({tmp_path / "new" / "deep" / "x": b"1", tmp_path / "file" / "y": b"2"}, overwrite=False)
    assert tree(tmp_path) == ["file"]


def test_a_folder_is_not_overwritten(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(InputError, match="x: is a folder: expected the name of a file to write"):
        write_files({tmp_path / "x": b"1"}, overwrite=True)
