"""Trying choices, compiled: every lane is a copy of the one before it after one more choice."""

from __future__ import annotations

import numpy as np

from slipstream.families.taskgraph.kernel.events import may_wait
from slipstream.families.taskgraph.kernel.lower_bound import least_end
from slipstream.families.taskgraph.kernel.slots import arrival_slot, link_slot
from slipstream.families.taskgraph.kernel.state import ABSENT, CHOOSE_PROCESSOR, HOST, LUF, VALID
from slipstream.jit.decorators import entry, inlined, kernel
from slipstream.sim.kernel.heap import NEVER, pending
from slipstream.sim.kernel.lanes import ASKING, advance
from slipstream.sim.kernel.rng import GOLDEN, mix
from slipstream.sim.kernel.snapshot import copy_lane
from slipstream.sim.kernel.window import candidate_of

SECOND = np.uint64(0xA0761D6478BD642F)
"""Sets the second word of a fingerprint apart from the first."""

FRAME = np.dtype([("count", "i8"), ("next", "i8"), ("bound", "i8"), ("slot", "i8")], align=True)
"""What is known of a lane on the way: its actions, which comes next, its bound, and its place in the table."""
KNOWN = np.dtype([("first", "u8"), ("second", "u8"), ("proven", "i8")], align=True)
"""A state that was seen: its fingerprint, and the end that nothing from there on beats, 0 while that is open."""


@entry
def explore(spec, state, rows, facts, free, frames, actions, table, filled, best, floor, most):
    """Try choices from the first lane on.

    Returns the least end, the first choice of the way there, how many choices were tried, and whether that were all.
    """
    first_action, tried, depth = np.int64(-1), np.int64(0), 0
    complete = True
    frames[0].bound = least_end(spec, state, 0, facts, free)
    frames[0].slot = -1
    list_actions(spec, state, 0, frames, actions)
    while depth >= 0:
        frame = frames[depth]
        if frame.next == frame.count or frame.bound >= best:
            if frame.slot >= 0:
                table[frame.slot].proven = best
            depth -= 1
            continue
        if tried >= most or best <= floor or filled[0] > 3 * (table.shape[0] >> 2):
            complete = best <= floor
            break
        action = np.int64(actions[depth, frame.next])
        frame.next += 1
        tried += 1
        copy_lane(rows, depth, depth + 1)
        advance(spec, state, depth + 1, action)
        header = state.lanes[depth + 1]
        if header.status != ASKING:
            if header.now < best:
                best = header.now
                first_action = np.int64(actions[0, frames[0].next - 1])
            continue
        bound = least_end(spec, state, depth + 1, facts, free)
        if bound >= best:
            continue
        slot = look_up(spec, state, depth + 1, table, filled)
        if table[slot].proven >= best:
            continue
        if depth + 2 == frames.shape[0]:
            complete = False
            break
        depth += 1
        frames[depth].bound = bound
        frames[depth].slot = slot
        list_actions(spec, state, depth, frames, actions)
    return best, first_action, tried, complete


@kernel
def list_actions(spec, state, lane, frames, actions):
    """List what can be chosen: the tasks with the longest paths before them first, waiting last.

    A task that is placed where it can neither be taken nor prefetched now could as well wait, and be placed when it
    can: nothing is lost without that.
    """
    machine = spec.machine[0]
    waits = may_wait(spec, state, lane)
    prefetched = machine.prefetch if machine.transfers else 0
    queues_wait = waits and prefetched <= 1 and not counts_queues(spec)
    header = state.lanes[lane]
    frame = frames[lane]
    count = 0
    for position in range(header.candidates):
        row = position if position < header.shown else machine.rows + 1 + position - header.shown
        place = count
        if header.phase == CHOOSE_PROCESSOR:
            worker = state.processors[lane, state.candidates[lane, position]]
            if queues_wait and worker.held >= machine.pipeline and worker.queued >= prefetched:
                continue
        else:
            rank = state.tasks[lane, state.candidates[lane, position]].rank
            while place > 0 and rank_of(spec, state, lane, actions[lane, place - 1]) < rank:
                actions[lane, place] = actions[lane, place - 1]
                place -= 1
        actions[lane, place] = row
        count += 1
    if waits:
        actions[lane, count] = machine.all_rows - 1
        count += 1
    frame.count = count
    frame.next = 0


