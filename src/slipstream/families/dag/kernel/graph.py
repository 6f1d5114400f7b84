"""Compiled graph of an observation: incomplete stages as nodes, precedence constraints as edges."""

from __future__ import annotations

from slipstream.families.dag import features as f
from slipstream.families.dag.kernel.demand import can_be_chosen
from slipstream.families.dag.kernel.state import CHOOSE_COUNT
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.lanes import ASKING
from slipstream.sim.kernel.observation import ROWS, put, truncate_candidate_nodes, truncate_graph


@kernel
def write_graph(spec, state, lane, buffer, slot, afresh):
    """Write nodes and edges into entry `slot`; unless `afresh`, only what changed since the last decision."""
    header = state.lanes[lane]
    stale = afresh or header.graph_stale != 0
    if stale:
        write_edges(spec, state, lane, buffer, slot)
    if stale or header.phase != CHOOSE_COUNT:
        write_nodes(spec, state, lane, buffer, slot, stale)
    if not afresh:
        # Writing afresh fills one buffer only: the change flags still describe the others.
        header.graph_stale = 0
        for index in range(header.active):
            state.jobs[lane, state.order[lane, index]].dirty = 0


@kernel
def write_edges(spec, state, lane, buffer, slot):
    """Number the nodes; write the job of each node and the edges between them."""
    header = state.lanes[lane]
    nodes, edges = 0, 0
    for index in range(header.active if header.status == ASKING else 0):
        job = state.order[lane, index]
        owner = state.jobs[lane, job]
        if owner.shown:
            owner.first_node = nodes
            for stage in range(owner.stages):
                own = state.stages[lane, job, stage]
                if own.unfinished > 0:
                    own.node = nodes
                    buffer.node_job[slot, nodes] = owner.window_rank
                    nodes += 1
            for stage in range(owner.stages):
                if state.stages[lane, job, stage].unfinished > 0:
                    edges = write_children(spec, state, lane, job, stage, buffer.edges[slot], edges)
    truncate_graph(buffer, slot, nodes, edges)


@inlined
def write_children(spec, state, lane, job, stage, pairs, edges):
    """Write the edges from a stage to its children at `edges`; return the number of edges written in total."""
    source = spec.stages[state.jobs[lane, job].first_stage + stage]
    for offset in range(source.first_child, source.first_child + source.children):
        pairs[0, edges] = state.stages[lane, job, stage].node
        pairs[1, edges] = state.stages[lane, job, spec.children[offset]].node
        edges += 1
    return edges


@kernel
def write_nodes(spec, state, lane, buffer, slot, all_jobs):
    """Write the columns of the nodes; unless `all_jobs`, only the age of jobs that did not change."""
    header = state.lanes[lane]
    image = buffer.node_image
    for index in range(header.active if header.status == ASKING else 0):
        job = state.order[lane, index]
        owner = state.jobs[lane, job]
        if not owner.shown:
            continue
        age = header.now - owner.arrival
        if not all_jobs and not owner.dirty:
            for node in range(owner.first_node, owner.first_node + owner.left):
                put(buffer.nodes[slot, node], image, f.NODE_JOB_AGE, age)
            continue
        node = owner.first_node
        is_source = 1.0 if job == header.source_job else 0.0
        for stage in range(owner.stages):
            own = state.stages[lane, job, stage]
            if own.unfinished == 0:
                continue
            row = buffer.nodes[slot, node]
            source = spec.stages[owner.first_stage + stage]
            put(row, image, f.NODE_TASKS_LEFT, own.remaining)
            put(row, image, f.NODE_TASKS_RUNNING, own.unfinished - own.remaining)
            put(row, image, f.NODE_ASSIGNED, own.assigned)
            put(row, image, f.NODE_DURATION, source.duration)
            put(row, image, f.NODE_RECENT, own.recent)
            put(row, image, f.NODE_WORK, own.remaining * source.duration)
            put(row, image, f.NODE_PATH, source.path)
            put(row, image, f.NODE_CAN_BEGIN, 1.0 if own.waiting_parents == 0 else 0.0)
            put(row, image, f.NODE_CAN_BE_CHOSEN, 1.0 if can_be_chosen(state, lane, job, stage) else 0.0)
            put(row, image, f.NODE_JOB_SUPPLY, owner.supply)
            put(row, image, f.NODE_JOB_AGE, age)
            put(row, image, f.NODE_SOURCE, is_source)
            node += 1


@kernel
def write_candidate_nodes(state, lane, buffer, slot):
    """Write the node of each candidate row; rows that assign executors have the node of the chosen stage."""
    header = state.lanes[lane]
    width = state.stages.shape[2]
    counting = header.phase == CHOOSE_COUNT
    listed = buffer.counts[slot, ROWS]
    for row in range(listed):
        if counting:
            shown = state.jobs[lane, header.chosen_job].shown
            node = state.stages[lane, header.chosen_job, header.chosen_stage].node if shown else -1
        else:
            job = state.candidates[lane, row] // width
            node = state.stages[lane, job, state.candidates[lane, row] - job * width].node
        buffer.candidate_node[slot, row] = node
    truncate_candidate_nodes(buffer, slot, listed)
