"""Compiled lower bounds of the makespan from a state: longest remaining path and area of the remaining work."""

from __future__ import annotations

import numpy as np

from slipstream.families.taskgraph.kernel.memory import tile_at
from slipstream.families.taskgraph.kernel.state import ABSENT, FINISHED, HELD, HOST, QUEUED, VALID, WRITE
from slipstream.jit.decorators import entry, inlined, kernel
from slipstream.sim.kernel.heap import NEVER, pending


@entry
def bound_first_lane(spec, state, instance, free_at):
    """Return the lower bound of the makespan of lane 0 in ns."""
    return makespan_lower_bound(spec, state, 0, instance, free_at)


@kernel
def makespan_lower_bound(spec, state, lane, instance, free_at):
    """Return a lower bound of the end of an episode in ns; write the end of held work per processor to `free_at`."""
    durations, tails, _, arrivals, longest_paths, _ = instance
    machine = spec.machine[0]
    header = state.lanes[lane]
    latest = header.now
    for processor in range(machine.processors):
        kind = spec.processors[processor].kind
        worker = state.processors[lane, processor]
        end = header.now
        for index in range(worker.held):
            task = state.holds[lane, processor, index]
            end = pending(state.heap, lane, processor) if index < worker.runs else end + durations[task, kind]
            latest = max(latest, end + tails[task, kind])
        free_at[processor] = end
        for index in range(worker.queued):
            task = state.queues[lane, processor, index]
            latest = max(latest, end + durations[task, kind] + tails[task, kind])
    for index in range(header.ready):
        latest = max(latest, path_lower_bound(spec, state, lane, state.ready[lane, index], durations, tails, free_at))
    for job in range(header.arrived, machine.jobs):
        latest = max(latest, arrivals[job] + longest_paths[job])
    return max(latest, header.now + area_lower_bound(spec, state, lane, instance, free_at))


@kernel
def path_lower_bound(spec, state, lane, task, durations, tails, free_at):
    """Return a lower bound of the end of the longest path from a ready task, in ns."""
    machine = spec.machine[0]
    now = state.lanes[lane].now
    soonest, node, load = np.int64(NEVER), -1, np.int64(0)
    for processor in range(machine.processors):
        kind = spec.processors[processor].kind
        if machine.transfers and spec.processors[processor].node != node:
            node = spec.processors[processor].node
            load = load_lower_bound(spec, state, lane, task, node)
        worker = state.processors[lane, processor]
        # Without pipelining and prefetch a processor loads nothing while its task runs.
        if machine.pipeline == 1 and machine.prefetch == 0 and worker.held == worker.runs:
            start = free_at[processor] + load
        else:
            start = max(free_at[processor], now + load)
        soonest = min(soonest, start + durations[task, kind] + tails[task, kind])
    return soonest


@kernel
def load_lower_bound(spec, state, lane, task, node):
    """Return a lower bound of the load time of a task's missing tiles at a node; a link transfers one at a time."""
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
def area_lower_bound(spec, state, lane, instance, free_at):
    """Return the area bound of the remaining work in ns, tasks divisible; tight for one and two kinds."""
    durations, _, by_speedup, _, _, counts = instance
    machine = spec.machine[0]
    now = state.lanes[lane].now
    first, second, least = np.int64(0), np.int64(0), np.int64(0)
    kinds = counts.shape[0]
    for processor in range(machine.processors):
        kind = spec.processors[processor].kind
        work = free_at[processor] - now
        for index in range(state.processors[lane, processor].queued):
            work += durations[state.queues[lane, processor, index], kind]
        least += work
        if kind == 0:
            first += work
        else:
            second += work
    for index in range(by_speedup.shape[0]):
        if is_unplaced(spec, state, lane, by_speedup[index]):
            least_time = durations[by_speedup[index], 0]
            for kind in range(1, kinds):
                least_time = min(least_time, durations[by_speedup[index], kind])
            least += least_time
            second += durations[by_speedup[index], kinds - 1]
    if kinds != 2:
        return -(-least // machine.processors)
    # Start with all tasks on the second kind; move tasks to the first kind by speedup until both finish together.
    for index in range(by_speedup.shape[0]):
        task = by_speedup[index]
        if not is_unplaced(spec, state, lane, task):
            continue
        gap = second / counts[1] - first / counts[0]
        if gap <= 0.0:
            break
        share = gap / (durations[task, 0] / counts[0] + durations[task, 1] / counts[1])
        if share < 1.0:
            return np.int64((first + share * durations[task, 0]) / counts[0] * (1.0 - 1e-12))
        first += durations[task, 0]
        second -= durations[task, 1]
    return np.int64(max(first / counts[0], second / counts[1]) * (1.0 - 1e-12))


@inlined
def is_unplaced(spec, state, lane, task):
    """Return whether a task is neither queued, held nor finished."""
    if task // spec.machine[0].tasks >= state.lanes[lane].arrived:
        return True
    status = state.tasks[lane, task].status
    return status != FINISHED and status != HELD and status != QUEUED