@kernel
def counts_queues(spec):
    """Return whether what is in queues decides which tiles leave a memory."""
    if spec.machine[0].eviction == LUF and spec.machine[0].transfers:
        for node in range(1, spec.nodes.shape[0]):
            if spec.nodes[node].capacity < NEVER:
                return True
    return False


@inlined
def rank_of(spec, state, lane, row):
    """Return the rank of the task that a row stands for."""
    return state.tasks[lane, state.candidates[lane, candidate_of(spec, state, lane, row)]].rank


# States that are the same


@inlined
def word(kind, number, value):
    """Return random bits that stand for one fact of a state."""
    return mix(mix(np.uint64(kind) * GOLDEN + np.uint64(number)) + np.uint64(value))


@kernel
def look_up(spec, state, lane, table, filled):
    """Return the place of a lane's state in the table; one that is new there is put in."""
    first = fingerprint(spec, state, lane)
    second = mix(first[1] + SECOND)
    slot = np.int64(first[0] & np.uint64(table.shape[0] - 1))
    while table[slot].first != 0 or table[slot].second != 0:
        if table[slot].first == first[0] and table[slot].second == second:
            return slot
        slot = (slot + 1) & (table.shape[0] - 1)
    filled[0] += 1
    table[slot].first = first[0]
    table[slot].second = second
    table[slot].proven = 0
    return slot


@kernel
def fingerprint(spec, state, lane):
    """Return two words that two states share only if the same can follow from both."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    one = word(1, header.now, header.phase)
    two = word(2, header.arrived, pending(state.heap, lane, arrival_slot(spec, state)))
    if header.phase == CHOOSE_PROCESSOR:
        one += word(3, header.asked_task, 0)
    for task in range(header.arrived * machine.tasks):
        if task % machine.tasks < state.jobs[lane, task // machine.tasks].tasks:
            bits = word(4, task, state.tasks[lane, task].status)
            one += bits
            two += mix(bits)
    if machine.push:
        for position in range(header.ready):
            task = state.ready[lane, position]
            # In which order tasks are asked makes no difference: each may wait.
            bits = word(5, task, state.tasks[lane, task].parked == header.events)
            one += bits
            two += mix(bits)
    for processor in range(machine.processors):
        bits = of_processor(spec, state, lane, processor)
        one += bits
        two += mix(bits)
    if machine.transfers:
        for link in range(state.links.shape[1]):
            if state.links[lane, link] >= 0:
                time = pending(state.heap, lane, link_slot(spec, link))
                bits = word(6, link, state.links[lane, link]) + word(7, link, time)
                one += bits
                two += mix(bits)
        for tile in range(header.arrived * machine.tiles):
            for node in range(state.copies.shape[2]):
                if state.copies[lane, tile, node].state != ABSENT:
                    bits = of_copy(spec, state, lane, tile, node)
                    one += bits
                    two += mix(bits)
    return mix(one), two


@kernel
def of_processor(spec, state, lane, processor):
    """Return what tells the state of a processor; without tiles, those of one kind are alike.

    The order of a queue matters only where its first tasks are prefetched: any of them may be taken.
    """
    machine = spec.machine[0]
    worker = state.processors[lane, processor]
    name = processor if machine.transfers else spec.processors[processor].kind
    rests = worker.parked == state.lanes[lane].events
    bits = word(8, name, 2 * worker.runs + rests)
    if worker.runs:
        bits = mix(bits + np.uint64(pending(state.heap, lane, processor)))
    for place in range(worker.held):
        bits = mix(bits + np.uint64(state.holds[lane, processor, place]))
    queue = np.uint64(0)
    for place in range(worker.queued):
        task = state.queues[lane, processor, place]
        queue += word(10, place if machine.transfers and machine.prefetch > 0 else 0, task)
    return mix(bits + queue)


@kernel
def of_copy(spec, state, lane, tile, node):
    """Return what tells the state of a copy: where memory has a limit, also how many there were touched before it."""
    copy = state.copies[lane, tile, node]
    older = 0
    if node != HOST and copy.state == VALID and spec.nodes[node].capacity < NEVER:
        for other in range(state.lanes[lane].arrived * spec.machine[0].tiles):
            neighbour = state.copies[lane, other, node]
            if neighbour.state == VALID and neighbour.touched < copy.touched:
                older += 1
    return word(9, tile * state.copies.shape[2] + node, copy.state + 4 * (older + 1))
