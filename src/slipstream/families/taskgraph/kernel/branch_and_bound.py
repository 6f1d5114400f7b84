"""Compiled branch and bound over decisions: lane d + 1 is a copy of lane d after one more decision."""

from __future__ import annotations

import numpy as np

from slipstream.families.taskgraph.kernel.events import may_wait
from slipstream.families.taskgraph.kernel.lower_bound import makespan_lower_bound
from slipstream.families.taskgraph.kernel.slots import arrival_slot, link_slot
from slipstream.families.taskgraph.kernel.state import ABSENT, CHOOSE_PROCESSOR, HOST, LUF, VALID
from slipstream.jit.decorators import entry, inlined, kernel
from slipstream.sim.kernel.heap import NEVER, pending
from slipstream.sim.kernel.lanes import ASKING, advance
from slipstream.sim.kernel.rng import GOLDEN, mix
from slipstream.sim.kernel.snapshot import copy_lane
from slipstream.sim.kernel.window import candidate_of

SECOND = np.uint64(0xA0761D6478BD642F)
"""Makes the second word of a fingerprint independent of the first."""

FRAME = np.dtype([("count", "i8"), ("next", "i8"), ("bound", "i8"), ("entry", "i8")], align=True)
"""Search frame of a depth: number of actions, next action, lower bound, and entry in the transposition table."""
TABLE_ENTRY = np.dtype([("first", "u8"), ("second", "u8"), ("proven", "i8")], align=True)
"""Entry of the transposition table: fingerprint of a state and its proven least end in ns, 0 if still open."""


@entry
def run_branch_and_bound(spec, state, rows, instance, free_at, frames, actions, table, filled, best, target, limit):
    """Search depth first from lane 0 for an end before `best`; stop at `target` or after `limit` decisions.

    Returns the least end, the first action towards it, the number of decisions tried, and whether the search completed.
    """
    first_action, expanded, depth = np.int64(-1), np.int64(0), 0
    complete = True
    frames[0].bound = makespan_lower_bound(spec, state, 0, instance, free_at)
    frames[0].entry = -1
    list_actions(spec, state, 0, frames, actions)
    while depth >= 0:
        frame = frames[depth]
        if frame.next == frame.count or frame.bound >= best:
            if frame.entry >= 0:
                table[frame.entry].proven = best
            depth -= 1
            continue
        if expanded >= limit or best <= target or filled[0] > 3 * (table.shape[0] >> 2):
            complete = best <= target
            break
        action = np.int64(actions[depth, frame.next])
        frame.next += 1
        expanded += 1
        copy_lane(rows, depth, depth + 1)
        advance(spec, state, depth + 1, action)
        header = state.lanes[depth + 1]
        if header.status != ASKING:
            if header.now < best:
                best = header.now
                first_action = np.int64(actions[0, frames[0].next - 1])
            continue
        bound = makespan_lower_bound(spec, state, depth + 1, instance, free_at)
        if bound >= best:
            continue
        entry = find_or_insert(spec, state, depth + 1, table, filled)
        if table[entry].proven >= best:
            continue
        if depth + 2 == frames.shape[0]:
            complete = False
            break
        depth += 1
        frames[depth].bound = bound
        frames[depth].entry = entry
        list_actions(spec, state, depth, frames, actions)
    return best, first_action, expanded, complete


@kernel
def list_actions(spec, state, lane, frames, actions):
    """List the actions of a lane: tasks in descending order of upward rank, waiting last.

    Placing a task where it can neither be taken nor prefetched now is dominated by waiting and placing it later, so
    such processors are left out.
    """
    machine = spec.machine[0]
    waits = may_wait(spec, state, lane)
    prefetched = machine.prefetch if machine.transfers else 0
    queues_wait = waits and prefetched <= 1 and not evicts_by_queues(spec)
    header = state.lanes[lane]
    frame = frames[lane]
    count = 0
    for index in range(header.candidates):
        row = index if index < header.shown else machine.rows + 1 + index - header.shown
        insertion = count
        if header.phase == CHOOSE_PROCESSOR:
            worker = state.processors[lane, state.candidates[lane, index]]
            if queues_wait and worker.held >= machine.pipeline and worker.queued >= prefetched:
                continue
        else:
            rank = state.tasks[lane, state.candidates[lane, index]].rank
            while insertion > 0 and rank_of(spec, state, lane, actions[lane, insertion - 1]) < rank:
                actions[lane, insertion] = actions[lane, insertion - 1]
                insertion -= 1
        actions[lane, insertion] = row
        count += 1
    if waits:
        actions[lane, count] = machine.all_rows - 1
        count += 1
    frame.count = count
    frame.next = 0


