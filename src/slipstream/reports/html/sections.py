"""Sections of a report below the schedule: queues, response times, metrics by task, and a family's own charts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.families.shared.charts import Chart, Picture
from slipstream.files.markup import escape
from slipstream.files.wording import metric_words, plural, with_article
from slipstream.reports.figures import charts, page_figures
from slipstream.reports.figures.page_figures import Figure
from slipstream.reports.html.elements import chart_of, section_of
from slipstream.reports.runs import Run

FEWEST_RESPONSES = 2
"""Finished jobs from which their response times are a distribution."""
PER_TASK = {
    "miss_rate": ("Share of {jobs} that missed their deadline, by {task}: lower is better", True),
    "effective_accuracy": ("Accuracy delivered by {task}, with 0 for a missed {job}: higher is better", False),
    "on_time_accuracy": ("Accuracy of the answers on time, per {job} offered: higher is better", False),
    "throughput_hz": ("Answers per second, by {task}: higher is better", False),
    "e2e_mean_s": ("Mean time from the arrival of a {job} to its last token, in s: lower is better", False),
    "slo_attainment": ("Share of {jobs} that kept the limits of their {task}: higher is better", True),
}


def queues(runs: Sequence[Run], labels: Sequence[str], pictures: dict[str, Figure]) -> str:
    """Return heat maps of the queue lengths by task; nothing where every job stands for itself."""
    nouns = runs[0].timeline.nouns
    if runs[0].timeline.per_job:
        return ""
    parts = []
    for index, (run, label) in enumerate(zip(runs, labels, strict=True)):
        pictures[f"queues-{index}"] = page_figures.queues(run)
        parts.append(chart_of(f"queues-{index}", "", label))
    top = max(max(map(max, pictures[f"queues-{index}"]["data"][0]["z"])) for index in range(len(runs)))
    for index in range(len(runs)):
        pictures[f"queues-{index}"]["data"][0]["zmax"] = max(top, 1)
    jobs = plural(nouns.job)
    lead = f"Each row is {with_article(nouns.task)}; the stronger the colour, the more of its {jobs} were waiting."
    return section_of("queues", "Queue lengths", parts, escape(lead))


def responses(runs: Sequence[Run], labels: Sequence[str], pictures: dict[str, Figure]) -> str:
    """Return the distributions of the times from release to finish; nothing where only single jobs finished."""
    line = runs[0].timeline
    if max(int((run.timeline.finish >= 0).sum()) for run in runs) < FEWEST_RESPONSES:
        return ""
    parts = []
    for index, (run, label) in enumerate(zip(runs, labels, strict=True)):
        pictures[f"responses-{index}"] = page_figures.responses(run)
        parts.append(chart_of(f"responses-{index}", "", label))
    longest = max(
        (max(trace["x"]) for n in range(len(runs)) for trace in pictures[f"responses-{n}"]["data"]), default=1
    )
    for index in range(len(runs)):
        pictures[f"responses-{index}"]["layout"]["xaxis"]["range"] = [0, longest * 1.03]
    jobs = plural(line.nouns.job)
    lead = f"A curve gives the share of {jobs} that finished within a time of their arrival; further left is faster. "
    if any(run.timeline.has_deadlines for run in runs):
        lead += f"The diamond marks the deadline of {with_article(line.nouns.task)}. "
    lead += f"A curve that ends below 100% includes {jobs} that never finished."
    return section_of("responses", "Response times", parts, escape(lead))


def family_charts(runs: Sequence[Run], labels: Sequence[str], pictures: dict[str, Figure]) -> str:
    """Return the sections of the family's own charts; runs share a line chart and have one image each."""
    parts: dict[str, list[str]] = defaultdict(list)
    leads: dict[str, str] = {}
    for place, first in enumerate(runs[0].charts):
        group = [run.charts[place] for run in runs if place < len(run.charts)]
        if isinstance(first, Picture):
            leads[first.section] = escape(first.caption)
            for index, (one, label) in enumerate(zip(group, labels, strict=True)):
                assert isinstance(one, Picture)
                layout = {**one.figure["layout"], **({"meta": page_figures.OVER_TIME} if one.over_time else {})}
                pictures[f"chart-{place}-{index}"] = {**one.figure, "layout": layout}
                parts[first.section].append(chart_of(f"chart-{place}-{index}", "", label))
            _share_scale([pictures[f"chart-{place}-{index}"] for index in range(len(group))])
        elif len(group) == len(runs):
            lines = [one for one in group if isinstance(one, Chart)]
            scale = [1.0 / run.family.nanoseconds_per_unit if first.over_time else 1.0 for run in runs]
            pictures[f"chart-{place}"] = charts.figure_of(lines, runs, labels, scale)
            parts[first.section].append(chart_of(f"chart-{place}", first.caption, first.title))
    return "\n".join(
        section_of(f"section-{number}", title, found, leads.get(title, ""))
        for number, (title, found) in enumerate(parts.items())
    )


def _share_scale(figures: Sequence[Figure]) -> None:
    """Give the heat maps of several runs one colour scale, so that equal colours are equal values."""
    maps = [trace for figure in figures for trace in figure["data"] if "zmax" in trace]
    top = max((trace["zmax"] for trace in maps), default=0)
    for trace in maps:
        trace["zmax"] = top


def tradeoffs(runs: Sequence[Run], pictures: dict[str, Figure]) -> str:
    """Return scatter plots of the policies over pairs of metrics, if there are several policies."""
    pairs = runs[0].family.tradeoffs
    if not pairs or len(charts.points_of(runs, pairs[0])) < 2:
        return ""
    parts = []
    for number, pair in enumerate(pairs):
        pictures[f"tradeoff-{number}"] = charts.tradeoff(runs, pair)
        parts.append(chart_of(f"tradeoff-{number}", "", " and ".join(metric_words(one)[0] for one in pair)))
    lead = "A point is a policy, its mean over the seeds; the dotted line joins the Pareto-optimal ones."
    return section_of("tradeoffs", "Trade-offs", parts, lead)


def trainings(trainings: Mapping[str, Sequence[dict[str, Any]]], pictures: dict[str, Figure]) -> str:
    """Return the section of training curves."""
    parts = []
    for number, (name, history) in enumerate(trainings.items()):
        pictures[f"training-{number}"] = charts.training(history)
        parts.append(chart_of(f"training-{number}", "", name))
    lead = "Mean reward of held-out episodes while a policy was trained, next to the best heuristic on the same ones."
    return section_of("trainings", "Training curves", parts, lead) if parts else ""


def tasks(runs: Sequence[Run], labels: Sequence[str], pictures: dict[str, Figure]) -> str:
    """Return the metrics that are known by task, as bars."""
    nouns, parts = runs[0].timeline.nouns, []
    for metric, (text, percent) in PER_TASK.items():
        if any(run.metrics.get(f"{metric}/{name}", 0.0) for run in runs for name in run.timeline.tasks):
            pictures[f"task-{metric}"] = page_figures.per_task(metric, runs, labels, percent)
            caption = text.format(job=nouns.job, jobs=plural(nouns.job), task=nouns.task)
            name = metric_words(metric)[0]
            parts.append(chart_of(f"task-{metric}", f"{caption}.", name[:1].upper() + name[1:]))
    return section_of("tasks", f"Metrics by {nouns.task}", parts) if parts else ""
