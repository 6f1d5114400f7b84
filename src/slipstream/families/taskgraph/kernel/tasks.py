"""Compiled life cycle of tasks: revealed, ready, queued, held, running, finished."""

from __future__ import annotations

import math

import numpy as np

from slipstream.families.taskgraph.kernel.memory import drop_copy, tile_at, touch
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
from slipstream.jit.decorators import entry, inlined, kernel
from slipstream.sim.eventlog import DONE, FAIL, FINISH, START, TAKE
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.lanes import record
from slipstream.sim.kernel.rng import normal

KIND_STRIDE = 64
"""Offset between the duration counters of successive tasks."""


@inlined
def number_of(spec, state, lane, task):
    """Return the number of a task within its job."""
    return spec.tasks[state.tasks[lane, task].source].number


@kernel
def reveal(spec, state, lane, task):
    """Make a task visible; it becomes ready if it has no unfinished parent."""
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
    """Append a task to the ready list."""
    header = state.lanes[lane]
    own = state.tasks[lane, task]
    own.status = READY
    own.ready_at = header.now
    own.waited_at = -1
    state.ready[lane, header.ready] = task
    header.ready += 1


@kernel
def submit(spec, state, lane, job):
    """Reveal the next tasks of a job up to the limit of visible unfinished tasks."""
    owner = state.jobs[lane, job]
    first = job * spec.machine[0].tasks
    while owner.submitted < owner.tasks and owner.submitted - owner.finished < spec.machine[0].visible_tasks:
        reveal(spec, state, lane, first + owner.submitted)
        owner.submitted += 1
        state.lanes[lane].ranks_stale = 1


@kernel
def remove_ready(state, lane, task):
    """Remove a task from the ready list."""
    header = state.lanes[lane]
    header.ready -= 1
    index = 0
    while state.ready[lane, index] != task:
        index += 1
    while index < header.ready:
        state.ready[lane, index] = state.ready[lane, index + 1]
        index += 1


@inlined
def count_queued(spec, state, lane, task, node, change):
    """Add `change` to the queued uses at `node` of each tile of a task."""
    source = spec.tasks[state.tasks[lane, task].source]
    for access in range(source.first_access, source.first_access + source.accesses):
        state.copies[lane, tile_at(spec, state, lane, task, access), node].queued += change


@kernel
def enqueue(spec, state, lane, task, processor):
    """Move a ready task to the end of the queue of a processor."""
    worker = state.processors[lane, processor]
    remove_ready(state, lane, task)
    state.tasks[lane, task].status = QUEUED
    state.queues[lane, processor, worker.queued] = task
    worker.queued += 1
    worker.work += spec.durations[state.tasks[lane, task].source, spec.processors[processor].kind]
    state.lanes[lane].placed += 1
    count_queued(spec, state, lane, task, spec.processors[processor].node, 1)


@kernel
def take_queued(spec, state, lane, processor, index):
    """Move the task at `index` of a processor's queue to its held tasks."""
    worker = state.processors[lane, processor]
    task = state.queues[lane, processor, index]
    worker.queued -= 1
    for later in range(index, worker.queued):
        state.queues[lane, processor, later] = state.queues[lane, processor, later + 1]
    state.lanes[lane].placed -= 1
    count_queued(spec, state, lane, task, spec.processors[processor].node, -1)
    hold(spec, state, lane, task, processor)


@kernel
def take_ready(spec, state, lane, task, processor):
    """Move a ready task to the held tasks of a processor."""
    remove_ready(state, lane, task)
    kind = spec.processors[processor].kind
    state.processors[lane, processor].work += spec.durations[state.tasks[lane, task].source, kind]
    hold(spec, state, lane, task, processor)


@kernel
def hold(spec, state, lane, task, processor):
    """Append a task to the held tasks of a processor."""
    worker = state.processors[lane, processor]
    own = state.tasks[lane, task]
    own.status = HELD
    state.holds[lane, processor, worker.held] = task
    worker.held += 1
    state.taken[lane, own.job, processor] += 1
    record(state, lane, TAKE, number_of(spec, state, lane, task), own.job, -1, processor)


