"""Style of rendered scenes: colours and time format."""

from __future__ import annotations

import math

from slipstream.families.shared.labels import RunLabels

NS_PER_MS, NS_PER_S = 1_000_000, 1_000_000_000

PALETTE = ("#4399d8", "#d98200", "#00785a", "#d58bb4", "#2a4fa0", "#c9b72e", "#8f3d7c", "#8d8d8d")
"""Colours of tasks, jobs or models, repeated in order; distinct also with a colour vision deficiency."""
MISSED = "#d64550"
GOOD = "#2e9e5b"
TIGHT = "#c98a00"
LEAST_TICKS = 4
"""Fewest marks of a time axis."""
DARK_TEXT, LIGHT_TEXT = "#10141c", "#ffffff"
BRIGHT = 0.2
"""Relative luminance from which dark text on a colour is easier to read than light text."""


def task_colour(task: int) -> str:
    """Return the colour of a task."""
    return PALETTE[task % len(PALETTE)]


def text_on(colour: str) -> str:
    """Return the colour of text on a background of `colour`."""
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return DARK_TEXT if 0.2126 * red + 0.7152 * green + 0.0722 * blue >= BRIGHT else LIGHT_TEXT


def unit_of(labels: RunLabels, duration: float) -> tuple[str, float]:
    """Return the unit of a short time, and its ns: milliseconds below a second where the family counts in seconds."""
    if labels.unit == "s" and duration < NS_PER_S:
        return "ms", NS_PER_MS
    return labels.unit, labels.nanoseconds_per_unit


def format_duration(labels: RunLabels, duration: float) -> str:
    """Return `duration` with its unit, as in "12.5 ms"."""
    unit, scale = unit_of(labels, duration)
    return f"{duration / scale:,.1f} {unit}"


def round_times(begin: float, end: float, unit: float) -> tuple[float, list[float]]:
    """Return a step of 1, 2 or 5 times a power of ten `unit`s and its four to ten multiples from `begin` to `end`."""
    power = 10.0 ** math.floor(math.log10((end - begin) / unit / LEAST_TICKS))
    step = next(one * power for one in (5, 2, 1) if one * power * LEAST_TICKS <= (end - begin) / unit)
    first, last = math.ceil(begin / unit / step), math.floor(end / unit / step)
    return step, [number * step * unit for number in range(first, last + 1)]


def format_time(labels: RunLabels, time: float, decimals: int = 1) -> str:
    """Return `time` formatted in the family's unit, without the unit."""
    return f"{time / labels.nanoseconds_per_unit:,.{decimals}f}"
