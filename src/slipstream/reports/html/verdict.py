"""The top of a report: which policy is best, by how much and how sure that is; of a single policy, its figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from slipstream.evaluation import bootstrap_interval
from slipstream.files.markup import escape
from slipstream.files.wording import counted, metric_words, plural
from slipstream.reports.runs import Run
from slipstream.reports.terminal.tables import lower_is_better, metric_figure

Episodes = Mapping[tuple[int, str], Run]
"""Runs of one policy by seed and split."""


def summary(runs: Sequence[Run]) -> str:
    """Return the section that states the result of `runs`."""
    groups: dict[str, dict[str, dict[tuple[int, str], Run]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        key = str(run.about.get("scenario_digest") or run.title)
        policy = f"{run.about['policy']} (real run)" if run.real else str(run.about["policy"])
        groups[key][policy][run.episode] = run
    parts = [
        _comparison(policies) if len(policies) > 1 else _alone(*next(iter(policies.items())))
        for policies in groups.values()
    ]
    return f'<section aria-labelledby="verdict"><h2 id="verdict">Result</h2>{"".join(parts)}</section>'


def _value(metric: str, value: float, counts: Collection[str] = ()) -> str:
    """Return a value with its unit; one of `counts` has no decimals."""
    unit = metric_words(metric)[1]
    return metric_figure(metric, value, counts) + (unit if unit == "/s" else f" {unit}" if unit else "")


# One policy


def _alone(policy: str, episodes: Episodes) -> str:
    runs = list(episodes.values())
    first, line = runs[0], runs[0].timeline
    jobs, finished = (sum(count) for count in zip(*map(_counts, runs), strict=True))
    where = counted(len(line.resources) - line.links, line.nouns.resource)
    over = "" if len(runs) == 1 else f" over {counted(len(runs), 'seed')}"
    text = f"<strong>{escape(policy)}</strong> on {escape(first.title)}{over}, with {where}: "
    if line.has_deadlines:
        missed = sum(int(run.timeline.missed.sum()) for run in runs)
        text += f"{counted(jobs, line.nouns.job)} released, {_share(missed, jobs)} missed their deadline."
    elif finished == jobs:
        every = "both" if jobs == 2 else f"all {jobs:,}"
        text += f"{every} {plural(line.nouns.job)} finished." if jobs > 1 else f"its only {line.nouns.job} finished."
    else:
        text += f"{finished:,} of {counted(jobs, line.nouns.job)} finished before the end."
    tiles = []
    for metric in first.family.headline:
        mean = float(np.mean([run.metrics[metric] for run in runs]))
        tiles.append(
            f"<div><dt>{escape(metric_words(metric)[0])}</dt><dd>{_value(metric, mean, first.family.counts)}</dd></div>"
        )
    return f'<p class="verdict">{text}</p><dl class="tiles">{"".join(tiles)}</dl>'


def _counts(run: Run) -> tuple[int, int]:
    return len(run.timeline.task), int((run.timeline.finish >= 0).sum())


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({part / max(whole, 1):.1%})" if part else "none"


# Several policies


def _comparison(policies: Mapping[str, Episodes]) -> str:
    """Return the sentences that compare policies on one scenario, by its family's most important metric."""
    first = next(iter(next(iter(policies.values())).values()))
    metric = first.family.headline[0]
    name = metric_words(metric)[0]
    common = [key for key in next(iter(policies.values())) if all(key in runs for runs in policies.values())]
    if not common:
        return (
            f'<p class="verdict">The runs of {escape(first.title)} have no seed in common, so they faced different '
            f"arrivals: run the policies with the same seeds to compare them.</p>"
        )
    values = {
        policy: np.array([runs[key].metrics[metric] for key in common]) * _sign(metric)
        for policy, runs in policies.items()
    }
    best, second = sorted(values, key=lambda policy: float(values[policy].mean()))[:2]
    gap = values[second] - values[best]
    mean, other = (_sign(metric) * float(values[policy].mean()) for policy in (best, second))
    if not gap.any():
        text = (
            f"<strong>{escape(best)}</strong> and <strong>{escape(second)}</strong> are level on "
            f"{escape(first.title)}: {escape(name)} {_value(metric, mean)}."
        )
        return f'<p class="verdict">{text}</p>'
    share = abs(float(gap.mean()) / other) if other else 1.0
    relative = f" ({share:.1%})" if share < 1.0 else ""
    text = (
        f"<strong>{escape(best)}</strong> is best on {escape(first.title)}: {escape(name)} "
        f"{_value(metric, mean)}, {_value(metric, abs(float(gap.mean())))}{relative} "
        f"{'below' if lower_is_better(metric) else 'above'} {escape(second)}."
    )
    return f'<p class="verdict">{text} {_certainty(metric, gap)}</p>'


def _sign(metric: str) -> float:
    """Return the factor that makes less of `metric` better."""
    return 1.0 if lower_is_better(metric) else -1.0


def _certainty(metric: str, gap: np.ndarray) -> str:
    """Return how sure the paired differences `gap`, one per seed and positive where the best is ahead, make it."""
    if len(gap) == 1:
        return "This is one episode, so the difference may be chance; <code>slipstream compare</code> plays many."
    low, high = bootstrap_interval(gap)
    ahead = f"ahead on {int((gap > 0).sum())} of {counted(len(gap), 'seed')}"
    interval = f"95% interval of the paired difference: {_value(metric, low)} to {_value(metric, high)}"
    verdict = "The difference is statistically clear" if low > 0 else "The difference is not statistically clear"
    return f"{verdict} ({ahead}; {interval})."
