"""Runtime of families whose tasks run on worker processes: tasks that fail are repeated, and none is lost or doubled.

The lane's clock may run at another speed than the wall clock: a scenario of hours is executed in seconds by stand-ins
that take their drawn times on a smaller scale.
"""

from __future__ import annotations

from typing import Any, TypeVar

from slipstream.device.backends.streams import Completion, now
from slipstream.device.engine import (
    LEAST_WATCHDOG_MS,
    LONGEST_SLEEP_NS,
    WATCHDOG_FACTOR,
    EngineRuntime,
    Execution,
    Watcher,
)
from slipstream.device.lane import DeviceLane
from slipstream.device.tasks.processes import TaskProcesses, TaskRequest
from slipstream.device.tasks.programs import parse_programs
from slipstream.device.tasks.tiles import LARGEST_RESIDUAL, TileSpace
from slipstream.errors import DeviceError, InputError
from slipstream.families.contract import FAMILIES, Processes, Scenario, Work, family_of
from slipstream.policies.base import Policy
from slipstream.policies.plan_rollout import PlanRollout
from slipstream.policies.rollout import Rollout
from slipstream.sim.eventlog import DONE

S = TypeVar("S", bound=Scenario)


def processes_of(scenario: Scenario) -> Processes[Any]:
    """Return how the tasks of a scenario run on worker processes.

    Raises:
        DeviceError: Its family has no tasks that do.
    """
    found = family_of(scenario).members.processes
    if found is None:
        known = [f"'{name}'" for name, family in FAMILIES.items() if family.members.processes is not None]
        raise DeviceError(
            f"a scenario of the family '{scenario.family}': expected one of {', '.join(known)}, whose tasks run on "
            "worker processes"
        )
    return found


def open_processes(
    scenario: Scenario, allow_code: bool = False, spins: bool = False, tile_side: int | None = None
) -> TaskProcesses:
    """Return the worker processes of a scenario, all of them ready.

    With `tile_side`, the tasks of a tiled graph run its kernels on tiles of as many rows and columns.

    Raises:
        ModelError: One line: what is wrong with the address of a program.
        DeviceError: One line: the processes cannot be started.
    """
    how = processes_of(scenario)
    count = how.count(scenario)
    addresses = parse_programs(how.programs(scenario), scenario._folder, allow_code)
    tiles = None if tile_side is None else TileSpace(scenario, count, tile_side)
    return TaskProcesses(count, addresses, how.noun, spins, tiles)


def refuse_simulating(policy: Policy) -> None:
    """Raise an InputError if a policy simulates ahead."""
    if isinstance(policy, Rollout | PlanRollout):
        raise InputError(f"policy '{policy.name}' simulates ahead: expected a rule or a network to execute")


def check_residual(residual: float) -> None:
    """Raise a DeviceError if the result of kernels is wrong."""
    if not residual <= LARGEST_RESIDUAL:
        raise DeviceError(f"the result is off by {residual:.1e}: expected at most {LARGEST_RESIDUAL:.0e}")


