"""Where an episode is, as a solver needs it: who has which task, and where the tiles are."""

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
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.sim.kernel.heap import BLOCK, NEVER, next_time
from slipstream.sim.simulator import Simulator


@dataclass(frozen=True)
class Place:
    """Where a task can run: one device, or the processors of one kind that share the host's memory."""

    kind: int
    node: int
    processors: tuple[int, ...]


def places_of(scenario: TaskgraphScenario) -> list[Place]:
    """Return all places of a machine; without links every processor is at the host."""
    processors = compiled_scenario(scenario).spec["processors"]
    together: dict[tuple[int, int], list[int]] = {}
    for number, (kind, node) in enumerate(processors.tolist()):
        together.setdefault((kind, node if scenario.links is not None else HOST), []).append(number)
    return [Place(kind, node, tuple(numbers)) for (kind, node), numbers in together.items()]


def candidates_by_row(simulator: Simulator) -> dict[int, int]:
    """Return what each row of the present choice stands for: a task, or a processor; waiting is none of them."""
    header = simulator.header
    shown, width = int(header["shown"]), int(compiled_scenario(simulator.scenario).spec["machine"]["rows"][0])
    listed = simulator.arrays["candidates"][0, : int(header["candidates"])].tolist()
    return {place if place < shown else width + 1 + place - shown: one for place, one in enumerate(listed)}


@dataclass(frozen=True)
class Situation:
    """One point of an episode; times in ns, tasks and tiles as the episode numbers them."""

    now: int
    arrived: int
    """Jobs that have."""
    finished: frozenset[int]
    running: dict[int, tuple[int, int]]
    """Processor, and when it ends."""
    held: dict[int, int]
    """Processor of each task that it holds and does not run."""
    queued: dict[int, int]
    """Processor of each task that is in its queue."""
    copies: dict[int, dict[int, int]]
    """Of each tile of a job that has arrived: nodes that have it, and from when on."""
    links: dict[int, int]
    """Until when each link that carries something is busy."""
    duty: tuple[int, tuple[int, ...]]
    """The processor that is asked, and the tasks of which it has to take one now; none where it may wait."""

    @staticmethod
    def of(simulator: Simulator) -> Situation:
        """Return the one where a simulator is."""
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
        return Situation(
            int(header["now"]),
            arrived,
            frozenset(np.flatnonzero(status == FINISHED).tolist()),
            running,
            held,
            queued,
            _copies(arrays, arrived * int(machine["tiles"]), int(header["now"]), links),
            {link: time for link, time in links.items() if time < NEVER},
            (int(header["asked"]), _duty(simulator)),
        )


def _duty(simulator: Simulator) -> tuple[int, ...]:
    """Return the tasks of which the asked processor has to take one, because it may not wait."""
    header, arrays = simulator.header, simulator.arrays
    if int(header["phase"]) != CHOOSE_TASK or next_time(arrays["heap"][0]) < NEVER:
        return ()
    later = arrays["processors"][0][int(header["asked"]) + 1 :]
    if np.any((later["held"] < simulator.scenario.pipeline) & (later["parked"] != header["events"])):
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
