"""How worker processes run a dag scenario: what executors do, and how the end of it enters the lane."""

from __future__ import annotations

import math

import numpy as np

from slipstream.families.contract import NO_PROGRAM, Processes, Work
from slipstream.families.dag.build import compiled_scenario
from slipstream.families.dag.engine.fitting import fitted
from slipstream.families.dag.kernel.state import IDLE, MOVING
from slipstream.families.dag.scenario import DagScenario, Inline
from slipstream.families.shared.schema import nanoseconds_of
from slipstream.sim.kernel.reported import ReportedEnds

MOST_FAILURES = 3
"""Failures of a task that are repeated where the scenario says nothing about failures."""


def _program_texts(scenario: DagScenario) -> dict[tuple[int, int], str]:
    """Return the address of each program by template and stage."""
    if not isinstance(scenario.jobs, Inline):
        return {}
    return {
        (template, index): stage.program
        for template, job in enumerate(scenario.jobs.jobs)
        for index, stage in enumerate(job.stages)
        if stage.program is not None
    }


def programs(scenario: DagScenario) -> tuple[str, ...]:
    """Return the addresses of the programs of a scenario, each once."""
    return tuple(dict.fromkeys(_program_texts(scenario).values()))


def longest(scenario: DagScenario) -> int:
    """Return the longest time in ns that a task or a move may take."""
    spec = compiled_scenario(scenario).spec
    factor = 1.0 if scenario.stragglers is None else scenario.stragglers.factor
    sample = int(spec["samples"].max()) + int(spec["waves"]["delay"].max())
    return max(math.ceil(sample * factor / min(scenario.speeds)), nanoseconds_of(scenario.moving_delay_s))


def attempts(scenario: DagScenario) -> int:
    """Return how often a task is tried before the run is given up."""
    return 1 + (MOST_FAILURES if scenario.failures is None else scenario.failures.most)


class DagEngineLane(ReportedEnds):
    """Executors of a lane that follows worker processes."""

    def __init__(self, scenario: DagScenario, arrays: dict[str, np.ndarray]) -> None:
        addresses = programs(scenario)
        self._program = {place: addresses.index(text) for place, text in _program_texts(scenario).items()}
        templates = compiled_scenario(scenario).library.templates
        self._tasks = [[stage.tasks for stage in template.stages] for template in templates]
        super().__init__(arrays, "executors")
        self._executors, self._jobs = arrays["executors"][0], arrays["jobs"][0]
        self._activity = self._executors["activity"]

    def running(self, resource: int) -> Work | None:
        """Return the task or the move of an executor, None if it is idle or its end was reported."""
        activity = self._activity.item(resource)
        if activity == IDLE or self.waits(resource):
            return None
        worker = self._executors[resource]
        stage, planned, job = int(worker["stage"]), int(worker["planned"]), self._jobs[worker["job"]]
        number, template = int(job["number"]), int(job["template"])
        if activity == MOVING:
            return Work(number, stage, 0, planned)
        program = self._program.get((template, stage), NO_PROGRAM)
        return Work(number, stage, self._tasks[template][stage], planned, program)


PROCESSES = Processes[DagScenario](
    noun="executor",
    count=lambda scenario: scenario.executors,
    longest=longest,
    attempts=attempts,
    programs=programs,
    fitted=fitted,
)
