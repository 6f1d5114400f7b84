"""Fast event loop of sorted-queue policies, compiled: whole episodes, each scheduling point in one pass over the queue.

The law that ties it to the event loop (`events`): for every scenario and order it writes the same event log as the
event loop does under the policy that chooses, row by row, the first start row in that order at level 0. The test
`tests/cluster/test_fast_path.py::test_the_fast_path_writes_the_same_log_as_the_event_loop` checks it.

Both loops advance to a scheduling point, start, reserve and backfill by the same functions. This one saves what the
event loop does for each decision: listing the candidates and scoring them. One pass is enough since a start leaves
fewer GPUs, less power and less of a quota: a job that was passed over cannot start later at the same point. The shadow
time of a reserved job is computed only when another job might pass it.
"""

from __future__ import annotations

from slipstream.families.cluster.kernel.backfill import (
    find_shadow,
    is_safe_by_count,
    least_factor,
    may_pass,
    safe_placement,
)
from slipstream.families.cluster.kernel.compat import policy_backfills
from slipstream.families.cluster.kernel.events import (
    UNKNOWN_SHADOW,
    account_backfilled,
    advance_to_point,
    end_step,
    may_be_chosen,
    rescore,
    reserve,
    set_order,
    start_if_fits,
    start_or_reserve,
    starts_are_possible,
)
from slipstream.families.cluster.kernel.lifecycle import gpus_by_budget, start
from slipstream.families.cluster.kernel.priorities import FIRST_DYNAMIC
from slipstream.families.cluster.kernel.state import CONSERVATIVE, GREEDY
from slipstream.jit.decorators import entry, inlined, kernel
from slipstream.sim.kernel.lanes import LOG_FULL, log_is_full


@entry
def run_fast_path(spec, state, lane, order):
    """Play an episode on in queue order `order` at level 0, to its end or until the log is full; return the status."""
    return play_on(spec, state, lane, order)


@kernel
def play_on(spec, state, lane, order):
    """Play an episode on in queue order `order` at level 0, to its end or until the log is full; return the status."""
    header = state.lanes[lane]
    set_order(spec, state, lane, order)
    while advance_to_point(spec, state, lane):
        if not serve_queue(spec, state, lane):
            header.due = 0
    if header.status != LOG_FULL:
        end_step(spec, state, lane)
    return header.status


@kernel
def serve_queue(spec, state, lane):
    """Serve the queue of a scheduling point in order; return whether the log is too full to go on."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    if header.waiting == 0 or not starts_are_possible(machine, header):
        return False
    if header.order >= FIRST_DYNAMIC:
        rescore(spec, state, lane)
    limited = machine.has_quotas or machine.has_budget
    index = 0
    while index < header.waiting:
        if log_is_full(state, lane, machine.log_margin):
            return True
        if header.reserved >= 0:
            return policy_backfills(machine) and backfill_reserved(spec, state, lane, index)
        if not starts_are_possible(machine, header):
            return False
        before = header.waiting
        if not limited or may_be_chosen(spec, state, lane, state.queue[lane, index].job, 0):
            serve_job(spec, state, lane, index)
        # Under `compat` jobs before `index` may have started too.
        index = 0 if machine.compat else index + 1 - (before - header.waiting)
    return False


@inlined
def serve_job(spec, state, lane, index):
    """Start the queued job at `index` if it fits, or reserve for it where the scenario reserves."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    job = state.queue[lane, index].job
    if machine.backfill == CONSERVATIVE:
        if state.jobs[lane, job].profiled_at == header.point:
            return
        start_or_reserve(spec, state, lane, index, 0)
    elif machine.compat:
        start_or_reserve(spec, state, lane, index, 0)
    elif not start_if_fits(spec, state, lane, index, 0):
        if machine.backfill == GREEDY:
            return
        reserve(state, lane, job, 0)
    header.choices += 1


@inlined
def backfill_reserved(spec, state, lane, index):
    """Start queued jobs from `index` on that do not delay the reserved job; return whether the log is full."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    queue = state.queue[lane]
    factor = least_factor(spec, 0)
    most = gpus_by_budget(spec, header.free, header.power, 0)
    while index < header.waiting and most > 0:
        row = queue[index]
        if not may_pass(row, header.reserved, most):
            index += 1
            continue
        if header.shadow == UNKNOWN_SHADOW:
            find_shadow(spec, state, lane)
        job = row.job
        nodes = 0
        extra = gpus_by_budget(spec, header.extra, header.shadow_power, 0)
        if not is_safe_by_count(row, extra, header.shadow - header.now, factor):
            # Also where placement, setup times or power matter: they only add to what it takes.
            nodes = 0
        elif machine.simple:
            nodes = 1
        elif may_be_chosen(spec, state, lane, job, 0):
            nodes = safe_placement(spec, state, lane, job, 0)
        if nodes == 0:
            index += 1
            continue
        if log_is_full(state, lane, machine.log_margin):
            return True
        start(spec, state, lane, index, 0, nodes)
        account_backfilled(spec, state, lane, job)
        header.choices += 1
        most = gpus_by_budget(spec, header.free, header.power, 0)
    return False
