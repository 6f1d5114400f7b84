"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.text import Text

from slipstream.evaluation import Comparison, Evaluation
from slipstream.files.wording import metric_title
from slipstream.policies.auto import NAME as AUTO
from slipstream.reports.terminal.plain_table import PlainTable, bold

LOWER_IS_BETTER = (
    "rate",
    "tardiness",
    "response",
    "misses",
    "decision_time",
    "latency_increase",
    "antt",
    "ttft",
    "tpot",
    "itl_",
    "e2e",
    "s_per_token",
    "preemptions",
    "moves",
    "jct",
    "makespan",
    "moving",
    "job_seconds",
    "jobs_in_system",
    "slowdown",
    "wait",
    "fragmentation",
    "rho_",
    "unfair",
    "interruptions",
    "energy",
    "cost",
    "co2",
    "power_",
    "violation",
    "late_ratio",
    "drop",
    "reject",
    "open_requests",
    "switches",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "ratio_to_bound",
    "job_ms",
    "moved_mb",
    "sent_back_mb",
    "transfers",
    "evictions",
    "stall",
    "idle",
    "restarts",
    "setup_share",
    "failures",
)

NEUTRAL = (
    *("utilisation", "busy_share", "idle_share", "kv_use", "mean_batch", "batch_mean", "jobs_per_run"),
    *("released", "judged", "requests", "jobs", "jobs_arrived", "tasks", "steps", "bound_ms"),
)
"""Metrics that are neither good nor bad: a policy that wastes time on late jobs, or on the slower processors, keeps the
resources as busy, and how much work there is is no merit."""


def is_neutral(metric: str) -> bool:
    """Return whether neither more nor less of the metric is better, so that no value of it is marked."""
    return metric.partition("/")[0] in NEUTRAL


def lower_is_better(metric: str) -> bool:
    """Return whether less of the metric is better."""
    return any(word in metric for word in LOWER_IS_BETTER)


def direction_of(metric: str) -> dict[str, Any]:
    """Return the metric's name and what is better of it, as the dashboard reads it."""
    return {"name": metric, "lower": lower_is_better(metric), "neutral": is_neutral(metric)}


def decimals(value: float) -> int:
    """Return after how many decimals a value is cut."""
    return 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0


def figure(value: float) -> str:
    """Return a number with about four significant digits; without a minus sign if it is rounded to zero."""
    text = f"{value:,.{decimals(value)}f}"
    return text if any(digit in text for digit in "123456789") else text.removeprefix("-")


def count(value: float) -> str:
    """Return a whole number."""
    return f"{round(value):,}"


def metric_figure(metric: str, value: float, counts: Collection[str]) -> str:
    """Return the value of a metric: of `counts` without decimals, unless it is the mean of several."""
    return count(value) if metric in counts and value == round(value) else figure(value)


def figure_table(
    title: str | None, left: Sequence[str], right: Sequence[str], ranks: Mapping[str, int] | None = None
) -> PlainTable:
    """Return an empty table; columns on the left hold texts, those on the right figures.

    `ranks` says in which order columns are hidden in a narrow terminal, the highest first; others stay.
    """
    table = PlainTable(title=title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for name in left:
        table.add_column(name, rank=(ranks or {}).get(name, 0))
    for name in right:
        table.add_column(name, justify="right", rank=(ranks or {}).get(name, 0))
    return table


def comparison_table(
    comparison: Comparison, metrics: Sequence[str], counts: Collection[str] = (), hint: str = "use --metrics"
) -> PlainTable:
    """Return a row per policy: its kind, means and half widths of their 95% intervals; the best mean is bold.

    The best come first, but `auto`, which has chosen among the others, before all. One episode has no interval, and its
    `counts` are whole numbers.
    """
    one = comparison.episodes == 1
    what = (
        f"1 episode, seed {comparison.seed}"
        if one
        else (f"{comparison.episodes} episodes from seed {comparison.seed}, mean ± 95% interval")
    )
    table = PlainTable(
        title=f"{comparison.scenario}: {what}", hint=hint, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0
    )
    table.add_column("policy")
    table.add_column("kind", rank=len(metrics))
    sign = 1 if lower_is_better(metrics[0]) else -1
    ranked = sorted(comparison.evaluations, key=lambda one: (one.policy != AUTO, sign * one.mean(metrics[0])))
    best = {}
    for rank, metric in enumerate(metrics):
        table.add_column(metric_title(metric), justify="right", rank=rank)
        means = [evaluation.mean(metric) for evaluation in ranked]
        best[metric] = min(means) if lower_is_better(metric) else max(means)
    if comparison.optimum_bounds:
        table.add_column("of bound", justify="right")
    for evaluation in ranked:
        cells = [_cell(evaluation, metric, best[metric], one, metric in counts) for metric in metrics]
        if comparison.optimum_bounds:
            cells.append(Text(f"{comparison.share_of_bound(evaluation.policy):.1%}"))
        table.add_row(evaluation.policy, evaluation.kind, *cells)
    return table


def _cell(evaluation: Evaluation, metric: str, best: float, one_episode: bool, is_count: bool) -> Text:
    mean = evaluation.mean(metric)
    if one_episode:
        text = count(mean) if is_count else figure(mean)
    else:
        low, high = evaluation.interval(metric)
        text = f"{figure(mean)}±{(high - low) / 2:,.{decimals(mean)}f}"
    return bold(text) if mean == best and not is_neutral(metric) else Text(text)


def metrics_table(title: str, figures: Mapping[str, float], counts: Collection[str] = ()) -> PlainTable:
    """Return a row per metric; those of `counts` are whole numbers."""
    table = figure_table(title, ("metric",), ("value",))
    for metric, value in figures.items():
        table.add_row(metric, count(value) if metric in counts else figure(value))
    return table
