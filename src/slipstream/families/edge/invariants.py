"""Conservation laws that every log of an edge episode obeys, whatever the policy: those of all logs of runs."""

from __future__ import annotations

import numpy as np

from slipstream.families.edge.labels import run_labels
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared import runs


def check(events: np.ndarray, scenario: EdgeScenario) -> None:
    """Raise a LawError where the log of a whole episode breaks a law, or has tasks that the scenario lacks."""
    runs.check(run_labels(scenario), events, scenario.device.queue_limit)
