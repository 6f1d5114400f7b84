"""Comparisons of policies as HTML: the verdict, the table with intervals, and a figure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slipstream.display import html_table, number, with_interval
from slipstream.errors import printable
from slipstream.files.markup import escape
from slipstream.files.wording import counted, metric_title
from slipstream.reports.figures.page_figures import Figure, axis
from slipstream.reports.html.page import document
from slipstream.results import Comparison


def comparisons_page(comparisons: Sequence[Comparison], command: str) -> str:
    """Return a page of comparisons; `command` is the one that makes it."""
    figures: dict[str, Figure] = {}
    parts = []
    for index, one in enumerate(comparisons):
        name = f"rewards-{index}" if _has_rewards(one) else ""
        if name:
            figures[name] = _rewards(one)
        parts.append(_section(one, index, name))
    names = dict.fromkeys(printable(one.title or one.scenario) for one in comparisons)
    body = "\n".join([*parts, f'<p class="note">This page: <code>{escape(command)}</code></p>'])
    return document(f"{', '.join(names)}: policies compared", body, {"figures": figures}, ("sweep.js",))


def comparison_sections(comparisons: Sequence[Comparison]) -> str:
    """Return the verdicts and tables of comparisons, to stand in a page of runs."""
    return "\n".join(_section(one, index) for index, one in enumerate(comparisons))


def verdict(comparison: Comparison) -> str:
    """Return who has the highest mean reward, by how much, and how sure that is, in one sentence."""
    best, *others = comparison.ranked()
    first = f"{best.policy} has the highest mean reward, {number(best.mean('reward'))}"
    if not others:
        return f"{best.policy} has a mean reward of {number(best.mean('reward'))}."
    second = others[0].policy
    mean, low, high = comparison.difference(best.policy, second, "reward")
    if comparison.episodes < 2:
        return f"{first}, {number(mean)} above {second}, in one episode."
    ahead = f"{first}, {number(mean)} above {second} (95% interval {number(low)} to {number(high)}"
    return f"{ahead}, over {comparison.episodes:,} paired episodes){'' if low > 0 else ': not a clear lead'}."


def _has_rewards(comparison: Comparison) -> bool:
    """Return whether every policy has a reward in every episode: a discounted one is not computed from the log."""
    return all("reward" in one.values and np.isfinite(one.of("reward")).all() for one in comparison.evaluations)


def _section(comparison: Comparison, index: int, figure: str = "") -> str:
    """Return verdict and table of a comparison, with a place for its figure if that has a name."""
    metrics = comparison.shown_metrics()
    rows = []
    for one in comparison.ranked():
        texts = [with_interval(one.mean(metric), *one.interval(metric), comparison.episodes) for metric in metrics]
        bound = [f"{comparison.share_of_bound(one.policy):.1%}"] if comparison.optimum_bounds else []
        rows.append([one.policy, one.kind, *texts, *bound])
    columns = ["policy", "kind", *(metric_title(metric) for metric in metrics)]
    columns += ["of bound"] if comparison.optimum_bounds else []
    interval = "Mean ± half the bootstrap 95% interval" if comparison.episodes > 1 else "One episode each"
    table = html_table(f"{interval}, highest reward first.", columns, rows)
    title = escape(comparison.title or comparison.scenario)
    episodes = counted(comparison.episodes, "simulated episode")
    plot = (
        f'<figure><div class="plot" id="{figure}" role="img" aria-label="mean rewards"></div></figure>'
        if figure
        else ""
    )
    return f"""<section aria-labelledby="comparison-{index}">
<h2 id="comparison-{index}">{title}: policies over {episodes} from seed {comparison.seed}</h2>
{f'<p class="lead">{escape(verdict(comparison))}</p>' if _has_rewards(comparison) else ""}
{plot}<div class="scroll" tabindex="0" role="region" aria-label="table">{table}</div></section>"""


def _rewards(comparison: Comparison) -> Figure:
    """Return a dot with its interval for every policy, the highest mean reward on top."""
    ranked = comparison.ranked()
    names = [escape(one.policy) for one in ranked]
    means = [one.mean("reward") for one in ranked]
    intervals = [one.interval("reward") for one in ranked]
    bars = {
        "type": "data",
        "symmetric": False,
        "array": [high - mean for mean, (_, high) in zip(means, intervals, strict=True)],
        "arrayminus": [mean - low for mean, (low, _) in zip(means, intervals, strict=True)],
    }
    dots = {"type": "scatter", "mode": "markers", "x": means, "y": names, "error_x": bars, "meta": {"role": "mean"}}
    layout = {
        "xaxis": axis("mean reward"),
        "yaxis": {"type": "category", "categoryorder": "array", "categoryarray": names[::-1], "fixedrange": True},
    }
    return {"data": [{**dots, "marker": {"size": 8}}], "layout": {**layout, "height": 90 + 24 * len(names)}}
