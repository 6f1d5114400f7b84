"""Figure of a sweep: reward over the values of each setting, one panel per setting."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slipstream.reports.figures.plotting import BLUE, GREY, INK, RED, handle, head, label, panels, plot_style
from slipstream.reports.html.sweep import reward_range

DEFAULT = "#b3460f"
COLUMNS, PANEL = 3, (3.6, 2.6)
SEED_OFFSET = -0.13
"""Where the trainings of a value stand, beside its interval, which would hide them."""


@plot_style()
def sweep_figure(result: dict[str, Any]) -> Figure:
    """Return the figure of `result`, the data of `sweep.json`; all panels share one reward axis."""
    title = f"{label(result['scenario'])}: reward over one setting at a time, {result['steps']:,} steps per training"
    settings = result["knobs"]
    figure, axes = panels(len(settings), COLUMNS, PANEL)
    if len(settings) == 1:
        figure.set_figwidth(2 * PANEL[0])  # wide enough for the title
    means = "mean of the seeds, 95% interval" if len(result["seeds"]) > 1 else "reward of the seed"
    heuristic = f"best heuristic ({result['heuristic']['policy']})"
    entries = [handle(means, BLUE, line="-"), handle("default", DEFAULT, "D")]
    if any(row["rewards"] for setting in settings for row in setting["values"]):
        entries.insert(0, handle("one training", GREY, size=5.0))
    head(figure, title, [*entries, handle(heuristic, RED, "", "--")], 2 if len(settings) < COLUMNS else 4)
    for ax, setting in zip(axes, settings, strict=True):
        _panel(ax, setting, result["heuristic"]["reward"], reward_range(result))
    for ax in axes[::COLUMNS]:
        ax.set_ylabel("reward")
    return figure


def _panel(ax: Axes, setting: dict[str, Any], heuristic: float, limits: tuple[float, float]) -> None:
    rows = setting["values"]
    ax.set_title(label(setting["knob"]))
    ax.set_ylim(*limits)
    ax.yaxis.set_major_formatter("{x:,g}")
    ax.grid(axis="y")
    ax.axhline(heuristic, color=RED, linestyle="--", linewidth=1.2)
    means = [row["mean"] for row in rows]
    half_widths = [row["half_width"] or 0.0 for row in rows]
    ax.errorbar(range(len(rows)), means, yerr=half_widths, color=BLUE, marker="o", elinewidth=1.2, capsize=2.5)
    seeds = [(index + SEED_OFFSET, reward) for index, row in enumerate(rows) for reward in row["rewards"]]
    ax.plot([x for x, _ in seeds], [y for _, y in seeds], color=GREY, marker="o", linestyle="none", markersize=4)
    ax.set_xlim(-0.5, len(rows) - 0.5)
    ax.set_xticks(range(len(rows)), [label(row["label"]) for row in rows])
    for index, (row, tick) in enumerate(zip(rows, ax.get_xticklabels(), strict=True)):
        tick.set_color(DEFAULT if row["default"] else INK)
        if row["default"]:
            ax.plot([index], [row["mean"]], color=DEFAULT, marker="D", markersize=7, zorder=3)
