"""The heuristic that a training is measured against: the winner of the race, on held-out episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.errors import InputError
from slipstream.families.contract import Scenario
from slipstream.files.inputs import show
from slipstream.learn.outcome import OUTCOME_SEED
from slipstream.learn.race import Race, rewards_within
from slipstream.scale.executor import Executor

HELD_OUT_SEED = 0
"""Seed of the first episode that selects a policy, in the evaluation split, which is disjoint from training."""


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

    @property
    def reward(self) -> float:
        """Mean reward in the episodes that select the best network."""
        return float(self.selection.mean())

    def to_dict(self) -> dict[str, Any]:
        """Return the reference as JSON-ready data."""
        rewards = {"selection": self.selection.tolist(), "outcome": self.outcome.tolist()}
        return {"heuristic": self.heuristic, **rewards, "race": self.race}

    @classmethod
    def from_dict(cls, data: Any, label: str) -> Reference:
        """Return the reference of JSON-ready data; errors begin with `label`."""
        if not isinstance(data, dict) or not isinstance(data.get("heuristic"), str):
            raise InputError(f"{label}: expected an object with the name of a heuristic, got {show(data)}")
        rewards: dict[str, np.ndarray] = {}
        for key in ("selection", "outcome"):
            found = data.get(key)
            if not isinstance(found, list) or not found or any(type(one) not in (int, float) for one in found):
                raise InputError(f"{label}.{key}: expected a list of numbers, got {show(found)}")
            rewards[key] = np.array(found, float)
        race = data.get("race")
        own = race if isinstance(race, dict) else {}
        return cls(data["heuristic"], rewards["selection"], rewards["outcome"], own)


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
    played: dict[str, np.ndarray] = {}
    for name in race.finalists:
        end = clock() + limit / len(race.finalists)
        seeds = range(HELD_OUT_SEED, HELD_OUT_SEED + episodes[0])
        played[name] = rewards_within(scenario, name, seeds, "eval", end, clock, executor)
    common = min(len(rewards) for rewards in played.values())
    best = max(played, key=lambda name: float(played[name][:common].mean()))
    seeds = range(OUTCOME_SEED, OUTCOME_SEED + episodes[1])
    outcome = rewards_within(scenario, best, seeds, "eval", clock() + limit, clock, executor)
    return Reference(best, played[best], outcome, race.to_dict())
