"""Files of compiled code that are stale, damaged, somebody else's or cannot be written cost time, and nothing else."""

from __future__ import annotations

import hashlib
import os
import pickle
import resource
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from slipstream.jit.private.compile_cache import MAGIC
from tests.jit.test_cache_folder import STRANGER, as_root
from tests.jit.test_decorators import python

pytestmark = pytest.mark.thorough

MODULE = """
import numpy as np
import settings
from slipstream.jit.funcptr import rule_address
from slipstream.jit.decorators import entry, kernel
from settings import BONUS

@kernel
def more(value):
    return value * settings.FACTOR + BONUS

@entry
def compute(value):
    return more(value) + 1

def rule(row):
    return row[0] * settings.FACTOR + BONUS

first, second = lambda row: row[0] * 2.0, lambda row: row[0] * 3.0
"""
CALL = """
import ctypes, module, numpy as np
from slipstream.jit.funcptr import rule_address

def by_address(rule):
    _, compiled = rule_address(rule)
    row = np.array([5.0])
    return compiled.ctypes(row.ctypes.data_as(ctypes.POINTER(ctypes.c_double))), compiled.cache_hits

value = module.compute(5)
hits = sum(module.compute.stats.cache_hits.values())
print(value, hits, *by_address(module.rule), *by_address(module.first), *by_address(module.second))
"""
COMPILED, FOUND = "16 0 15.0 0 10.0 0 15.0 0", "16 1 15.0 1 10.0 1 15.0 1"
"""What the program prints: values, and behind each whether its code was on disk."""


@pytest.fixture
def place(tmp_path):
    """A folder with a program of a user's own, and a cache."""
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "settings.py").write_text("FACTOR, BONUS = 2, 5\n")
    return tmp_path


def call(place, cache="cache", **options):
    """Return what the program prints, and what it says on standard error."""
    done = python(
        f"import sys; sys.path.insert(0, {str(place)!r})\n{CALL}",
        whole=True,
        SLIPSTREAM_CACHE_DIR=str(place / cache),
        PYTHONDONTWRITEBYTECODE="1",
        **options,
    )
    return done.stdout.strip(), done.stderr.strip().splitlines()


def files_of(place, ending):
    found = sorted((place / "cache").rglob(f"*.{ending}"))
    assert found
    return found


def test_what_was_compiled_is_found_again(place):
    assert call(place) == (COMPILED, [])
    assert call(place) == (FOUND, [])
    for path in (place / "cache" / "kernels").rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o022


def test_stored_code_is_compressed_and_without_the_types_of_variables(place):
    call(place)
    for path in files_of(place, "nbc"):
        body = path.read_bytes()[len(MAGIC) + 32 :]
        content = zlib.decompress(body)
        assert len(body) < 0.7 * len(content)
        assert b"arg(0, name=" not in content


# Stale


@pytest.mark.parametrize(
    ("settings", "values"), [("FACTOR, BONUS = 3, 5", ("21", "20.0")), ("FACTOR, BONUS = 2, 6", ("17", "16.0"))]
)
def test_a_constant_that_changes_in_another_file_is_compiled_in(place, settings, values):
    call(place)
    (place / "settings.py").write_text(settings)
    printed = call(place)[0].split()
    assert printed[:4] == [values[0], "0", values[1], "0"]
    assert call(place)[0].split()[:4] == [values[0], "1", values[1], "1"]


def test_an_edited_function_is_compiled_again_and_what_it_was_is_removed(place):
    call(place)
    before = len(files_of(place, "nbc"))
    (place / "module.py").write_text(MODULE.replace("more(value) + 1", "more(value) + 2"))
    assert call(place)[0].split()[:2] == ["17", "0"]
    assert len(files_of(place, "nbc")) == before


# Damaged


def emptied(content):
    return b""


def cut(content):
    return content[: len(content) // 2]


def flipped_at(share):
    def flipped(content):
        at = int(share * (len(content) - 1))
        return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]

    return flipped


def garbage(content):
    return bytes(range(256)) * 4


DAMAGES = {
    "empty": emptied,
    "cut": cut,
    "first byte": flipped_at(0),
    "middle": flipped_at(0.5),
    "last byte": flipped_at(1),
    "garbage": garbage,
}


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_compiled_again(place, damage, ending):
    call(place)
    for path in files_of(place, ending):
        path.write_bytes(damage(path.read_bytes()))
    assert call(place) == (COMPILED, [])
    assert call(place) == (FOUND, [])


def test_a_missing_file_is_compiled_again(place):
    call(place)
    for path in files_of(place, "nbc"):
        path.unlink()
    assert call(place) == (COMPILED, [])
    assert call(place) == (FOUND, [])


