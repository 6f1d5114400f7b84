"""Playing a schedule that was planned in hindsight, in the simulator: only what it plays counts."""

from __future__ import annotations

import numpy as np

from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.kernel.state import CHOOSE_PROCESSOR, FINISHED, HELD
from slipstream.families.taskgraph.oracle.schedule import Plan
from slipstream.families.taskgraph.oracle.snapshot import candidates_by_row, places_of
from slipstream.sim.simulator import Simulator


class Replay:
    """Plays a schedule: each processor takes the next task that was planned for its place, when it is time.

    With `early`, it takes the next one as soon as that is ready: what is best may be easier one way or the other.
    """

    name = "schedule"

    def __init__(self, plan: Plan, simulator: Simulator, early: bool) -> None:
        self.plan, self.simulator, self.early = plan, simulator, early
        self.places = places_of(simulator.scenario)
        self.place_of = {number: index for index, one in enumerate(self.places) for number in one.processors}
        self.order = sorted((take, start, task) for task, (take, start, _) in plan.items())

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Return the row of what was planned, or wait if that is still to come."""
        header = self.simulator.header
        if int(header["phase"]) == CHOOSE_PROCESSOR:
            return self._processor(int(header["asked_task"]))
        own = self.place_of[int(header["asked"])]
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
        """Return whether a task was taken, or is over."""
        arrived = int(self.simulator.header["arrived"]) * int(compiled_scenario(self.simulator.scenario).sizes.tasks)
        return task < arrived and int(self.simulator.arrays["tasks"][0, task]["status"]) in (HELD, FINISHED)

    def _processor(self, task: int) -> int:
        """Return the processor with the least work of those that a task was planned for."""
        workers = self.simulator.arrays["processors"][0]
        members = self.places[self.plan[task][2]].processors
        return min(members, key=lambda number: (int(workers[number]["held"] + workers[number]["queued"]), number))
