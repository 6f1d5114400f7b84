"""Rollback to an earlier version: by hand, or because the regret of the version in use exceeds the accepted one.

Nothing is deleted: the alias of the model is set to the earlier version, and an event records the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.errors import LibraryError
from slipstream.library.generality import generality
from slipstream.library.judging import EVAL_SPLIT, RECENT_SEED, Episodes, Judge, shares_lost
from slipstream.library.storage.records import Version
from slipstream.library.storage.store import Run

DRIFT = 0.05
"""Excess over the accepted regret at which a version in use is rolled back."""
PRICE = 0.02
"""Greatest increase of regret on its own workloads that a gain in generality may cost."""
RECENT_RUNS = 10


@dataclass(frozen=True)
class Drift:
    """Recent and accepted regret of a version in use on one workload."""

    scenario: str
    accepted: float
    """Least regret over all versions of the model that were in use."""
    recent: float
    runs: int
    reference: str


@dataclass(frozen=True)
class Check:
    """Result of a check: whether a model was rolled back, and the evidence."""

    model: str
    before: str
    after: str | None
    """The new version in use; None if it did not change."""
    reason: str
    drifts: tuple[Drift, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the check as JSON-ready data."""
        return {**vars(self), "drifts": [vars(drift) for drift in self.drifts]}


def earlier_versions(judge: Judge, model: str) -> list[Version]:
    """Return the versions of `model` that were in use before the present one, newest first."""
    store = judge.store
    present = store.version(model)
    known = {version.label: version for version in store.versions(model)}
    taken = [event.after for event in store.events(model) if event.after is not None]
    found = dict.fromkeys(label for label in reversed(taken) if label != present.label)
    return [known[label] for label in found]


def roll_back(judge: Judge, model: str, to: str | None = None, reason: str = "") -> Check:
    """Set the version in use of `model` to an earlier one, by default the previous one."""
    store = judge.store
    present = store.version(model)
    if to is not None:
        goal = store.version(to if "@" in to else f"{model}@{to}")
        if goal.model != model:
            raise LibraryError(f"version '{to}' belongs to '{goal.model}': expected one of '{model}'")
    else:
        earlier = [version for version in earlier_versions(judge, model) if version.id < present.id]
        if not earlier:
            raise LibraryError(f"model '{model}' was never at an earlier version than {present.label}: expected --to")
        goal = earlier[0]
    if goal.id == present.id:
        raise LibraryError(f"{present.label} is in use already: expected another version")
    store.verified_folder(goal)
    why = reason or "by hand"
    store.record_event("rollback", model, why, {"by": "hand"}, goal, present)
    return Check(model, present.label, goal.label, why)


def play_recent(judge: Judge, model: str, runs: int) -> None:
    """Run a model's version in use for `runs` fresh episodes of its own workloads, and record them."""
    present = judge.store.version(model)
    for signature in judge.store.owned().get(model, ()):
        last = judge.store.runs(present, signature, 1)
        first = last[0].seed + 1 if last and last[0].seed >= RECENT_SEED else RECENT_SEED
        episodes = Episodes(first, runs)
        earned = judge.rewards(present, signature, episodes)
        pairs = zip(episodes.seeds, earned.tolist(), strict=True)
        judge.store.record(Run(present.id, signature, EVAL_SPLIT, seed, reward) for seed, reward in pairs)


def drifts_of(judge: Judge, model: str, newest: int = RECENT_RUNS) -> tuple[Drift, ...]:
    """Return recent and accepted regret of a model's version in use, over its `newest` runs per workload."""
    store = judge.store
    present = store.version(model)
    taken = [present, *earlier_versions(judge, model)]
    gate = Episodes(count=judge.gate_episodes)
    found = []
    for signature in store.owned().get(model, ()):
        runs = store.runs(present, signature, newest)
        if not runs:
            continue
        accepted = min(judge.regret(version, signature, gate) for version in taken)
        recent, words = _regret_of_runs(judge, signature, runs)
        found.append(Drift(judge.name(signature), accepted, recent, len(runs), words))
    return tuple(found)


