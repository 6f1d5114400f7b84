"""Compiled code is kept in a folder that any edit of what it can read changes, and that nobody else can write to."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from slipstream.jit.cache_folder import KEPT_KEYS, PACKAGE, kernel_sources, make_folder, package_sources
from tests.jit.test_decorators import python
from tests.test_layers import compiles, imports_of

pytestmark = pytest.mark.thorough

FOLDER = "from slipstream.jit.cache_folder import cache_folder; print(cache_folder())"
STRANGER = 65534
"""A user who is neither the superuser nor whoever runs the tests."""

as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser can give a file to another user"
)


@pytest.fixture
def copy(tmp_path):
    """A copy of the package, to be edited."""
    folder = tmp_path / "slipstream"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_every_module_that_compiled_code_can_read_is_part_of_the_key():
    """What compiles, and whatever it imports, at once or through others, also inside functions."""
    assert package_sources() == sorted(PACKAGE.rglob("*.py"))
    reached, pending = set(), {path for path in PACKAGE.rglob("*.py") if compiles(path)}
    while pending:
        path = pending.pop()
        reached.add(path)
        for name in imports_of(path):
            module = PACKAGE / name.replace(".", "/")
            pending |= {found for found in (module.with_suffix(".py"), module / "__init__.py") if found.is_file()}
        pending -= reached
    assert len(reached) > 150
    assert reached - {PACKAGE / "cli" / "compiling.py"} <= set(kernel_sources())


def test_constants_that_change_places_give_another_folder(copy, tmp_path):
    """They are compiled into kernels of other modules, and their own compiles nothing."""
    cache = {"SLIPSTREAM_CACHE_DIR": str(tmp_path / "cache")}
    before = python(FOLDER, copy, **cache)
    assert Path(before).is_relative_to(tmp_path / "cache")
    assert python(FOLDER, copy, **cache) == before
    module = copy / "sim" / "eventlog.py"
    text = module.read_text()
    swapped = text.replace("EXPIRE", "\0").replace("REJECT", "EXPIRE").replace("\0", "REJECT")
    assert swapped != text
    module.write_text(swapped)
    assert python(FOLDER, copy, **cache) != before


@pytest.mark.parametrize("edited", ["sim/kernel/heap.py", "errors.py", "families/edge/features.py", "learn/trainer.py"])
def test_an_edit_of_a_module_that_compiled_code_can_read_gives_another_folder(copy, tmp_path, edited):
    cache = {"SLIPSTREAM_CACHE_DIR": str(tmp_path / "cache")}
    before = python(FOLDER, copy, **cache)
    with (copy / edited).open("a") as file:
        file.write("\n# edited\n")
    assert python(FOLDER, copy, **cache) != before


def test_an_edit_of_a_command_keeps_compiled_code_and_changes_the_digest_of_the_code(copy, tmp_path):
    code = FOLDER + "; from slipstream.jit.cache_folder import code_digest; print(code_digest())"
    cache = {"SLIPSTREAM_CACHE_DIR": str(tmp_path / "cache")}
    before = python(code, copy, **cache).split()
    with (copy / "cli" / "main.py").open("a") as file:
        file.write("\n# edited\n")
    after = python(code, copy, **cache).split()
    assert (after[0] == before[0], after[1] == before[1]) == (True, False)


def test_the_lock_of_an_editor_is_no_module(copy, tmp_path):
    cache = {"SLIPSTREAM_CACHE_DIR": str(tmp_path / "cache")}
    before = python(FOLDER, copy, **cache)
    (copy / "jit" / ".#decorators.py").symlink_to("somebody@somewhere.1234")
    assert python(FOLDER, copy, **cache) == before


@pytest.mark.parametrize("flag", ["NUMBA_BOUNDSCHECK", "NUMBA_LOOP_VECTORIZE", "NUMBA_SLP_VECTORIZE"])
def test_compiler_flags_are_part_of_the_key(tmp_path, flag):
    cache = {"SLIPSTREAM_CACHE_DIR": str(tmp_path)}
    assert python(FOLDER, **cache, **{flag: "0"}) != python(FOLDER, **cache, **{flag: "1"})


def test_the_folders_used_last_are_kept(tmp_path):
    kernels = tmp_path / "kernels"
    for number in range(KEPT_KEYS + 3):
        folder = kernels / f"{number:024x}"
        folder.mkdir(parents=True)
        os.utime(folder, (number, number))
    (kernels / "somebody's").mkdir()
    make_folder(kernels / f"{99:024x}" / "edge")
    kept = {f"{number:024x}" for number in (99, *range(4, KEPT_KEYS + 3))}
    assert {path.name for path in kernels.iterdir()} == {*kept, "somebody's"}


# Whom to trust


@pytest.fixture
def told():
    """Return a function that gives the folder that a process uses, and what it said on standard error."""

    def ask(**environment):
        done = python(FOLDER, whole=True, **environment)
        return Path(done.stdout.strip()), done.stderr.strip().splitlines()

    return ask


@pytest.fixture
def no_home(tmp_path):
    """The environment of a user whose home cannot be written, with temporary files of its own."""
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "tmp").mkdir()
    return {
        "XDG_CACHE_HOME": str(tmp_path / "file"),
        "TMPDIR": str(tmp_path / "tmp"),
        "SLIPSTREAM_CACHE_DIR": "",
    }


def own_temporary(no_home):
    return Path(no_home["TMPDIR"]) / f"slipstream-{os.geteuid()}"


def test_without_a_home_a_folder_among_temporary_files_is_used_that_only_the_user_can_read(no_home, told):
    folder, lines = told(**no_home)
    assert folder.parents[1] == own_temporary(no_home)
    assert stat.S_IMODE(own_temporary(no_home).stat().st_mode) == 0o700
    assert lines == []
    assert told(**no_home)[0] == folder


def test_a_folder_among_temporary_files_that_others_could_read_is_closed(no_home, told):
    own_temporary(no_home).mkdir(mode=0o755)
    folder, lines = told(**no_home)
    assert (folder.parents[1], lines) == (own_temporary(no_home), [])
    assert stat.S_IMODE(own_temporary(no_home).stat().st_mode) == 0o700


def plant_link(folder):
    (folder.parent / "elsewhere").mkdir()
    folder.symlink_to("elsewhere")


def plant_open(folder):
    folder.mkdir()
    folder.chmod(0o777)


def plant_of_stranger(folder):
    folder.mkdir(mode=0o700)
    os.chown(folder, STRANGER, STRANGER)


def plant_file(folder):
    folder.write_text("")


PLANTS = [plant_link, plant_open, plant_file, pytest.param(plant_of_stranger, marks=as_root)]


@pytest.mark.parametrize("plant", PLANTS)
def test_where_another_user_may_have_been_first_a_fresh_private_folder_is_used(no_home, told, plant):
    plant(own_temporary(no_home))
    folder, lines = told(**no_home)
    assert folder.parents[1] != own_temporary(no_home)
    assert folder.is_relative_to(no_home["TMPDIR"])
    assert len(lines) == 1
    assert lines[0].startswith(f"{own_temporary(no_home)}: is not a folder that only this user can write to")
    assert not folder.parents[1].exists()  # nobody would find it again


@pytest.mark.parametrize("variable", ["SLIPSTREAM_CACHE_DIR", "XDG_CACHE_HOME"])
@pytest.mark.parametrize("part", ["", "kernels"])
@as_root
def test_the_folder_of_another_user_is_not_used_and_that_is_said(no_home, told, tmp_path, variable, part):
    chosen = tmp_path / "chosen"
    root = chosen if variable == "SLIPSTREAM_CACHE_DIR" else chosen / "slipstream"
    (root / part).mkdir(parents=True)
    os.chown(root / part, STRANGER, STRANGER)
    folder, lines = told(**{**no_home, variable: str(chosen)})
    assert folder.parents[1] == own_temporary(no_home)
    assert lines == [f"{root / part}: belongs to another user: compiled code is kept in {own_temporary(no_home)}"]


def test_a_folder_that_every_user_can_write_to_is_not_used_and_that_is_said(no_home, told, tmp_path):
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    chosen.chmod(0o777)
    folder, lines = told(**{**no_home, "SLIPSTREAM_CACHE_DIR": str(chosen)})
    assert folder.parents[1] == own_temporary(no_home)
    assert len(lines) == 1
    assert "chosen: can be written by every user" in lines[0]


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o775, 0o1777])
def test_a_folder_in_which_nobody_can_replace_what_we_make_is_used(told, tmp_path, mode):
    chosen = tmp_path / "chosen"
    (chosen / "kernels").mkdir(parents=True)
    chosen.chmod(mode)
    (chosen / "kernels").chmod(0o775)
    folder, lines = told(SLIPSTREAM_CACHE_DIR=str(chosen))
    assert (folder.parents[1], lines) == (chosen, [])
    assert stat.S_IMODE((chosen / "kernels").stat().st_mode) == 0o755
    assert stat.S_IMODE(chosen.stat().st_mode) == mode


def test_what_is_made_in_it_is_closed_to_the_group(tmp_path):
    before = os.umask(0o002)
    try:
        make_folder(tmp_path / "kernels" / ("0" * 24) / "edge")
    finally:
        os.umask(before)
    for path in (tmp_path / "kernels").rglob(""):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755


# Another user: a process that was started by the superuser, who can read Python wherever it is, and then becomes one


AS_STRANGER = f"""
import os
from slipstream.jit.cache_folder import cache_folder, package_sources
os.setgroups([])
os.setgid({STRANGER})
os.setuid({STRANGER})
print(all(os.access(path, os.R_OK) for path in package_sources()))
print(cache_folder())
"""


@pytest.fixture
def stranger():
    """Return a function that gives the folder that another user would use, and what was said; and a place of theirs."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        (place / "tmp").mkdir()
        os.chown(place / "tmp", STRANGER, STRANGER)

        def ask(**environment):
            done = python(AS_STRANGER, whole=True, TMPDIR=str(place / "tmp"), **environment)
            readable, folder = done.stdout.splitlines()
            if readable != "True":
                pytest.skip("another user cannot read the package here")
            return Path(folder), done.stderr.strip().splitlines()

        yield place, ask


