"""What a task on a processor would mean, compiled: what is missing, how long that takes, when it would end."""

from __future__ import annotations

from slipstream.families.taskgraph.kernel.memory import tile_at
from slipstream.families.taskgraph.kernel.slots import link_slot
from slipstream.families.taskgraph.kernel.state import (
    ABSENT,
    CHOOSE_PROCESSOR,
    CHOOSE_QUEUED,
    FINISHED,
    HOST,
    LINKS_PER_DEVICE,
    SEE_ALL,
    SEE_PARENTS,
    TO_DEVICE,
    WRITE,
)
from slipstream.jit.decorators import entry, inlined, kernel
from slipstream.sim.kernel.heap import pending
from slipstream.sim.kernel.lanes import ASKING


@entry
def rank_upward(first_child, children, averages, ranks):
    """Work out the upward ranks of a whole graph, from the last task on: none waits for a later one."""
    for number in range(ranks.shape[0] - 1, -1, -1):
        longest = 0
        for place in range(first_child[number], first_child[number + 1]):
            longest = max(longest, ranks[children[place]])
        ranks[number] = averages[number] + longest


@kernel
def refresh_ranks(spec, state, lane):
    """Work out the upward ranks of what is visible, where that grows; later tasks never wait for earlier ones."""
    header = state.lanes[lane]
    header.ranks_stale = 0
    for job in range(header.arrived):
        owner = state.jobs[lane, job]
        first = job * spec.machine[0].tasks
        while owner.oldest < owner.submitted and state.tasks[lane, first + owner.oldest].status == FINISHED:
            owner.oldest += 1
        for number in range(owner.submitted - 1, owner.oldest - 1, -1):
            source = spec.tasks[state.tasks[lane, first + number].source]
            longest, after = 0, 0
            for place in range(source.first_child, source.first_child + source.children):
                if spec.children[place] < owner.submitted:
                    child = state.tasks[lane, first + spec.children[place]]
                    longest = max(longest, child.rank)
                    after = max(after, spec.tasks[child.source].least + child.path_after)
            state.tasks[lane, first + number].rank = source.average + longest
            state.tasks[lane, first + number].path_after = after


@kernel
def refresh_ahead(spec, state, lane):
    """Work out how much work each processor has before it."""
    header = state.lanes[lane]
    for processor in range(spec.machine[0].processors):
        worker = state.processors[lane, processor]
        worker.ahead = worker.work
        if worker.runs:
            worker.ahead += max(0, worker.expected - header.now)
        if spec.machine[0].transfers and (header.phase == CHOOSE_PROCESSOR or processor == header.asked):
            worker.load_ahead = loads_before(spec, state, lane, processor)


@kernel
def loads_before(spec, state, lane, processor):
    """Return how long the links need before they can load for one task more: for what a processor holds already."""
    worker = state.processors[lane, processor]
    node = spec.processors[processor].node
    time = 0
    if node != HOST:
        link = LINKS_PER_DEVICE * (node - 1) + TO_DEVICE
        if state.links[lane, link] >= 0:
            time = pending(state.heap, lane, link_slot(spec, link)) - state.lanes[lane].now
    for place in range(worker.runs, worker.held):
        time += survey(spec, state, lane, state.holds[lane, processor, place], node)[1]
    return time


@kernel
def path_left(spec, state, lane):
    """Return the least times along the longest visible path through what is held, and what the choice is about."""
    header = state.lanes[lane]
    longest = 0
    for processor in range(spec.machine[0].processors):
        worker = state.processors[lane, processor]
        for place in range(worker.held):
            own = state.tasks[lane, state.holds[lane, processor, place]]
            left = max(0, worker.expected - header.now) if place < worker.runs else spec.tasks[own.source].least
            longest = max(longest, left + own.path_after)
    if header.status == ASKING:
        for position in range(1 if header.phase == CHOOSE_PROCESSOR else header.candidates):
            task = header.asked_task if header.phase == CHOOSE_PROCESSOR else state.candidates[lane, position]
            own = state.tasks[lane, task]
            longest = max(longest, spec.tasks[own.source].least + own.path_after)
    return longest


