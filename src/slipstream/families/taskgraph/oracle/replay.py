"""Replay of a hindsight schedule in the simulator, whose result alone counts."""

from __future__ import annotations

import numpy as np

from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.kernel.state import CHOOSE_PROCESSOR, FINISHED, HELD
from slipstream.families.taskgraph.labels import candidates_by_row
from slipstream.families.taskgraph.oracle.schedule import Plan
from slipstream.families.taskgraph.oracle.snapshot import processor_groups
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.sim.simulator import Simulator


class Replay:
    """Policy that replays a schedule: each processor takes the next planned task of its group at its planned time.

    With `early`, it takes the next task as soon as that is ready; either variant may reach the planned makespan.
    """

    name = "schedule"

    def __init__(self, plan: Plan, simulator: Simulator[TaskgraphScenario], early: bool) -> None:
        self.plan, self.simulator, self.early = plan, simulator, early
        self.groups = processor_groups(simulator.scenario)
        self.group_of = {number: index for index, one in enumerate(self.groups) for number in one.processors}
        self.order = sorted((take, start, task) for task, (take, start, _) in plan.items())

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Return the row of the planned task or processor, or the wait row if its time has not come."""
        header = self.simulator.header
        if int(header["phase"]) == CHOOSE_PROCESSOR:
            return self._processor(int(header["asked_task"]))
        own = self.group_of[int(header["asked"])]
        listed = {task: row for row, task in candidates_by_row(self.simulator).items()}
        for take, _, task in self.order:
            if self.plan[task][2] != own or self._is_taken(task):
                continue
            if task in listed and (self.early or take <= int(header["now"])):
                return listed[task]
            if self.early:
                break
        return len(mask) - 1

    def _is_taken(self, task: int) -> bool:
        """Return whether a task is held or finished."""
        arrived = int(self.simulator.header["arrived"]) * int(compiled_scenario(self.simulator.scenario).sizes.tasks)
        return task < arrived and int(self.simulator.arrays["tasks"][0, task]["status"]) in (HELD, FINISHED)

    def _processor(self, task: int) -> int:
        """Return the processor with the fewest tasks in the planned group of a task."""
        workers = self.simulator.arrays["processors"][0]
        members = self.groups[self.plan[task][2]].processors
        return min(members, key=lambda number: (int(workers[number]["held"] + workers[number]["queued"]), number))
