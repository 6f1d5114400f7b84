"""Style of rendered scenes: colours and time format."""

from __future__ import annotations

from slipstream.families.shared.labels import RunLabels

PALETTE = ("#4c8dd6", "#e2843b", "#3fa878", "#c65d9b", "#8e7cc3", "#b8a03e", "#41aebb", "#9a8478")
"""Colours of the tasks, repeated in order."""
MISSED = "#d64550"
GOOD = "#2e9e5b"
TIGHT = "#c98a00"


def task_colour(task: int) -> str:
    """Return the colour of a task."""
    return PALETTE[task % len(PALETTE)]


def format_time(labels: RunLabels, time: float, decimals: int = 1) -> str:
    """Return `time` formatted in the family's unit, without the unit."""
    return f"{time / labels.nanoseconds_per_unit:,.{decimals}f}"
