"""The rows of a choice, compiled, in their order, and which of them an observation has room for.

As a rule all are shown. Where they are too many, half of the room goes to the tasks with the longest paths before
them, half to those with the fewest bytes missing; the rest is listed behind, for compiled policies.
"""

from __future__ import annotations

from slipstream.families.taskgraph.kernel.lookahead import refresh_ahead, refresh_ranks, survey
from slipstream.families.taskgraph.kernel.state import CHOOSE_PROCESSOR, CHOOSE_QUEUED, SEE_WINDOW
from slipstream.jit.decorators import kernel


@kernel
def list_candidates(spec, state, lane):
    """List what can be chosen, what is shown first."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    refresh_ahead(spec, state, lane)
    if machine.visibility == SEE_WINDOW and header.ranks_stale:
        refresh_ranks(spec, state, lane)
    if header.phase == CHOOSE_PROCESSOR:
        header.candidates = machine.processors
        for processor in range(machine.processors):
            state.candidates[lane, processor] = processor
    elif header.phase == CHOOSE_QUEUED:
        header.candidates = state.processors[lane, header.asked].queued
        for position in range(header.candidates):
            task = state.queues[lane, header.asked, position]
            state.candidates[lane, position] = task
            state.tasks[lane, task].place = position
    else:
        header.candidates = header.ready
        for position in range(header.ready):
            task = state.ready[lane, position]
            state.candidates[lane, position] = task
            state.tasks[lane, task].place = position
        if header.ready > machine.rows:
            choose_shown(spec, state, lane)
    header.shown = min(header.candidates, machine.rows)


@kernel
def choose_shown(spec, state, lane):
    """List the ready tasks that are shown, then the others, both in their order."""
    header = state.lanes[lane]
    room = spec.machine[0].rows
    for position in range(header.ready):
        state.tasks[lane, state.ready[lane, position]].shown = 0
    choose_some(spec, state, lane, (room + 1) // 2, True)
    choose_some(spec, state, lane, room // 2, False)
    shown, hidden = 0, room
    for position in range(header.ready):
        task = state.ready[lane, position]
        if state.tasks[lane, task].shown:
            state.candidates[lane, shown] = task
            shown += 1
        else:
            state.candidates[lane, hidden] = task
            hidden += 1
    header.shown = room


@kernel
def choose_some(spec, state, lane, room, by_rank):
    """Mark the best ready tasks that are not marked yet, by rank or by missing bytes; the first ones on ties.

    The best so far stand at the beginning of the list of candidates, which is not needed yet; `worst` is the place of
    the one that the next better task replaces.
    """
    header = state.lanes[lane]
    node = spec.processors[header.asked].node
    chosen, worst = 0, 0
    for position in range(header.ready):
        task = state.ready[lane, position]
        if state.tasks[lane, task].shown:
            continue
        if chosen < room:
            state.candidates[lane, chosen] = task
            chosen += 1
        elif worth(spec, state, lane, task, node, by_rank) > worth(
            spec, state, lane, state.candidates[lane, worst], node, by_rank
        ):
            # Who came later gives way first, so the others move up and the list stays in its order.
            for later in range(worst, room - 1):
                state.candidates[lane, later] = state.candidates[lane, later + 1]
            state.candidates[lane, room - 1] = task
        else:
            continue
        if chosen == room:
            worst = find_worst(spec, state, lane, room, node, by_rank)
    for place in range(chosen):
        state.tasks[lane, state.candidates[lane, place]].shown = 1


@kernel
def worth(spec, state, lane, task, node, by_rank):
    """Return what speaks for showing a task."""
    if by_rank:
        return state.tasks[lane, task].rank
    return -survey(spec, state, lane, task, node)[0]


@kernel
def find_worst(spec, state, lane, room, node, by_rank):
    """Return the place of the least worthy of those chosen, the last one on ties."""
    worst, least = 0, worth(spec, state, lane, state.candidates[lane, 0], node, by_rank)
    for place in range(1, room):
        value = worth(spec, state, lane, state.candidates[lane, place], node, by_rank)
        if value <= least:
            worst, least = place, value
    return worst
