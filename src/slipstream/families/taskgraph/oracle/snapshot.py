"""Snapshot of an episode for the solvers: assignment of tasks and copies of tiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.kernel.state import (
    CHOOSE_TASK,
    FINISHED,
    HOST,
    LINKS_PER_DEVICE,
    LOADING,
    TO_HOST,
    VALID,
)
from slipstream.families.taskgraph.labels import candidates_by_row
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.sim.kernel.heap import BLOCK, NEVER, next_time
from slipstream.sim.simulator import Simulator


@dataclass(frozen=True)
class ProcessorGroup:
    """Interchangeable processors: one device, or the processors of one kind at the host."""

    kind: int
    node: int
    processors: tuple[int, ...]


def processor_groups(scenario: TaskgraphScenario) -> list[ProcessorGroup]:
    """Return the processor groups of a machine; without links every processor is at the host."""
    processors = compiled_scenario(scenario).spec["processors"]
    together: dict[tuple[int, int], list[int]] = {}
    for number, (kind, node) in enumerate(processors.tolist()):
        together.setdefault((kind, node if scenario.links is not None else HOST), []).append(number)
    return [ProcessorGroup(kind, node, tuple(numbers)) for (kind, node), numbers in together.items()]


@dataclass(frozen=True)
class Snapshot:
    """State of an episode at a decision; times in ns, episode-wide numbers of tasks and tiles."""

    now: int
    arrived: int
    """Number of jobs that have arrived."""
    finished: frozenset[int]
    running: dict[int, tuple[int, int]]
    """Processor and end of each running task."""
    held: dict[int, int]
    """Processor of each held task that does not run."""
    queued: dict[int, int]
    """Processor of each queued task."""
    copies: dict[int, dict[int, int]]
    """Nodes with a copy of each tile of the arrived jobs, and the time from which it is valid."""
    links: dict[int, int]
    """End of the transfer of each busy link."""
    forced: tuple[int, tuple[int, ...]]
    """Deciding processor, and the tasks of which it must take one now; none if it may wait."""

    @staticmethod
    def of(simulator: Simulator[TaskgraphScenario]) -> Snapshot:
        """Return the snapshot of the state of `simulator`."""
        arrays, header = simulator.arrays, simulator.header
        spec = compiled_scenario(simulator.scenario).spec
        machine, arrived = spec["machine"][0], int(header["arrived"])
        status = arrays["tasks"][0]["status"][: arrived * int(machine["tasks"])]
        heap = arrays["heap"][0]
        times = heap[len(heap) // (1 + BLOCK) :]
        running: dict[int, tuple[int, int]] = {}
        held: dict[int, int] = {}
        queued: dict[int, int] = {}
        for number, worker in enumerate(arrays["processors"][0]):
            tasks = arrays["holds"][0, number, : worker["held"]].tolist()
            if worker["runs"]:
                running[tasks.pop(0)] = (number, int(times[number]))
            held.update((task, number) for task in tasks)
            queued.update((task, number) for task in arrays["queues"][0, number, : worker["queued"]].tolist())
        count = len(arrays["processors"][0])
        links = {link: int(times[count + link]) for link in range(arrays["links"].shape[1])}
        return Snapshot(
            int(header["now"]),
            arrived,
            frozenset(np.flatnonzero(status == FINISHED).tolist()),
            running,
            held,
            queued,
            _copies(arrays, arrived * int(machine["tiles"]), int(header["now"]), links),
            {link: time for link, time in links.items() if time < NEVER},
            (int(header["asked"]), _forced_tasks(simulator)),
        )


def _forced_tasks(simulator: Simulator[TaskgraphScenario]) -> tuple[int, ...]:
    """Return the tasks of which the deciding processor must take one; none if it may wait."""
    header, arrays = simulator.header, simulator.arrays
    if int(header["phase"]) != CHOOSE_TASK or next_time(arrays["heap"][0]) < NEVER:
        return ()
    later = arrays["processors"][0][int(header["asked"]) + 1 :]
    if np.any((later["held"] < simulator.scenario.pipeline) & (later["waited_at"] != header["events"])):
        return ()
    return tuple(candidates_by_row(simulator).values())


def _copies(arrays: dict[str, np.ndarray], tiles: int, now: int, links: dict[int, int]) -> dict[int, dict[int, int]]:
    states = arrays["copies"][0]["state"][:tiles]
    copies: dict[int, dict[int, int]] = {
        tile: dict.fromkeys(np.flatnonzero(row == VALID).tolist(), now) for tile, row in enumerate(states)
    }
    for link, time in links.items():
        tile = int(arrays["links"][0, link])
        node = HOST if link % LINKS_PER_DEVICE == TO_HOST else 1 + link // LINKS_PER_DEVICE
        if time < NEVER and states[tile, node] == LOADING:
            copies[tile][node] = time
    return copies
