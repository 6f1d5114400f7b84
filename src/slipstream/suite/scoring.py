"""Scores: 0 is what `random` reaches, 100 the best that is known in hindsight; and how sure they are.

Both ends are means over the test episodes of a scenario. A policy's reward is compared with that of `random` in the
same episode, so that what differs between episodes drops out. Where the bound lies above the best known, its score says
how much above 100 anybody could still come.
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
    """Return the score of every episode; `floor` is what `random` reached there, if not in the test episodes."""
    reference = entry.reference
    above: np.ndarray = FULL * (rewards - (reference.floor if floor is None else floor)) / reference.scale
    return above


def score(samples: Sequence[np.ndarray]) -> Score:
    """Return the mean over scenarios of their mean scores; episodes are drawn again within each scenario."""
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
    """Return the scores of a family's policies as they are stored, best first.

    `known` are the trained policies that come with this version, with their hashes: others' scores have no value here.
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
    """Return the rule with the highest score in a family."""
    scores = stored_scores(entries, {})
    return next(name for name in scores if name != FLOOR)


def gain(entries: Sequence[Entry], rewards: Mapping[str, np.ndarray], rule: str) -> Score:
    """Return how much a policy's score exceeds that of a rule, episode by episode; rewards by scenario."""
    return score([normalised(e, rewards[e.name]) - normalised(e, e.reference.rules[rule]) for e in entries])
