"""A stretch of recorded runs as text, one under the other: what each stream ran, and which jobs were missed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from slipstream.families.shared.timeline import Timeline

COLUMNS = 66
COLOURS = ("blue", "magenta", "green", "yellow", "cyan")
"""Of tasks, in the order of the scenario."""


def schedules(logs: Sequence[tuple[str, Path]], begin_ms: float, end_ms: float) -> list[str]:
    """Return the schedules of the runs `(name, log)` between two times, as lines with rich markup.

    A letter stands for a task, the first of its name: in capitals where a job begins. Idle time is a dot. An `x` marks
    the release of a job that was not finished on time.
    """
    from slipstream.reports.runs import read_run

    lines = []
    for name, log in logs:
        timeline = read_run(log).timeline
        lines.append(f"[bold]{name}[/bold]")
        lines += [
            f"  {resource:>9} {_stream(timeline, index, begin_ms, end_ms)}"
            for index, resource in enumerate(timeline.resources)
        ]
        lines.append(f"  {'missed':>9} {_missed(timeline, begin_ms, end_ms)}")
    tasks = (
        f"[{COLOURS[index % len(COLOURS)]}]{task[0].upper()} {task}[/]" for index, task in enumerate(timeline.tasks)
    )
    lines.append(f"  {begin_ms:.0f} to {end_ms:.0f} ms; {', '.join(tasks)}; . idle; [red]x[/] not finished on time")
    return lines


def stretch_with_misses(log: Path, length_ms: float) -> float:
    """Return the beginning, in ms, of the stretch of `length_ms` in which most jobs of a run were missed."""
    from slipstream.reports.runs import read_run

    timeline = read_run(log).timeline
    released = np.sort(timeline.release[_missed_jobs(timeline)]) / 1e6
    if not len(released):
        return 0.0
    begins = np.maximum(released - 0.1 * length_ms, 0.0)
    counts = np.searchsorted(released, begins + length_ms) - np.searchsorted(released, begins)
    return float(begins[np.argmax(counts)])


def _missed_jobs(timeline: Timeline) -> np.ndarray:
    from slipstream.families.shared.timeline import ON_TIME, OPEN

    return np.flatnonzero((timeline.fate != ON_TIME) & (timeline.fate != OPEN))


def _column(time_ns: float, begin_ms: float, end_ms: float) -> int:
    return int(np.floor((time_ns / 1e6 - begin_ms) / (end_ms - begin_ms) * COLUMNS))


def _stream(timeline: Timeline, stream: int, begin_ms: float, end_ms: float) -> str:
    cells = ["[dim].[/]"] * COLUMNS
    for piece in np.flatnonzero(timeline.slice_resource == stream):
        task = int(timeline.task[timeline.slice_job[piece]])
        first = _column(timeline.slice_start[piece], begin_ms, end_ms)
        last = max(first + 1, _column(timeline.slice_end[piece], begin_ms, end_ms))
        letter = timeline.tasks[task][0]
        for column in range(max(first, 0), min(last, COLUMNS)):
            text = letter.upper() if column == first else letter.lower()
            cells[column] = f"[{COLOURS[task % len(COLOURS)]}]{text}[/]"
    return "".join(cells)


def _missed(timeline: Timeline, begin_ms: float, end_ms: float) -> str:
    cells = [" "] * COLUMNS
    for job in _missed_jobs(timeline):
        column = _column(timeline.release[job], begin_ms, end_ms)
        if 0 <= column < COLUMNS:
            cells[column] = "[red]x[/]"
    return "".join(cells)
