"""`slipstream run --render` draws at a steady pace, changes nothing, and leaves the terminal as it found it."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from slipstream.render.live import FRAMES_PER_SECOND, LiveView, default_speed
from slipstream.sim.eventlog import digest, read
from tests.render.test_scene import MS, labels_of, log_of

COMMAND = Path(sys.executable).with_name("slipstream")


def run(*arguments, cwd=None, **environment):
    done = subprocess.run(
        [COMMAND, "run", *arguments], capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment}
    )
    return done.returncode, done.stdout, done.stderr


# In another process: files, pipes and terminals


def test_drawing_never_changes_the_run_nor_its_log(tmp_path):
    options = ("edge/heavy", "--policy", "edf-fit", "--seed", "7")
    assert run(*options, "--log", "plain.parquet", cwd=tmp_path)[0] == 0
    assert run(*options, "--log", "drawn.parquet", "--render", cwd=tmp_path)[0] == 0
    (plain, about), (drawn, drawn_about) = (read(tmp_path / f"{name}.parquet") for name in ("plain", "drawn"))
    assert digest(plain) == digest(drawn)
    assert about == drawn_about
    assert (tmp_path / "plain.parquet").read_bytes() == (tmp_path / "drawn.parquet").read_bytes()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "scenario", ["cluster/tiny", "dag/small", "llm/tiny", "serving/route", "serving/tiny", "taskgraph/tiny"]
)
def test_every_family_is_drawn_and_its_log_stays_the_same(scenario, tmp_path):
    assert run(scenario, "--log", "plain.parquet", cwd=tmp_path)[0] == 0
    code, output, error = run(scenario, "--log", "drawn.parquet", "--render", cwd=tmp_path, COLUMNS="100")
    assert (code, error) == (0, "")
    assert f"{scenario} under " in output
    assert output.count("ended at") == 1
    assert (tmp_path / "plain.parquet").read_bytes() == (tmp_path / "drawn.parquet").read_bytes()


def test_a_pipe_gets_one_plain_frame_per_window_and_then_the_metrics():
    code, output, error = run("edge/drone", "--policy", "edf", "--render", COLUMNS="100")
    assert (code, error) == (0, "")
    assert "\x1b" not in output
    clocks = re.findall(r"^edge/drone under edf, seed 0 +([\d,.]+) of 10,000 ms$", output, re.MULTILINE)
    assert [float(clock.replace(",", "")) for clock in clocks] == [200.0 * n for n in range(1, 50)]
    assert output.count("ended at 10,000.0 ms") == 1
    assert output.index("ended at") < output.index("miss_rate")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--render", "--json"), "--render with --json: both write to standard output"),
        (("--speed", "5"), "--speed without --render"),
    ],
)
def test_options_that_do_not_go_together_end_with_one_line(options, expected):
    code, output, error = run("edge/tiny", *options)
    assert (code, output) == (2, "")
    assert expected in error
    assert len(error.strip().splitlines()) == 1


def in_terminal(*arguments, interrupt_after=None):
    """Run the command in a terminal; interrupt it when a text has appeared; return exit code and output."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "LINES": "24", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [COMMAND, "run", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    output, latest = b"", time.monotonic() + 120
    while time.monotonic() < latest:
        if select.select([ours], [], [], 1.0)[0]:
            try:
                output += os.read(ours, 65536)
            except OSError:  # the command has closed its end
                break
            if interrupt_after is not None and interrupt_after in output:
                process.send_signal(signal.SIGINT)
                interrupt_after = None
    else:
        process.kill()
    os.close(ours)
    return process.wait(), output.decode(errors="replace")  # Ctrl-C may strike within a character


def test_a_terminal_sees_the_run_in_motion_and_keeps_the_last_frame():
    code, output = in_terminal("edge/tiny", "--policy", "edf", "--render", "--speed", "80")
    assert code == 0
    assert output.count("edge/tiny under edf, seed 0") >= 3
    assert "ended at 32.0 ms" in output
    assert output.index("ended at") < output.index("miss_rate")
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")  # the cursor is back


def test_ctrl_c_ends_the_drawing_and_still_gives_the_whole_summary(tmp_path):
    log = tmp_path / "run.parquet"
    options = ("edge/heavy", "--policy", "edf-fit", "--seed", "7", "--render", "--speed", "20", "--log", str(log))
    code, output = in_terminal(*options, interrupt_after=b"finished")
    assert code == 0
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")
    assert "Drawing stopped" in output
    assert "miss_rate" in output
    assert digest(read(log)[0]) == digest(log_of("edge/heavy", "edf-fit", 7))


# In this process, with a clock that only moves when it is told to


class Clock:
    def __init__(self, cost=0.0):
        self.time, self.cost, self.slept = 0.0, cost, []

    def __call__(self):
        self.time += self.cost
        return self.time

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.time += seconds


def watch(name, speed, clock, pieces=40):
    """Return the times at which a scene was drawn."""
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    view = LiveView(labels_of(name), "x", console, speed, clock, clock.sleep)
    drawn = []
    draw = view._draw

    def spy():
        drawn.append(view.scene.now)
        draw()

    view._draw = spy
    events = log_of(name)
    with view:
        for piece in np.array_split(events, pieces):
            view.show(piece)
    return drawn, events


def test_frames_come_at_the_speed_that_was_asked_for():
    clock = Clock()
    drawn, events = watch("edge/drone", 2_000 * MS, clock)
    assert clock.time == pytest.approx(events["time"][-1] / (2_000 * MS), abs=1.01 / FRAMES_PER_SECOND)
    assert np.diff(drawn[:-1]) == pytest.approx(2_000 * MS / FRAMES_PER_SECOND, abs=2)
    assert drawn[-1] == events["time"][-1]


def test_a_slow_terminal_skips_frames_instead_of_slowing_down():
    every, _ = watch("edge/drone", 2_000 * MS, Clock())
    some, _ = watch("edge/drone", 2_000 * MS, Clock(cost=0.2))
    assert 0 < len(some) < len(every) / 2
    assert some[-1] == every[-1]


def test_the_usual_speed_shows_a_short_run_in_twenty_seconds_and_never_a_blur():
    assert default_speed(labels_of("edge/tiny")) == 2 * MS
    heavy = labels_of("edge/heavy")
    mean = np.mean([length for ladder in heavy.expected for length in ladder])
    assert default_speed(heavy) == pytest.approx(20 * mean)
