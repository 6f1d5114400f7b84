"""Compiled observation at a decision: globals, candidate rows and mask.

Nothing here reads a future random draw: times are expectations, and only the visible part of the graph is used. The
columns of static plans are the exception: they are computed from the whole graph.
"""

from __future__ import annotations

from slipstream.families.taskgraph import features as f
from slipstream.families.taskgraph.kernel.events import may_wait
from slipstream.families.taskgraph.kernel.graph import list_nodes, write_candidate_nodes, write_graph
from slipstream.families.taskgraph.kernel.lookahead import (
    add_freed_work,
    best_end,
    missing_data,
    path_left,
    successors,
    work_before,
)
from slipstream.families.taskgraph.kernel.state import (
    CHOOSE_PROCESSOR,
    CHOOSE_QUEUED,
    CHOOSE_TASK,
    HOST,
    QUEUED,
    READY,
    SEE_ALL,
    SEE_WINDOW,
    WAITING,
)
from slipstream.jit.decorators import kernel
from slipstream.sim.kernel.heap import NEVER
from slipstream.sim.kernel.lanes import ASKING, RULE_ON_ALL, toss_coin
from slipstream.sim.kernel.observation import ROWS, ROWS_BEHIND, clear_graph, clear_rows, finish_rows, mark_legal, put
from slipstream.sim.kernel.window import filled_rows


@kernel
def prepare(spec, state, buffer):
    """Write the constant columns into every entry of the buffer."""
    machine = spec.machine[0]
    for slot in range(buffer.rows.shape[0]):
        put(buffer.globals[slot], buffer.global_image, f.PROCESSORS, machine.processors)
        put(buffer.globals[slot], buffer.global_image, f.DEVICES, machine.devices)
        put(buffer.rows[slot, buffer.rows.shape[1] - 1], buffer.row_image, f.WAIT, 1.0)
        clear_graph(buffer, slot)


@kernel
def write_row(spec, state, lane, task, processor, row, image):
    """Write the columns of the row of a task on a processor."""
    header = state.lanes[lane]
    own = state.tasks[lane, task]
    source = spec.tasks[own.source]
    worker = spec.processors[processor]
    duration = spec.durations[own.source, worker.kind]
    missing, transfer, count, tile, resident, reuse = missing_data(spec, state, lane, task, worker.node)
    work_ahead = work_before(spec, state, lane, task, processor)
    seen, opens = successors(spec, state, lane, task)
    freed = 0
    if header.phase == CHOOSE_TASK and count == 1:
        freed = state.tiles[lane, tile].freed
    put(row, image, f.DURATION, duration)
    put(row, image, f.LEAST, source.least)
    put(row, image, f.MEAN, source.average)
    put(row, image, f.MISSING, missing)
    put(row, image, f.RESIDENT, resident)
    put(row, image, f.TRANSFER, transfer)
    put(row, image, f.WORK_AHEAD, work_ahead)
    end = max(work_ahead, transfer) + duration
    put(row, image, f.EXPECTED_END, end)
    # A queued task cannot run elsewhere, and queues may be long.
    queued = header.phase == CHOOSE_QUEUED
    put(row, image, f.BEST_END, end if queued else best_end(spec, state, lane, task, worker.node, transfer))
    put(row, image, f.RANK, own.rank)
    put(row, image, f.SUCCESSORS, seen)
    put(row, image, f.OPENS, opens)
    put(row, image, f.FREED, freed)
    put(row, image, f.AGE, header.now - own.ready_at)
    put(row, image, f.PLACE, own.list_index)
    put(row, image, f.DEVICE, 1.0 if worker.node != HOST else 0.0)
    put(row, image, f.IDLE, 1.0 if state.processors[lane, processor].held == 0 else 0.0)
    put(row, image, f.DISPATCH, 1.0)
    put(row, image, f.PATH_AFTER, own.path_after)
    put(row, image, f.LOAD_AHEAD, state.processors[lane, processor].load_ahead if spec.machine[0].transfers else 0)
    capacity = spec.nodes[worker.node].capacity
    overflow = state.memories[lane, worker.node].used + source.bytes - resident - capacity
    put(row, image, f.OVERFLOW, max(0, overflow) if worker.node != HOST else 0)
    put(row, image, f.REUSE, reuse)
    if row.shape[0] > f.CPOP:
        for planner in range(spec.plans.shape[0]):
            put(row, image, f.HEFT + planner, planned_before(spec, state, lane, planner, task, processor))


@kernel
def planned_before(spec, state, lane, planner, task, processor):
    """Return the number of unstarted tasks of its job that a plan runs before a task on a processor; -1 if not there.

    Hidden tasks do not count: waiting for them could prevent them from becoming visible.
    """
    own = state.tasks[lane, task]
    plan = spec.plans[planner, own.source]
    if plan.processor != processor:
        return -1
    if spec.machine[0].visibility == SEE_ALL:
        return max(0, plan.position - state.taken[lane, own.job, processor])
    owner = state.jobs[lane, own.job]
    first = own.job * spec.machine[0].tasks
    last = owner.submitted if spec.machine[0].visibility == SEE_WINDOW else owner.tasks
    before_it = 0
    for other in range(first + owner.oldest, first + last):
        before = spec.plans[planner, state.tasks[lane, other].source]
        if before.processor == processor and before.position < plan.position:
            status = state.tasks[lane, other].status
            before_it += status in (WAITING, READY, QUEUED)
    return before_it


