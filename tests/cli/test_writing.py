"""Where nothing can be written: one line that names the place, exit code 2, and nothing half-written."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image

from slipstream.cli.outputs import ANIMATION, EVENT_LOG, PAGE, PICTURE, check_outputs
from slipstream.errors import InputError
from slipstream.reports.runs import read_recording
from slipstream.sim.eventlog import digest
from tests.device.conftest import scenario_of, task

COMMAND = Path(sys.executable).with_name("slipstream")
TINY = ("edge/tiny", "--seed", "1")

WRITERS = {
    "run": ("run", *TINY, "--policy", "edf", "--log", "OUT.parquet"),
    "report": ("report", "run.parquet", "--out", "OUT.html"),
    "report to Perfetto": ("report", "run.parquet", "--out", "first.html", "--perfetto", "OUT.json"),
    "generate": ("generate", "edge", "--out", "OUT.json"),
    "import log": ("import", "log", "run.parquet", "--out", "OUT.json"),
    "import log with traces": ("import", "log", "run.parquet", "--trace", "csv", "--out", "OUT.json"),
    "import trace": (
        "import",
        "trace",
        "times.csv",
        "--scenario",
        "edge/tiny",
        "--task",
        "camera",
        "--out",
        "OUT.json",
    ),
    "import profile": ("import", "profile", "ladder.csv", "--out", "OUT.json"),
    "oracle": ("oracle", "--regret", "run.parquet", "--seconds", "0.1", "--out", "OUT.html"),
    "train": ("train", "edge/tiny", "--steps", "256", "--set", "n_envs=8", "--set", "n_steps=16", "--out", "OUT"),
    "execute": ("execute", "small.json", "--log", "OUT.parquet", "--out", "OUT.html"),
    "profile": ("profile", "small.json", "--runs", "3", "--pair-seconds", "0.01", "--out", "OUT.json"),
    "library": ("library", "add", "first", "learned-heavy", "--episodes", "2", "--library", "OUT"),
}
"""Commands that write, with OUT where they do."""


@contextmanager
def no_file_larger_than(size):
    """Let every write beyond so many bytes fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def folder(slipstream, tmp_path):
    """Fill the folder with what the commands read."""
    (tmp_path / "times.csv").write_text("arrival_ms\n0\n5\n")
    (tmp_path / "ladder.csv").write_text("model,latency_ms,accuracy\na,1,70\nb,2.5,80\n")
    scenario = scenario_of([task()], 50)
    (tmp_path / "small.json").write_text(scenario.model_dump_json(exclude_unset=True))
    assert slipstream("run", *TINY, "--policy", "edf", "--log", "run.parquet", "--json")[0] == 0
    return tmp_path


def named(words, place):
    return [word.replace("OUT", place) for word in words]


def listing(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.thorough
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_told_in_one_line_and_leaves_nothing_half_written(slipstream, folder, name):
    code, _, error = slipstream(*named(WRITERS[name], "good"))
    assert code == 0, error
    for path in set(listing(folder)) - {"times.csv", "ladder.csv", "small.json", "run.parquet"}:
        target = folder / path
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
    before = listing(folder)
    with no_file_larger_than(16):
        code, _, error = slipstream(*named(WRITERS[name], "bad"))
    assert code == 2, error
    *progress, line = error.strip().splitlines()
    assert not progress or name == "train"  # which has raced the heuristics before it writes
    assert "cannot be written (file too large)" in line or "disk" in line, line
    left = [path for path in listing(folder) if path not in before]
    assert not [path for path in left if (folder / path).is_file() and not path.startswith("bad/library")], left


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in ("train", "library")])
def test_a_place_that_allows_no_files_is_told_in_one_line(slipstream, folder, name):
    if not Path("/sys/kernel").is_dir():
        pytest.skip("there is no folder here in which nobody can write")
    before = listing(folder)
    code, _, error = slipstream(*named(WRITERS[name], "/sys/kernel/nowhere"))
    assert code == 2
    (line,) = [line for line in error.strip().splitlines() if line.startswith("error: ")]
    assert "/sys/kernel/nowhere" in line
    assert "expected a writable place" in line
    assert [path for path in listing(folder) if path not in before and path != "first.html"] == []


