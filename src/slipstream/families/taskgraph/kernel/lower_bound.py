"""What no way of going on can beat, compiled: the longest path that is left, and all work that is left."""

from __future__ import annotations

import numpy as np

from slipstream.families.taskgraph.kernel.memory import tile_at
from slipstream.families.taskgraph.kernel.state import ABSENT, FINISHED, HELD, HOST, QUEUED, VALID, WRITE
from slipstream.jit.decorators import entry, inlined, kernel
from slipstream.sim.kernel.heap import NEVER, pending


@entry
def bound_of_first(spec, state, facts, free):
    """Return the bound of the first lane."""
    return least_end(spec, state, 0, facts, free)


@kernel
def least_end(spec, state, lane, facts, free):
    """Return a time before which an episode cannot end: the longest path that is left, and all work that is left."""
    times, tails, _, arrivals, longest, _ = facts
    machine = spec.machine[0]
    header = state.lanes[lane]
    latest = header.now
    for processor in range(machine.processors):
        kind = spec.processors[processor].kind
        worker = state.processors[lane, processor]
        end = header.now
        for place in range(worker.held):
            task = state.holds[lane, processor, place]
            end = pending(state.heap, lane, processor) if place < worker.runs else end + times[task, kind]
            latest = max(latest, end + tails[task, kind])
        free[processor] = end
        for place in range(worker.queued):
            task = state.queues[lane, processor, place]
            latest = max(latest, end + times[task, kind] + tails[task, kind])
    for position in range(header.ready):
        latest = max(latest, least_end_of(spec, state, lane, state.ready[lane, position], times, tails, free))
    for job in range(header.arrived, machine.jobs):
        latest = max(latest, arrivals[job] + longest[job])
    return max(latest, header.now + work_left(spec, state, lane, facts, free))


@kernel
def least_end_of(spec, state, lane, task, times, tails, free):
    """Return when the longest path from a ready task on can end at the soonest."""
    machine = spec.machine[0]
    now = state.lanes[lane].now
    soonest, node, load = np.int64(NEVER), -1, np.int64(0)
    for processor in range(machine.processors):
        kind = spec.processors[processor].kind
        if machine.transfers and spec.processors[processor].node != node:
            node = spec.processors[processor].node
            load = least_load(spec, state, lane, task, node)
        worker = state.processors[lane, processor]
        # A processor that holds one task at a time loads nothing for others while that one runs.
        if machine.pipeline == 1 and machine.prefetch == 0 and worker.held == worker.runs:
            start = free[processor] + load
        else:
            start = max(free[processor], now + load)
        soonest = min(soonest, start + times[task, kind] + tails[task, kind])
    return soonest


@kernel
def least_load(spec, state, lane, task, node):
    """Return the least time until what a task misses is at a node: one link carries one tile after the other."""
    source = spec.tasks[state.tasks[lane, task].source]
    one_link, longest = np.int64(0), np.int64(0)
    for access in range(source.first_access, source.first_access + source.accesses):
        tile = tile_at(spec, state, lane, task, access)
        if spec.accesses[access].mode == WRITE or state.copies[lane, tile, node].state != ABSENT:
            continue
        size = spec.tiles[state.tiles[lane, tile].source]
        at_host = state.copies[lane, tile, HOST].state
        if node == HOST:
            longest = max(longest, size.send_time)
        elif not spec.machine[0].peer:
            one_link += size.load_time
            if at_host == ABSENT:
                longest = max(longest, size.send_time + size.load_time)
        elif at_host == VALID:
            one_link += size.load_time
        else:
            longest = max(longest, min(size.peer_time, size.load_time))
    return max(one_link, longest)


@kernel
def work_left(spec, state, lane, facts, free):
    """Return the least time for all work that is left, tasks taken as divisible; exact for one kind and for two."""
    times, _, by_bent, _, _, counts = facts
    machine = spec.machine[0]
    now = state.lanes[lane].now
    first, second, least = np.int64(0), np.int64(0), np.int64(0)
    kinds = counts.shape[0]
    for processor in range(machine.processors):
        kind = spec.processors[processor].kind
        work = free[processor] - now
        for place in range(state.processors[lane, processor].queued):
            work += times[state.queues[lane, processor, place], kind]
        least += work
        if kind == 0:
            first += work
        else:
            second += work
    for place in range(by_bent.shape[0]):
        if is_unplaced(spec, state, lane, by_bent[place]):
            least_time = times[by_bent[place], 0]
            for kind in range(1, kinds):
                least_time = min(least_time, times[by_bent[place], kind])
            least += least_time
            second += times[by_bent[place], kinds - 1]
    if kinds != 2:
        return -(-least // machine.processors)
    # All on the second kind at first; then those that suit the first better move there, until both end together.
    for place in range(by_bent.shape[0]):
        task = by_bent[place]
        if not is_unplaced(spec, state, lane, task):
            continue
        gap = second / counts[1] - first / counts[0]
        if gap <= 0.0:
            break
        share = gap / (times[task, 0] / counts[0] + times[task, 1] / counts[1])
        if share < 1.0:
            return np.int64((first + share * times[task, 0]) / counts[0] * (1.0 - 1e-12))
        first += times[task, 0]
        second -= times[task, 1]
    return np.int64(max(first / counts[0], second / counts[1]) * (1.0 - 1e-12))


@inlined
def is_unplaced(spec, state, lane, task):
    """Return whether no processor has a task yet."""
    if task // spec.machine[0].tasks >= state.lanes[lane].arrived:
        return True
    status = state.tasks[lane, task].status
    return status != FINISHED and status != HELD and status != QUEUED
