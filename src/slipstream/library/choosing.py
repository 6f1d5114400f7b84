"""Selection of a policy for a workload.

For a workload that a model owns, that model's version in use is compared with the heuristics. For any other, the models
of the nearest workloads and every heuristic race in the simulator on the workload itself: policies that may still be
the best after a round run in the next, of twice as many episodes. A model is chosen only if its reward exceeds that of
the best heuristic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np

from slipstream.evaluation import bootstrap_interval
from slipstream.families.contract import ScenarioLike
from slipstream.library.judging import RACE_SEED, Episodes, Judge, Player, shares_lost
from slipstream.library.storage.records import Version
from slipstream.library.traits import distances
from slipstream.policies.base import names

NEAREST = 5
"""Number of models in a race."""
RACE_EPISODES = 8
"""Episodes of the first round, in which all policies run."""
ROUNDS = 4
"""Greatest number of rounds: each has twice the episodes of the previous one, those included."""
NEGLIGIBLE = 0.001
"""Relative difference to the leader's reward that is not worth another round."""


@dataclass(frozen=True)
class Racer:
    """A policy in a race and its results."""

    policy: str
    is_model: bool
    reward: float
    regret: float
    distance: float | None
    """Distance from the workload to the nearest one of the model; None for heuristics."""
    episodes: int
    """Number of episodes that it ran; reward and regret are means over them."""


@dataclass(frozen=True)
class Choice:
    """The policy to use for a workload, and why."""

    scenario: str
    policy: str
    """Name of a heuristic, or folder of a version: an argument of `--policies`."""
    version: str | None
    """The chosen version; None for a heuristic."""
    known: bool
    """Whether a model of the library owns this workload."""
    reason: str
    racers: tuple[Racer, ...]
    """Ranked by rounds survived, then by reward, best first."""
    reference: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as JSON-ready data."""
        return asdict(self)


def models_in_use(judge: Judge, family: str) -> dict[str, Version]:
    """Return the version in use of every model of `family`."""
    used, families = judge.store.aliases(), judge.store.models()
    by_id = {version.id: version for version in judge.store.versions()}
    # An alias to a version of another model is damage, which `verify` reports: it is left out.
    whole = {name: by_id[one] for name, one in used.items() if one in by_id and by_id[one].model == name}
    return {name: version for name, version in whole.items() if families.get(name) == family}


def nearest_models(judge: Judge, signature: str, count: int) -> list[tuple[Version, float]]:
    """Return the `count` versions in use with the workloads nearest to `signature`, each with its distance."""
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
    """Return the rewards of every player in its episodes, which all begin with the same seed.

    After every round, players drop out whose paired difference to the leader is negligible with 95% confidence. Among
    equals the first of the list leads.
    """
    earned = [judge.rewards(who, signature, Episodes(RACE_SEED, episodes)) for who in players]
    running = list(range(len(players)))
    for round_number in range(1, ROUNDS):
        leader = max(running, key=lambda index: float(earned[index].mean()))
        least = NEGLIGIBLE * abs(float(earned[leader].mean()))
        upper = {index: bootstrap_interval(earned[index] - earned[leader])[1] for index in running}
        running = [index for index in running if index == leader or upper[index] > least]
        if len(running) == 1:
            break
        for index in running:
            earned[index] = judge.rewards(players[index], signature, Episodes(RACE_SEED, episodes << round_number))
    return earned


def choose(judge: Judge, scenario: ScenarioLike, nearest: int = NEAREST, episodes: int = RACE_EPISODES) -> Choice:
    """Return the policy to use for `scenario`; race `nearest` models from `episodes` episodes on."""
    began = perf_counter()
    signature = judge.remember(scenario)
    family = judge.scenario(signature).family
    owners = [name for name, own in judge.store.owned().items() if signature in own]
    used = models_in_use(judge, family)
    made_for = [(used[name], 0.0) for name in owners if name in used]
    models = made_for or nearest_models(judge, signature, nearest)
    # Heuristics first, so that they win ties: they need no files.
    players: list[Player] = [*names(family), *(version for version, _ in models)]
    apart: list[float | None] = [*([None] * len(names(family))), *(distance for _, distance in models)]
    if made_for:  # its rewards in the episodes of the gates are stored already
        played = Episodes(count=judge.gate_episodes)
        earned = [judge.rewards(who, signature, played) for who in players]
    else:
        played = Episodes(RACE_SEED, episodes)
        earned = race(judge, players, signature, episodes)
    words = judge.reference(signature, played)[1]
    best = judge.best_of(signature, Episodes(played.first, max(map(len, earned))))
    racers = [_racer(who, far, own, best) for who, far, own in zip(players, apart, earned, strict=True)]
    order = sorted(range(len(racers)), key=lambda index: (-racers[index].episodes, -racers[index].reward))
    ranked = tuple(racers[index] for index in order)
    winner = players[order[0]]
    policy = str(judge.store.folder_of(winner)) if isinstance(winner, Version) else winner
    version = winner.label if isinstance(winner, Version) else None
    reason = _reason([(racers[index], earned[index]) for index in order], bool(made_for))
    return Choice(judge.name(signature), policy, version, bool(made_for), reason, ranked, words, perf_counter() - began)


def _racer(who: Player, distance: float | None, earned: np.ndarray, best: np.ndarray) -> Racer:
    """Return the result of a player from its rewards and the `best` known rewards of the same episodes."""
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
