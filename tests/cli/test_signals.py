"""A command that a signal ends at any moment says so in one line, and leaves nothing half-written."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slipstream.errors import InputError
from slipstream.scenario import dump, load
from slipstream.sim.eventlog import read
from tests.device.conftest import scenario_of, task

pytestmark = pytest.mark.thorough

COMMAND = Path(sys.executable).with_name("slipstream")
QUICK = ("--set", "n_envs=8", "--set", "n_steps=16")
COMMANDS = {
    "run": ("run", "edge/heavy", "--policy", "edf", "--log", "out.parquet"),
    "compare": ("compare", "edge/tiny", "--policies", "edf,edf-fit", "--episodes", "50"),
    "generate": ("generate", "edge", "--count", "100", "--out", "out"),
    "report": ("report", "in.parquet", "--out", "out.html", "--perfetto", "out.json"),
    "train": ("train", "edge/tiny", "--steps", "2048", *QUICK, "--out", "out"),
    "library": ("library", "add", "first", "learned-heavy", "--episodes", "2", "--library", "out"),
    "execute": ("execute", "small.json", "--log", "out.parquet", "--out", "out.html", "--json"),
    "sweep": ("sweep", "edge/tiny", "--steps", "256", *QUICK, "--seeds", "1", "--knob", "n_envs=8,16", "--out", "out"),
    "bench": ("bench", "suite", "--policy", "edf", "--family", "edge", "--out", "out.json"),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM)
STARTING_S = 0.05
"""In which Python itself starts: what it does with a signal then is not ours to say."""


@pytest.fixture
def folder(tmp_path):
    words = [COMMAND, "run", "edge/tiny", "--policy", "edf", "--log", "in.parquet"]
    subprocess.run(words, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    (tmp_path / "small.json").write_text(scenario_of([task()], 300).model_dump_json(exclude_unset=True))
    return tmp_path


@pytest.fixture(autouse=True)
def handled():
    """Make this process handle Ctrl-C, which a shell has its background jobs ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def begin(name, folder):
    for path in folder.iterdir():
        if path.name.startswith((".", "out")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([COMMAND, *COMMANDS[name]], cwd=folder, **pipes)


def check_what_is_left(folder):
    """Assert that every file is whole, and that none is unfinished."""
    for path in folder.rglob("*"):
        assert ".partial" not in path.name, path
        if path.suffix == ".parquet":
            read(path)
        elif path.suffix == ".html":
            assert path.read_text().rstrip().endswith("</html>")
        elif path.suffix == ".json":
            json.loads(path.read_text())


def strike_at_moments(name, folder, count, seed):
    began = time.monotonic()
    whole = begin(name, folder)
    _, told = whole.communicate(timeout=600)
    assert whole.returncode == 0, told
    took = time.monotonic() - began
    rng = random.Random(seed)
    for number in range(count):
        kind = SIGNALS[number % 2]
        process = begin(name, folder)
        time.sleep(rng.uniform(STARTING_S, max(took, 2 * STARTING_S)))
        process.send_signal(kind)
        _, told = process.communicate(timeout=600)
        # Before its own handler is there, the system ends it; an execution that is told to stop ends in order.
        assert process.returncode in (0, 128 + kind, -kind), told
        assert told in (("", "interrupted\n") if kind == signal.SIGINT else ("", "terminated\n"))
        check_what_is_left(folder)


@pytest.mark.parametrize("name", ["run", "generate", "report"])
def test_a_signal_leaves_nothing_half_written(name, folder):
    strike_at_moments(name, folder, 3, seed=7)


@pytest.mark.parametrize("kind", SIGNALS)
def test_a_signal_while_a_log_grows_leaves_none(folder, kind):
    long = json.loads(dump(load("edge/heavy")))
    long["horizon_ms"] *= 1000
    (folder / "long.json").write_text(json.dumps(long))
    before = sorted(folder.iterdir())
    words = [COMMAND, "run", "long.json", "--policy", "edf", "--log", "out.parquet"]
    process = subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True)
    while sorted(folder.iterdir()) == before and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(kind)
    _, told = process.communicate(timeout=600)
    assert (process.returncode, told) == (128 + kind, "interrupted\n" if kind == signal.SIGINT else "terminated\n")
    assert sorted(folder.iterdir()) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_at_many_moments_leaves_nothing_half_written(name, folder):
    strike_at_moments(name, folder, 25, seed=11)


