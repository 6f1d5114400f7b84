"""Style, layout and PNG encoding of still figures; needs matplotlib, which comes with the extra `figures`."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import Any, Literal

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D

from slipstream.errors import printable

INK, FAINT, GRID = "#1d2330", "#5a6475", "#d9dde4"
BLUE, ORANGE, GREEN, RED, GREY = "#4c8dd6", "#e2843b", "#3fa878", "#d64550", "#a8afba"
LineStyle = Literal["none", "-", "--"]
DPI = 150
CHARACTERS_PER_INCH = 9.0
"""Of a title; a longer one is broken into lines."""
LONGEST_LABEL = 40
"""Characters of a name that a figure shows; a longer one would push the axes out of the figure."""
STYLE: Any = {  # the type of the keys differs between versions of matplotlib
    "text.parse_math": False,  # names come from files: a dollar sign in one is no formula
    "text.color": INK,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "legend.frameon": False,
    "legend.labelcolor": FAINT,
    "legend.fontsize": 10,
}


@contextmanager
def plot_style() -> Iterator[None]:
    """Apply `STYLE` while a figure is built or encoded; a character that the font lacks is drawn as a box, silently."""
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def panels(count: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` axes in rows of at most `columns`, each `size` inches large."""
    across = min(columns, count)
    down = -(-count // across)
    figure = Figure(figsize=(across * size[0], down * size[1] + 0.8), dpi=DPI, layout="constrained")
    grid = figure.subplots(down, across, squeeze=False)
    axes = list(grid.flat)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def head(figure: Figure, title: str, handles: Sequence[Artist], columns: int) -> None:
    """Put `title` and, under it, the legend entries `handles` in `columns` above the axes of `figure`."""
    # One artist for both: a title of the figure would lie over a legend outside the axes.
    shown = figure.legend(
        handles=list(handles), loc="outside upper left", ncols=columns, columnspacing=1.5, alignment="left"
    )
    shown.set_title(fill(title, int(CHARACTERS_PER_INCH * figure.get_figwidth())), prop=FontProperties(size=13))


def handle(name: str, colour: str, marker: str = "o", line: LineStyle = "none", size: float = 6.0) -> Line2D:
    """Return the legend entry of a series called `name`."""
    return Line2D(
        [], [], color=colour, marker=marker, linestyle=line, markersize=size, linewidth=1.8, label=label(name)
    )


def label(name: str) -> str:
    """Return `name` as a figure shows it: printable characters, shortened in the middle."""
    text = printable(name)
    if len(text) <= LONGEST_LABEL:
        return text
    half = (LONGEST_LABEL - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


@plot_style()
def png(figure: Figure) -> bytes:
    """Return `figure` as the content of a PNG file."""
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": "Slipstream"})
    return content.getvalue()
