"""Compiled graph of an observation: visible unfinished tasks as nodes, precedence constraints as edges."""

from __future__ import annotations

from slipstream.families.taskgraph import features as f
from slipstream.families.taskgraph.kernel.lookahead import successors
from slipstream.families.taskgraph.kernel.state import (
    CHOOSE_PROCESSOR,
    CHOOSE_TASK,
    HELD,
    HIDDEN,
    QUEUED,
    READY,
)
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.lanes import ASKING
from slipstream.sim.kernel.observation import put, truncate_candidate_nodes, truncate_graph


@inlined
def is_listed(state, lane, task):
    """Return whether a task is a node; its index may be stale, so the node list must confirm it."""
    index = state.tasks[lane, task].graph_index
    return 0 <= index < state.lanes[lane].listed and state.graph[lane, index] == task


@kernel
def list_node(state, lane, task):
    """Add a task to the nodes unless their list is full."""
    header = state.lanes[lane]
    if header.listed < state.graph.shape[1]:
        state.tasks[lane, task].graph_index = header.listed
        state.graph[lane, header.listed] = task
        header.listed += 1


@kernel
def list_nodes(spec, state, lane):
    """List the nodes: held, queued and ready tasks, then descendants up to the depth of the observation window."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    header.listed = 0
    if header.status != ASKING:
        return
    capacity = state.graph.shape[1]
    for processor in range(machine.processors):
        for index in range(state.processors[lane, processor].held):
            list_node(state, lane, state.holds[lane, processor, index])
    for processor in range(machine.processors):
        # Queues and the ready list may be longer than the remaining capacity.
        for index in range(min(capacity - header.listed, state.processors[lane, processor].queued)):
            list_node(state, lane, state.queues[lane, processor, index])
    for index in range(min(capacity - header.listed, header.ready)):
        list_node(state, lane, state.ready[lane, index])
    begin = 0
    for _ in range(machine.depth):
        end = header.listed
        if end == capacity:
            return
        for index in range(begin, end):
            list_children(spec, state, lane, state.graph[lane, index])
        begin = end


@inlined
def list_children(spec, state, lane, task):
    """Add the visible children of a task that are not nodes yet."""
    own = state.tasks[lane, task]
    source = spec.tasks[own.source]
    first = own.job * spec.machine[0].tasks
    for offset in range(source.first_child, source.first_child + source.children):
        child = first + spec.children[offset]
        if state.tasks[lane, child].status != HIDDEN and not is_listed(state, lane, child):
            list_node(state, lane, child)


@kernel
def write_graph(spec, state, lane, buffer, slot):
    """Write nodes and edges into entry `slot` of the buffer."""
    header = state.lanes[lane]
    rank_jobs(state, lane)
    edges = 0
    for node in range(header.listed):
        task = state.graph[lane, node]
        write_node(spec, state, lane, task, buffer.nodes[slot, node], buffer.node_image)
        buffer.node_job[slot, node] = state.jobs[lane, state.tasks[lane, task].job].active_rank
        edges = write_edges(spec, state, lane, node, buffer.edges[slot], edges)
    truncate_graph(buffer, slot, header.listed, edges)


@kernel
def rank_jobs(state, lane):
    """Set the rank of each active job by arrival."""
    rank = 0
    for job in range(state.lanes[lane].arrived):
        owner = state.jobs[lane, job]
        if owner.finished < owner.tasks:
            owner.active_rank = rank
            rank += 1


@inlined
def write_edges(spec, state, lane, node, pairs, edges):
    """Write the edges from a node to its children at `edges`; return the number of edges written in total."""
    own = state.tasks[lane, state.graph[lane, node]]
    source = spec.tasks[own.source]
    first = own.job * spec.machine[0].tasks
    for offset in range(source.first_child, source.first_child + source.children):
        child = first + spec.children[offset]
        if edges < pairs.shape[1] and is_listed(state, lane, child):
            pairs[0, edges] = node
            pairs[1, edges] = state.tasks[lane, child].graph_index
            edges += 1
    return edges


@inlined
def runs_on(spec, state, lane, task):
    """Return the processor that runs a task; -1 if none does."""
    for processor in range(spec.machine[0].processors):
        if state.processors[lane, processor].runs and state.holds[lane, processor, 0] == task:
            return processor
    return -1


@inlined
def is_asked(state, lane, task):
    """Return whether a candidate row of the present decision stands for a task."""
    header = state.lanes[lane]
    status = state.tasks[lane, task].status
    if header.phase == CHOOSE_TASK:
        return status == READY
    if header.phase == CHOOSE_PROCESSOR:
        return task == header.asked_task
    if status == QUEUED:
        for index in range(state.processors[lane, header.asked].queued):
            if state.queues[lane, header.asked, index] == task:
                return True
    return False


@kernel
def write_node(spec, state, lane, task, row, image):
    """Write the columns of a node."""
    own = state.tasks[lane, task]
    source = spec.tasks[own.source]
    processor = runs_on(spec, state, lane, task) if own.status == HELD else -1
    remaining = source.average
    if processor >= 0:
        remaining = max(0, state.processors[lane, processor].expected_end - state.lanes[lane].now)
    put(row, image, f.NODE_MEAN, source.average)
    put(row, image, f.NODE_LEAST, source.least)
    put(row, image, f.NODE_RANK, own.rank)
    put(row, image, f.NODE_SUCCESSORS, successors(spec, state, lane, task)[0])
    put(row, image, f.NODE_WAITS_FOR, own.waits_for)
    put(row, image, f.NODE_REMAINING, remaining)
    put(row, image, f.NODE_RUNNING, 1.0 if processor >= 0 else 0.0)
    put(row, image, f.NODE_HELD, 1.0 if own.status == HELD else 0.0)
    put(row, image, f.NODE_QUEUED, 1.0 if own.status == QUEUED else 0.0)
    put(row, image, f.NODE_READY, 1.0 if own.status == READY else 0.0)
    put(row, image, f.NODE_ASKED, 1.0 if is_asked(state, lane, task) else 0.0)
    put(row, image, f.NODE_BYTES, source.bytes)


@kernel
def write_candidate_nodes(state, lane, buffer, slot):
    """Write the node of each candidate row's task."""
    header = state.lanes[lane]
    listed = header.shown if header.status == ASKING else 0
    for row in range(listed):
        task = header.asked_task if header.phase == CHOOSE_PROCESSOR else state.candidates[lane, row]
        node = -1
        if is_listed(state, lane, task):
            node = state.tasks[lane, task].graph_index
        buffer.candidate_node[slot, row] = node
    truncate_candidate_nodes(buffer, slot, listed)
