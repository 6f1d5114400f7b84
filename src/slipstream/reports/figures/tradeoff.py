"""Figure of how many models a library needs: regret over their number, one panel per family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from slipstream.reports.figures.plotting import BLUE, FAINT, GREEN, ORANGE, RED, handle, head, panels, plot_style

COLUMNS, PANEL = 2, (4.6, 3.0)
SERIES = {"mean": ("mean", BLUE), "worst": ("worst", ORANGE), "held_out_mean": ("mean, held-out workloads", GREEN)}


@plot_style()
def tradeoff_figure(curves: Sequence[dict[str, Any]]) -> Figure:
    """Return the figure of `curves`, one per family: mean and worst regret over the number of models."""
    title = "Regret over the number of models, each workload by the best of them"
    figure, axes = panels(len(curves), COLUMNS, PANEL)
    if len(curves) == 1:
        figure.set_figwidth(6.4)  # wide enough for the title
    entries = [handle(name, colour, line="-") for name, colour in SERIES.values()]
    head(figure, title, [*entries, handle("mean, best single rule", RED, "", "--")], 2 if len(curves) == 1 else 4)
    for ax, curve in zip(axes, curves, strict=True):
        _panel(ax, curve)
    for ax in axes[::COLUMNS]:
        ax.set_ylabel("regret")
    return figure


def _panel(ax: Axes, curve: dict[str, Any]) -> None:
    points = curve["points"]
    ax.set_title(f"{curve['family']}: {len(points)} models; {curve['enough']} are enough")
    ax.grid(axis="y")
    ax.axvline(curve["enough"], color=FAINT, linewidth=0.8)
    ax.axhline(curve["heuristic_mean"], color=RED, linestyle="--", linewidth=1.2)
    highest = max(curve["heuristic_mean"], 1e-3)
    # The mean is drawn last: where it equals the worst, it is what is seen.
    for key, (name, colour) in reversed(SERIES.items()):
        shown = [(point["count"], point[key]) for point in points if point[key] is not None]
        if shown:
            counts, regrets = zip(*shown, strict=True)
            ax.plot(counts, regrets, color=colour, marker="o", markersize=5, label=name)
            highest = max(highest, *regrets)
    ax.set_ylim(-0.02 * highest, 1.08 * highest)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    ax.set_xlim(0.5, len(points) + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True))
    ax.set_xlabel("number of models")