@kernel
def evicts_by_queues(spec):
    """Return whether eviction depends on the content of queues: LUF with limited memory."""
    if spec.machine[0].eviction == LUF and spec.machine[0].transfers:
        for node in range(1, spec.nodes.shape[0]):
            if spec.nodes[node].capacity < NEVER:
                return True
    return False


@inlined
def rank_of(spec, state, lane, row):
    """Return the upward rank of the task of candidate row `row`."""
    return state.tasks[lane, state.candidates[lane, candidate_of(spec, state, lane, row)]].rank


# Transposition table


@inlined
def hash_fact(kind, number, value):
    """Return a 64-bit hash of one fact of a state."""
    return mix(mix(np.uint64(kind) * GOLDEN + np.uint64(number)) + np.uint64(value))


@kernel
def find_or_insert(spec, state, lane, table, filled):
    """Return the table entry of a lane's state; insert it if it is new."""
    first = fingerprint(spec, state, lane)
    second = mix(first[1] + SECOND)
    entry = np.int64(first[0] & np.uint64(table.shape[0] - 1))
    while table[entry].first != 0 or table[entry].second != 0:
        if table[entry].first == first[0] and table[entry].second == second:
            return entry
        entry = (entry + 1) & (table.shape[0] - 1)
    filled[0] += 1
    table[entry].first = first[0]
    table[entry].second = second
    table[entry].proven = 0
    return entry


@kernel
def fingerprint(spec, state, lane):
    """Return a hash of two words that is equal for states with the same possible futures."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    one = hash_fact(1, header.now, header.phase)
    two = hash_fact(2, header.arrived, pending(state.heap, lane, arrival_slot(spec, state)))
    if header.phase == CHOOSE_PROCESSOR:
        one += hash_fact(3, header.asked_task, 0)
    for task in range(header.arrived * machine.tasks):
        if task % machine.tasks < state.jobs[lane, task // machine.tasks].tasks:
            bits = hash_fact(4, task, state.tasks[lane, task].status)
            one += bits
            two += mix(bits)
    if machine.push:
        for index in range(header.ready):
            task = state.ready[lane, index]
            # The order of ready tasks is irrelevant, because each may wait.
            bits = hash_fact(5, task, state.tasks[lane, task].waited_at == header.events)
            one += bits
            two += mix(bits)
    for processor in range(machine.processors):
        bits = hash_processor(spec, state, lane, processor)
        one += bits
        two += mix(bits)
    if machine.transfers:
        for link in range(state.links.shape[1]):
            if state.links[lane, link] >= 0:
                time = pending(state.heap, lane, link_slot(spec, link))
                bits = hash_fact(6, link, state.links[lane, link]) + hash_fact(7, link, time)
                one += bits
                two += mix(bits)
        for tile in range(header.arrived * machine.tiles):
            for node in range(state.copies.shape[2]):
                if state.copies[lane, tile, node].state != ABSENT:
                    bits = hash_copy(spec, state, lane, tile, node)
                    one += bits
                    two += mix(bits)
    return mix(one), two


@kernel
def hash_processor(spec, state, lane, processor):
    """Return the hash of a processor's state; without transfers, processors of one kind are interchangeable.

    The order of a queue counts only if its first tasks are prefetched, because any queued task may be taken.
    """
    machine = spec.machine[0]
    worker = state.processors[lane, processor]
    identity = processor if machine.transfers else spec.processors[processor].kind
    waits = worker.waited_at == state.lanes[lane].events
    bits = hash_fact(8, identity, 2 * worker.runs + waits)
    if worker.runs:
        bits = mix(bits + np.uint64(pending(state.heap, lane, processor)))
    for index in range(worker.held):
        bits = mix(bits + np.uint64(state.holds[lane, processor, index]))
    queue = np.uint64(0)
    for index in range(worker.queued):
        task = state.queues[lane, processor, index]
        queue += hash_fact(10, index if machine.transfers and machine.prefetch > 0 else 0, task)
    return mix(bits + queue)


@kernel
def hash_copy(spec, state, lane, tile, node):
    """Return the hash of a copy's state; in a limited memory it includes the copy's rank by last use."""
    copy = state.copies[lane, tile, node]
    older = 0
    if node != HOST and copy.state == VALID and spec.nodes[node].capacity < NEVER:
        for other in range(state.lanes[lane].arrived * spec.machine[0].tiles):
            neighbour = state.copies[lane, other, node]
            if neighbour.state == VALID and neighbour.touched < copy.touched:
                older += 1
    return hash_fact(9, tile * state.copies.shape[2] + node, copy.state + 4 * (older + 1))
