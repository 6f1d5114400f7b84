"""Conservation laws that every log of an edge episode obeys, whatever the policy: those of all logs of runs."""

from __future__ import annotations

import numpy as np

from slipstream.errors import InvariantError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared import invariants


def check(events: np.ndarray, scenario: EdgeScenario) -> None:
    """Raise an InvariantError where the log of a whole episode breaks a law, or has tasks that the scenario lacks."""
    invariants.check(events, scenario.device.streams, scenario.device.queue_limit)
    if events["task"].max() >= len(scenario.tasks):
        raise InvariantError(
            f"task {events['task'].max()}: expected numbers below {len(scenario.tasks)}, as in the scenario"
        )
