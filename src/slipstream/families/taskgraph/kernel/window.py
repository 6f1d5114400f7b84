"""Compiled candidate list, in the order of its rows, and the candidates in the observation window.

If all candidates fit, all are shown. Otherwise half of the window is filled by descending upward rank and half by
ascending missing bytes; the others are listed after them, for compiled policies.
"""

from __future__ import annotations

from slipstream.families.taskgraph.kernel.lookahead import missing_data, refresh_ranks, refresh_work_ahead
from slipstream.families.taskgraph.kernel.state import CHOOSE_PROCESSOR, CHOOSE_QUEUED, SEE_WINDOW
from slipstream.jit.decorators import kernel


@kernel
def list_candidates(spec, state, lane):
    """List the candidates of the present decision, those in the observation window first."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    refresh_work_ahead(spec, state, lane)
    if machine.visibility == SEE_WINDOW and header.ranks_stale:
        refresh_ranks(spec, state, lane)
    if header.phase == CHOOSE_PROCESSOR:
        header.candidates = machine.processors
        for processor in range(machine.processors):
            state.candidates[lane, processor] = processor
    elif header.phase == CHOOSE_QUEUED:
        header.candidates = state.processors[lane, header.asked].queued
        for index in range(header.candidates):
            task = state.queues[lane, header.asked, index]
            state.candidates[lane, index] = task
            state.tasks[lane, task].list_index = index
    else:
        header.candidates = header.ready
        for index in range(header.ready):
            task = state.ready[lane, index]
            state.candidates[lane, index] = task
            state.tasks[lane, task].list_index = index
        if header.ready > machine.rows:
            choose_shown(spec, state, lane)
    header.shown = min(header.candidates, machine.rows)


@kernel
def choose_shown(spec, state, lane):
    """List the ready tasks in the observation window, then the others, each in the order of the ready list."""
    header = state.lanes[lane]
    capacity = spec.machine[0].rows
    for index in range(header.ready):
        state.tasks[lane, state.ready[lane, index]].shown = 0
    choose_some(spec, state, lane, (capacity + 1) // 2, True)
    choose_some(spec, state, lane, capacity // 2, False)
    shown, hidden = 0, capacity
    for index in range(header.ready):
        task = state.ready[lane, index]
        if state.tasks[lane, task].shown:
            state.candidates[lane, shown] = task
            shown += 1
        else:
            state.candidates[lane, hidden] = task
            hidden += 1
    header.shown = capacity


@kernel
def choose_some(spec, state, lane, capacity, by_rank):
    """Mark up to `capacity` unmarked ready tasks, by rank or by missing bytes; ties go to the first.

    The candidate list, not needed yet, holds the best tasks found; `lowest` is the index of the one to be replaced.
    """
    header = state.lanes[lane]
    node = spec.processors[header.asked].node
    chosen, lowest = 0, 0
    for index in range(header.ready):
        task = state.ready[lane, index]
        if state.tasks[lane, task].shown:
            continue
        if chosen < capacity:
            state.candidates[lane, chosen] = task
            chosen += 1
        elif display_priority(spec, state, lane, task, node, by_rank) > display_priority(
            spec, state, lane, state.candidates[lane, lowest], node, by_rank
        ):
            # Later tasks lose ties, so the list must keep the order of the ready list.
            for later in range(lowest, capacity - 1):
                state.candidates[lane, later] = state.candidates[lane, later + 1]
            state.candidates[lane, capacity - 1] = task
        else:
            continue
        if chosen == capacity:
            lowest = find_lowest_priority(spec, state, lane, capacity, node, by_rank)
    for index in range(chosen):
        state.tasks[lane, state.candidates[lane, index]].shown = 1


@kernel
def display_priority(spec, state, lane, task, node, by_rank):
    """Return the priority of a task for the observation window: its rank, or its negated missing bytes."""
    if by_rank:
        return state.tasks[lane, task].rank
    return -missing_data(spec, state, lane, task, node)[0]


@kernel
def find_lowest_priority(spec, state, lane, capacity, node, by_rank):
    """Return the index of the chosen task of lowest priority, the last one on ties."""
    lowest, least = 0, display_priority(spec, state, lane, state.candidates[lane, 0], node, by_rank)
    for index in range(1, capacity):
        value = display_priority(spec, state, lane, state.candidates[lane, index], node, by_rank)
        if value <= least:
            lowest, least = index, value
    return lowest