def test_standard_output_that_takes_nothing_more_is_told(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([COMMAND, "policies", "--json"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "error: standard output: cannot be written (no space left on device): expected a writable place\n"
    )


REFUSED_EARLY = {
    "animation": ("run", "edge/tiny", "--policy", "edf", "--gif", "OUT.gif"),
    "live": ("execute", "small.json", "--json", "--live", "OUT.live.jsonl"),
    "validate": ("validate", "small.json", "--out", "OUT.html"),
    "validate with a fit": ("validate", "small.json", "--out", "first.html", "--fit", "OUT.json"),
    "bench suite": ("bench", "suite", "--policy", "edf", "--family", "edge", "--out", "OUT.json"),
    "picture of a suite": ("bench", "suite", "--policy", "edf", "--family", "edge", "--picture", "OUT.png"),
    "leaderboard": ("bench", "leaderboard", ".", "--out", "OUT.html"),
    "tradeoff": ("library", "tradeoff", "--out", "OUT.png"),
}
"""Further commands that write; those which look at the place first take no time to refuse it."""
FILES = {name: words for name, words in WRITERS.items() if name not in ("train", "library")}
ODD = {
    "device": "is a device",
    "link to a device": "is a device",
    "pipe": "is a pipe",
    "socket": "is a socket",
    "folder": "is a folder",
    "link to nowhere": "does not exist",
    "ring of links": "symbolic links",
}
"""What may be where a file is to be written, and how it is refused."""


def put_something_odd(kind, place):
    if kind == "device":
        try:
            os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(1, 7))  # as /dev/full
        except PermissionError:
            pytest.skip("only root makes devices")
    elif kind == "link to a device":
        place.symlink_to("/dev/full")
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(place.name)  # in the current folder: names of sockets are short
    elif kind == "folder":
        place.mkdir()
    elif kind == "link to nowhere":
        place.symlink_to(place.parent / "missing" / "file")
    else:
        place.symlink_to(place.name)


def kind_of(place):
    return stat.S_IFMT(place.lstat().st_mode), place.readlink() if place.is_symlink() else None


def outputs(words):
    return [word.replace("OUT", "odd") for word in words if word.startswith("OUT")]


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", FILES | REFUSED_EARLY)
def test_only_regular_files_are_replaced(slipstream, folder, name, kind):
    words = (FILES | REFUSED_EARLY)[name]
    for place in outputs(words):
        put_something_odd(kind, folder / place)
    before, kinds = listing(folder), [kind_of(folder / place) for place in outputs(words)]
    code, _, error = slipstream(*named(words, "odd"), "--force")
    assert code == 2, error
    (line,) = [line for line in error.strip().splitlines() if line.startswith("error: ")]
    assert "odd" in line
    assert ODD[kind] in line
    assert listing(folder) == before
    assert [kind_of(folder / place) for place in outputs(words)] == kinds


def test_what_is_kept_beside_a_profile_is_a_regular_file_too(slipstream, folder):
    put_something_odd("pipe", folder / "odd.json.cells")
    code, _, error = slipstream(*named(WRITERS["profile"], "odd"), "--afresh")
    assert (code, error) == (2, "error: odd.json.cells: is a pipe: expected the name of a file to write\n")
    assert (folder / "odd.json.cells").is_fifo()


@pytest.mark.parametrize("name", FILES)
def test_through_a_link_the_file_it_leads_to_is_replaced(slipstream, folder, name):
    (folder / "elsewhere").mkdir()
    for number, place in enumerate(outputs(FILES[name])):
        if number == 0:
            (folder / "elsewhere" / place).write_bytes(b"old")
            (folder / "elsewhere" / place).chmod(0o600)
        (folder / place).symlink_to(f"elsewhere/{place}")  # of the others, to a file that is not there yet
    code, _, error = slipstream(*named(FILES[name], "odd"), "--force")
    assert code == 0, error
    for number, place in enumerate(outputs(FILES[name])):
        assert (folder / place).is_symlink()
        written = folder / "elsewhere" / place
        assert written.is_file()
        assert not written.is_symlink()
        assert written.read_bytes() not in (b"old", b"")
        assert number or written.stat().st_mode & 0o777 == 0o600
    assert not [path for path in listing(folder) if path.endswith(".partial")]


SLOW = ("execute", "profile", "oracle")
"""Commands that take seconds: what holds for the others is tested for them before a landing."""


def slow_marked(names):
    return [pytest.param(name, marks=pytest.mark.thorough) if name in SLOW else name for name in names]


OVERWRITERS = {name: words for name, words in FILES.items() if not name.startswith(("import", "generate"))}
"""Commands that overwrite files of their own kind; the others overwrite none without --force."""


@pytest.mark.parametrize("name", FILES | REFUSED_EARLY)
def test_a_file_of_another_kind_is_not_overwritten_without_force(slipstream, folder, name):
    words = (FILES | REFUSED_EARLY)[name]
    scenario = (folder / "small.json").read_bytes()
    for place in outputs(words):
        (folder / place).write_bytes(scenario)
    before = listing(folder)
    code, _, error = slipstream(*named(words, "odd"))
    assert code == 2
    (line,) = error.strip().splitlines()
    assert re.fullmatch(r"error: odd\S+: exists (already|and is not an? .+): expected .+ --force to overwrite it", line)
    assert listing(folder) == before
    assert all((folder / place).read_bytes() == scenario for place in outputs(words))


@pytest.mark.parametrize("name", slow_marked(OVERWRITERS))
def test_a_file_of_the_same_kind_is_overwritten(slipstream, folder, name):
    for _ in range(2):
        code, _, error = slipstream(*named(OVERWRITERS[name], "odd"))
        assert code == 0, error


def test_pictures_and_pages_of_others_are_not_taken_for_ours(tmp_path):
    (tmp_path / "page").write_text("<!doctype html>\n<title>Slipstream</title>")
    (tmp_path / "picture").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "log").write_bytes(b"PAR1")
    (tmp_path / "empty").write_bytes(b"")
    for name, kind in {"page": PAGE, "picture": PICTURE, "log": EVENT_LOG}.items():
        assert not kind.matches(tmp_path / name)
        with pytest.raises(InputError, match=f"{name}: exists and is not {kind.name}: expected another name"):
            check_outputs((tmp_path / name, kind), force=False)
        check_outputs((tmp_path / name, kind), force=True)
        check_outputs((tmp_path / "empty", kind), (None, kind), force=False)


