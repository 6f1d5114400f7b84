"""Where nothing can be written: one line that names the place, exit code 2, and nothing half-written."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

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
    "train": ("train", "edge/tiny", "--steps", "256", "--set", "lanes=8", "--set", "rollout=16", "--out", "OUT"),
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
    (line,) = error.strip().splitlines()
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


def test_a_device_file_is_written_to_and_not_replaced(slipstream, folder):
    code, _, error = slipstream("import", "profile", "ladder.csv", "--force", "--out", "/dev/full")
    assert code == 2
    assert "/dev/full: cannot be written (no space left on device)" in error
    assert not Path("/dev/full").is_file()
    assert not Path("/dev/full.partial").exists()


def test_a_run_that_is_interrupted_leaves_no_log(slipstream, folder, monkeypatch):
    from slipstream.core.simulator import Simulator

    def interrupted(self, *arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Simulator, "play", interrupted)
    before = listing(folder)
    code, _, _ = slipstream("run", *TINY, "--log", "cut.parquet")
    assert code == 130
    assert listing(folder) == before
