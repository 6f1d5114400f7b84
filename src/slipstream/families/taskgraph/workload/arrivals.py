"""Arrival times and graphs of jobs listed in a scenario."""

from __future__ import annotations

import numpy as np

from slipstream.errors import ScenarioError
from slipstream.families.shared.schema import nanoseconds
from slipstream.families.taskgraph.scenario import GraphTrace, TaskgraphScenario
from slipstream.families.taskgraph.workload.templates import Library
from slipstream.sim.kernel.job_stream import ARRIVAL_ROW


def trace_rows(scenario: TaskgraphScenario, library: Library) -> np.ndarray:
    """Return time and graph of each listed arrival, graph -1 if it is drawn; no rows if none are listed."""
    if not isinstance(scenario.arrivals, GraphTrace):
        return np.zeros(0, ARRIVAL_ROW)
    rows = np.zeros(len(scenario.arrivals.times_ms), ARRIVAL_ROW)
    rows["time"] = [nanoseconds(time) for time in scenario.arrivals.times_ms]
    rows["template"] = -1
    if scenario.arrivals.names is not None:
        known = {template.name: index for index, template in enumerate(library.templates)}
        for index, name in enumerate(scenario.arrivals.names):
            if name not in known:
                text = f"arrivals.names[{index}]: no graph '{name}'"
                raise ScenarioError(f"{text}: expected one of {', '.join(known)}")
            rows[index]["template"] = known[name]
    return rows
