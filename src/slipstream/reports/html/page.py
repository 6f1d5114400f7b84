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
from slipstream.files.markup import escape
from slipstream.files.wording import metric_title
from slipstream.reports.figures import page_figures
from slipstream.reports.html import sections
from slipstream.reports.html.about import lead_of, provenance
from slipstream.reports.html.elements import cells, table_of
from slipstream.reports.html.schedule import schedule
from slipstream.reports.html.verdict import summary
from slipstream.reports.runs import Run, labels_of
from slipstream.reports.terminal.tables import decimals, figure, is_neutral, lower_is_better, metric_figure

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""What a browser may load for the page: nothing from outside."""

SCRIPTS = ("charts.js", "timeview.js", "finder.js", "saving.js", "page.js")


def page(
    runs: Sequence[Run],
    command: str,
    title: str | None = None,
    opening: str = "",
    marks: Sequence[dict[str, Any]] = (),
    trainings: Mapping[str, Sequence[dict[str, Any]]] | None = None,
    closing: str = "",
    with_summary: bool = True,
) -> str:
    """Return the report of one or more runs as HTML; `command` is the one that makes this page.

    `opening` and `closing`, which are HTML already, stand before and after the figures of the runs. `trainings` are
    histories of trainings by name. `marks` are shown on the Gantt charts: each has a time in the family's unit, a
    label, and a text to read where one points at it. Without `with_summary` the opening states the result.
    """
    if len({run.scenario.family for run in runs}) > 1:
        raise InputError("the runs are of different families: expected runs of one family, which share their metrics")
    labels = labels_of(runs)
    pictures: dict[str, page_figures.Figure] = {}
    parts = [
        lead_of(runs),
        summary(runs) if with_summary else "",
        provenance(runs, labels, command),
        opening,
        _by_policy(runs),
        _headline(runs, labels) if len(runs) > 1 or not with_summary else "",
        schedule(runs, labels),
        sections.queues(runs, labels, pictures),
        sections.responses(runs, labels, pictures),
        sections.tasks(runs, labels, pictures),
        sections.family_charts(runs, labels, pictures),
        sections.tradeoffs(runs, pictures),
        sections.trainings(trainings or {}, pictures),
        closing,
        _all_metrics(runs, labels),
    ]
    unit = runs[0].family.nanoseconds_per_unit
    data = {
        "unit": runs[0].family.time_unit,
        "end": max(run.timeline.end for run in runs) / unit,
        "first": page_figures.first_window(runs),
        "marks": list(marks),
        "runs": [{"label": label, **page_figures.gantt(run)} for run, label in zip(runs, labels, strict=True)],
        "waiting": page_figures.waiting(runs, labels),
        "figures": pictures,
    }
    body = "\n".join(filter(None, parts))
    return document(title or _title(runs, labels), body, data, SCRIPTS)


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
<noscript><p>The tables are complete; the charts need JavaScript.</p></noscript>
<div id="tip" role="status" hidden></div>
<footer>Made by Slipstream. This file works offline.</footer>
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


# Tables of metrics


def _best(metric: str, values: Sequence[float]) -> list[bool]:
    """Return which `values` are the best, all False for a single one and for a metric without a direction."""
    if len(set(values)) < 2 or is_neutral(metric):
        return [False] * len(values)
    top = min(values) if lower_is_better(metric) else max(values)
    return [value == top for value in values]


def _headline(runs: Sequence[Run], labels: Sequence[str]) -> str:
    family = runs[0].family
    metrics = family.headline
    columns = [[run.metrics[metric] for run in runs] for metric in metrics]
    marks = [_best(metric, values) for metric, values in zip(metrics, columns, strict=True)]
    rows = []
    for index, label in enumerate(labels):
        values = [column[index] for column in columns]
        texts = [metric_figure(*pair, family.counts) for pair in zip(metrics, values, strict=True)]
        rows.append((label, cells(texts, [mark[index] for mark in marks])))
    caption = "One row per run; the best value of a column is bold."
    table = table_of(caption, ["run", *map(metric_title, metrics)], rows)
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
    columns = ["policy", *map(metric_title, runs[0].family.headline)]
    table = table_of("Mean over the seeds, ± half the bootstrap 95% interval.", columns, rows)
    return f'<section aria-labelledby="policies"><h2 id="policies">Policies over several seeds</h2>{table}</section>'


def _mean(evaluation: Evaluation, metric: str) -> str:
    mean, (low, high) = evaluation.mean(metric), evaluation.interval(metric)
    return f"{figure(mean)}&nbsp;±&nbsp;{(high - low) / 2:.{decimals(mean)}f}"


def _all_metrics(runs: Sequence[Run], labels: Sequence[str]) -> str:
    metrics = dict.fromkeys(metric for run in runs for metric in run.metrics)
    rows = []
    for metric in metrics:
        texts = [
            metric_figure(metric, run.metrics[metric], run.family.counts) if metric in run.metrics else ""
            for run in runs
        ]
        rows.append((metric, cells(texts, [False] * len(texts))))
    table = table_of("A row per metric, a column per run.", ["metric", *labels], rows)
    return f"<details><summary>Every metric</summary>{table}</details>"
