"""Data of the report's charts, computed from timelines and metrics.

Charts over time (`gantt`, `waiting`) are columns for the page's own `charts.js`; the others are plotly.js figures. The
page, which may be light or dark, chooses the colours: the `meta` of a trace holds its palette index. Names in figures
are escaped, because plotly.js interprets some HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from slipstream.families.shared.timeline import NO_DEADLINE, Timeline
from slipstream.files.markup import escape
from slipstream.files.wording import metric_title, plural
from slipstream.reports.runs import Run

Figure = dict[str, Any]

FIRST_SLICES = 40
"""Bars that a Gantt chart shows before it is moved or zoomed, at least."""
FIRST_PER_RESOURCE = 6
"""Bars of each resource that it shows then, on average."""
BARS_AT_ONCE = 120
"""Bars of the busiest resource up to which a chart shows the whole run at first."""
CURVE_POINTS = 400
"""Maximum number of points of a distribution's curve."""
TIME_BINS = 960
"""Time columns of the queue heat map."""
MOST_CURVES = 24
"""Tasks that have a curve of response times each; if there are more, all jobs share one."""
OVER_TIME = {"over_time": True}
"""The `meta` of the layout of a figure whose x axis is the time of the run: the page links those axes."""

LENGTH_OF_TIME = {"length_of_time": True}
"""The `meta` of the layout of a figure whose x axis is a length of time: the page chooses its unit."""


def gantt(run: Run) -> dict[str, Any]:
    """Return all slices and all jobs that never ran as columns; the page draws the visible ones."""
    line, unit = run.timeline, run.family.nanoseconds_per_unit
    idle = never_ran(line)
    return {
        **words_of(line),
        "never": len(idle) > 0,
        "ran": slice_columns(line, unit, np.arange(len(line.slice_job))),
        "idle": idle_columns(line, unit, idle),
    }


def words_of(line: Timeline) -> dict[str, Any]:
    """Return the names of `line` for `charts.js`: resources, tasks, colours, outcomes, and the family's nouns."""
    return {
        "resources": line.resources,
        "tasks": line.tasks,
        "variants": line.variants,
        "groups": line.groups,
        "parts": line.parts,
        "fates": line.fates,
        "nouns": asdict(line.nouns),
        "per_job": line.per_job,
        "deadlines": line.has_deadlines,
    }


def never_ran(line: Timeline) -> np.ndarray:
    """Return the indices of the jobs that never ran, whether they left the queue or not.

    A job that finished ran, also where its batch is drawn under another's name.
    """
    ran = line.finish >= 0
    ran[line.slice_job] = True
    return np.flatnonzero(~ran)


def when_left(line: Timeline, idle: np.ndarray) -> np.ndarray:
    """Return the times in ns at which the `idle` jobs, which waited once, left the queue."""
    left: np.ndarray = line.wait_end[np.searchsorted(line.wait_job, idle)]
    return left


def slice_columns(line: Timeline, unit: int, slices: np.ndarray) -> dict[str, list[Any]]:
    """Return the `slices` of `line` as columns for `charts.js`, times in `unit` ns."""
    return {
        "resource": line.slice_resource[slices].tolist(),
        "start": (line.slice_start[slices] / unit).tolist(),
        "end": (line.slice_end[slices] / unit).tolist(),
        "variant": line.slice_variant[slices].tolist(),
        "group": line.slice_group[slices].tolist(),
        **({"part": line.slice_part[slices].tolist()} if line.parts else {}),
        **_job_columns(line, unit, line.slice_job[slices]),
    }


def idle_columns(line: Timeline, unit: int, idle: np.ndarray) -> dict[str, list[Any]]:
    """Return the `idle` jobs of `line` as columns for `charts.js`, times in `unit` ns."""
    return {"left": (when_left(line, idle) / unit).tolist(), **_job_columns(line, unit, idle)}


def _job_columns(line: Timeline, unit: int, jobs: np.ndarray) -> dict[str, list[Any]]:
    columns = {
        "task": line.task[jobs].tolist(),
        "number": line.number[jobs].tolist(),
        "release": (line.release[jobs] / unit).tolist(),
        "fate": line.fate[jobs].tolist(),
    }
    if line.has_deadlines:
        deadline = line.deadline[jobs]
        times = (deadline / unit).tolist()
        known = (deadline < NO_DEADLINE).tolist()
        columns["deadline"] = [time if one else None for time, one in zip(times, known, strict=True)]
    return columns


def first_window(runs: Sequence[Run]) -> float:
    """Return the end of the initial time window: the first bars of the busiest run; of a short run, all of it."""
    ends = []
    for run in runs:
        line = run.timeline
        if np.bincount(line.slice_resource, minlength=1).max() <= BARS_AT_ONCE:
            ends.append(run.times(np.array([line.end]))[0])
        else:
            count = max(FIRST_SLICES, FIRST_PER_RESOURCE * len(line.resources))
            ends.append(max(run.times(line.slice_end[:count])))
    return min((end for end in ends if end > 0), default=1.0)


