"""The heuristic that a training is measured against: the winner of the race, on held-out episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstream.errors import InputError
from slipstream.families.contract import Scenario, family_of
from slipstream.files.inputs import show
from slipstream.learn.outcome import OUTCOME_SEED
from slipstream.learn.race import Race, metrics_within
from slipstream.scale.executor import Executor

HELD_OUT_SEED = 0
"""Seed of the first episode that selects a policy, in the evaluation split, which is disjoint from training."""
PARTS = ("selection", "outcome")
"""Sets of held-out episodes: those that select a policy, and those of its outcome."""


@dataclass(frozen=True)
class Reference:
    """The best heuristic, and its rewards on the held-out episodes."""

    heuristic: str
    selection: np.ndarray
    """Rewards in the episodes that select the best network."""
    outcome: np.ndarray
    """Rewards in the episodes of the outcome; the network plays as many."""
    race: dict[str, Any]
    """The race on training episodes."""
    constrained: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    """Of `selection` and `outcome`, the heuristic's metrics that the family's constraints compare, by name."""

    @property
    def reward(self) -> float:
        """Mean reward in the episodes that select the best network."""
        return float(self.selection.mean())

    def to_dict(self) -> dict[str, Any]:
        """Return the reference as JSON-ready data."""
        rewards = {"selection": self.selection.tolist(), "outcome": self.outcome.tolist()}
        constrained = {
            part: {name: values.tolist() for name, values in metrics.items()}
            for part, metrics in self.constrained.items()
        }
        return {"heuristic": self.heuristic, **rewards, "race": self.race, "constrained": constrained}

    @classmethod
    def from_dict(cls, data: Any, label: str) -> Reference:
        """Return the reference of JSON-ready data; errors begin with `label`."""
        if not isinstance(data, dict) or not isinstance(data.get("heuristic"), str):
            raise InputError(f"{label}: expected an object with the name of a heuristic, got {show(data)}")
        rewards = {key: _numbers(data.get(key), f"{label}.{key}") for key in PARTS}
        race, parts = data.get("race"), data.get("constrained", {})
        if not isinstance(parts, dict) or any(not isinstance(parts.get(part, {}), dict) for part in PARTS):
            raise InputError(f"{label}.constrained: expected an object with metrics, got {show(parts)}")
        constrained = {
            part: {name: _numbers(values, f"{label}.constrained.{part}.{name}") for name, values in parts[part].items()}
            for part in PARTS
            if part in parts
        }
        own = race if isinstance(race, dict) else {}
        return cls(data["heuristic"], rewards["selection"], rewards["outcome"], own, constrained)


def _numbers(found: Any, label: str) -> np.ndarray:
    """Return a list of numbers as an array; errors begin with `label`."""
    if not isinstance(found, list) or not found or any(type(one) not in (int, float) for one in found):
        raise InputError(f"{label}: expected a list of numbers, got {show(found)}")
    return np.array(found, float)


def find_reference(
    scenario: Scenario,
    race: Race,
    episodes: tuple[int, int],
    limit: float,
    clock: Callable[[], float],
    executor: Executor | None,
) -> Reference:
    """Return the best of the race's finalists on the held-out episodes that select a network.

    `episodes` are those of the selection and of the outcome, at most; heuristics take about `limit` seconds for each.
    """
    names = ("reward", *(constraint.metric for constraint in family_of(scenario).constraints))
    played: dict[str, dict[str, np.ndarray]] = {}
    for name in race.finalists:
        end = clock() + limit / len(race.finalists)
        seeds = range(HELD_OUT_SEED, HELD_OUT_SEED + episodes[0])
        played[name] = metrics_within(scenario, name, seeds, "eval", end, clock, executor, names)
    common = min(len(metrics["reward"]) for metrics in played.values())
    best = max(played, key=lambda name: float(played[name]["reward"][:common].mean()))
    seeds = range(OUTCOME_SEED, OUTCOME_SEED + episodes[1])
    outcome = metrics_within(scenario, best, seeds, "eval", clock() + limit, clock, executor, names)
    selection = played[best]
    rewards = selection.pop("reward"), outcome.pop("reward")
    constrained = {"selection": selection, "outcome": outcome} if names[1:] else {}
    return Reference(best, *rewards, race.to_dict(), constrained)
