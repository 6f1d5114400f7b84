"""Whole episodes under an order of the queue, compiled: each scheduling point is one walk along the queue.

The same choices as `best in order` makes row by row, without the rows: the first job in the order is chosen, and
starts or is reserved; of the rest those start, in order, that may. What starts leaves less room, so nothing that was
passed over could start after all.
"""

from __future__ import annotations

from slipstream.families.cluster.kernel.backfill import find_shadow, safe_place
from slipstream.families.cluster.kernel.events import (
    apply,
    choose_job,
    choose_slot,
    close_episode,
    end_step,
    may_be_chosen,
    note_backfilled,
    open_point,
    point_is_due,
    use_order,
)
from slipstream.families.cluster.kernel.lifecycle import fits, start
from slipstream.families.cluster.kernel.placement import stretched
from slipstream.families.cluster.kernel.priorities import FIRST_THAT_MOVES, score_of_job
from slipstream.families.cluster.kernel.queues import sort_queue
from slipstream.families.cluster.kernel.state import CONSERVATIVE, EASY, GREEDY
from slipstream.jit.decorators import entry, kernel
from slipstream.sim.kernel.lanes import ASKING, LOG_FULL, log_is_full

UNKNOWN = -1
"""A shadow time that nobody has asked for yet."""


@entry
def run_in_order(spec, state, lane, order):
    """Play the rest of an episode, or until the log is full, choosing by an order at level 0."""
    header = state.lanes[lane]
    use_order(spec, state, lane, order)
    header.status = ASKING
    while True:
        if log_is_full(state, lane, spec.machine[0].log_margin):
            header.status = LOG_FULL
            return header.status
        if header.done == spec.machine[0].jobs:
            close_episode(state, lane)
            break
        if point_is_due(spec, state, lane):
            if not header.open:
                open_point(spec, state, lane)
            if not walk(spec, state, lane, order):
                header.due = 0
        else:
            apply(spec, state, lane)
    end_step(spec, state, lane)
    return header.status


@kernel
def walk(spec, state, lane, order):
    """Serve the queue in order; return whether the log is too full to go on."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    if header.waiting == 0 or (header.free == 0 and (not machine.hold or header.reserved >= 0)):
        return False
    if order >= FIRST_THAT_MOVES:
        rescore(spec, state, lane, order)
    limited = machine.has_quotas or machine.has_budget
    place = 0
    while place < header.waiting:
        if log_is_full(state, lane, spec.machine[0].log_margin):
            return True
        if header.reserved >= 0:
            return machine.backfill == EASY and not machine.compat and pass_reserved(spec, state, lane, place)
        if header.free == 0 and not machine.hold:
            return False
        before = header.waiting
        if not limited or may_be_chosen(spec, state, lane, state.queue[lane, place].job, 0):
            serve(spec, state, lane, place)
        # Under `compat` jobs before it may have started too.
        place = 0 if machine.compat else place + 1 - (before - header.waiting)
    return False


@kernel
def serve(spec, state, lane, place):
    """Let the job at a place of the queue start if it may, or be reserved."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    row = state.queue[lane, place]
    if machine.backfill == CONSERVATIVE:
        if state.jobs[lane, row.job].slot == header.point:
            return
        choose_slot(spec, state, lane, place, 0)
    elif machine.compat:
        choose_job(spec, state, lane, place, 0)
    else:
        nodes = fits(spec, state, lane, row.job, 0) if row.gpus <= header.free else 0
        if nodes > 0:
            start(spec, state, lane, place, 0, nodes)
        elif machine.backfill == GREEDY:
            return
        else:
            header.reserved = row.job
            header.reserved_level = 0
            header.shadow = UNKNOWN
    header.choices += 1


@kernel
def pass_reserved(spec, state, lane, place):
    """Start jobs from a place of the queue on that do not delay the reserved one; return whether the log is full."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    queue = state.queue[lane]
    factor = spec.levels[0, 0].factor
    while place < header.waiting and header.free > 0:
        row = queue[place]
        if row.gpus > header.free or row.job == header.reserved:
            place += 1
            continue
        if header.shadow == UNKNOWN:
            # Found only now: often nothing fits, and nobody needs to know.
            find_shadow(spec, state, lane)
        job = row.job
        nodes = 0
        if machine.simple:
            if row.gpus <= header.extra or header.now + stretched(row.expected, factor) <= header.shadow:
                nodes = 1
        elif may_be_chosen(spec, state, lane, job, 0):
            nodes = safe_place(spec, state, lane, job, 0)
        if nodes == 0:
            place += 1
            continue
        if log_is_full(state, lane, spec.machine[0].log_margin):
            return True
        start(spec, state, lane, place, 0, nodes)
        note_backfilled(spec, state, lane, job)
        header.choices += 1
    return False


@kernel
def rescore(spec, state, lane, order):
    """Put the queue into the order of scores that have changed."""
    for place in range(state.lanes[lane].waiting):
        row = state.queue[lane, place]
        row.score = score_of_job(spec, state, lane, row.job, order)
    sort_queue(state, lane)
