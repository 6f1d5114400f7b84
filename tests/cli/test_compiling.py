"""Compilation is announced once per family, on a terminal with its progress; a Ctrl-C ends it."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from numba import njit
from rich.console import Console

from slipstream import interrupts
from slipstream.cli import compiling
from slipstream.jit import events


@pytest.fixture
def told():
    """Register a listener of the compiler; return what it prints."""
    written = io.StringIO()
    teller = compiling.CompileProgress(Console(file=written, force_terminal=True, width=120, color_system=None))
    end = compiling.listen(teller)
    yield written
    end()


def compile_something():
    @njit
    def inner(number):
        return number + 1

    @njit
    def outer(number):
        return inner(number) * 2

    assert outer(3) == 8


def test_long_compiling_is_told_once_and_then_how_far_it_is(told, monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE_S", 0.0)
    monkeypatch.setattr(compiling, "AGAIN_S", 0.0)
    compile_something()
    lines = told.getvalue().splitlines()
    assert lines[0] == "Compiling kernels (first use; cached afterwards) ..."
    assert sum("first use" in line for line in lines) == 1
    assert any("functions in" in line for line in lines[1:])


@pytest.mark.parametrize("terminal", [True, False])
def test_the_kernels_of_each_family_are_announced_once(monkeypatch, terminal):
    monkeypatch.setattr(compiling, "PATIENCE_S", 0.0)
    monkeypatch.setattr(compiling, "AGAIN_S", 0.0)
    written = io.StringIO()
    progress = compiling.CompileProgress(Console(file=written, force_terminal=terminal, width=120, color_system=None))
    for module in ("families.edge.kernel.events", "sim.kernel.lanes", "families.dag.kernel.state"):
        progress.on_start(f"slipstream.{module}")
        progress.on_end()
    lines = written.getvalue().splitlines()
    announced = [f"Compiling the {name} kernels (first use; cached afterwards) ..." for name in ("edge", "dag")]
    assert [line for line in lines if "first use" in line] == announced
    assert terminal == (len(lines) > len(announced))


def test_the_module_of_a_compiled_function_is_told():
    modules = []
    end = events.listen(modules.append, lambda: None)
    compile_something()
    end()
    assert modules[0] == __name__


def test_quick_compiling_is_not_worth_a_word(told, monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE_S", 3600.0)
    compile_something()
    assert told.getvalue() == ""


@pytest.fixture
def handled():
    """Make this process handle Ctrl-C, which a shell has its background jobs ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_function_that_is_being_compiled(number):
    keeper = compiling.SignalDeferral()
    end = compiling.listen(keeper)
    try:
        with interrupts.handled():
            keeper.on_start("")
            os.kill(os.getpid(), number)
            compile_something()
            with pytest.raises(KeyboardInterrupt):
                keeper.on_end()
    finally:
        end()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    compile_something()


def test_plain_python_runs_without_warnings():
    words = [Path(sys.executable).with_name("slipstream"), "run", "edge/light", "--policy", "edf", "--json"]
    done = subprocess.run(
        words, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("handled")
def test_a_command_that_is_interrupted_while_it_compiles_says_so_and_no_more(tmp_path):
    cache = tmp_path / "cache"
    program = subprocess.Popen(
        [Path(sys.executable).with_name("slipstream"), "run", "edge/tiny", "--policy", "edf"],
        env={**os.environ, "SLIPSTREAM_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(cache.rglob("*.nbi")) and program.poll() is None:
        time.sleep(0.1)
    program.send_signal(signal.SIGINT)
    output, told = program.communicate(timeout=120)
    assert (program.returncode, output) == (130, "")
    assert told.strip().splitlines()[-1] == "interrupted"
    assert set(told.strip().splitlines()[:-1]) <= {"Compiling the edge kernels (first use; cached afterwards) ..."}
