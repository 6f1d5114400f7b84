"""Progress of a training: a bar in a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from slipstream.cli.common import errors

if TYPE_CHECKING:
    from slipstream.learn.training import Report

EVERY_S = 10.0
"""Time between two lines where there is no terminal."""
PHASES = {
    "race": "racing heuristics on training episodes",
    "reference": "playing heuristics on held-out episodes",
    "imitation": "imitation",
    "hindsight": "hindsight",
    "ppo": "PPO",
    "reinforce": "REINFORCE",
    "outcome": "comparing with the best heuristic",
}
BEFORE = ("race", "reference")
"""Phases before the first update."""


def progress_line(report: Report) -> str:
    """Return the progress of a training in words: phase, reward beside the heuristic's, speed and time left."""
    phase = PHASES.get(report.phase, report.phase)
    if report.phase in BEFORE:
        return f"{phase}: {report.heuristic}"
    parts = [] if report.reward is None else [f"reward {report.reward:,.1f}"]
    parts.append(f"{report.heuristic} {report.heuristic_reward:,.1f}")
    if report.steps and report.seconds > 0.0:
        parts.append(f"{report.steps:,} steps at {report.steps / report.seconds:,.0f} per second")
    if report.seconds_left is not None and report.phase != "outcome":
        minutes, seconds = divmod(round(report.seconds_left), 60)
        parts.append(f"{minutes}:{seconds:02d} left")
    return f"{phase}: {', '.join(parts)}"


class TrainingProgress:
    """Shows the reports of a training."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None)
        self._line = "starting"
        self._phase = ""
        self._last = ""
        self._printed = self._since = perf_counter()

    def show(self, report: Report) -> None:
        """Show `report`: in the bar, or as a line if its phase is new or the last line is old."""
        self._line = progress_line(report)
        if errors.is_terminal:
            total = None if report.phase in BEFORE else 1.0
            self._bar.update(self._task, description=self._line, completed=report.progress, total=total)
        elif report.phase != self._phase:
            self._phase = report.phase
            self.print_line()
        else:
            self.print_if_old()

    def print_if_old(self) -> None:
        """Print the present line unless one was printed lately."""
        if perf_counter() - self._printed >= EVERY_S:
            self.print_line()

    def print_line(self) -> None:
        """Print the present line on standard error; a line that is printed again says how long it has been true."""
        self._printed = perf_counter()
        text = self._line
        if text == self._last:
            text = f"{text} ({self._printed - self._since:.0f} s)"
        else:
            self._last, self._since = text, self._printed
        errors.print(text, soft_wrap=True, markup=False, highlight=False)


@contextmanager
def training_progress() -> Iterator[TrainingProgress]:
    """Show the progress of a training on standard error; the line is repeated while an update takes long."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as bar:
        progress, over = TrainingProgress(bar), threading.Event()

        def repeat() -> None:
            while not over.wait(EVERY_S / 10.0):
                progress.print_if_old()

        thread = threading.Thread(target=repeat, daemon=True)
        if not errors.is_terminal:
            thread.start()
        try:
            yield progress
        finally:
            over.set()
            if thread.is_alive():
                thread.join()
