"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from slipstream.evaluation import Comparison, Evaluation

LOWER_IS_BETTER = ("rate", "tardiness", "response", "misses", "decision_time", "latency_increase", "antt")


def _lower_is_better(metric: str) -> bool:
    return any(word in metric for word in LOWER_IS_BETTER)


def figure(value: float) -> str:
    """Return a number with about four significant digits."""
    if value != 0 and abs(value) < 0.1:
        return f"{value:.4f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def comparison_table(comparison: Comparison, metrics: Sequence[str]) -> Table:
    """Return a row per policy, best reward first: mean and half width of the 95% interval; the best mean is bold."""
    title = f"{comparison.scenario}: {comparison.episodes} episodes from seed {comparison.seed}, mean ± 95% interval"
    table = Table(title=title, title_justify="left")
    table.add_column("policy")
    ranked = sorted(comparison.evaluations, key=lambda evaluation: -evaluation.mean(metrics[0]))
    best = {}
    for metric in metrics:
        table.add_column(metric, justify="right")
        means = [evaluation.mean(metric) for evaluation in ranked]
        best[metric] = min(means) if _lower_is_better(metric) else max(means)
    for evaluation in ranked:
        table.add_row(evaluation.policy, *(_cell(evaluation, metric, best[metric]) for metric in metrics))
    return table


def _cell(evaluation: Evaluation, metric: str, best: float) -> str:
    mean = evaluation.mean(metric)
    low, high = evaluation.interval(metric)
    text = f"{figure(mean)} ± {figure((high - low) / 2)}"
    return f"[bold]{text}[/bold]" if mean == best else text


def metrics_table(title: str, figures: dict[str, float]) -> Table:
    """Return a row per metric."""
    table = Table("metric", title=title, title_justify="left")
    table.add_column("value", justify="right")
    for metric, value in figures.items():
        table.add_row(metric, figure(value))
    return table
