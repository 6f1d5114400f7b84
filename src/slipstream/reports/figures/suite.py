"""Figure of a policy's scores on the benchmark suite, beside those of the package's own policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slipstream.reports.figures.plotting import BLUE, FAINT, INK, ORANGE, RED, handle, head, label, panels, plot_style

OTHER = "#b7bec9"
WIDTH, ROW = 8.6, 0.72
"""Inches: of the figure, and of the row of a family."""
LOWEST, HIGHEST = -60.0, 180.0
"""Scores beyond these stand at the edge, as a triangle that points outwards."""


@plot_style()
def suite_figure(found: Mapping[str, Any], baselines: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Return the figure of the results `found`, a row per family; `baselines` holds scores by family and policy."""
    families = list(found["families"])
    title = f"{label(found['title'])} on Slipstream-Bench {found['suite']['version']}"
    figure, (ax,) = panels(1, 1, (WIDTH, ROW * len(families) + 0.8))
    entries = [handle("this policy", BLUE, line="-"), handle("best rule", ORANGE)]
    entries += [handle("other policies of the package", OTHER, size=5.0), handle("upper bound", RED, "|", size=12.0)]
    head(figure, title, entries, 4)
    low, high = _score_range(found, baselines)
    ax.set_xlim(low, high)
    ax.set_ylim(len(families) - 0.5, -0.5)
    ax.grid(axis="x")
    for score in (0.0, 100.0):
        ax.axvline(score, color=FAINT, linewidth=1.0)
    for row, family in enumerate(families):
        _row(ax, row, found["families"][family], baselines[family])
    ax.set_yticks(range(len(families)), families, color=INK, fontsize=11)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("score: 0 random, 100 best known")
    return figure


def _score_range(found: Mapping[str, Any], baselines: Mapping[str, Mapping[str, Any]]) -> tuple[float, float]:
    """Return the lowest and the highest score that the axis shows."""
    shown = [family["score"][key] for family in found["families"].values() for key in ("low", "high")]
    shown += [family["ceiling"] for family in found["families"].values()]
    shown += [one["mean"] for family in found["families"] for one in baselines[family].values()]
    return max(LOWEST, min(0.0, *shown) - 4.0), min(HIGHEST, max(100.0, *shown) + 4.0)


def _row(ax: Axes, row: int, own: Mapping[str, Any], others: Mapping[str, Mapping[str, float]]) -> None:
    best, score = own["best_rule"], own["score"]
    for name, one in others.items():
        if name != best:
            _mark(ax, one["mean"], row, OTHER, 5.0)
    x = _mark(ax, others[best]["mean"], row, ORANGE, 6.5)
    ax.annotate(best, (x, row), (0, -7), textcoords="offset points", ha="center", va="top", color=FAINT, fontsize=8)
    ax.plot([own["ceiling"]], [row], color=RED, marker="|", markersize=22, markeredgewidth=2)
    ax.plot([score["low"], score["high"]], [row, row], color=BLUE, linewidth=3)
    x = _mark(ax, score["mean"], row, BLUE, 7.5)
    text = f"{score['mean']:.1f}"
    ax.annotate(text, (x, row), (0, 7), textcoords="offset points", ha="center", va="bottom", color=INK, fontsize=9)


def _mark(ax: Axes, score: float, row: int, colour: str, size: float) -> float:
    """Draw a score; return the x of its mark, which lies on the axis."""
    low, high = ax.get_xlim()
    x = min(max(score, low), high)
    marker = "<" if score < low else ">" if score > high else "o"
    ax.plot([x], [row], color=colour, marker=marker, markersize=size, clip_on=False)
    return x
