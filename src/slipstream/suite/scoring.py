"""Scores with confidence intervals: 0 is the reward of `random`, 100 the best known reward in hindsight.

Both ends are means over the test episodes of a scenario. A policy's reward is compared with that of `random` in the
same episode, which removes the variance between episodes. Where the bound exceeds the best known reward, its score is
the greatest possible one above 100.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slipstream.evaluation import RESAMPLES
from slipstream.suite.catalogue import FLOOR, Entry

FULL = 100.0


@dataclass(frozen=True)
class Score:
    """A score with its bootstrap 95% interval."""

    mean: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Return the score as JSON-ready data."""
        return asdict(self)


def normalised(entry: Entry, rewards: np.ndarray, floor: np.ndarray | None = None) -> np.ndarray:
    """Return the score of every episode; `floor` are the rewards of `random`, by default of the test episodes."""
    reference = entry.reference
    above: np.ndarray = FULL * (rewards - (reference.floor if floor is None else floor)) / reference.scale
    return above


def score(samples: Sequence[np.ndarray]) -> Score:
    """Return the mean over scenarios of their mean scores, with a bootstrap over the episodes of each scenario."""
    mean = float(np.mean([values.mean() for values in samples]))
    draws = np.random.default_rng(0)
    drawn = np.zeros(RESAMPLES)
    for values in samples:
        picks = draws.integers(len(values), size=(RESAMPLES, len(values)))
        drawn += values[picks].mean(axis=1) / len(samples)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return Score(mean, min(mean, float(low)), max(mean, float(high)))


def ceiling(entries: Sequence[Entry]) -> float:
    """Return the score that no policy can exceed."""
    bounds = [entry.reference.bound for entry in entries]
    return float(np.mean([normalised(entry, bound).mean() for entry, bound in zip(entries, bounds, strict=True)]))


def stored_scores(entries: Sequence[Entry], known: Mapping[str, str]) -> dict[str, Score]:
    """Return the stored scores of a family's policies, best first.

    `known` are the package's trained policies with their hashes; stored scores of other files are left out.
    """
    first = entries[0].reference
    found = {}
    for name in first.rules:
        found[name] = score([normalised(entry, entry.reference.rules[name]) for entry in entries])
    for name, sha256 in known.items():
        stored = [entry.reference.learned.get(name, ("", None)) for entry in entries]
        if all(one[0] == sha256 for one in stored):
            samples = [normalised(e, one[1]) for e, one in zip(entries, stored, strict=True) if one[1] is not None]
            found[name] = score(samples)
    return dict(sorted(found.items(), key=lambda item: -item[1].mean))


def best_rule(entries: Sequence[Entry]) -> str:
    """Return the rule with the highest score over `entries`, `random` excluded."""
    scores = stored_scores(entries, {})
    return next(name for name in scores if name != FLOOR)


def gain(entries: Sequence[Entry], rewards: Mapping[str, np.ndarray], rule: str) -> Score:
    """Return the paired difference between the scores of a policy, by its `rewards` per scenario, and of `rule`."""
    return score([normalised(e, rewards[e.name]) - normalised(e, e.reference.rules[rule]) for e in entries])
