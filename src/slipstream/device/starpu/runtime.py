"""Runtime of tiled graphs inside StarPU: its workers run the kernels, and a lane under a policy decides in `pop_task`.

The lane is that of every other engine. Here it is C that reports ends to it and has it decide
(`policy.c`), by the functions of `seam.py`: without Python between the end of a task and the begin of the next.
"""

from __future__ import annotations

import numpy as np

from slipstream.device.backends.streams import now
from slipstream.device.controlling import frozen_garbage_collector, interruptible
from slipstream.device.engine import LONGEST_SLEEP_NS, Execution, decider, warm_up
from slipstream.device.lane import DeviceLane
from slipstream.device.starpu.machine import KERNEL_FAILED, LANE_FAILED, RUNS, Record, StarpuMachine
from slipstream.device.starpu.seam import Seam
from slipstream.device.tasks.runtime import check_residual, refuse_simulating
from slipstream.errors import DeviceError
from slipstream.families.contract import NO_PROGRAM, Scenario
from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.policies.base import Policy
from slipstream.sim.eventlog import DONE, FINISH

SCHEDULERS = ("eager", "dmda", "lws")
"""Schedulers of StarPU itself that runs are compared with."""


class StarpuRuntime:
    """Executes a taskgraph scenario under a policy inside StarPU."""

    def __init__(self, scenario: Scenario, machine: StarpuMachine) -> None:
        assert isinstance(scenario, TaskgraphScenario)
        self._scenario = scenario
        self._machine = machine
        self._stopping = False
        self._lane: DeviceLane[TaskgraphScenario] | None = None
        self.record: Record | None = None
        """What StarPU did in the last run."""
        spec = compiled_scenario(scenario).spec
        self._durations = spec["durations"][: len(machine.kernels)]
        self._kind_of = spec["processors"]["kind"]

    def stop(self) -> None:
        """Begin no further task, wait for the running ones, then end the episode: the current one, or else the next."""
        self._stopping = True

    def play(self, policy: Policy, seed: int, split: str = "test") -> Execution:
        """Play one episode.

        Raises:
            InputError: The policy simulates ahead.
            DeviceError: A kernel failed, or the result is wrong.
        """
        refuse_simulating(policy)
        policy = decider(policy, self._scenario)
        self._lane = lane = DeviceLane(self._scenario)
        warm_up(lane, policy)
        seam = Seam(lane, policy)
        self._machine.tiles.fill()
        lane.begin(seed, split)
        with interruptible(self.stop), frozen_garbage_collector():
            state = self._run(seam)
        execution = self._execution(lane, state)
        self._stopping = False
        return execution

    def _run(self, seam: Seam) -> int:
        """Run all tasks, or those that begin before the stop; return the state at the end."""
        with self._machine.open(self._expected_us(), lane=seam.functions) as session:
            session.begin()
            while (state := session.wait(0 if self._stopping else now() + LONGEST_SLEEP_NS)) == RUNS:
                if self._stopping or seam.error is not None:
                    session.cancel()
                    break
            stopped = now()
        self.record = session.record()
        lane = self._lane
        assert lane is not None
        if not lane.over and seam.error is None:
            lane.follow(stopped - self.record.zero, last=True)
        if seam.error is not None:
            raise seam.error
        if state == KERNEL_FAILED:
            job, number = divmod(session.failed_task, len(self._machine.kernels))
            kernel, worker = self._machine.kernels[number], self.record.worker[session.failed_task]
            raise DeviceError(
                f"part {number} of job {job}: {kernel} failed on processor {worker}: expected a kernel that succeeds"
            )
        if state == LANE_FAILED:
            raise DeviceError("the lane cannot continue: expected one that waits for its tasks")
        return state

    def _execution(self, lane: DeviceLane[TaskgraphScenario], state: int) -> Execution:
        """Return the result of the episode, whose tasks count as far as they ended before a stop."""
        execution = Execution(lane.events(), interrupted=state == RUNS, mistakes=int(lane.header["mistakes"]))
        record, tasks = self.record, len(self._machine.kernels)
        assert record is not None
        ended = execution.events[execution.events["kind"] == FINISH]
        for number, job in zip(ended["task"].tolist(), ended["job"].tolist(), strict=True):
            task = job * tasks + number
            kind = self._kind_of[record.worker[task]]
            execution.service_ns.append((number, NO_PROGRAM, int(record.ended[task] - record.began[task])))
            execution.planned_ns.append(int(self._durations[number, kind]))
            execution.dispatch_ns.append(int(record.dispatch[task]))
        done = execution.events["job"][execution.events["kind"] == DONE].tolist()
        execution.residual = self._machine.tiles.residual(done)
        check_residual(execution.residual)
        return execution

    def reference(self, scheduler: str) -> Record:
        """Run all tasks under a scheduler of StarPU itself, which knows the same durations, and check the result.

        All jobs are submitted at once.
        """
        if scheduler not in SCHEDULERS:
            raise DeviceError(f"scheduler '{scheduler}': expected one of {', '.join(SCHEDULERS)}")
        self._machine.tiles.fill()
        with self._machine.open(self._expected_us(), scheduler=scheduler) as session:
            session.begin()
            while session.wait(now() + LONGEST_SLEEP_NS) == RUNS:
                continue
        check_residual(self._machine.tiles.residual(list(range(compiled_scenario(self._scenario).sizes.jobs))))
        return session.record()

    def _expected_us(self) -> np.ndarray:
        return np.ascontiguousarray(self._durations.mean(axis=1) / 1e3)

    def pieces(self) -> list[np.ndarray]:
        """Return the event log of the last episode in pieces, also after an error."""
        return [] if self._lane is None else self._lane.pieces()
