"""Which policy to use for a workload.

For one that a model of the library was made for, that model's version in use. For any other, the models made for the
workloads nearest to it and every heuristic are raced in the simulator, on the workload itself. A model is chosen only
where it earns more than the best heuristic.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from slipstream.library.judging import RACE_SEED, Episodes, Judge, Player
from slipstream.library.records import Version
from slipstream.library.traits import distances
from slipstream.policies.base import names

NEAREST = 5
"""Models that are raced."""
RACE_EPISODES = 8


@dataclass(frozen=True)
class Racer:
    """A policy in a race, with what it earned."""

    policy: str
    is_model: bool
    reward: float
    regret: float
    distance: float | None
    """From the workload to the nearest of the model's own; None for heuristics."""


@dataclass(frozen=True)
class Choice:
    """The policy to use for a workload, and why."""

    scenario: str
    policy: str
    """Name of a heuristic, or folder of a version: what `--policies` takes."""
    version: str | None
    """The chosen version; None where a heuristic is used."""
    known: bool
    """Whether a model of the library was made for this very workload."""
    reason: str
    racers: tuple[Racer, ...]
    """Best first."""
    reference: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as JSON-ready data."""
        return asdict(self)


def models_in_use(judge: Judge, family: str) -> dict[str, Version]:
    """Return the version in use of every model of a family."""
    used, families = judge.store.aliases(), judge.store.models()
    by_id = {version.id: version for version in judge.store.versions()}
    return {name: by_id[one] for name, one in used.items() if families[name] == family}


def nearest_models(judge: Judge, signature: str, count: int) -> list[tuple[Version, float]]:
    """Return the versions in use whose own workloads lie nearest to one, and how far that is."""
    known, owned = judge.store.scenarios(), judge.store.owned()
    models = models_in_use(judge, known[signature].family)
    pairs = [(name, one) for name in models for one in owned.get(name, ())]
    apart = distances(known[signature].traits, [known[one].traits for _, one in pairs])
    least: dict[str, float] = {}
    for (name, _), distance in zip(pairs, apart.tolist(), strict=True):
        least[name] = min(distance, least.get(name, np.inf))
    ranked = sorted(least, key=lambda name: least[name])[:count]
    return [(models[name], least[name]) for name in ranked]


def choose(
    judge: Judge, scenario: str | Path | dict[str, Any] | Any, nearest: int = NEAREST, episodes: int = RACE_EPISODES
) -> Choice:
    """Return the policy to use for a scenario."""
    began = perf_counter()
    signature = judge.remember(scenario)
    family = judge.scenario(signature).family
    owners = [name for name, own in judge.store.owned().items() if signature in own]
    used = models_in_use(judge, family)
    made_for = [(used[name], 0.0) for name in owners if name in used]
    models = made_for or nearest_models(judge, signature, nearest)
    # What was made for this workload was judged on the episodes of the gates already: nothing need be played again.
    played = Episodes(count=judge.gate_episodes) if made_for else Episodes(RACE_SEED, episodes)
    players: list[Player] = [*(version for version, _ in models), *names(family)]
    regrets, words = judge.regrets(players, signature, played)
    rewards = [float(judge.rewards(who, signature, played).mean()) for who in players]
    apart: list[float | None] = [*(distance for _, distance in models), *([None] * len(names(family)))]
    racers = [
        Racer(who.label if isinstance(who, Version) else who, isinstance(who, Version), reward, float(own.mean()), far)
        for who, reward, own, far in zip(players, rewards, regrets, apart, strict=True)
    ]
    # Among equals a heuristic comes first: it needs no files and is as good elsewhere.
    order = sorted(range(len(racers)), key=lambda place: (-racers[place].reward, racers[place].is_model))
    ranked = tuple(racers[place] for place in order)
    winner = players[order[0]]
    policy = str(judge.store.folder_of(winner)) if isinstance(winner, Version) else winner
    version = winner.label if isinstance(winner, Version) else None
    reason = _reason(ranked, bool(made_for), bool(models))
    return Choice(judge.name(signature), policy, version, bool(made_for), reason, ranked, words, perf_counter() - began)


def _reason(ranked: tuple[Racer, ...], known: bool, any_model: bool) -> str:
    best = ranked[0]
    where = "made for this workload" if known else f"raced, distance {best.distance or 0.0:.2f} to its own workloads"
    if best.is_model:
        rule = next(one for one in ranked if not one.is_model)
        return f"{best.policy} ({where}) earns {best.reward - rule.reward:,.4g} more than the best rule, {rule.policy}"
    if not any_model:
        return f"no model of this family is in the library: {best.policy} is the best rule"
    model = next(one for one in ranked if one.is_model)
    gap = best.reward - model.reward
    return f"no model wins: the best, {model.policy}, earns {gap:,.4g} less than the rule {best.policy}, which is used"
