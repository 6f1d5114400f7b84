"""Charts of families, trade-offs between policies and training curves, as plotly.js figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from slipstream.families.shared.charts import Chart, Line, envelope
from slipstream.files.markup import escape
from slipstream.files.wording import metric_title
from slipstream.reports.figures.page_figures import OVER_TIME, Figure, axis, categories, line_of
from slipstream.reports.runs import Run
from slipstream.reports.terminal.tables import lower_is_better

LIMIT_COLOUR = 3
"""Palette index of a limit that values should not cross."""


def figure_of(charts: Sequence[Chart], runs: Sequence[Run], labels: Sequence[str], scale: Sequence[float]) -> Figure:
    """Return a chart with the lines of all runs; `scale` converts each run's x to the unit of the axis."""
    first = charts[0]
    if first.names:
        return _bars(charts, labels)
    traces: list[Figure] = []
    several = len(first.lines) > 1
    for number, (chart, run, label, factor) in enumerate(zip(charts, runs, labels, scale, strict=True)):
        for index, line in enumerate(chart.lines):
            name = line.name or label
            if len(runs) > 1:
                name = f"{label}: {line.name}" if several else label
            traces += _traces(chart, run, line, name, number + index * len(runs), factor)
    limits = dict.fromkeys(chart.limit for chart in charts if chart.limit is not None)
    ends = [trace["x"][end] for trace in traces for end in (0, -1) if trace["x"]]
    for limit_name, level in limits:
        dashed = {"line": {"dash": "dash", "width": 1.5}}
        traces.append(line_of([min(ends), max(ends)], [level, level], limit_name, LIMIT_COLOUR, **dashed))
    unit = f" ({runs[0].family.time_unit})" if first.over_time else ""
    across = axis(f"{first.x}{unit}", **({"type": "log"} if first.log_x else {}))
    up = axis(first.y, rangemode="tozero", **({"tickformat": ".0%"} if first.percent else {}))
    layout = {"xaxis": across, "yaxis": up, "showlegend": len(traces) > 1, "height": 300}
    return {"data": traces, "layout": {**layout, **({"meta": OVER_TIME} if first.over_time else {})}}


def _traces(chart: Chart, run: Run, line: Line, name: str, colour: int, factor: float) -> list[Figure]:
    x, y = envelope(line.x, line.y, run.timeline.end) if chart.over_time else (line.x, line.y)
    if chart.over_time and len(x):
        x, y = np.append(x, max(run.timeline.end, x[-1])), np.append(y, y[-1])
    shape = {"line": {"shape": "hv"}}
    # Six digits of a time may lie beyond the end of the run.
    traces = [line_of(_rounded(x * factor, 9 if chart.over_time else 6), _rounded(y), name, colour, **shape)]
    for mark in chart.marks:
        index = min(int(np.searchsorted(line.y, mark)), len(line.y) - 1)
        more = {"mode": "markers", "marker": {"size": 7}, "showlegend": False}
        point = [float(line.x[index] * factor)]
        traces.append(line_of(point, [mark], f"{name}: {mark:.0%}", colour, **more))
    return traces


def _rounded(values: np.ndarray, digits: int = 6) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values.tolist()]


def _bars(charts: Sequence[Chart], labels: Sequence[str]) -> Figure:
    traces = []
    names = list(dict.fromkeys(name for chart in charts for name in chart.names))
    for number, (chart, label) in enumerate(zip(charts, labels, strict=True)):
        for index, line in enumerate(chart.lines):
            known = dict(zip(chart.names, line.y.tolist(), strict=True))
            title = line.name if len(charts) == 1 else f"{label}: {line.name}"
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "x": [known.get(name) for name in names],
                    "y": [escape(name) for name in names],
                    "name": escape(title),
                    "meta": {"colour": number * len(chart.lines) + index},
                }
            )
    height = 110 + len(names) * (8 + 12 * len(traces))
    layout = {"xaxis": axis(charts[0].x, rangemode="tozero"), "yaxis": categories(), "barmode": "group"}
    return {"data": traces, "layout": {**layout, "showlegend": True, "height": height}}


# Trade-offs between policies


def points_of(runs: Sequence[Run], metrics: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Return the means of some metrics over the runs of each policy on each scenario."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        groups[str(run.about.get("scenario_digest")), str(run.about["policy"])].append(run)
    several = len({digest for digest, _ in groups}) > 1
    found = {}
    for (_, policy), members in groups.items():
        name = f"{members[0].title}, {policy}" if several else policy
        while name in found:
            name += "'"
        found[name] = tuple(float(np.mean([run.metrics[one] for run in members])) for one in metrics)
    return found


def front_of(points: Sequence[tuple[float, ...]], metrics: Sequence[str]) -> list[int]:
    """Return the indices of the Pareto-optimal `points`, whose coordinates are `metrics`."""
    signs = np.array([1.0 if lower_is_better(metric) else -1.0 for metric in metrics])
    costs = np.array(points) * signs
    return [
        index
        for index, own in enumerate(costs)
        if not any((other <= own).all() and (other < own).any() for other in costs)
    ]


def tradeoff(runs: Sequence[Run], metrics: tuple[str, str]) -> Figure:
    """Return the policies of `runs` as points over two metrics, with a line through the Pareto front."""
    points = points_of(runs, metrics)
    values = list(points.values())
    front = sorted(front_of(values, metrics), key=lambda index: values[index])
    # Digits that no axis can show would make the labels of its ticks as long as the chart is wide.
    x, y = (_rounded(np.array(column)) for column in zip(*values, strict=True))
    traces: list[Any] = [
        line_of(
            [x[index] for index in front],
            [y[index] for index in front],
            "Pareto front",
            0,
            line={"shape": "linear", "dash": "dot", "width": 1},
        )
    ]
    for number, name in enumerate(points):
        position = f"top {_side(x[number], x)}"
        more = {"mode": "markers+text", "text": [escape(name)], "textposition": position, "marker": {"size": 10}}
        traces.append(line_of([x[number]], [y[number]], name, number + 1, **more, showlegend=False))
    words = [f"{metric_title(one)}, {'lower' if lower_is_better(one) else 'higher'} is better" for one in metrics]
    layout = {"xaxis": axis(words[0]), "yaxis": axis(words[1]), "showlegend": True, "height": 380}
    return {"data": traces, "layout": layout}


def _side(x: float, every: Sequence[float]) -> str:
    """Return on which side of a point at `x` a label does not leave the chart of the points at `every`."""
    low, high = min(every), max(every)
    share = 0.5 if low == high else (x - low) / (high - low)
    return "right" if share < 1 / 3 else "left" if share > 2 / 3 else "center"


# Training curves


def training(history: Sequence[dict[str, Any]]) -> Figure:
    """Return the held-out reward over the steps of a training, next to that of the best heuristic."""
    steps = [float(line["steps"]) for line in history]
    traces = [line_of(steps, [float(line["reward"]) for line in history], "trained policy, held-out episodes", 0)]
    best = [float(line["heuristic_reward"]) for line in history]
    dashed = {"line": {"dash": "dash", "width": 1.5}}
    traces.append(line_of(steps, best, "best heuristic, the same episodes", LIMIT_COLOUR, **dashed))
    layout = {"xaxis": axis("decisions trained on"), "yaxis": axis("mean reward of an episode"), "showlegend": True}
    return {"data": traces, "layout": {**layout, "height": 320}}