@pytest.mark.parametrize("kind", SIGNALS)
def test_a_signal_in_the_midst_of_writing_leaves_nothing(slipstream, monkeypatch, kind, folder):
    from slipstream.files.atomic import AtomicFile

    write = AtomicFile.write

    def received(self, content, durable=False):
        write(self, content, durable)
        os.kill(os.getpid(), kind)

    before = sorted(folder.iterdir())
    monkeypatch.setattr(AtomicFile, "write", received)
    code, _, told = slipstream("generate", "edge", "--count", "3", "--out", "out")
    assert (code, told) == (128 + kind, "interrupted\n" if kind == signal.SIGINT else "terminated\n")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("kind", SIGNALS)
def test_a_signal_that_a_library_turns_into_another_error_is_still_told_as_one(slipstream, monkeypatch, kind):
    from slipstream.sim.simulator import Simulator

    def converted(self, *arguments, **options):
        try:
            os.kill(os.getpid(), kind)
            time.sleep(5)
        except KeyboardInterrupt:
            raise ImportError("initialisation failed") from None

    monkeypatch.setattr(Simulator, "play", converted)
    code, _, told = slipstream("run", "edge/tiny", "--policy", "edf")
    assert (code, told) == (128 + kind, "interrupted\n" if kind == signal.SIGINT else "terminated\n")


@pytest.mark.parametrize("kind", SIGNALS)
def test_a_signal_that_strikes_while_a_module_is_imported_waits_for_it(slipstream, monkeypatch, kind, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "slow_module.py").write_text(
        f"import os, time\nos.kill(os.getpid(), {int(kind)})\ntime.sleep(0.1)\nwhole = True\n"
    )
    seen = []

    def importing(self, *arguments, **options):
        import slow_module

        seen.append(slow_module.whole)
        time.sleep(60)

    monkeypatch.setattr("slipstream.sim.simulator.Simulator.play", importing)
    code, _, told = slipstream("run", "edge/tiny", "--policy", "edf")
    assert (code, told, seen) == (128 + kind, "interrupted\n" if kind == signal.SIGINT else "terminated\n", [True])
    del sys.modules["slow_module"]


@pytest.mark.parametrize("error", [InputError("not there"), OSError(28, "no space left"), RuntimeError("broken")])
def test_what_follows_from_a_signal_is_not_told_as_an_error(slipstream, monkeypatch, error):
    def converted(self, *arguments, **options):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except KeyboardInterrupt:
            raise error from None

    monkeypatch.setattr("slipstream.sim.simulator.Simulator.play", converted)
    assert slipstream("run", "edge/tiny", "--policy", "edf")[::2] == (143, "terminated\n")


def test_the_tour_ends_where_it_is_interrupted(slipstream, monkeypatch, tmp_path):
    from slipstream.sim.simulator import Simulator

    played = []

    def interrupted(self, *arguments, **options):
        played.append(True)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    monkeypatch.setattr(Simulator, "play", interrupted)
    code, output, told = slipstream("demo", "--no-open")
    assert (code, told, len(played)) == (143, "terminated\n", 1)
    assert "3. " not in output


KEEPER = """
import time
from slipstream.suite.sandbox import SandboxedPolicy
from pathlib import Path
policy = SandboxedPolicy("mine.py:policy", Path.cwd())
print("ready", flush=True)
time.sleep(60)
"""
POLICY = """
class Policy:
    name = "mine"
    def choose(self, *shown):
        return 0
policy = Policy()
"""


def test_a_ctrl_c_in_the_terminal_does_not_reach_code_that_was_handed_in(tmp_path):
    (tmp_path / "mine.py").write_text(POLICY)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    keeper = subprocess.Popen([sys.executable, "-c", KEEPER], cwd=tmp_path, start_new_session=True, **pipes)
    assert keeper.stdout.readline() == "ready\n"
    os.killpg(keeper.pid, signal.SIGINT)  # as a terminal does, to all that run in it
    _, told = keeper.communicate(timeout=60)
    assert told.count("KeyboardInterrupt") == 1  # that of the keeper itself
