"""The report: one HTML file that opens offline, with all it needs inside."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np

from slipstream.errors import InputError
from slipstream.evaluation import Evaluation
from slipstream.families.shared.charts import Chart, Picture
from slipstream.families.shared.timeline import FATES, Timeline
from slipstream.files.markup import escape
from slipstream.reports.figures import charts, page_figures
from slipstream.reports.runs import Run, labels_of
from slipstream.reports.terminal.tables import decimals, figure, lower_is_better

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""What a browser may load for the page: nothing from outside."""

PER_TASK = {
    "miss_rate": ("Share of each task's jobs that missed their deadline: lower is better", True),
    "effective_accuracy": ("Accuracy each task delivered, where a missed job counts as 0: higher is better", False),
    "on_time_accuracy": ("Accuracy of each task's answers on time, per request offered: higher is better", False),
    "throughput_hz": ("Answers per second of each task: higher is better", False),
}


def page(
    runs: Sequence[Run],
    command: str,
    title: str | None = None,
    opening: str = "",
    marks: Sequence[dict[str, Any]] = (),
    trainings: Mapping[str, Sequence[dict[str, Any]]] | None = None,
    closing: str = "",
) -> str:
    """Return the report of one or more runs as HTML; `command` is the one that makes this page.

    `opening` and `closing`, which are HTML already, stand before and after the figures of the runs. `trainings` are
    histories of trainings by name. `marks` are shown on the Gantt charts: each has a time in the family's unit, a
    label, and a text to read where one points at it.
    """
    if len({run.scenario.family for run in runs}) > 1:
        raise InputError("the runs are of different families: expected runs of one family, which share their metrics")
    labels = labels_of(runs)
    pictures: dict[str, page_figures.Figure] = {}
    sections = [
        _about(runs, labels, command),
        opening,
        _headline(runs, labels),
        _by_policy(runs),
        _gantts(runs, labels),
    ]
    sections += [_queues(runs, labels, pictures), _responses(runs, labels, pictures), _tasks(runs, labels, pictures)]
    sections += [_charts(runs, labels, pictures), _tradeoffs(runs, pictures)]
    sections += [_trainings(trainings or {}, pictures), closing, _all_metrics(runs, labels)]
    unit = runs[0].family.nanoseconds_per_unit
    data = {
        "unit": runs[0].family.time_unit,
        "end": max(run.timeline.end for run in runs) / unit,
        "first": page_figures.first_window(runs),
        "fates": FATES,
        "marks": list(marks),
        "runs": [page_figures.gantt(run) for run in runs],
        "waiting": page_figures.waiting(runs, labels),
        "figures": pictures,
    }
    body = "\n".join(filter(None, sections))
    return document(title or _title(runs, labels), body, data, ("charts.js", "timeview.js", "page.js"))


