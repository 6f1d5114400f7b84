"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType

from slipstream.evaluation import Comparison, Evaluation
from slipstream.reports.terminal.plain_table import PlainTable, bold

LOWER_IS_BETTER = (
    "rate",
    "tardiness",
    "response",
    "misses",
    "decision_time",
    "latency_increase",
    "antt",
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
    "power_peak",
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
    "failures",
)


def lower_is_better(metric: str) -> bool:
    """Return whether less of the metric is better."""
    return any(word in metric for word in LOWER_IS_BETTER)


def decimals(value: float) -> int:
    """Return after how many decimals a value is cut."""
    return 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0


def figure(value: float) -> str:
    """Return a number with about four significant digits."""
    return f"{value:,.{decimals(value)}f}"


def figure_table(title: str | None, left: Sequence[str], right: Sequence[str]) -> PlainTable:
    """Return an empty table; columns on the left hold texts, those on the right figures."""
    table = PlainTable(title=title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def comparison_table(comparison: Comparison, metrics: Sequence[str]) -> PlainTable:
    """Return a row per policy, best first: mean and half width of the 95% interval; the best mean is bold."""
    plural = "episode" if comparison.episodes == 1 else "episodes"
    title = f"{comparison.scenario}: {comparison.episodes} {plural} from seed {comparison.seed}, mean ± 95% interval"
    table = PlainTable(title=title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    table.add_column("policy", no_wrap=True)
    sign = 1 if lower_is_better(metrics[0]) else -1
    ranked = sorted(comparison.evaluations, key=lambda evaluation: sign * evaluation.mean(metrics[0]))
    best = {}
    for metric in metrics:
        table.add_column(metric.replace("_", " "), justify="right")
        means = [evaluation.mean(metric) for evaluation in ranked]
        best[metric] = min(means) if lower_is_better(metric) else max(means)
    if comparison.optimum_bounds:
        table.add_column("of bound", justify="right")
    for evaluation in ranked:
        cells = [_cell(evaluation, metric, best[metric]) for metric in metrics]
        if comparison.optimum_bounds:
            cells.append(f"{comparison.share_of_bound(evaluation.policy):.1%}")
        table.add_row(evaluation.policy, *cells)
    return table


def _cell(evaluation: Evaluation, metric: str, best: float) -> RenderableType:
    mean = evaluation.mean(metric)
    low, high = evaluation.interval(metric)
    text = f"{figure(mean)}±{(high - low) / 2:.{decimals(mean)}f}"
    return bold(text) if mean == best else text


def metrics_table(title: str, figures: dict[str, float]) -> PlainTable:
    """Return a row per metric."""
    table = PlainTable("metric", title=title)
    table.add_column("value", justify="right")
    for metric, value in figures.items():
        table.add_row(metric, figure(value))
    return table
