"""Whole episodes under an order of the queue, compiled: each scheduling point is one walk along the queue.

The same choices as `best in order` makes row by row, without the rows: the first job in the order is chosen, and
starts or is reserved; of the rest those start, in order, that may. What starts leaves less room, so nothing that was
passed over could start after all.
"""

from __future__ import annotations

from slipstream.families.cluster.kernel.backfill import find_shadow, safe_placement
from slipstream.families.cluster.kernel.events import (
    account_backfilled,
    apply,
    close_episode,
    end_step,
    may_be_chosen,
    open_point,
    point_is_due,
    reserve_conservatively,
    set_order,
    start_or_reserve,
)
from slipstream.families.cluster.kernel.lifecycle import fits, start
from slipstream.families.cluster.kernel.placement import run_time
from slipstream.families.cluster.kernel.priorities import FIRST_DYNAMIC, score_of_job
from slipstream.families.cluster.kernel.queues import sort_queue
from slipstream.families.cluster.kernel.state import CONSERVATIVE, EASY, GREEDY
from slipstream.jit.decorators import entry, kernel
from slipstream.sim.kernel.lanes import ASKING, LOG_FULL, log_is_full

UNKNOWN_SHADOW = -1
"""Shadow time that has not been computed yet."""


@entry
def run_in_order(spec, state, lane, order):
    """Play an episode on in queue order `order` at level 0, to its end or until the log is full; return the status."""
    header = state.lanes[lane]
    set_order(spec, state, lane, order)
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
            if not serve_queue(spec, state, lane, order):
                header.due = 0
        else:
            apply(spec, state, lane)
    end_step(spec, state, lane)
    return header.status


@kernel
def serve_queue(spec, state, lane, order):
    """Serve the queue of a scheduling point in order; return whether the log is too full to go on."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    if header.waiting == 0 or (header.free == 0 and (not machine.hold or header.reserved >= 0)):
        return False
    if order >= FIRST_DYNAMIC:
        rescore(spec, state, lane, order)
    limited = machine.has_quotas or machine.has_budget
    index = 0
    while index < header.waiting:
        if log_is_full(state, lane, spec.machine[0].log_margin):
            return True
        if header.reserved >= 0:
            return machine.backfill == EASY and not machine.compat and backfill_reserved(spec, state, lane, index)
        if header.free == 0 and not machine.hold:
            return False
        before = header.waiting
        if not limited or may_be_chosen(spec, state, lane, state.queue[lane, index].job, 0):
            serve_job(spec, state, lane, index)
        # Under `compat` jobs before `index` may have started too.
        index = 0 if machine.compat else index + 1 - (before - header.waiting)
    return False


@kernel
def serve_job(spec, state, lane, index):
    """Start the queued job at `index` if it fits, or reserve for it where the scenario reserves."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    row = state.queue[lane, index]
    if machine.backfill == CONSERVATIVE:
        if state.jobs[lane, row.job].profiled_at == header.point:
            return
        reserve_conservatively(spec, state, lane, index, 0)
    elif machine.compat:
        start_or_reserve(spec, state, lane, index, 0)
    else:
        nodes = fits(spec, state, lane, row.job, 0) if row.gpus <= header.free else 0
        if nodes > 0:
            start(spec, state, lane, index, 0, nodes)
        elif machine.backfill == GREEDY:
            return
        else:
            header.reserved = row.job
            header.reserved_level = 0
            header.shadow = UNKNOWN_SHADOW
    header.choices += 1


@kernel
def backfill_reserved(spec, state, lane, index):
    """Start queued jobs from `index` on that do not delay the reserved job; return whether the log is full."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    queue = state.queue[lane]
    factor = spec.levels[0, 0].factor
    while index < header.waiting and header.free > 0:
        row = queue[index]
        if row.gpus > header.free or row.job == header.reserved:
            index += 1
            continue
        if header.shadow == UNKNOWN_SHADOW:
            # Computed lazily: often no other job fits, and the shadow time is never read.
            find_shadow(spec, state, lane)
        job = row.job
        nodes = 0
        if machine.simple:
            if row.gpus <= header.extra or header.now + run_time(row.expected, factor) <= header.shadow:
                nodes = 1
        elif may_be_chosen(spec, state, lane, job, 0):
            nodes = safe_placement(spec, state, lane, job, 0)
        if nodes == 0:
            index += 1
            continue
        if log_is_full(state, lane, spec.machine[0].log_margin):
            return True
        start(spec, state, lane, index, 0, nodes)
        account_backfilled(spec, state, lane, job)
        header.choices += 1
    return False


@kernel
def rescore(spec, state, lane, order):
    """Compute the scores of all waiting jobs anew and sort the queue by them."""
    for index in range(state.lanes[lane].waiting):
        row = state.queue[lane, index]
        row.score = score_of_job(spec, state, lane, row.job, order)
    sort_queue(state, lane)