def document(title: str, body: str, data: dict[str, Any], scripts: Sequence[str]) -> str:
    """Return an HTML page with `title`, `body`, the JSON `data`, plotly.js, and the scripts that draw the data."""
    from plotly.offline import get_plotlyjs

    assets = resources.files("slipstream.reports").joinpath("assets")
    style, *sources = (assets.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", *scripts))
    drawing = "\n".join(f"<script>\n{source}</script>" for source in sources)
    # "<" may not appear as itself: a name such as "</script>" would end the element.
    content = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="Slipstream">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<main>
{body}
</main>
<noscript><p>The tables are complete; the pictures need JavaScript.</p></noscript>
<div id="tip" role="status" hidden></div>
<footer>Made by Slipstream. This file needs no network.</footer>
<script id="data" type="application/json">{content}</script>
<script>{get_plotlyjs()}</script>
{drawing}
</body>
</html>
"""


def _title(runs: Sequence[Run], labels: Sequence[str]) -> str:
    scenarios = list(dict.fromkeys(run.title for run in runs))
    if len(scenarios) > 1:
        return f"{len(runs)} runs of {', '.join(scenarios)}"
    if len(runs) > 3:
        return f"{scenarios[0]}: {len(runs)} runs"
    return f"{scenarios[0]} under {' and '.join(labels)}"


def _about(runs: Sequence[Run], labels: Sequence[str], command: str) -> str:
    descriptions = dict.fromkeys(run.scenario.description for run in runs if run.scenario.description)
    lead = "".join(f'<p class="lead">{escape(text)}</p>' for text in descriptions)
    cards = "\n".join(_card(run, label) for run, label in zip(runs, labels, strict=True))
    return f"""<section aria-labelledby="what">{lead}
<h2 id="what">What was run</h2>
<div class="cards">
{cards}
</div>
<p class="note">This page: <code>{escape(command)}</code></p>
</section>"""


def _card(run: Run, label: str) -> str:
    about, line = run.about, run.timeline
    time = f"{figure(line.end / run.family.nanoseconds_per_unit)} {run.family.time_unit}"
    rows = {
        "command": f"<code>{escape(str(about.get('command', 'not recorded')))}</code>",
        "policy": escape(str(about["policy"])),
        "seed": escape(f"{about['seed']} ({about.get('split', 'unknown')} arrivals)"),
        "work": f"{len(line.task):,} jobs of {len(line.tasks)} tasks in {time}",
        "scenario digest": f"<code>{escape(str(about.get('scenario_digest', 'not recorded')))}</code>",
        "event log digest": f"<code>{run.digest}</code>",
        "version": escape(f"slipstream {about.get('version', 'unknown')}"),
    }
    terms = "".join(f"<dt>{term}</dt><dd>{text}</dd>" for term, text in rows.items())
    return f'<article class="card"><h3>{escape(label)}</h3><dl>{terms}</dl></article>'


# Tables ----------------------------------------------------------------------------------------------------------


def table_of(caption: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return a table; cells are HTML already, names are not."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>\n' for name, cells in rows)
    table = f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="table">{table}</div>'


def cells(texts: Sequence[str], best: Sequence[bool]) -> list[str]:
    """Return the cells of a row; those that are best are bold."""
    return [
        f'<td class="best">{text}</td>' if top else f"<td>{text}</td>" for text, top in zip(texts, best, strict=True)
    ]


def _best(metric: str, values: Sequence[float]) -> list[bool]:
    """Return which `values` are the best, all False for a single one."""
    if len(set(values)) < 2:
        return [False] * len(values)
    top = min(values) if lower_is_better(metric) else max(values)
    return [value == top for value in values]


def _headline(runs: Sequence[Run], labels: Sequence[str]) -> str:
    metrics = runs[0].family.headline
    columns = [[run.metrics[metric] for run in runs] for metric in metrics]
    marks = [_best(metric, values) for metric, values in zip(metrics, columns, strict=True)]
    rows = []
    for index, label in enumerate(labels):
        texts = [figure(values[index]) for values in columns]
        rows.append((label, cells(texts, [mark[index] for mark in marks])))
    caption = "One row per run; the best value of a column is bold." if len(runs) > 1 else "The figures of this run."
    table = table_of(caption, ["run", *(metric.replace("_", " ") for metric in metrics)], rows)
    return f'<section aria-labelledby="result"><h2 id="result">Metrics</h2>{table}</section>'


def _by_policy(runs: Sequence[Run]) -> str:
    """Return means and intervals over seeds, where a policy was run more than once on the same scenario."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in {run.digest: run for run in runs}.values():
        groups[str(run.about.get("scenario_digest")), str(run.about["policy"])].append(run)
    rows = []
    for (_, policy), members in groups.items():
        metrics = members[0].family.headline
        values = {metric: np.array([run.metrics[metric] for run in members]) for metric in metrics}
        if len(members) > 1:
            texts = [_mean(Evaluation(policy, values), metric) for metric in metrics]
            name = f"{members[0].title}, {policy}, {len(members)} seeds"
            rows.append((name, cells(texts, [False] * len(texts))))
    if not rows:
        return ""
    columns = ["policy", *(metric.replace("_", " ") for metric in runs[0].family.headline)]
    table = table_of("Mean over the seeds, ± half the bootstrap 95% interval.", columns, rows)
    return f'<section aria-labelledby="policies"><h2 id="policies">Policies over several seeds</h2>{table}</section>'


def _mean(evaluation: Evaluation, metric: str) -> str:
    mean, (low, high) = evaluation.mean(metric), evaluation.interval(metric)
    return f"{figure(mean)}&nbsp;±&nbsp;{(high - low) / 2:.{decimals(mean)}f}"


def _all_metrics(runs: Sequence[Run], labels: Sequence[str]) -> str:
    metrics = dict.fromkeys(metric for run in runs for metric in run.metrics)
    rows = []
    for metric in metrics:
        texts = [figure(run.metrics[metric]) if metric in run.metrics else "" for run in runs]
        rows.append((metric, cells(texts, [False] * len(texts))))
    table = table_of("A row per metric, a column per run.", ["metric", *labels], rows)
    return f"<details><summary>Every metric</summary>{table}</details>"


# Pictures --------------------------------------------------------------------------------------------------------


def _figure(name: str, caption: str, label: str) -> str:
    heading = f"<h3>{escape(label)}</h3>" if label else ""
    text = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    spoken = escape(f"{label}: {caption}" if label and caption else label or caption)
    return f'<figure>{heading}{text}<div class="plot" id="{name}" role="img" aria-label="{spoken}"></div></figure>'


FATES_KEY = """<li><i style="background:var(--on-time)"></i>finished on time</li>
<li><i style="background:var(--missed)"></i>missed its deadline</li>
<li><i style="background:var(--open)"></i>still running at the end, deadline ahead</li>
<li><i class="sign">▾</i>deadline of a job that ran here, red if missed</li>
<li><i class="sign" style="color:var(--missed)">✕</i>left the queue without running</li>"""
PAUSE_KEY = '\n<li><i class="sign">❙❙</i>interrupted, goes on later: point at it to see all its parts</li>'
OWNERS = ("#4c8dd6", "#e2843b", "#3fa878", "#c65d9b", "#8e7cc3", "#b8a03e", "#41aebb", "#9a8478")
"""Colours of tasks on bars, as in charts.js; they repeat."""
MOST_OWNERS = 16
"""Tasks that the key of a chart names."""


def _how_to_read(line: Timeline) -> str:
    resource = escape(line.resources[0].split()[0])
    if line.by_task:
        return f"Each row is a {resource}; a bar is a job that had it, in the colour of its owner."
    return f"Each row is a {resource}; a bar is one job; red bars missed their deadline."


def _owners(line: Timeline) -> str:
    names = [
        f'<li><i style="background:{OWNERS[place % len(OWNERS)]}"></i>{escape(name)}</li>'
        for place, name in enumerate(line.tasks[:MOST_OWNERS])
    ]
    more = len(line.tasks) - len(names)
    return "\n".join([*names, *([f"<li>and {more} more</li>"] if more else [])])


def _pauses(run: Run) -> bool:
    """Return whether a job of `run` was interrupted; slices that begin together are one job on several resources."""
    line = run.timeline
    last = np.zeros(len(line.task), np.int64)
    np.maximum.at(last, line.slice_job, line.slice_start)
    return bool((last[line.slice_job] >= line.slice_end).any())


def _gantts(runs: Sequence[Run], labels: Sequence[str]) -> str:
    charts = "\n".join(
        _figure(f"gantt-{index}", "", label if len(runs) > 1 else "Streams over time")
        for index, label in enumerate(labels)
    )
    caption = "The line counts the jobs that were released and wait for their start, at the times shown above."
    line = runs[0].timeline
    return f"""<section aria-labelledby="gantt"><h2 id="gantt">Schedule</h2>
<p>{_how_to_read(line)}
Drag a chart sideways or use the slider to move through the run; point at a bar to read about its job.</p>
<ul class="key">
{_owners(line) if line.by_task else FATES_KEY}{PAUSE_KEY if any(map(_pauses, runs)) else ""}
</ul>
<div class="controls"><label for="position">Move</label>
<input id="position" type="range" min="0" max="1000" value="0" step="any">
<button type="button" id="closer">Zoom in</button> <button type="button" id="wider">Zoom out</button>
<button type="button" id="whole">Whole run</button></div>
<p class="note">In sight: <output id="window" for="position"></output><span id="shares" hidden>. Too many jobs to draw
one by one: the height of a colour is the share of the time spent on such jobs; what is empty is idle. The line of
waiting jobs is their mean, with the fewest and the most behind it.</span></p>
{charts}
{_figure("waiting", caption, "Jobs waiting")}
</section>"""


def _queues(runs: Sequence[Run], labels: Sequence[str], pictures: dict[str, page_figures.Figure]) -> str:
    parts = []
    for index, (run, label) in enumerate(zip(runs, labels, strict=True)):
        pictures[f"queues-{index}"] = page_figures.queues(run)
        parts.append(_figure(f"queues-{index}", "", label))
    top = max(max(map(max, pictures[f"queues-{index}"]["data"][0]["z"])) for index in range(len(runs)))
    for index in range(len(runs)):
        pictures[f"queues-{index}"]["data"][0]["zmax"] = max(top, 1)
    return f"""<section aria-labelledby="queues"><h2 id="queues">Queue lengths</h2>
<p>Each row is a task; the stronger the colour, the more of its jobs waited at that time of the run.</p>
<div class="pair">{"".join(parts)}</div></section>"""


def _responses(runs: Sequence[Run], labels: Sequence[str], pictures: dict[str, page_figures.Figure]) -> str:
    parts = []
    for index, (run, label) in enumerate(zip(runs, labels, strict=True)):
        pictures[f"responses-{index}"] = page_figures.responses(run)
        parts.append(_figure(f"responses-{index}", "", label))
    longest = max(
        (max(trace["x"]) for n in range(len(runs)) for trace in pictures[f"responses-{n}"]["data"]), default=1
    )
    for index in range(len(runs)):
        pictures[f"responses-{index}"]["layout"]["xaxis"]["range"] = [0, longest * 1.03]
    diamond = "" if runs[0].timeline.by_task else "The diamond is the task's deadline. "
    return f"""<section aria-labelledby="responses"><h2 id="responses">Response times</h2>
<p>A curve says which share of a task's jobs had finished within a time of their release; further left is faster.
{diamond}A curve that ends below 100% belongs to a task with jobs that never finished.</p>
<div class="pair">{"".join(parts)}</div></section>"""


def _charts(runs: Sequence[Run], labels: Sequence[str], pictures: dict[str, page_figures.Figure]) -> str:
    """Return the sections of the family's own charts; runs share a line chart and have one image each."""
    parts: dict[str, list[str]] = defaultdict(list)
    leads: dict[str, str] = {}
    for place, first in enumerate(runs[0].charts):
        group = [run.charts[place] for run in runs if place < len(run.charts)]
        if isinstance(first, Picture):
            leads[first.section] = escape(first.caption)
            for index, (one, label) in enumerate(zip(group, labels, strict=True)):
                assert isinstance(one, Picture)
                pictures[f"chart-{place}-{index}"] = one.figure
                parts[first.section].append(_figure(f"chart-{place}-{index}", "", label))
        elif len(group) == len(runs):
            lines = [one for one in group if isinstance(one, Chart)]
            scale = [1.0 / run.family.nanoseconds_per_unit if first.over_time else 1.0 for run in runs]
            pictures[f"chart-{place}"] = charts.figure_of(lines, runs, labels, scale)
            parts[first.section].append(_figure(f"chart-{place}", first.caption, first.title))
    return "\n".join(
        _section(f"section-{number}", title, found, leads.get(title, ""))
        for number, (title, found) in enumerate(parts.items())
    )


def _section(name: str, title: str, parts: Sequence[str], lead: str = "") -> str:
    text = f"<p>{lead}</p>" if lead else ""
    return f"""<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2>{text}
<div class="pair">{"".join(parts)}</div></section>"""


def _tradeoffs(runs: Sequence[Run], pictures: dict[str, page_figures.Figure]) -> str:
    """Return scatter plots of the policies over pairs of metrics, if there are several policies."""
    pairs = runs[0].family.tradeoffs
    if not pairs or len(charts.points_of(runs, pairs[0])) < 2:
        return ""
    parts = []
    for number, pair in enumerate(pairs):
        pictures[f"tradeoff-{number}"] = charts.tradeoff(runs, pair)
        parts.append(_figure(f"tradeoff-{number}", "", " and ".join(one.replace("_", " ") for one in pair)))
    lead = "A point is a policy, its mean over the seeds; the dotted line joins the Pareto-optimal ones."
    return _section("tradeoffs", "Trade-offs", parts, lead)


def _trainings(trainings: Mapping[str, Sequence[dict[str, Any]]], pictures: dict[str, page_figures.Figure]) -> str:
    """Return the section of training curves."""
    parts = []
    for number, (name, history) in enumerate(trainings.items()):
        pictures[f"training-{number}"] = charts.training(history)
        parts.append(_figure(f"training-{number}", "", name))
    lead = "Mean reward of held-out episodes while a policy was trained, next to the best heuristic on the same ones."
    return _section("trainings", "Training curves", parts, lead) if parts else ""


def _tasks(runs: Sequence[Run], labels: Sequence[str], pictures: dict[str, page_figures.Figure]) -> str:
    parts = []
    for metric, (caption, percent) in PER_TASK.items():
        if any(f"{metric}/{name}" in run.metrics for run in runs for name in run.timeline.tasks):
            pictures[f"task-{metric}"] = page_figures.per_task(metric, runs, labels, percent)
            parts.append(_figure(f"task-{metric}", f"{caption}.", metric.replace("_", " ").capitalize()))
    if not parts:
        return ""
    return f"""<section aria-labelledby="tasks"><h2 id="tasks">Metrics by task</h2>
<div class="pair">{"".join(parts)}</div></section>"""
