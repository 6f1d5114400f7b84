"""What is known of an episode afterwards: the luck of every task, and how to play a schedule again."""

from __future__ import annotations

import math

import numpy as np

from slipstream.core.rng import normal
from slipstream.core.simulator import Simulator
from slipstream.taskgraph.build import built
from slipstream.taskgraph.scenario import Additive, NoNoise, TaskgraphScenario
from slipstream.taskgraph.schedule import Solution
from slipstream.taskgraph.tasks import KIND_STRIDE


def durations_of_job(scenario: TaskgraphScenario, graph: int, key: np.uint64) -> list[list[int]]:
    """Return what each task of a job takes on each kind of processor, its luck known."""
    parts = built(scenario)
    expected = parts.library.durations[graph].tolist()
    noise = scenario.noise
    if isinstance(noise, NoNoise):
        return [list(row) for row in expected]
    noisy = parts.spec["kinds"]["noisy"].tolist()
    machine = parts.spec["machine"][0]
    spread, floor = float(machine["spread"]), float(machine["floor"])
    result = []
    for task, row in enumerate(expected):
        times = []
        for kind, time in enumerate(row):
            if noisy[kind]:
                luck = float(normal(key, task * KIND_STRIDE + kind))
                if isinstance(noise, Additive):
                    drawn = time + max(spread * luck, floor)
                else:
                    drawn = time * math.exp(spread * luck - spread * spread / 2.0)
                time = max(1, math.ceil(drawn))
            times.append(time)
        result.append(times)
    return result


class Replay:
    """Plays a schedule again: each processor takes the next task that was planned for its kind, when it is time."""

    def __init__(self, solution: Solution, simulator: Simulator) -> None:
        self.simulator = simulator
        spec = built(simulator.scenario).spec
        self.kinds = spec["processors"]["kind"].tolist()
        self.tasks = int(spec["machine"]["tasks"][0])
        self.planned = {
            job * self.tasks + number: pair
            for job, pairs in enumerate(solution.starts)
            for number, pair in enumerate(pairs)
        }

    def choose(self) -> int:
        """Return the row of the earliest planned task of the kind, or wait if that is still to come."""
        header, arrays = self.simulator.header, self.simulator.arrays
        kind = self.kinds[int(header["asked"])]
        rows, behind = int(header["shown"]), int(header["candidates"]) - int(header["shown"])
        width = int(built(self.simulator.scenario).spec["machine"]["rows"][0])
        due = []
        for place, task in enumerate(arrays["candidates"][0, : rows + behind].tolist()):
            start, chosen = self.planned[task]
            if chosen == kind and start <= int(header["now"]):
                due.append((start, task, place if place < rows else width + 1 + place - rows))
        last = self.simulator.family.all_rows(self.simulator.scenario) - 1
        return min(due)[2] if due else last
