"""The section of a report with the Gantt charts: what the bars mean, and the controls of the shared time axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slipstream.families.shared.timeline import Timeline
from slipstream.files.markup import escape
from slipstream.files.wording import plural, with_article
from slipstream.render.style import task_colour
from slipstream.reports.figures.page_figures import never_ran
from slipstream.reports.html.elements import chart_of
from slipstream.reports.runs import Run

MOST_GROUPS = 16
"""Colours that the legend of a chart names."""

CONTROLS = """<div class="controls"><label for="position">Move</label>
<input id="position" type="range" min="0" max="1000" value="0" step="any">
<button type="button" id="closer">Zoom in</button> <button type="button" id="wider">Zoom out</button>
<button type="button" id="whole">Whole run</button></div>"""


def schedule(runs: Sequence[Run], labels: Sequence[str]) -> str:
    """Return the section of the Gantt charts of `runs` and of the waiting jobs."""
    line = runs[0].timeline
    jobs, rows = plural(line.nouns.job), plural(line.nouns.resource) + (" and links" if line.links else "")
    title = f"{rows[0].upper()}{rows[1:]} over time"
    charts = "\n".join(
        chart_of(f"gantt-{index}", "", label if len(runs) > 1 else title) for index, label in enumerate(labels)
    )
    waiting = mean = ""
    if any(len(run.timeline.task) > 1 for run in runs):
        caption = f"{jobs.capitalize()} that have arrived and wait to start, at the times shown above."
        waiting = chart_of("waiting", caption, f"{jobs.capitalize()} waiting")
        mean = f" The line of waiting {jobs} is their mean, with the range behind it."
    return f"""<section aria-labelledby="gantt"><h2 id="gantt">Schedule</h2>
<p>{_how_to_read(line)} Drag a chart or use the slider to move through the run, turn the mouse wheel to zoom, and point
at a bar for its details. All charts over time move together.</p>
<ul class="key">
{_key(runs)}
</ul>
{CONTROLS}
{_search(runs)}
<p class="note">Showing <output id="window" for="position"></output><span id="shares" hidden>. Too many bars to draw
one by one: {_shares_text(line)} Zoom in to see single bars.{mean}</span></p>
{charts}
{waiting}
</section>"""


def _how_to_read(line: Timeline) -> str:
    nouns = line.nouns
    row = with_article(nouns.resource) + (" or a link" if line.links else "")
    colour = nouns.task if line.groups == line.tasks else "kernel"
    return f"Each row is {escape(row)}; each bar is {escape(with_article(nouns.bar))}, coloured by {escape(colour)}."


def _shares_text(line: Timeline) -> str:
    if line.has_deadlines:
        missed = f"{plural(line.nouns.job)} that missed their deadline"
        return (
            f"the height of the red part is the share of time spent on {missed}, blue on all others; the rest is idle."
        )
    return "the height of the colour is the share of time in use; the rest is idle."


def _key(runs: Sequence[Run]) -> str:
    line = runs[0].timeline
    groups = line.groups
    items = [
        f'<i style="background:{task_colour(place)}"></i>{escape(name)}'
        for place, name in enumerate(groups[:MOST_GROUPS])
    ]
    if len(groups) > MOST_GROUPS:
        items.append(f"and {len(groups) - MOST_GROUPS:,} more; colours repeat")
    if any(run.timeline.has_deadlines for run in runs):
        items.append('<i class="missed"></i>missed its deadline: hatched, with a red outline')
        items.append(f'<i class="sign">▾</i>deadline of {escape(with_article(line.nouns.job))}, red if missed')
    if any(len(never_ran(run.timeline)) for run in runs):
        items.append('<i class="sign lost">✕</i>left the queue without running')
    if any(map(_pauses, runs)):
        items.append('<i class="sign">❙❙</i>interrupted and resumed later: point at it to see all its parts')
    return "\n".join(f"<li>{item}</li>" for item in items)


def _pauses(run: Run) -> bool:
    """Return whether a job of `run` was interrupted; slices that begin together are one job on several resources."""
    line = run.timeline
    if line.parts and line.per_job:
        return False  # the parts of a graph follow one another without an interruption
    last = np.zeros(len(line.task), np.int64)
    np.maximum.at(last, line.slice_job, line.slice_start)
    return bool((last[line.slice_job] >= line.slice_end).any())


def _search(runs: Sequence[Run]) -> str:
    line = runs[0].timeline
    example = line.job_name(0) if len(line.task) else line.nouns.job
    wanted = line.nouns.job
    if line.parts and line.per_job:
        wanted = f"{wanted} or {line.nouns.part}"
        example = line.parts[0] if len(line.task) == 1 else example
    miss = '\n<button type="button" id="next-miss">Next miss</button>'
    return f"""<div class="controls"><label for="search">Find {escape(with_article(wanted))}</label>
<input id="search" type="search" placeholder="{escape(example)}" autocomplete="off">
<button type="button" id="find">Find next</button>{miss if any(r.timeline.has_deadlines for r in runs) else ""}
<output id="found" for="search"></output></div>"""
