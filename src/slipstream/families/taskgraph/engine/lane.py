"""How worker processes run a taskgraph scenario: what processors run, and how the end of it enters the lane."""

from __future__ import annotations

import math

import numpy as np

from slipstream.families.contract import Processes, Work
from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.engine.fitting import fitted
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.sim.kernel.reported import ReportedEnds

ATTEMPTS = 4
"""How often a task is tried before a run is given up."""
SPREADS = 6.0
"""Standard deviations by which a noisy task may exceed its expected time before the watchdog's factor counts."""


def longest(scenario: TaskgraphScenario) -> int:
    """Return the longest time in ns that a task may take."""
    spec = compiled_scenario(scenario).spec
    machine, expected = spec["machine"][0], float(spec["durations"].max())
    spread = float(machine["spread"])
    return math.ceil(max(expected + SPREADS * spread, expected * math.exp(min(spread, 1.0) * SPREADS)))


class TaskgraphEngineLane(ReportedEnds):
    """Processors of a lane that follows worker processes."""

    def __init__(self, scenario: TaskgraphScenario, arrays: dict[str, np.ndarray]) -> None:
        self._number = compiled_scenario(scenario).spec["tasks"]["number"]
        super().__init__(arrays, "processors")
        self._processors, self._holds, self._tasks = (arrays[name][0] for name in ("processors", "holds", "tasks"))
        self._runs = self._processors["runs"]

    def running(self, resource: int) -> Work | None:
        """Return the task of a processor, None if it is idle or its end was reported."""
        if not self._runs.item(resource) or self.waits(resource):
            return None
        task = self._tasks[self._holds.item(resource, 0)]
        planned = int(self._processors["planned"][resource])
        return Work(int(task["job"]), int(self._number[int(task["source"])]), 1, planned)


PROCESSES = Processes[TaskgraphScenario](
    noun="processor",
    count=lambda scenario: scenario.processor_count,
    longest=longest,
    attempts=lambda _scenario: ATTEMPTS,
    programs=lambda _scenario: (),
    fitted=fitted,
)
