"""Charts of one episode that a family adds to the pictures all families have: plain numbers, drawn by the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Line:
    """A line of a chart, or its bars."""

    name: str
    """Empty where a chart has one line: it is then called as the run."""
    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Chart:
    """One chart; runs that are compared share it."""

    section: str
    """Heading under which it stands, with others of the same."""
    title: str
    caption: str
    x: str
    """Title of the axis."""
    y: str
    lines: tuple[Line, ...]
    over_time: bool = False
    """Whether x are times in ns, and y holds from each of them to the next."""
    log_x: bool = False
    percent: bool = False
    """Whether y are shares."""
    limit: tuple[str, float] | None = None
    """A level that y is held to, and its name."""
    marks: tuple[float, ...] = ()
    """Values of y at which the line is marked."""
    names: tuple[str, ...] = field(default=())
    """What bars stand for; there are bars only where there are names, and x are their places."""


@dataclass(frozen=True)
class Picture:
    """A chart that lines cannot tell: a figure as plotly.js reads it, one for each run.

    Colours are left to the page; a trace says in `meta` which one is its own.
    """

    section: str
    """Heading under which it stands."""
    caption: str
    figure: dict[str, Any]


def distribution(name: str, values: np.ndarray, most: int = 400) -> Line:
    """Return which share of some values is no greater than each of them."""
    ordered = np.sort(values)
    picks = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), most)).round().astype(np.int64))
    return Line(name, ordered[picks], (picks + 1) / max(1, len(ordered)))


def envelope(x: np.ndarray, y: np.ndarray, end: float, bins: int = 800) -> tuple[np.ndarray, np.ndarray]:
    """Return steps thinned out: where there are too many, the least and the greatest of each of many short spells."""
    if len(x) <= 2 * bins:
        return x, y
    edges = np.linspace(x[0], max(end, x[-1]), bins + 1)[:-1]
    # A spell begins with the value that holds there, which may have come before it.
    firsts = np.searchsorted(x, edges, side="right") - 1
    lasts = np.append(firsts[1:], len(x) - 1)
    low = np.array([y[first : last + 1].min() for first, last in zip(firsts, lasts, strict=True)])
    high = np.array([y[first : last + 1].max() for first, last in zip(firsts, lasts, strict=True)])
    half = (edges[1] - edges[0]) / 2
    return np.stack((edges, edges + half), axis=1).ravel(), np.stack((low, high), axis=1).ravel()