class TaskRuntime(EngineRuntime[S]):
    """Executes a scenario under a policy, on worker processes that are ready.

    `time_scale` is in seconds per second of the scenario.
    """

    def __init__(
        self,
        scenario: S,
        processes: TaskProcesses,
        time_scale: float = 1.0,
        watchdog_ms: float | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        how = processes_of(scenario)
        if processes.count != how.count(scenario):
            raise DeviceError(f"{processes.count} worker processes: expected {how.count(scenario)} of them")
        if watchdog_ms is None:
            watchdog_ms = max(LEAST_WATCHDOG_MS, WATCHDOG_FACTOR * how.longest(scenario) * time_scale / 1e6)
        super().__init__(scenario, processes, watchdog_ms, watcher)
        self._processes = processes
        self._scale = time_scale
        self._how = how
        self._most_attempts = how.attempts(scenario)
        self._failures: dict[int, int] = {}
        """By resource: how often its present task failed."""
        self._numbers: dict[int, int] = {}
        """By resource: number of its present task within its part."""
        self._loaded = False
        """Whether resources hold what they begin the episode with."""
        self._begun: dict[tuple[int, int], int] = {}
        """By job and part: tasks that were begun, attempts to repeat them apart."""

    def play(self, policy: Policy, seed: int, split: str = "test") -> Execution:
        """Play one episode in real time.

        Raises:
            InputError: The policy simulates ahead.
            DeviceError: The result of kernels is wrong.
        """
        refuse_simulating(policy)
        self._failures.clear()
        self._numbers.clear()
        self._begun.clear()
        self._loaded = False
        tiles = self._processes.tiles
        if tiles is None:
            return super().play(policy, seed, split)
        tiles.fill()
        execution = super().play(policy, seed, split)
        done = execution.events["job"][execution.events["kind"] == DONE].tolist()
        execution.residual = tiles.residual(done)
        check_residual(execution.residual)
        return execution

    def _lane_time(self, moment: int) -> int:
        return round((moment - self._zero) / self._scale)

    def _moment(self, time: int) -> int:
        return self._zero + round(time * self._scale)

    def _submit(self, resource: int, work: tuple[int, ...]) -> None:
        """Submit a task, or the move of an executor as a stand-in."""
        work = Work(*work)
        failures = self._failures.get(resource, 0)
        if work.tasks and not failures:
            begun = self._begun.get(work[:2], 0)
            self._begun[work[:2]] = begun + 1
            # A stage that failed as a whole begins anew with its first task.
            self._numbers[resource] = begun % work.tasks
        number = self._numbers.get(resource, 0)
        duration = round(work.planned * self._scale)
        program = work.program if self._processes.tiles is None else 0
        request = TaskRequest(program, work.job, work.part, number, work.tasks, failures, duration)
        self._processes.submit(resource, request)

    def _catch_up(self, lane: DeviceLane[Any], policy: Policy | None, execution: Execution) -> None:
        """Wait for the next event and apply it; once stopped, end the episode: what runs is awaited, not recorded.

        The end of a task may begin the next one without a decision, so the lane cannot wait for the ends.
        """
        if not self._loaded:
            self._loaded = True
            self._preload(lane)
        if self._stopping:
            lane.follow(self._lane_time(now()), None, last=True)
        else:
            super()._catch_up(lane, policy, execution)

    def _preload(self, lane: DeviceLane[Any]) -> None:
        """Have resources load what they hold from the beginning, then start the clock once more.

        Raises:
            DeviceError: One line: what cannot be loaded.
        """
        loads = self._how.preloads(self._scenario, lane.arrays)
        if not loads or self._jobs:
            return
        for resource, work in loads.items():
            self._submit(resource, work)
        while loads:
            for completion in self._wait_until(now() + LONGEST_SLEEP_NS):
                if completion.error:
                    what = f"{self._how.noun} {completion.stream}"
                    raise DeviceError(f"{what} cannot load: {completion.error}: expected a network that loads")
                del loads[completion.stream]
        self._zero = now()

    def _record_completion(self, lane: DeviceLane[Any], completion: Completion, execution: Execution) -> None:
        """Apply the end of a task to the lane, or its failure: it is begun again, up to the most attempts."""
        resource = completion.stream
        work = Work(*self._jobs.pop(resource))
        if lane.running(resource) != work:
            self._failures.pop(resource, None)
            return  # cancelled by a decision meanwhile, as a load can be
        if not completion.error:
            self._failures.pop(resource, None)
            if work.tasks:
                execution.service_ns.append((work.part, work.program, completion.device_ns))
                execution.planned_ns.append(round(work.planned * self._scale))
            lane.end(resource, max(1, self._lane_time(completion.ended)))
            return
        failures = self._failures[resource] = self._failures.get(resource, 0) + 1
        execution.faults.append((work.part, work.job, completion.error))
        if failures == self._most_attempts:
            what = f"part {work.part} of job {work.job}"
            raise DeviceError(
                f"{what} failed {failures} times on {self._how.noun} {resource}: {completion.error}: "
                "expected a task that succeeds"
            )
        if work.tasks:  # a move that failed is repeated without a notice of the lane
            lane.end(resource, max(1, self._lane_time(completion.ended)), failed=True)
