"""Compiled estimates for a task on a processor: missing data, transfer time, expected end, upward rank."""

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
def upward_ranks(first_child, children, averages, ranks):
    """Compute the upward ranks of a graph into `ranks`, from the last task back: tasks are in topological order."""
    for number in range(ranks.shape[0] - 1, -1, -1):
        longest = 0
        for offset in range(first_child[number], first_child[number + 1]):
            longest = max(longest, ranks[children[offset]])
        ranks[number] = averages[number] + longest


@kernel
def refresh_ranks(spec, state, lane):
    """Recompute upward ranks and following paths of the submitted unfinished tasks; tasks are in topological order."""
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
            for offset in range(source.first_child, source.first_child + source.children):
                if spec.children[offset] < owner.submitted:
                    child = state.tasks[lane, first + spec.children[offset]]
                    longest = max(longest, child.rank)
                    after = max(after, spec.tasks[child.source].least + child.path_after)
            state.tasks[lane, first + number].rank = source.average + longest
            state.tasks[lane, first + number].path_after = after


@kernel
def refresh_work_ahead(spec, state, lane):
    """Recompute the expected work ahead of each processor, and the load time ahead where the decision needs it."""
    header = state.lanes[lane]
    for processor in range(spec.machine[0].processors):
        worker = state.processors[lane, processor]
        worker.work_ahead = worker.work
        if worker.runs:
            worker.work_ahead += max(0, worker.expected_end - header.now)
        if spec.machine[0].transfers and (header.phase == CHOOSE_PROCESSOR or processor == header.asked):
            worker.load_ahead = load_time_ahead(spec, state, lane, processor)


@kernel
def load_time_ahead(spec, state, lane, processor):
    """Return the time in ns until the link of a processor has loaded the data of the tasks it holds."""
    worker = state.processors[lane, processor]
    node = spec.processors[processor].node
    time = 0
    if node != HOST:
        link = LINKS_PER_DEVICE * (node - 1) + TO_DEVICE
        if state.links[lane, link] >= 0:
            time = pending(state.heap, lane, link_slot(spec, link)) - state.lanes[lane].now
    for index in range(worker.runs, worker.held):
        time += missing_data(spec, state, lane, state.holds[lane, processor, index], node)[1]
    return time


@kernel
def path_left(spec, state, lane):
    """Return the longest visible path of least times in ns from the held tasks and the tasks of the decision."""
    header = state.lanes[lane]
    longest = 0
    for processor in range(spec.machine[0].processors):
        worker = state.processors[lane, processor]
        for index in range(worker.held):
            own = state.tasks[lane, state.holds[lane, processor, index]]
            left = max(0, worker.expected_end - header.now) if index < worker.runs else spec.tasks[own.source].least
            longest = max(longest, left + own.path_after)
    if header.status == ASKING:
        for index in range(1 if header.phase == CHOOSE_PROCESSOR else header.candidates):
            task = header.asked_task if header.phase == CHOOSE_PROCESSOR else state.candidates[lane, index]
            own = state.tasks[lane, task]
            longest = max(longest, spec.tasks[own.source].least + own.path_after)
    return longest


@inlined
def work_before(spec, state, lane, task, processor):
    """Return the expected work in ns of a processor before a task, excluding the task if it is in the queue."""
    header = state.lanes[lane]
    work_ahead = state.processors[lane, processor].work_ahead
    if header.phase == CHOOSE_QUEUED and processor == header.asked:
        work_ahead -= spec.durations[state.tasks[lane, task].source, spec.processors[processor].kind]
    return work_ahead


@kernel
def missing_data(spec, state, lane, task, node):
    """Return missing bytes, their transfer time, missing tiles, last missing tile, resident bytes and reuse of a task.

    At memory node `node`. Reuse is the number of other visible tasks that use the missing tiles, summed over tiles.
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
    """Return the least expected time to the end of a task over all processors; `own_transfer` is that to `own_node`."""
    best = 0
    node = own_node
    transfer = own_transfer
    source = state.tasks[lane, task].source
    for processor in range(spec.machine[0].processors):
        if spec.machine[0].transfers and spec.processors[processor].node != node:
            node = spec.processors[processor].node
            transfer = own_transfer
            if node != own_node:
                transfer = missing_data(spec, state, lane, task, node)[1]
        work_ahead = state.processors[lane, processor].work_ahead
        end = max(work_ahead, transfer) + spec.durations[source, spec.processors[processor].kind]
        if processor == 0 or end < best:
            best = end
    return best


@kernel
def successors(spec, state, lane, task):
    """Return the number of visible children of a task, and of those that wait for no other task."""
    own = state.tasks[lane, task]
    source = spec.tasks[own.source]
    if spec.machine[0].visibility == SEE_PARENTS:
        return 0, 0
    seen = source.children
    if spec.machine[0].visibility != SEE_ALL:
        seen = 0
    opens = 0
    first = own.job * spec.machine[0].tasks
    for offset in range(source.first_child, source.first_child + source.children):
        if spec.machine[0].visibility == SEE_ALL or spec.children[offset] < state.jobs[lane, own.job].submitted:
            if spec.machine[0].visibility != SEE_ALL:
                seen += 1
            if state.tasks[lane, first + spec.children[offset]].waits_for == 1:
                opens += 1
    return seen, opens


@kernel
def add_freed_work(spec, state, lane, node):
    """Sum, for each tile, the work of the ready tasks that miss only this tile at a node."""
    header = state.lanes[lane]
    kind = spec.processors[header.asked].kind
    for pass_number in range(2):
        for index in range(header.ready):
            task = state.ready[lane, index]
            _, _, count, tile, _, _ = missing_data(spec, state, lane, task, node)
            if count == 1:
                if pass_number == 0:
                    state.tiles[lane, tile].freed = 0
                else:
                    state.tiles[lane, tile].freed += spec.durations[state.tasks[lane, task].source, kind]
