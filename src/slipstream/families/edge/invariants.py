"""Invariants of the event log of an edge episode, under any policy."""

from __future__ import annotations

import numpy as np

from slipstream.families.edge.labels import run_labels
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared import runs


def check(events: np.ndarray, scenario: EdgeScenario) -> None:
    """Raise an InvariantError if the log of an episode violates an invariant or names tasks that the scenario lacks."""
    runs.check(run_labels(scenario), events, scenario.device.queue_limit)
