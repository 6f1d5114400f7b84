"""Which policy to use for a workload.

For one that a model of the library was made for, that model's version in use. For any other, the models made for the
workloads nearest to it and every heuristic are raced in the simulator, on the workload itself. Who may still be the
best after a heat runs in the next, of twice as many episodes. A model is chosen only where it earns more than the best
heuristic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from slipstream.evaluation import bootstrap_interval
from slipstream.library.judging import RACE_SEED, Episodes, Judge, Player, shares_lost
from slipstream.library.storage.records import Version
from slipstream.library.traits import distances
from slipstream.policies.base import names

NEAREST = 5
"""Models that are raced."""
RACE_EPISODES = 8
"""Episodes of the first heat, which everybody runs in."""
HEATS = 4
"""Heats at most: each has twice the episodes of the one before, those included."""
NEGLIGIBLE = 0.001
"""Share of the leader's reward that is not worth another heat."""


@dataclass(frozen=True)
class Racer:
    """A policy in a race, with what it earned."""

    policy: str
    is_model: bool
    reward: float
    regret: float
    distance: float | None
    """From the workload to the nearest of the model's own; None for heuristics."""
    episodes: int
    """How many it played: as many as were needed to tell it from the best. Reward and regret are means over them."""


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
    """Best first; who dropped out of the race earlier comes after those who stayed longer."""
    reference: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as JSON-ready data."""
        return asdict(self)


def models_in_use(judge: Judge, family: str) -> dict[str, Version]:
    """Return the version in use of every model of a family."""
    used, families = judge.store.aliases(), judge.store.models()
    by_id = {version.id: version for version in judge.store.versions()}
    # What a name stands for that is no version of its model is damage, which `verify` names: nobody can use it.
    whole = {name: by_id[one] for name, one in used.items() if one in by_id and by_id[one].model == name}
    return {name: version for name, version in whole.items() if families.get(name) == family}


def nearest_models(judge: Judge, signature: str, count: int) -> list[tuple[Version, float]]:
    """Return the versions in use whose own workloads lie nearest to one, and how far that is."""
    known, owned = judge.store.scenarios(), judge.store.owned()
    models = models_in_use(judge, judge.store.scenario(signature).family)
    pairs = [(name, one) for name in models for one in owned.get(name, ()) if one in known]
    apart = distances(known[signature].traits, [known[one].traits for _, one in pairs])
    least: dict[str, float] = {}
    for (name, _), distance in zip(pairs, apart.tolist(), strict=True):
        least[name] = min(distance, least.get(name, np.inf))
    ranked = sorted(least, key=lambda name: least[name])[:count]
    return [(models[name], least[name]) for name in ranked]


def race(judge: Judge, players: Sequence[Player], signature: str, episodes: int) -> list[np.ndarray]:
    """Return what every player earned in the episodes that it played, all from the same one on.

    After every heat, those drop out whose paired difference to the leader is surely not worth having. Among equals the
    first of the list leads.
    """
    earned = [judge.rewards(who, signature, Episodes(RACE_SEED, episodes)) for who in players]
    running = list(range(len(players)))
    for heat in range(1, HEATS):
        leader = max(running, key=lambda place: float(earned[place].mean()))
        least = NEGLIGIBLE * abs(float(earned[leader].mean()))
        chances = {place: bootstrap_interval(earned[place] - earned[leader])[1] for place in running}
        running = [place for place in running if place == leader or chances[place] > least]
        if len(running) == 1:
            break
        for place in running:
            earned[place] = judge.rewards(players[place], signature, Episodes(RACE_SEED, episodes << heat))
    return earned


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
    # Heuristics come first, and so among equals: they need no files and are as good elsewhere.
    players: list[Player] = [*names(family), *(version for version, _ in models)]
    apart: list[float | None] = [*([None] * len(names(family))), *(distance for _, distance in models)]
    if made_for:  # it was judged on the episodes of the gates already: nothing need be played again
        played = Episodes(count=judge.gate_episodes)
        earned = [judge.rewards(who, signature, played) for who in players]
    else:
        played = Episodes(RACE_SEED, episodes)
        earned = race(judge, players, signature, episodes)
    words = judge.reference(signature, played)[1]
    best = judge.best_of(signature, Episodes(played.first, max(map(len, earned))))
    racers = [_racer(who, far, own, best) for who, far, own in zip(players, apart, earned, strict=True)]
    order = sorted(range(len(racers)), key=lambda place: (-racers[place].episodes, -racers[place].reward))
    ranked = tuple(racers[place] for place in order)
    winner = players[order[0]]
    policy = str(judge.store.folder_of(winner)) if isinstance(winner, Version) else winner
    version = winner.label if isinstance(winner, Version) else None
    reason = _reason([(racers[place], earned[place]) for place in order], bool(made_for))
    return Choice(judge.name(signature), policy, version, bool(made_for), reason, ranked, words, perf_counter() - began)


def _racer(who: Player, distance: float | None, earned: np.ndarray, best: np.ndarray) -> Racer:
    """Return how a player did in the episodes that it played, against the best of whoever played them."""
    lost = float(shares_lost(best[: len(earned)], earned).mean())
    label, is_model = (who.label, True) if isinstance(who, Version) else (who, False)
    return Racer(label, is_model, float(earned.mean()), lost, distance, len(earned))


def _reason(ranked: Sequence[tuple[Racer, np.ndarray]], known: bool) -> str:
    (best, earned), others = ranked[0], ranked[1:]
    rival = next(((one, rewards) for one, rewards in others if one.is_model != best.is_model), None)
    if rival is None:
        return f"no model of this family is in the library: {best.policy} is the best rule"
    other, theirs = rival
    gap = f"{float((earned[: len(theirs)] - theirs).mean()):,.4g}"
    if best.is_model:
        raced = f"raced, distance {best.distance or 0.0:.2f} to its own workloads"
        where = "made for this workload" if known else raced
        return f"{best.policy} ({where}) earns {gap} more than the best rule, {other.policy}"
    return f"no model wins: the best, {other.policy}, earns {gap} less than the rule {best.policy}, which is used"
