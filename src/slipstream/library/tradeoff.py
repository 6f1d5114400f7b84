"""Trade-off between the number of models and regret: fewer models must be more general and have more regret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from slipstream.errors import LibraryError
from slipstream.library.choosing import models_in_use
from slipstream.library.judging import Episodes, Judge
from slipstream.policies.base import names

MOST_SUBSETS = 20_000
"""Greatest number of subsets that are enumerated; beyond it, models are added greedily."""
TOLERANCE = 0.05


@dataclass(frozen=True)
class Point:
    """The best subset of `count` models, each workload served by the best of them."""

    count: int
    models: tuple[str, ...]
    mean: float
    worst: float
    held_out_mean: float | None
    """Mean over held-out workloads."""
    held_out_worst: float | None


@dataclass(frozen=True)
class Curve:
    """Regret over the number of models, of one family."""

    family: str
    points: tuple[Point, ...]
    enough: int
    """The smallest number of models whose mean regret is within the tolerance of that of all models."""
    heuristic: str
    """The rule with the least mean regret."""
    heuristic_mean: float
    scenarios: tuple[str, ...]
    held_out: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as JSON-ready data."""
        return asdict(self)


def tradeoff(judge: Judge, family: str, episodes: Episodes, tolerance: float = TOLERANCE) -> Curve:
    """Return the curve of all models in use of `family`."""
    used = models_in_use(judge, family)
    owned, held_out = (
        list(dict.fromkeys(one for name in used for one in judge.store.owned(kind).get(name, ())))
        for kind in (False, True)
    )
    held_out = [one for one in held_out if one not in owned]
    if not owned:
        raise LibraryError(f"tradeoff: no model of '{family}' has a workload of its own: expected at least one")
    rules, players = names(family), list(used.values())
    table = np.array(
        [
            [float(one.mean()) for one in judge.regrets([*players, *rules], signature, episodes)[0]]
            for signature in (*owned, *held_out)
        ]
    )
    models, alone = table[:, : len(players)], table[: len(owned), len(players) :].mean(axis=0)
    points = tuple(_point(models, subset, list(used), len(owned)) for subset in best_subsets(models[: len(owned)]))
    enough = next(point.count for point in points if point.mean <= points[-1].mean + tolerance)
    best = int(alone.argmin())
    labels = (tuple(judge.name(one) for one in kind) for kind in (owned, held_out))
    return Curve(family, points, enough, rules[best], float(alone[best]), *labels)


def best_subsets(regrets: np.ndarray) -> list[tuple[int, ...]]:
    """Return for every number of models the subset with the least mean regret; rows are workloads, columns models."""
    count = regrets.shape[1]
    found: list[tuple[int, ...]] = []
    for size in range(1, count + 1):
        if size == 1 or comb(count, size) <= MOST_SUBSETS:
            subsets: Sequence[tuple[int, ...]] = list(combinations(range(count), size))
        else:
            subsets = [(*found[-1], one) for one in range(count) if one not in found[-1]]
        found.append(min(subsets, key=lambda subset: float(regrets[:, list(subset)].min(axis=1).mean())))
    return found


def _point(regrets: np.ndarray, subset: tuple[int, ...], labels: Sequence[str], owned: int) -> Point:
    left = regrets[:, list(subset)].min(axis=1)
    mine, unseen = left[:owned], left[owned:]
    elsewhere = (float(unseen.mean()), float(unseen.max())) if len(unseen) else (None, None)
    chosen = tuple(labels[one] for one in subset)
    return Point(len(subset), chosen, float(mine.mean()), float(mine.max()), *elsewhere)
