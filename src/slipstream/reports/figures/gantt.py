"""The schedule of a run as a plotly figure, for notebooks; pages draw theirs from `page_figures`."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.display import FRAME_HEIGHT, MARGIN, ROW_HEIGHT
from slipstream.families.shared.timeline import Timeline
from slipstream.files.markup import escape
from slipstream.render.style import task_colour
from slipstream.reports.runs import Run

MOST_BARS = 2000
"""Bars of a figure: with more it becomes slow, and a notebook that keeps it large."""
MOST_NAMED = 20
"""Colours that the legend names; of more it names none."""
MOST_ROWS = 40
"""Rows of full height; more share their height."""


def gantt_figure(run: Run, title: str, begin: float = 0.0, end: float | None = None) -> Any:
    """Return a row per resource and a bar per slice, coloured as in reports: by task, job, user or kernel.

    It shows the time from `begin` to `end`, in the family's unit.
    """
    import plotly.graph_objects as go

    line, unit = run.timeline, run.family.nanoseconds_per_unit
    last = line.end / unit if end is None else end
    inside = np.flatnonzero((line.slice_end / unit > begin) & (line.slice_start / unit < last))
    shown = inside[:MOST_BARS]
    group = line.slice_group[shown]
    present = np.unique(group)
    named = len(present) <= MOST_NAMED
    figure = go.Figure()
    for index in present.tolist():
        own = shown[group == index]
        start, stop = line.slice_start[own] / unit, line.slice_end[own] / unit
        figure.add_bar(
            name=escape(line.groups[index]),
            orientation="h",
            base=start,
            x=stop - start,
            y=[escape(line.resources[resource]) for resource in line.slice_resource[own]],
            text=[escape(_words(line, piece)) for piece in own.tolist()],
            textposition="none",
            # Outlines would cover bars of less than two pixels.
            marker={"color": task_colour(index), "line": {"width": 0}},
            customdata=stop,
            hovertemplate="%{text}: %{base:.6g} to %{customdata:.6g} " + run.family.time_unit,
        )
    if len(shown) < len(inside):
        title += f", the first {len(shown):,} of {len(inside):,} bars"
        last = float(line.slice_start[shown[-1]] / unit)
    figure.update_layout(
        title=escape(title),
        barmode="overlay",
        bargap=0.2,
        xaxis={"title": f"time ({run.family.time_unit})", "range": [begin, last]},
        yaxis={
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [escape(name) for name in line.resources],
            "autorange": "reversed",
        },
        height=FRAME_HEIGHT + ROW_HEIGHT * min(max(len(line.resources), len(present) if named else 0), MOST_ROWS),
        margin=MARGIN,
        showlegend=named,
    )
    return figure


def _words(line: Timeline, piece: int) -> str:
    """Return what the slice `piece` runs: the job, its part if it has any, and the variant."""
    job = int(line.slice_job[piece])
    parts = [line.parts[int(line.slice_part[piece])]] if line.parts else []
    variant = line.variants[int(line.task[job])][int(line.slice_variant[piece])]
    return ", ".join([line.job_name(job), *parts, *([variant] if variant else [])])
