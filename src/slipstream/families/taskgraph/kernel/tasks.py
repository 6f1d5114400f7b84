"""The course of tasks, compiled: they come into view, become ready, are placed, taken and started, and end."""

from __future__ import annotations

import math

import numpy as np

from slipstream.families.taskgraph.kernel.memory import drop, tile_at, touch
from slipstream.families.taskgraph.kernel.state import (
    ADDITIVE,
    FINISHED,
    HELD,
    HIDDEN,
    HOST,
    NO_NOISE,
    QUEUED,
    READY,
    SEE_PARENTS,
    SEE_WINDOW,
    VALID,
    WAITING,
    WRITE,
)
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import DONE, FINISH, START, TAKE
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.lanes import record
from slipstream.sim.kernel.rng import normal

KIND_STRIDE = 64
"""Counters of one task's durations are those of the task before it plus this."""


@inlined
def number_of(spec, state, lane, task):
    """Return the number of a task within its job."""
    return spec.tasks[state.tasks[lane, task].source].number


@kernel
def reveal(spec, state, lane, task):
    """Let a task come into view; it is ready if it waits for nothing."""
    own = state.tasks[lane, task]
    source = spec.tasks[own.source]
    own.status = WAITING
    state.lanes[lane].visible += 1
    state.lanes[lane].work_left += source.least
    for access in range(source.first_access, source.first_access + source.accesses):
        state.tiles[lane, tile_at(spec, state, lane, task, access)].uses += 1
    if own.waits_for == 0:
        make_ready(state, lane, task)


@kernel
def make_ready(state, lane, task):
    """Put a task at the end of the list of ready ones."""
    header = state.lanes[lane]
    own = state.tasks[lane, task]
    own.status = READY
    own.ready_at = header.now
    own.parked = -1
    state.ready[lane, header.ready] = task
    header.ready += 1


@kernel
def submit(spec, state, lane, job):
    """Let the next tasks of a job come into view, as many as the window has room for."""
    owner = state.jobs[lane, job]
    first = job * spec.machine[0].tasks
    while owner.submitted < owner.tasks and owner.submitted - owner.finished < spec.machine[0].visible_tasks:
        reveal(spec, state, lane, first + owner.submitted)
        owner.submitted += 1
        state.lanes[lane].ranks_stale = 1


@kernel
def leave_ready(state, lane, task):
    """Take a task out of the list of ready ones."""
    header = state.lanes[lane]
    header.ready -= 1
    place = 0
    while state.ready[lane, place] != task:
        place += 1
    while place < header.ready:
        state.ready[lane, place] = state.ready[lane, place + 1]
        place += 1


@inlined
def count_queued(spec, state, lane, task, node, change):
    """Count for each tile of a task that it is, or is no longer, in the queue of the processor of a device."""
    source = spec.tasks[state.tasks[lane, task].source]
    for access in range(source.first_access, source.first_access + source.accesses):
        state.copies[lane, tile_at(spec, state, lane, task, access), node].queued += change


@kernel
def place(spec, state, lane, task, processor):
    """Put a ready task at the end of the queue of a processor."""
    worker = state.processors[lane, processor]
    leave_ready(state, lane, task)
    state.tasks[lane, task].status = QUEUED
    state.queues[lane, processor, worker.queued] = task
    worker.queued += 1
    worker.work += spec.durations[state.tasks[lane, task].source, spec.processors[processor].kind]
    state.lanes[lane].placed += 1
    count_queued(spec, state, lane, task, spec.processors[processor].node, 1)


@kernel
def take_queued(spec, state, lane, processor, position):
    """Let a processor take a task out of its queue."""
    worker = state.processors[lane, processor]
    task = state.queues[lane, processor, position]
    worker.queued -= 1
    for later in range(position, worker.queued):
        state.queues[lane, processor, later] = state.queues[lane, processor, later + 1]
    state.lanes[lane].placed -= 1
    count_queued(spec, state, lane, task, spec.processors[processor].node, -1)
    hold(spec, state, lane, task, processor)


@kernel
def take_ready(spec, state, lane, task, processor):
    """Let a processor take a ready task."""
    leave_ready(state, lane, task)
    kind = spec.processors[processor].kind
    state.processors[lane, processor].work += spec.durations[state.tasks[lane, task].source, kind]
    hold(spec, state, lane, task, processor)


@kernel
def hold(spec, state, lane, task, processor):
    """Let a processor hold a task behind those that it holds."""
    worker = state.processors[lane, processor]
    own = state.tasks[lane, task]
    own.status = HELD
    state.holds[lane, processor, worker.held] = task
    worker.held += 1
    state.taken[lane, own.job, processor] += 1
    record(state, lane, TAKE, number_of(spec, state, lane, task), own.job, -1, processor)


