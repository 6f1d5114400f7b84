"""Invariants of the event log of an edge episode, under any policy."""

from __future__ import annotations

import numpy as np

from slipstream.errors import InvariantError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared import invariants


def check(events: np.ndarray, scenario: EdgeScenario) -> None:
    """Raise an InvariantError if the log of an episode violates an invariant or names tasks that the scenario lacks."""
    invariants.check(events, scenario.device.streams, scenario.device.queue_limit)
    if events["task"].max() >= len(scenario.tasks):
        raise InvariantError(
            f"task {events['task'].max()}: expected numbers below {len(scenario.tasks)}, as in the scenario"
        )
