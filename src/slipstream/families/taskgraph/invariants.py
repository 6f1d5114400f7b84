"""Invariants of the event log of a taskgraph episode, for any policy.

Jobs arrive once, numbered from 0. A task is taken once, after its parents have finished, and starts and finishes once
on the processor that took it; a processor holds at most `pipeline` tasks and runs one at a time. A tile is transferred
from a node where it is valid, one tile at a time per link, and a task starts only where all its tiles are. The memory
of a device never exceeds its capacity, and the only copy of a tile is never evicted. A task that failed, which only
happens on an engine, starts once more. Times never decrease, and the end is the last row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slipstream.families.shared.invariants import ReplayChecker
from slipstream.families.taskgraph.build import capacity_of, compiled_scenario
from slipstream.families.taskgraph.kernel.state import LINKS_PER_DEVICE, PEER, READ, TO_DEVICE, TO_HOST, WRITE
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.families.taskgraph.workload.templates import Template
from slipstream.sim.eventlog import ARRIVAL, DONE, END, EVICT, FAIL, FINISH, MOVE, READY, START, TAKE

LOGGED = (ARRIVAL, START, FINISH, END, READY, EVICT, MOVE, FAIL, DONE, TAKE)
"""Kinds of events in a log of this family."""
HOST = 0
STOPPED = 0
"""Variant of the end row of an episode that was stopped on an engine."""


@dataclass
class _Job:
    """State of a job after the rows read."""

    template: Template
    taken: dict[int, int] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    finished: set[int] = field(default_factory=set)
    valid: list[set[int]] = field(default_factory=list)
    """Nodes with a valid copy of each tile."""
    done: bool = False

    def is_dead(self, tile: int) -> bool:
        """Return whether the next access overwrites a tile: its writer then needs no transfer, which is not logged."""
        for number, task in enumerate(self.template.tasks):
            if number not in self.finished and tile in dict(task.accesses):
                return dict(task.accesses)[tile] == WRITE
        return False

    def __post_init__(self) -> None:
        self.valid = [{HOST} for _ in self.template.tile_names]


class _LogState(ReplayChecker):
    """State of processors, tiles and jobs after the rows read."""

    logged = LOGGED

    def __init__(self, scenario: TaskgraphScenario) -> None:
        self.scenario = scenario
        self.templates = compiled_scenario(scenario).library.templates
        self.jobs: list[_Job] = []
        self.node: list[int] = []
        self.capacity = [capacity_of(None)]
        for kind in compiled_scenario(scenario).library.kinds:
            for _ in range(kind.count):
                self.node.append(len(self.capacity) if kind.device else HOST)
                if kind.device:
                    self.capacity.append(capacity_of(kind.memory_mb))
        self.held: list[list[tuple[int, int]]] = [[] for _ in self.node]
        self.running: list[tuple[int, int] | None] = [None] * len(self.node)
        self.carries: dict[int, tuple[int, int]] = {}

    def job(self, number: int, what: str) -> _Job:
        self.require(0 <= number < len(self.jobs), f"{what} of job {number}, which never arrived")
        self.require(not self.jobs[number].done, f"{what} of job {number}, which is done")
        return self.jobs[number]

    def arrival(self, number: int, template: int) -> None:
        self.require(number == len(self.jobs), f"arrival of job {number}: expected job {len(self.jobs)}")
        self.require(0 <= template < len(self.templates), f"job {number} is of graph {template}: unknown")
        self.jobs.append(_Job(self.templates[template]))

    def take(self, number: int, task: int, processor: int) -> None:
        job = self.job(number, "take")
        event = f"task {task} of job {number} is taken by processor {processor}"
        self.require(0 <= task < len(job.template.tasks), f"{event}: unknown")
        self.require(task not in job.taken, f"{event}, but was taken before")
        ended = job.finished.issuperset(job.template.tasks[task].parents)
        self.require(ended, f"{event} before its parents have ended")
        job.taken[task] = processor
        self.held[processor].append((number, task))
        self.require(len(self.held[processor]) <= self.scenario.pipeline, f"{event}, which holds too many")

    def start(self, number: int, task: int, processor: int) -> None:
        job = self.job(number, "start")
        event = f"start of task {task} of job {number} on processor {processor}"
        self.require(self.running[processor] is None, f"{event}, which is busy")
        self.require(self.held[processor][:1] == [(number, task)], f"{event}, which holds another first")
        self.running[processor] = (number, task)
        job.started.add(task)
        node = self.node[processor]
        if self.scenario.links is None:
            return
        for tile, mode in job.template.tasks[task].accesses:
            if mode & READ:
                self.require(node in job.valid[tile], f"{event}, but tile {tile} is not at node {node}")
            else:
                job.valid[tile].add(node)
            if mode & WRITE:
                moving = (number, tile) in self.carries.values()
                self.require(not moving, f"{event}, which writes tile {tile} while it moves")
        self.check_memory(node)

    def finish(self, number: int, task: int, processor: int) -> None:
        job = self.job(number, "finish")
        event = f"finish of task {task} of job {number} on processor {processor}"
        self.require(self.running[processor] == (number, task), f"{event}, which does not run it")
        self.running[processor] = None
        self.held[processor].pop(0)
        job.finished.add(task)
        if self.scenario.links is not None:
            for tile, mode in job.template.tasks[task].accesses:
                if mode & WRITE:
                    job.valid[tile] = {self.node[processor]}

    def fail(self, number: int, task: int, processor: int) -> None:
        event = f"fail of task {task} of job {number} on processor {processor}"
        self.require(self.running[processor] == (number, task), f"{event}, which does not run it")
        self.running[processor] = None

    def move(self, number: int, tile: int, which: int, link: int) -> None:
        # Tiles may be written back after their job is done.
        self.require(0 <= number < len(self.jobs), f"move of job {number}, which never arrived")
        job = self.jobs[number]
        event = f"tile {tile} of job {number} moves on link {link}"
        self.require(self.scenario.links is not None, f"{event}, but there are none")
        self.require(0 <= link < LINKS_PER_DEVICE * (len(self.capacity) - 1), f"{event}: unknown")
        self.require(link % LINKS_PER_DEVICE == which, f"{event}, which is not of kind {which}")
        self.require(link not in self.carries, f"{event}, which is busy")
        self.require(0 <= tile < len(job.valid), f"{event}: unknown tile")
        device = 1 + link // LINKS_PER_DEVICE
        nodes = job.valid[tile]
        is_there = {TO_DEVICE: HOST in nodes, TO_HOST: device in nodes, PEER: bool(nodes - {HOST, device})}
        self.require(is_there[which] or job.is_dead(tile), f"{event}, but is not where it comes from")
        self.carries[link] = (number, tile)
        self.check_memory(device)

    def arrived(self, number: int, tile: int, link: int) -> None:
        event = f"tile {tile} of job {number} has come on link {link}"
        self.require(self.carries.pop(link, None) == (number, tile), f"{event}, which did not carry it")
        target = HOST if link % LINKS_PER_DEVICE == TO_HOST else 1 + link // LINKS_PER_DEVICE
        self.jobs[number].valid[tile].add(target)

    def evict(self, number: int, tile: int, node: int) -> None:
        self.require(0 <= number < len(self.jobs), f"evict of job {number}, which never arrived")
        event = f"tile {tile} of job {number} is evicted from node {node}"
        self.require(0 <= tile < len(self.jobs[number].valid), f"{event}: unknown tile")
        nodes = self.jobs[number].valid[tile]
        if node in nodes:
            self.require(len(nodes) > 1 or self.jobs[number].is_dead(tile), f"{event}, where its only copy is")
            nodes.discard(node)

    def check_memory(self, node: int) -> None:
        """Check that the valid and incoming tiles of a node fit its memory."""
        used = 0
        for job in self.jobs:
            used += sum(size for size, nodes in zip(job.template.tile_bytes, job.valid, strict=True) if node in nodes)
        for link, (number, tile) in self.carries.items():
            if 1 + link // LINKS_PER_DEVICE == node and link % LINKS_PER_DEVICE != TO_HOST:
                used += self.jobs[number].template.tile_bytes[tile]
        self.require(node == HOST or used <= self.capacity[node], f"node {node} has {used} bytes: more than fit")

    def complete(self, number: int) -> None:
        job = self.job(number, "done")
        whole = len(job.finished) == len(job.template.tasks)
        self.require(whole, f"job {number} is done, but not all of its tasks")
        job.done = True

    def end(self, was_stopped: bool) -> None:
        self.require(was_stopped or all(job.done for job in self.jobs), "the end: a job is not done")

    def apply(self, kind: int, job: int, task: int, variant: int, resource: int) -> None:
        processors = len(self.node)
        if kind in (START, FINISH, FAIL, TAKE):
            self.require_resource(resource, processors, "processor")
        if kind == ARRIVAL:
            self.arrival(job, task)
        elif kind == TAKE:
            self.take(job, task, resource)
        elif kind == START:
            self.start(job, task, resource)
        elif kind == FINISH:
            self.finish(job, task, resource)
        elif kind == FAIL:
            self.fail(job, task, resource)
        elif kind == MOVE:
            self.move(job, task, variant, resource - processors)
        elif kind == READY:
            self.arrived(job, task, resource - processors)
        elif kind == EVICT:
            self.evict(job, task, resource)
        elif kind == DONE:
            self.complete(job)
        else:
            self.end(variant == STOPPED)


def check(events: np.ndarray, scenario: TaskgraphScenario) -> None:
    """Raise a InvariantError that names the first row of `events` that violates an invariant."""
    _LogState(scenario).check_log(events)