@pytest.mark.thorough
def test_an_animation_says_who_made_it(slipstream, tmp_path):
    for _ in range(2):
        assert slipstream("run", "dag/tiny", "--policy", "fair", "--gif", "run.gif")[0] == 0
    assert ANIMATION.matches(tmp_path / "run.gif")
    with Image.open(tmp_path / "run.gif") as image:
        assert image.n_frames > 1


@pytest.mark.parametrize("name", slow_marked(FILES))
def test_missing_folders_are_made(slipstream, folder, name):
    code, _, error = slipstream(*named(FILES[name], "new/deep/odd"))
    assert code == 0, error
    assert any((folder / "new" / "deep").iterdir())


@pytest.mark.parametrize("name", slow_marked(FILES))
def test_folders_of_a_command_that_fails_are_removed(slipstream, folder, name):
    before = listing(folder)
    with no_file_larger_than(16):
        code, _, error = slipstream(*named(FILES[name], "new/deep/odd"))
    assert code == 2, error
    assert [path for path in listing(folder) if path not in before] == []


def test_a_file_is_no_folder(slipstream, folder):
    before = listing(folder)
    code, _, error = slipstream("run", *TINY, "--log", "small.json/deep/run.parquet")
    assert code == 2
    assert error.startswith("error: small.json/deep/run.parquet: ")
    assert error.endswith("expected a writable place\n")
    assert listing(folder) == before


@pytest.mark.parametrize("entry", ["run.json", "history.jsonl", "best", "state"])
def test_a_training_writes_nothing_out_of_its_folder(slipstream, folder, entry):
    (folder / "run").mkdir()
    (folder / "outside").mkdir()
    is_file = "." in entry
    target = folder / "outside" / ("mine" if is_file else "")
    if is_file:
        target.write_text("keep")
    (folder / "run" / entry).symlink_to(target)
    words = [word.replace("OUT", "run") for word in WRITERS["train"]]
    code, _, error = slipstream(*words)
    assert code == 2, error
    (line,) = error.strip().splitlines()
    assert entry in line or "holds a training already" in line
    assert listing(folder / "outside") == (["mine"] if is_file else [])
    assert not is_file or target.read_text() == "keep"


def test_two_runs_that_write_one_file_leave_one_whole_log(folder):
    words = [COMMAND, "run", "edge/heavy", "--policy", "edf", "--log", "same.parquet", "--seed"]
    begun = [subprocess.Popen([*words, str(seed)], cwd=folder, stdout=subprocess.DEVNULL) for seed in (1, 2, 3)]
    assert [process.wait(300) for process in begun] == [0, 0, 0]
    events, about, _ = read_recording(folder / "same.parquet")
    assert about["seed"] in (1, 2, 3)
    alone = subprocess.run([*words[:-3], "--json", "--seed", str(about["seed"])], capture_output=True, cwd=folder)
    assert json.loads(alone.stdout)["digest"] == digest(events)
    assert not [path for path in listing(folder) if path.endswith(".partial")]


def test_a_run_that_is_interrupted_leaves_no_log(slipstream, folder, monkeypatch):
    from slipstream.sim.simulator import Simulator

    def interrupted(self, *arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Simulator, "play", interrupted)
    before = listing(folder)
    code, _, _ = slipstream("run", *TINY, "--log", "cut.parquet")
    assert code == 130
    assert listing(folder) == before
