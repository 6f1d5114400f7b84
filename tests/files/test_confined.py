"""Files of a folder are read without leaving it and without waiting."""

from __future__ import annotations

import os
import socket

import pytest

from slipstream.files.confined import ConfinementError, open_inside, read_inside, resolve_inside


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret.txt").write_bytes(b"secret")
    home = tmp_path / "runs"
    (home / "deep").mkdir(parents=True)
    (home / "deep" / "plain.txt").write_bytes(b"plain")
    return home


def test_a_regular_file_is_read(folder):
    assert read_inside(folder, "deep/plain.txt", 5) == b"plain"
    with open_inside(folder, "deep/plain.txt") as file:
        assert file.read() == b"plain"


def test_the_folder_itself_may_be_a_link(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert read_inside(tmp_path / "link", "deep/plain.txt", 5) == b"plain"
    assert resolve_inside(tmp_path / "link", "deep") == folder / "deep"


def test_a_link_to_another_file_of_the_folder_is_followed(folder):
    (folder / "alias.txt").symlink_to("deep/plain.txt")
    assert read_inside(folder, "alias.txt", 5) == b"plain"


@pytest.mark.parametrize("way", ["file", "folder", "relative", "dots", "absolute", "chain"])
def test_what_lies_outside_is_refused(folder, tmp_path, way):
    secret = tmp_path / "secret.txt"
    name = "alias"
    if way == "file":
        (folder / name).symlink_to(secret)
    elif way == "folder":
        (folder / "out").symlink_to(tmp_path)
        name = "out/secret.txt"
    elif way == "relative":
        (folder / name).symlink_to("../secret.txt")
    elif way == "chain":
        (folder / "one").symlink_to(secret)
        (folder / name).symlink_to("one")
    else:
        name = "../secret.txt" if way == "dots" else str(secret)
    with pytest.raises(ConfinementError, match="leads out of the folder") as caught:
        read_inside(folder, name, 100)
    assert "\n" not in str(caught.value)


def test_a_folder_with_the_same_beginning_is_outside(folder, tmp_path):
    (tmp_path / "runs-private").mkdir()
    (tmp_path / "runs-private" / "note").write_bytes(b"x")
    with pytest.raises(ConfinementError, match="leads out"):
        read_inside(folder, "../runs-private/note", 10)


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "device"])
def test_what_is_not_a_regular_file_is_refused_at_once(folder, kind, monkeypatch):
    place = folder / "odd"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        monkeypatch.chdir(folder)  # names of sockets are short
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("odd")
    elif kind == "folder":
        place.mkdir()
    else:
        folder, place = place.__class__("/dev"), place.__class__("/dev/null")
    with pytest.raises(ConfinementError, match="not a regular file"):
        read_inside(folder, place.name, 100)


def test_a_file_above_the_limit_is_refused_unread(folder):
    with (folder / "large").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ConfinementError, match=r"has 1,099,511,627,776 bytes: expected at most 100"):
        read_inside(folder, "large", 100)


def test_what_is_absent_stays_an_error_of_the_system(folder):
    (folder / "dangling").symlink_to("nowhere")
    for name in ("nothing", "dangling", "deep/plain.txt/more"):
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            read_inside(folder, name, 100)


def test_links_in_a_ring_and_null_characters_are_told(folder):
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")
    for name in ("one", "a\0b"):
        with pytest.raises((ConfinementError, OSError)):
            read_inside(folder, name, 100)