def waiting(runs: Sequence[Run], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return the number of waiting jobs of each run as a step function of time; nothing where each has one job."""
    if not any(len(run.timeline.task) > 1 for run in runs):
        return []
    lines = []
    for run, label in zip(runs, labels, strict=True):
        times, counts = run.timeline.waiting(np.arange(len(run.timeline.task)))
        lines.append({"label": label, "times": run.times(times), "counts": counts.tolist()})
    return lines


def queues(run: Run) -> Figure:
    """Return a heat map of each task's longest queue in `TIME_BINS` intervals of the run."""
    line = run.timeline
    edges = np.linspace(0, max(line.end, 1), TIME_BINS + 1)
    rows = []
    for task in range(len(line.tasks)):
        times, counts = line.waiting(np.flatnonzero(line.task == task))
        longest = counts[np.searchsorted(times, edges[:-1], side="right") - 1]
        inside = np.minimum(np.searchsorted(edges, times, side="right") - 1, TIME_BINS - 1)
        np.maximum.at(longest, inside, counts)
        rows.append(longest.tolist())
    middle = run.times((edges[:-1] + edges[1:]) / 2)
    trace = {
        "type": "heatmap",
        "x": [round(x, 3) for x in middle],
        "y": [escape(name) for name in line.tasks],
        "z": rows,
        "zmin": 0,
        "colorbar": {"title": {"text": plural(line.nouns.job)}, "thickness": 12},
        "hovertemplate": "%{y}: up to %{z} waiting around %{x} " + _unit([run]) + "<extra></extra>",
    }
    layout = {"xaxis": axis(f"time ({_unit([run])})"), "yaxis": categories(), "meta": OVER_TIME}
    return {"data": [trace], "layout": {**layout, "height": 130 + 22 * len(rows)}}


def responses(run: Run) -> Figure:
    """Return the distributions of response times by task; a diamond marks a task's deadline."""
    line = run.timeline
    tasks = [(name, line.task == task) for task, name in enumerate(line.tasks)]
    if line.per_job or len(tasks) > MOST_CURVES:
        tasks = [(f"all {plural(line.nouns.job)}", np.ones(len(line.task), bool))]
    curves, marks = [], []
    for task, (name, own) in enumerate(tasks):
        done = own & (line.finish >= 0)
        if not done.any():
            continue
        times = np.sort(line.finish[done] - line.release[done])
        picks = np.unique(np.linspace(0, len(times) - 1, min(len(times), CURVE_POINTS)).round().astype(np.int64))
        share = (picks + 1) / own.sum()
        x = run.times(times[picks])
        curves.append(line_of([0, x[0], *x], [0, 0, *share.round(5).tolist()], name, task, line={"shape": "hv"}))
        limited = own & (line.deadline < NO_DEADLINE)
        if limited.any() and len(tasks) == len(line.tasks):
            allowed = np.median(line.deadline[limited] - line.release[limited])
            met = float((times <= allowed).sum() / own.sum())
            more = {"mode": "markers", "marker": {"size": 9, "symbol": "diamond"}, "showlegend": False}
            marks.append(line_of(run.times(np.array([allowed])), [round(met, 5)], f"{name}: deadline", task, **more))
    times_axis = axis(f"time from arrival to finish ({_unit([run])})", rangemode="tozero")
    share_axis = axis(f"share of {plural(line.nouns.job)}", range=[0, 1.03], tickformat=".0%")
    layout = {"xaxis": times_axis, "yaxis": share_axis, "showlegend": len(curves) > 1, "meta": LENGTH_OF_TIME}
    return {"data": curves + marks, "layout": layout}


def per_task(metric: str, runs: Sequence[Run], labels: Sequence[str], percent: bool) -> Figure:
    """Return bars of a per-task `metric`, grouped by task, one bar per run."""
    names = list(dict.fromkeys(name for run in runs for name in run.timeline.tasks))
    traces = []
    for index, (run, label) in enumerate(zip(runs, labels, strict=True)):
        values = [run.metrics.get(f"{metric}/{name}") for name in names]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "x": values,
                "y": [escape(name) for name in names],
                "name": escape(label),
                "meta": {"colour": index},
                "hovertemplate": "%{y}: %{x" + (":.1%" if percent else ":.3f") + "}",
            }
        )
    across = axis(metric_title(metric), rangemode="tozero", tickformat=".0%" if percent else "")
    layout = {"xaxis": across, "yaxis": categories(), "barmode": "group", "showlegend": len(runs) > 1}
    return {"data": traces, "layout": {**layout, "height": 110 + len(names) * (10 + 14 * len(runs))}}


def line_of(x: list[float], y: list[Any], name: str, colour: int, **more: Any) -> Figure:
    """Return a plotly trace in the palette's `colour`: a line, unless `more` says otherwise."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "name": escape(name),
        "meta": {"colour": colour},
        **more,
    }


def axis(title: str, **more: Any) -> Figure:
    """Return an axis with a title."""
    return {"title": {"text": title}, **more}


def categories() -> Figure:
    """Return a category axis, the first name on top."""
    return {"type": "category", "autorange": "reversed", "fixedrange": True}


def _unit(runs: Sequence[Run]) -> str:
    return runs[0].family.time_unit