@kernel
def can_start(spec, state, lane, task, node):
    """Return whether all tiles of a task are valid at a node and none that it writes is in transfer."""
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
    """Return the duration of a task on a kind of processor in ns; its draw does not depend on the policy."""
    machine = spec.machine[0]
    own = state.tasks[lane, task]
    expected = spec.durations[own.source, kind]
    if machine.noise == NO_NOISE or not spec.kinds[kind].noisy:
        return expected
    number = np.int64(spec.tasks[own.source].number)
    deviate = normal(state.jobs[lane, own.job].key, number * KIND_STRIDE + kind)
    if machine.noise == ADDITIVE:
        time = expected + max(machine.spread * deviate, machine.floor)
    else:
        time = expected * math.exp(machine.spread * deviate - machine.spread * machine.spread / 2.0)
    return max(np.int64(1), np.int64(math.ceil(time)))


@kernel
def start(spec, state, lane, processor):
    """Start the first held task of a processor."""
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
    worker.expected_end = header.now + expected
    header.running += 1
    record(state, lane, START, source.number, state.tasks[lane, task].job, kind, processor)
    duration = draw_duration(spec, state, lane, task, kind)
    if header.clock > 0:
        # The lane follows an engine, which reads the duration and reports the end.
        worker.planned = duration
    else:
        schedule(state.heap, lane, processor, header.now + duration)


@kernel
def retry(spec, state, lane, processor):
    """Start the task of a processor once more, which failed on the engine that the lane follows."""
    worker = state.processors[lane, processor]
    kind, task = spec.processors[processor].kind, state.holds[lane, processor, 0]
    number, job = number_of(spec, state, lane, task), state.tasks[lane, task].job
    worker.failed = 0
    worker.expected_end = state.lanes[lane].now + spec.durations[state.tasks[lane, task].source, kind]
    schedule(state.heap, lane, processor, NEVER)
    record(state, lane, FAIL, number, job, kind, processor)
    record(state, lane, START, number, job, kind, processor)


@kernel
def finish(spec, state, lane, processor):
    """Finish the running task of a processor: update its tiles, its children and its job."""
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
    invalidate_copies(spec, state, lane, task, spec.processors[processor].node)
    update_children(spec, state, lane, task)
    if spec.machine[0].visibility == SEE_WINDOW:
        submit(spec, state, lane, own.job)
    if owner.finished == owner.tasks:
        header.done += 1
        record(state, lane, DONE, -1, own.job, -1, -1)


@kernel
def invalidate_copies(spec, state, lane, task, node):
    """Drop the copies at other nodes of the tiles that a task wrote at `node`; decrease the uses of its tiles."""
    source = spec.tasks[state.tasks[lane, task].source]
    for access in range(source.first_access, source.first_access + source.accesses):
        tile = tile_at(spec, state, lane, task, access)
        state.tiles[lane, tile].uses -= 1
        if spec.machine[0].transfers and spec.accesses[access].mode & WRITE:
            for other in range(HOST, state.copies.shape[2]):
                if other != node and state.copies[lane, tile, other].state == VALID:
                    drop_copy(spec, state, lane, tile, other)


@kernel
def update_children(spec, state, lane, task):
    """Decrease the unfinished parents of a task's children; reveal or make ready those with none."""
    own = state.tasks[lane, task]
    source = spec.tasks[own.source]
    first = own.job * spec.machine[0].tasks
    for offset in range(source.first_child, source.first_child + source.children):
        child = first + spec.children[offset]
        other = state.tasks[lane, child]
        other.waits_for -= 1
        if other.waits_for == 0:
            if other.status == WAITING:
                make_ready(state, lane, child)
            elif other.status == HIDDEN and spec.machine[0].visibility == SEE_PARENTS:
                reveal(spec, state, lane, child)


@entry
def running_task(spec, state, lane, processor):
    """Return the task that a processor runs, numbered over all jobs; -1 if it is idle."""
    return np.int64(state.holds[lane, processor, 0]) if state.processors[lane, processor].runs else np.int64(-1)