@kernel
def write_candidate(spec, state, lane, index, buffer, slot, row):
    """Write the row of the candidate at `index`."""
    header = state.lanes[lane]
    task, processor = header.asked_task, header.asked
    if header.phase == CHOOSE_PROCESSOR:
        processor = state.candidates[lane, index]
    else:
        task = state.candidates[lane, index]
    write_row(spec, state, lane, task, processor, buffer.rows[slot, row], buffer.row_image)


@kernel
def write_globals(spec, state, lane, buffer, slot):
    """Write the global columns."""
    row, image = buffer.globals[slot], buffer.global_image
    machine = spec.machine[0]
    header = state.lanes[lane]
    free, soonest, least_ahead = 0, NEVER, NEVER
    for processor in range(machine.processors):
        worker = state.processors[lane, processor]
        if worker.held < machine.pipeline:
            free += 1
        if worker.runs:
            soonest = min(soonest, max(0, worker.expected_end - header.now))
        least_ahead = min(least_ahead, worker.work_ahead)
    node = HOST
    if header.status == ASKING and header.phase != CHOOSE_PROCESSOR:
        node = spec.processors[header.asked].node
    put(row, image, f.TIME, header.now)
    put(row, image, f.PHASE, header.phase)
    put(row, image, f.ASKED, max(0, header.asked))
    put(row, image, f.ASKED_DEVICE, 1.0 if node != HOST else 0.0)
    put(row, image, f.FREE, free)
    put(row, image, f.RUNNING, header.running)
    put(row, image, f.READY, header.ready)
    put(row, image, f.PLACED, header.placed)
    put(row, image, f.ACTIVE_JOBS, header.arrived - header.done)
    put(row, image, f.VISIBLE, header.visible)
    put(row, image, f.HIDDEN, header.visible - header.listed)
    put(row, image, f.FINISHED, header.finished)
    put(row, image, f.MOVING, header.moving)
    put(row, image, f.SOONEST, soonest if soonest < NEVER else 0)
    put(row, image, f.LEAST_AHEAD, least_ahead)
    limited = node != HOST and spec.nodes[node].capacity < NEVER
    put(row, image, f.MEMORY_USED, state.memories[lane, node].used / spec.nodes[node].capacity if limited else 0.0)
    put(row, image, f.PATH_LEFT, path_left(spec, state, lane))
    put(row, image, f.WORK_LEFT, header.work_left)
    if row.shape[0] > f.COIN:
        beyond = header.candidates - header.shown
        put(row, image, f.ROWS, filled_rows(machine, header.shown, beyond))
        put(row, image, f.PARAMETER, header.parameter)
        put(row, image, f.COIN, toss_coin(header))


@kernel
def list_legal(spec, state, lane, buffer, slot, form):
    """Write the legal rows, their packed indices and their counts; clear rows that are legal no longer."""
    header = state.lanes[lane]
    asking = header.status == ASKING
    last = buffer.mask.shape[1] - 1
    shown = header.shown if asking else 0
    if asking and header.phase == CHOOSE_TASK and spec.machine[0].transfers:
        add_freed_work(spec, state, lane, spec.processors[header.asked].node)
    for row in range(shown):
        write_candidate(spec, state, lane, row, buffer, slot, row)
        mark_legal(buffer, slot, row, row)
    clear_rows(buffer, slot, shown, buffer.counts[slot, ROWS])
    buffer.counts[slot, ROWS] = shown
    dispatch = shown
    first = spec.machine[0].rows + 1
    if last >= first:
        beyond = header.candidates - shown if asking else 0
        for index in range(beyond):
            write_candidate(spec, state, lane, shown + index, buffer, slot, first + index)
            mark_legal(buffer, slot, first + index, shown + index)
        clear_rows(buffer, slot, first + beyond, first + buffer.counts[slot, ROWS_BEHIND])
        buffer.counts[slot, ROWS_BEHIND] = beyond
        dispatch += beyond
    waits = asking and may_wait(spec, state, lane)
    finish_rows(buffer, slot, dispatch, waits)


@kernel
def summarise(spec, state, lane, buffer, slot):
    """Write the globals only; the nodes are listed first because a column counts the tasks left out."""
    list_nodes(spec, state, lane)
    write_globals(spec, state, lane, buffer, slot)


@kernel
def observe(spec, state, lane, buffer, slot, afresh):
    """Write globals, rows and mask of the present decision, and the graph if the buffer holds one."""
    summarise(spec, state, lane, buffer, slot)
    list_legal(spec, state, lane, buffer, slot, RULE_ON_ALL)
    if buffer.nodes.shape[1] > 0:
        write_graph(spec, state, lane, buffer, slot)
        write_candidate_nodes(state, lane, buffer, slot)
