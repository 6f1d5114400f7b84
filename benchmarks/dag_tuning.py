"""Finding the number of a policy that has one, on training seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipstream.errors import PolicyError
from slipstream.families.dag.metrics import metrics
from slipstream.families.dag.scenario import DagScenario
from slipstream.policies.base import Heuristic, find
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator

POWERS = tuple(round(-2.0 + 0.25 * step, 2) for step in range(17))
"""Usual powers of `weighted-fair`, from -2 to 2."""


def usual_values(scenario: DagScenario, policy: str) -> Sequence[float]:
    """Return the values that are tried unless others are given: powers, or numbers of executors."""
    if policy == "weighted-fair":
        return POWERS
    return sorted({max(1, round(scenario.executors * share / 20)) for share in range(1, 21)})


def tune(
    scenario: Any, policy: str, values: Sequence[float] | None = None, episodes: int = 20, seed: int = 0
) -> Heuristic:
    """Return the policy with the value whose average completion time is least on training episodes.

    The scenario is a name, a file, a dictionary or an object, as everywhere.
    """
    loaded: Any = load(scenario)
    found = find(policy, "dag")
    if not isinstance(found, Heuristic) or found.parameter is None:
        raise PolicyError(f"policy '{policy}' has no number to tune: expected 'weighted-fair' or 'srpt'")
    simulator = Simulator(loaded)
    tried: dict[float, float] = {}
    for value in values if values is not None else usual_values(loaded, policy):
        player = found.with_parameter(value)
        logs = (simulator.play(player, seed + episode, "train") for episode in range(episodes))
        tried[value] = sum(metrics(loaded, events)["avg_jct_s"] for events in logs) / episodes
    return found.with_parameter(min(tried, key=lambda value: (tried[value], value)))