def test_whole_files_that_cannot_be_understood_are_compiled_again(place):
    call(place)
    for path in files_of(place, "nbi"):
        path.write_bytes(sealed(b"no pickle"))
    assert call(place) == (COMPILED, [])
    for path in files_of(place, "nbi"):
        path.write_bytes(checked(b"not compressed"))
    assert call(place) == (COMPILED, [])
    for path in files_of(place, "nbc"):
        path.write_bytes(sealed(pickle.dumps((1, 2))))
    assert call(place) == (COMPILED, [])
    assert call(place) == (FOUND, [])


# Planted


def sealed(content):
    """Return a file with a right checksum."""
    return checked(zlib.compress(content))


def checked(body):
    return MAGIC + hashlib.sha256(body).digest() + body


class Bomb:
    """Notes in a file that it was unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.write_text, (self.mark, "executed")


def plant(path, mark):
    path.write_bytes(sealed(pickle.dumps(Bomb(mark))))


def test_the_bomb_would_go_off(place):
    """So that the tests below test something."""
    call(place)
    for path in files_of(place, "nbi"):
        plant(path, place / "mark")
    call(place)
    assert (place / "mark").read_text() == "executed"


@as_root
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_what_another_user_planted_is_not_executed(place, ending):
    call(place)
    for path in files_of(place, ending):
        plant(path, place / "mark")
        os.chown(path, STRANGER, STRANGER)
    printed, told = call(place)
    assert not (place / "mark").exists()
    assert printed == COMPILED
    assert len(told) == 1
    assert "other users can have written it: it is not used, and compiled again" in told[0]


def test_what_other_users_can_write_is_not_executed(place):
    call(place)
    for path in files_of(place, "nbi"):
        plant(path, place / "mark")
        path.chmod(0o666)
    assert call(place)[0] == COMPILED
    assert not (place / "mark").exists()
    assert call(place) == (FOUND, [])


def test_links_and_pipes_are_not_read(place):
    call(place)
    plant(place / "elsewhere", place / "mark")
    for number, path in enumerate(files_of(place, "nbi")):
        path.unlink()
        if number % 2:
            path.symlink_to(place / "elsewhere")
        else:
            os.mkfifo(path)
    assert call(place) == (COMPILED, [])
    assert not (place / "mark").exists()


# No room


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def test_a_disk_that_takes_nothing_is_said_in_one_line_and_nothing_stays_there(place):
    printed, told = call(place, prepare=limit_files)
    assert printed == COMPILED
    assert len(told) == 1
    assert "compiled code cannot be kept (file too large): it is compiled every time" in told[0]
    assert [path for path in (place / "cache").rglob("*") if path.is_file()] == []


@pytest.mark.skipif(sys.platform != "linux", reason="a small file system is mounted as on Linux")
@as_root
@pytest.mark.parametrize(("options", "reason"), [("size=8k", "no space left on device"), ("ro", "read-only file")])
def test_a_full_or_read_only_disk_is_said_in_one_line(place, options, reason):
    (place / "disk").mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place / "disk"], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        printed, told = call(place, "disk")
    finally:
        subprocess.run(["umount", place / "disk"], check=True)
    assert printed == COMPILED
    assert len(told) == 1
    assert reason in told[0]


def test_a_cache_that_cannot_be_written_is_still_read(place):
    call(place)
    assert call(place, prepare=limit_files) == (FOUND, [])


@pytest.mark.parametrize("cache", ["file", "file/below"])
def test_a_place_that_is_no_folder_is_said_in_one_line(place, cache):
    (place / "file").write_text("")
    printed, told = call(place, cache, TMPDIR=str(place))
    assert printed == COMPILED
    assert len(told) == 1


# A whole command


def slipstream_run(cache, **options):
    return subprocess.run(
        [Path(sys.executable).with_name("slipstream"), "run", "edge/tiny", "--policy", "edf", "--json"],
        env={**os.environ, "SLIPSTREAM_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        **options,
    )


@pytest.mark.slow
def test_a_command_survives_damage_to_every_file(tmp_path):
    first = slipstream_run(tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    for path in (tmp_path / "kernels").rglob("*.nb?"):
        path.write_bytes(flipped_at(0.7)(path.read_bytes()))
    again = slipstream_run(tmp_path)
    assert (again.returncode, again.stdout, again.stderr) == (0, first.stdout, "")
    limited = slipstream_run(tmp_path / "new", preexec_fn=limit_files)
    assert (limited.returncode, limited.stdout) == (0, first.stdout)
    assert len(limited.stderr.splitlines()) == 1
