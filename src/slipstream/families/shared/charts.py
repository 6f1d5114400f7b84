"""Data of the charts that a family adds to those of all families; the report draws them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Line:
    """A line of a chart, or its bars."""

    name: str
    """Empty in a chart of one line: it is then labelled with the run."""
    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Chart:
    """One chart; compared runs share it."""

    section: str
    """Heading of its group of charts."""
    title: str
    caption: str
    x: str
    """Title of the axis."""
    y: str
    lines: tuple[Line, ...]
    over_time: bool = False
    """Whether x are times in ns and y is a step function of them."""
    log_x: bool = False
    percent: bool = False
    """Whether y are fractions, to be shown in percent."""
    limit: tuple[str, float] | None = None
    """Name and value of a limit on y."""
    marks: tuple[float, ...] = ()
    """Values of y at which the line is marked."""
    names: tuple[str, ...] = field(default=())
    """Labels of bars; a chart with labels has bars, and x are their indices."""


@dataclass(frozen=True)
class Picture:
    """A chart that is not made of lines: a plotly.js figure, one for each run.

    The page sets the colours; a trace names its own in `meta`.
    """

    section: str
    """Heading of its group."""
    caption: str
    figure: dict[str, Any]
    over_time: bool = False
    """Whether x are times in the family's unit."""


def distribution(name: str, values: np.ndarray, most: int = 400) -> Line:
    """Return the cumulative distribution of `values` as a line of at most `most` points."""
    ordered = np.sort(values)
    picks = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), most)).round().astype(np.int64))
    return Line(name, ordered[picks], (picks + 1) / max(1, len(ordered)))


def envelope(x: np.ndarray, y: np.ndarray, end: float, bins: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Return a step function reduced to the minimum and maximum of each of `bins` intervals, if it has more steps."""
    if len(x) <= 2 * bins:
        return x, y
    edges = np.linspace(x[0], max(end, x[-1]), bins + 1)[:-1]
    # An interval includes the value at its beginning, which may have been set before it.
    firsts = np.searchsorted(x, edges, side="right") - 1
    lasts = np.append(firsts[1:], len(x) - 1)
    low = np.array([y[first : last + 1].min() for first, last in zip(firsts, lasts, strict=True)])
    high = np.array([y[first : last + 1].max() for first, last in zip(firsts, lasts, strict=True)])
    half = (edges[1] - edges[0]) / 2
    return np.stack((edges, edges + half), axis=1).ravel(), np.stack((low, high), axis=1).ravel()
