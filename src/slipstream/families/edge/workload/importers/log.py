"""Import of release times from a recorded run, to replay them under another policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slipstream.errors import InvariantError, TraceError
from slipstream.families.edge.invariants import check
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.edge.workload.replay import recorded_releases


def releases_of_log(path: Path, scenario: EdgeScenario, events: np.ndarray) -> dict[int, np.ndarray]:
    """Return the release times of a run by task, in ns; a log that cannot be of this scenario is a TraceError."""
    try:
        check(events, scenario)
    except InvariantError as error:
        raise TraceError(f"{path}: damaged ({error}): expected an event log of its scenario") from error
    return recorded_releases(events, len(scenario.tasks))