@as_root
def test_another_user_trusts_the_superuser_and_no_third_one(stranger):
    place, ask = stranger
    for name, owner in (("shared", 0), ("foreign", 12345), ("own", STRANGER)):
        (place / name).mkdir()
        os.chown(place / name, owner, owner)
    for name in ("shared", "own"):
        folder, lines = ask(SLIPSTREAM_CACHE_DIR=str(place / name))
        assert (folder.parents[1], lines) == (place / name, [])
    folder, lines = ask(SLIPSTREAM_CACHE_DIR=str(place / "foreign"))
    assert folder.parents[1] == place / "tmp" / f"slipstream-{STRANGER}"
    assert len(lines) == 1
    assert lines[0].startswith(f"{place / 'foreign'}: belongs to another user")


@as_root
def test_the_superuser_does_not_use_what_another_user_made(stranger, told):
    place, _ = stranger
    (place / "home").mkdir()
    os.chown(place / "home", STRANGER, STRANGER)
    (place / "home" / "slipstream").mkdir()
    os.chown(place / "home" / "slipstream", STRANGER, STRANGER)
    folder, lines = told(XDG_CACHE_HOME=str(place / "home"), TMPDIR=str(place), SLIPSTREAM_CACHE_DIR="")
    assert folder.parents[1] == place / "slipstream-0"
    assert len(lines) == 1


@as_root
def test_a_user_without_a_home_can_run(stranger):
    place, ask = stranger
    unknown = f"setuid({STRANGER})", "setuid(54321)"  # nobody of that number, and so no home
    homeless = AS_STRANGER.replace(*unknown).replace("os.setgroups", "os.environ.pop('HOME', None); os.setgroups")
    (place / "tmp").chmod(0o1777)
    done = python(homeless, whole=True, TMPDIR=str(place / "tmp"), XDG_CACHE_HOME="", SLIPSTREAM_CACHE_DIR="")
    assert done.stdout.splitlines()[1].startswith(str(place / "tmp" / "slipstream-54321"))
    assert done.stderr == ""
    assert ask(SLIPSTREAM_CACHE_DIR="", XDG_CACHE_HOME="/nonexistent")[0].is_relative_to(place / "tmp")