def _regret_of_runs(judge: Judge, signature: str, runs: list[Run]) -> tuple[float, str]:
    """Return the mean regret of `runs` against the best known rewards, and the description of these."""
    best, words = [], ""
    for run in runs:
        value, words = judge.reference(signature, Episodes(run.seed, 1, run.split))
        best.append(max(float(value[0]), run.reward))
    earned = np.array([run.reward for run in runs])
    return float(shares_lost(np.array(best), earned).mean()), words


def check(
    judge: Judge, model: str, runs: int = RECENT_RUNS, drift: float = DRIFT, price: float = PRICE, play: bool = True
) -> Check:
    """Roll a model back if its version in use drifted, or if generality was gained at too high a cost in accuracy.

    With `play`, that version runs `runs` fresh episodes first; without, only runs of `Library.record` count.
    """
    if play:
        play_recent(judge, model, runs)
    present, earlier = judge.store.version(model), earlier_versions(judge, model)
    drifts = drifts_of(judge, model, runs)
    worst = max(drifts, key=lambda one: one.recent - one.accepted, default=None)
    if worst is not None and worst.recent > worst.accepted + drift:
        why = (
            f"recent regret on {worst.scenario} is {worst.recent:.2%} over {worst.runs} runs, accepted was "
            f"{worst.accepted:.2%}: more than {drift:.1%} beyond"
        )
        return _leave(judge, present, earlier, why, drifts)
    if earlier:
        cost = _generality_cost(judge, earlier[0], present, price)
        if cost is not None:
            return _leave(judge, present, earlier[:1], cost, drifts)
    if worst is None:
        return Check(model, present.label, None, "no runs to judge by", drifts)
    why = (
        f"recent regret stays within {drift:.1%} of what was accepted; the most is {worst.recent - worst.accepted:+.2%}"
    )
    return Check(model, present.label, None, why, drifts)


def _leave(judge: Judge, present: Version, earlier: list[Version], why: str, drifts: tuple[Drift, ...]) -> Check:
    """Roll back to the earlier version with the least regret on the model's workloads, if that is an improvement."""
    gate = Episodes(RECENT_SEED, judge.gate_episodes)
    own = judge.store.owned().get(present.model, ())

    def mean_regret(version: Version) -> float:
        return float(np.mean([judge.regret(version, one, gate) for one in own]))

    best = min(earlier, key=mean_regret, default=None)
    if best is None or mean_regret(best) >= mean_regret(present):
        reason = f"{why}; but no earlier version does better: update it, or choose anew"
        judge.store.record_event("drift", present.model, reason, {"drifts": [vars(one) for one in drifts]})
        return Check(present.model, present.label, None, reason, drifts)
    evidence = {
        "by": "check",
        "drifts": [vars(one) for one in drifts],
        "regret": {version.label: mean_regret(version) for version in (present, best)},
    }
    judge.store.record_event("rollback", present.model, why, evidence, best, present)
    return Check(present.model, present.label, best.label, why, drifts)


def _generality_cost(judge: Judge, before: Version, present: Version, price: float) -> str | None:
    """Return a message if generality was gained at a cost in regret above `price`; else None."""
    gate = Episodes(count=judge.gate_episodes)
    own = judge.store.owned().get(present.model, ())
    old, new = (generality(judge, version, gate).gap for version in (before, present))
    if not own or old is None or new is None or not new < old:
        return None
    cost = float(np.mean([judge.regret(present, one, gate) - judge.regret(before, one, gate) for one in own]))
    if cost <= price:
        return None
    return (
        f"against {before.label} the gap to other owners fell from {old:.2%} to {new:.2%}, at the cost of {cost:.2%} "
        f"regret on its own workloads, more than {price:.1%}"
    )