@inlined
def ahead_of(spec, state, lane, task, processor):
    """Return how much work a processor has before a task; the task itself may be in its queue."""
    header = state.lanes[lane]
    ahead = state.processors[lane, processor].ahead
    if header.phase == CHOOSE_QUEUED and processor == header.asked:
        ahead -= spec.durations[state.tasks[lane, task].source, spec.processors[processor].kind]
    return ahead


@kernel
def survey(spec, state, lane, task, node):
    """Return of a task at a node: missing bytes, time to bring them, missing tiles, the last, bytes there, and reuse.

    That is how many other visible tasks use what is missing, each once for every tile.
    """
    source = spec.tasks[state.tasks[lane, task].source]
    missing, time, count, last, resident, reuse = 0, 0, 0, -1, source.bytes, 0
    if spec.machine[0].transfers:
        for access in range(source.first_access, source.first_access + source.accesses):
            tile = tile_at(spec, state, lane, task, access)
            if state.copies[lane, tile, node].state != ABSENT:
                continue
            size = spec.tiles[state.tiles[lane, tile].source]
            resident -= size.bytes
            if spec.accesses[access].mode != WRITE:
                missing += size.bytes
                count += 1
                last = tile
                reuse += state.tiles[lane, tile].uses - 1
                if node == HOST:
                    time += size.send_time
                elif state.copies[lane, tile, HOST].state != ABSENT:
                    time += size.load_time
                elif spec.machine[0].peer:
                    time += size.peer_time
                else:
                    time += size.send_time + size.load_time
    return missing, time, count, last, resident, reuse


@kernel
def best_end(spec, state, lane, task, own_node, own_transfer):
    """Return the least expected time until a task would end, over all processors; what is known of a node is given."""
    best = 0
    node = own_node
    transfer = own_transfer
    source = state.tasks[lane, task].source
    for processor in range(spec.machine[0].processors):
        if spec.machine[0].transfers and spec.processors[processor].node != node:
            node = spec.processors[processor].node
            transfer = own_transfer
            if node != own_node:
                transfer = survey(spec, state, lane, task, node)[1]
        ahead = state.processors[lane, processor].ahead
        end = max(ahead, transfer) + spec.durations[source, spec.processors[processor].kind]
        if processor == 0 or end < best:
            best = end
    return best


@kernel
def successors(spec, state, lane, task):
    """Return the visible children of a task, and those of them that wait for nothing else."""
    own = state.tasks[lane, task]
    source = spec.tasks[own.source]
    if spec.machine[0].visibility == SEE_PARENTS:
        return 0, 0
    seen = source.children
    if spec.machine[0].visibility != SEE_ALL:
        seen = 0
    opens = 0
    first = own.job * spec.machine[0].tasks
    for place in range(source.first_child, source.first_child + source.children):
        if spec.machine[0].visibility == SEE_ALL or spec.children[place] < state.jobs[lane, own.job].submitted:
            if spec.machine[0].visibility != SEE_ALL:
                seen += 1
            if state.tasks[lane, first + spec.children[place]].waits_for == 1:
                opens += 1
    return seen, opens


@kernel
def count_freed(spec, state, lane, node):
    """Add up, for each tile, the work of the ready tasks that miss just this one at a node."""
    header = state.lanes[lane]
    kind = spec.processors[header.asked].kind
    for turn in range(2):
        for position in range(header.ready):
            task = state.ready[lane, position]
            _, _, count, tile, _, _ = survey(spec, state, lane, task, node)
            if count == 1:
                if turn == 0:
                    state.tiles[lane, tile].freed = 0
                else:
                    state.tiles[lane, tile].freed += spec.durations[state.tasks[lane, task].source, kind]