@kernel
def can_start(spec, state, lane, task, node):
    """Return whether all tiles of a task are at a node, and none that it writes is being copied."""
    source = spec.tasks[state.tasks[lane, task].source]
    for access in range(source.first_access, source.first_access + source.accesses):
        tile = tile_at(spec, state, lane, task, access)
        if state.copies[lane, tile, node].state != VALID:
            return False
        if spec.accesses[access].mode & WRITE and state.tiles[lane, tile].moving > 0:
            return False
    return True


@kernel
def draw_duration(spec, state, lane, task, kind):
    """Return the time that a task takes on a kind of processor: its own luck there, whoever decides."""
    machine = spec.machine[0]
    own = state.tasks[lane, task]
    expected = spec.durations[own.source, kind]
    if machine.noise == NO_NOISE or not spec.kinds[kind].noisy:
        return expected
    number = np.int64(spec.tasks[own.source].number)
    luck = normal(state.jobs[lane, own.job].key, number * KIND_STRIDE + kind)
    if machine.noise == ADDITIVE:
        time = expected + max(machine.spread * luck, machine.floor)
    else:
        time = expected * math.exp(machine.spread * luck - machine.spread * machine.spread / 2.0)
    return max(np.int64(1), np.int64(math.ceil(time)))


@kernel
def start(spec, state, lane, processor):
    """Let a processor start the first task that it holds."""
    header = state.lanes[lane]
    worker = state.processors[lane, processor]
    kind, node = spec.processors[processor].kind, spec.processors[processor].node
    task = state.holds[lane, processor, 0]
    source = spec.tasks[state.tasks[lane, task].source]
    if spec.machine[0].transfers:
        for access in range(source.first_access, source.first_access + source.accesses):
            touch(state, lane, tile_at(spec, state, lane, task, access), node)
    expected = spec.durations[state.tasks[lane, task].source, kind]
    worker.runs = 1
    worker.work -= expected
    worker.expected = header.now + expected
    header.running += 1
    record(state, lane, START, source.number, state.tasks[lane, task].job, kind, processor)
    schedule(state.heap, lane, processor, header.now + draw_duration(spec, state, lane, task, kind))


@kernel
def finish(spec, state, lane, processor):
    """Let the task that a processor runs end."""
    header = state.lanes[lane]
    worker = state.processors[lane, processor]
    task = state.holds[lane, processor, 0]
    own = state.tasks[lane, task]
    owner = state.jobs[lane, own.job]
    schedule(state.heap, lane, processor, NEVER)
    worker.runs = 0
    worker.held -= 1
    for later in range(worker.held):
        state.holds[lane, processor, later] = state.holds[lane, processor, later + 1]
    own.status = FINISHED
    owner.finished += 1
    header.running -= 1
    header.finished += 1
    header.visible -= 1
    header.work_left -= spec.tasks[own.source].least
    record(state, lane, FINISH, number_of(spec, state, lane, task), own.job, spec.processors[processor].kind, processor)
    release_tiles(spec, state, lane, task, spec.processors[processor].node)
    release_children(spec, state, lane, task)
    if spec.machine[0].visibility == SEE_WINDOW:
        submit(spec, state, lane, own.job)
    if owner.finished == owner.tasks:
        header.done += 1
        record(state, lane, DONE, -1, own.job, -1, -1)


@kernel
def release_tiles(spec, state, lane, task, node):
    """Let the tiles that a task has written be nowhere but where it ran."""
    source = spec.tasks[state.tasks[lane, task].source]
    for access in range(source.first_access, source.first_access + source.accesses):
        tile = tile_at(spec, state, lane, task, access)
        state.tiles[lane, tile].uses -= 1
        if spec.machine[0].transfers and spec.accesses[access].mode & WRITE:
            for other in range(HOST, state.copies.shape[2]):
                if other != node and state.copies[lane, tile, other].state == VALID:
                    drop(spec, state, lane, tile, other)


@kernel
def release_children(spec, state, lane, task):
    """Let the children of a task wait for one parent less."""
    own = state.tasks[lane, task]
    source = spec.tasks[own.source]
    first = own.job * spec.machine[0].tasks
    for place in range(source.first_child, source.first_child + source.children):
        child = first + spec.children[place]
        other = state.tasks[lane, child]
        other.waits_for -= 1
        if other.waits_for == 0:
            if other.status == WAITING:
                make_ready(state, lane, child)
            elif other.status == HIDDEN and spec.machine[0].visibility == SEE_PARENTS:
                reveal(spec, state, lane, child)
