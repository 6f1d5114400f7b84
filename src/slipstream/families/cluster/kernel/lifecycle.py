"""Life cycle of jobs, compiled: submission, start, interruption and end, and the reward terms that these accrue."""

from __future__ import annotations

import math

from slipstream.families.cluster.kernel.placement import (
    NOW,
    allocate_gpus,
    factor_of,
    find_placement,
    free_gpus_of,
    log_allocation,
    power_of,
    run_time,
    setup_of,
)
from slipstream.families.cluster.kernel.priorities import score_of_job
from slipstream.families.cluster.kernel.queues import add_running, dequeue, enqueue, remove_running
from slipstream.families.cluster.kernel.state import (
    BOUND_S,
    ENDED,
    ENERGY,
    FLAT,
    RUNNING,
    SLOWDOWN,
    THROUGHPUT,
    UNFAIRNESS,
    UTILISATION,
    WAIT_HOURS,
    WAITING,
)
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import ARRIVAL, FINISH, PREEMPT, START
from slipstream.sim.kernel.lanes import record

PER_S = 1e-9
PER_HOUR = 1.0 / 3.6e12


@kernel
def advance_clock(spec, state, lane, time):
    """Advance the clock to `time`; accrue slowdown, waiting, utilisation, energy and unfairness."""
    header = state.lanes[lane]
    if time > header.now:
        terms = state.terms
        passed = float(time - header.now)
        hours = passed * PER_HOUR
        busy = float(spec.machine[0].gpus - header.free) / spec.machine[0].gpus
        terms[lane, SLOWDOWN] += header.rate * (passed * PER_S)
        terms[lane, WAIT_HOURS] += header.waiting * hours
        terms[lane, UTILISATION] += busy * hours
        terms[lane, ENERGY] += header.power * 1e-6 * hours
        if spec.machine[0].has_sleep:
            subtract_sleep_energy(spec, state, lane, time)
        terms[lane, UNFAIRNESS] += (1.0 - jain(header)) * hours
        header.busy_hours += busy * hours
        header.now = time


@kernel
def subtract_sleep_energy(spec, state, lane, time):
    """Subtract the energy that sleeping nodes save until `time`."""
    for node in range(spec.machine[0].nodes):
        if state.idle[lane, node] >= 0:
            since = max(state.lanes[lane].now, state.idle[lane, node] + spec.machine[0].sleep_after)
            if time > since:
                state.terms[lane, ENERGY] -= spec.nodes[node].saved * 1e-6 * (float(time - since) * PER_HOUR)


@inlined
def jain(header):
    """Return Jain's index of the GPUs held by users with jobs in the system."""
    if header.held_squares == 0:
        return 1.0
    held = float(header.held)
    return held * held / (float(header.active_users) * float(header.held_squares))


@kernel
def change_held_gpus(state, lane, user, gpus):
    """Add `gpus` (negative: subtract) to the GPUs that `user` holds."""
    header = state.lanes[lane]
    own = state.users[lane, user]
    header.held_squares -= own.held * own.held
    own.held += gpus
    header.held += gpus
    header.held_squares += own.held * own.held


@inlined
def expected_left(own):
    """Return the remaining work of a job as expected from its requested time."""
    return max(1, own.requested - (own.run - own.left))


@kernel
def make_waiting(spec, state, lane, job):
    """Put `job` into the queue and count its wait from now."""
    header = state.lanes[lane]
    own = state.jobs[lane, job]
    own.status = WAITING
    own.queued = header.now
    header.rate += 1.0 / own.bound
    enqueue(state, lane, score_of_job(spec, state, lane, job, header.order), job, expected_left(own), own.gpus)


@kernel
def submit(spec, state, lane):
    """Submit the next job of the workload."""
    header = state.lanes[lane]
    job = header.arrived
    source = spec.jobs[header.first + job]
    own = state.jobs[lane, job]
    own.submit = source.submit - header.time_zero
    own.submitted_s = source.submitted_s + header.shift_s
    own.run = source.run
    own.requested = source.requested
    own.left = source.run
    own.gpus = source.gpus
    own.user = source.user
    own.waited = 0
    own.attained = 0
    own.interrupted = 0
    own.profiled_at = -1
    own.log_of = -1
    own.start = -1
    own.piece = -1
    own.node = -1
    own.level = 0
    own.bound = max(source.run * PER_S, BOUND_S)
    header.arrived += 1
    if state.users[lane, source.user].jobs == 0:
        header.active_users += 1
    state.users[lane, source.user].jobs += 1
    record(state, lane, ARRIVAL, header.first + job, job, -1, source.user)
    if spec.machine[0].has_begun and spec.begun[header.first + job].runs:
        continue_run(spec, state, lane, job, spec.begun[header.first + job])
    else:
        make_waiting(spec, state, lane, job)


@kernel
def continue_run(spec, state, lane, job, begun):
    """Resume the run of `job`, just submitted, as it was when the episode began: at level 0, on the GPUs it held."""
    header = state.lanes[lane]
    own = state.jobs[lane, job]
    for index in range(begun.pieces):
        if spec.machine[0].placement != FLAT:
            state.plan[lane, NOW, index].node = spec.held[begun.first + index].node
            state.plan[lane, NOW, index].gpus = spec.held[begun.first + index].gpus
    own.factor = factor_of(spec, state, lane, begun.pieces, 0)
    own.power = power_of(spec, state, lane, own.gpus, begun.pieces, 0)
    own.setup = 0
    run(spec, state, lane, job, begun.pieces, begun.started - header.time_zero)


@kernel
def placement_for(spec, state, lane, job):
    """Find a placement for `job` among the free GPUs; return its number of nodes (1 if flat), 0 if there is none."""
    gpus = state.jobs[lane, job].gpus
    if gpus > state.lanes[lane].free:
        return 0
    if spec.machine[0].placement == FLAT:
        return 1
    return find_placement(spec, state, lane, state.free, gpus, NOW)


@kernel
def gpus_by_budget(spec, gpus, power, level):
    """Return `gpus`, but at most those that the budget admits at `level` on the most frugal nodes beside `power`."""
    machine = spec.machine[0]
    if not machine.has_budget:
        return gpus
    least = spec.levels[0, level].power
    for kind in range(1, spec.levels.shape[0]):
        least = min(least, spec.levels[kind, level].power)
    return gpus if least <= 0 else min(gpus, (machine.budget - power) // least)


@kernel
def fits(spec, state, lane, job, level):
    """Return the number of nodes on which `job` can start now at `level`, by GPUs and power budget; 0 if it cannot."""
    header = state.lanes[lane]
    if state.jobs[lane, job].gpus > gpus_by_budget(spec, header.free, header.power, level):
        return 0
    nodes = placement_for(spec, state, lane, job)
    if nodes > 0 and spec.machine[0].has_budget:
        more = power_of(spec, state, lane, state.jobs[lane, job].gpus, nodes, level)
        if header.power + more > spec.machine[0].budget:
            return 0
    return nodes


@kernel
def start(spec, state, lane, index, level, nodes):
    """Start the queued job at `index` at `level` on the `nodes` nodes of the placement found last."""
    header = state.lanes[lane]
    job = state.queue[lane, index].job
    own = state.jobs[lane, job]
    own.factor = factor_of(spec, state, lane, nodes, level)
    own.power = power_of(spec, state, lane, own.gpus, nodes, level)
    own.setup = setup_of(spec, state, lane, own, nodes)
    dequeue(state, lane, index)
    own.level = level
    own.waited += header.now - own.queued
    header.rate -= 1.0 / own.bound
    if header.waiting == 0:
        # Exact here, so that rounding errors of the sum do not accumulate.
        header.rate = 0.0
    run(spec, state, lane, job, nodes, header.now)


@kernel
def run(spec, state, lane, job, nodes, since):
    """Run `job` since the time `since` on the `nodes` nodes of the placement found last."""
    header = state.lanes[lane]
    own = state.jobs[lane, job]
    if spec.machine[0].placement != FLAT:
        allocate_gpus(state, lane, job, nodes)
    own.status = RUNNING
    own.start = since
    own.tie_rank = header.started if spec.machine[0].compat else job
    header.started += 1
    own.end = since + own.setup + run_time(own.left, own.factor)
    own.expected_end = since + own.setup + run_time(expected_left(own), own.factor)
    header.free -= own.gpus
    header.power += own.power
    change_held_gpus(state, lane, own.user, own.gpus)
    add_running(state, lane, job)
    record(state, lane, START, own.gpus, job, own.level, own.node)
    if spec.machine[0].placement != FLAT:
        log_allocation(state, lane, job)


@kernel
def release(spec, state, lane, job):
    """Remove `job` from the running jobs and free its GPUs and power."""
    header = state.lanes[lane]
    own = state.jobs[lane, job]
    remove_running(state, lane, job)
    if spec.machine[0].placement != FLAT:
        free_gpus_of(spec, state, lane, job)
    header.free += own.gpus
    header.power -= own.power
    change_held_gpus(state, lane, own.user, -own.gpus)


@kernel
def finish(spec, state, lane, job):
    """End `job` and accrue the rest of its slowdown."""
    header = state.lanes[lane]
    own = state.jobs[lane, job]
    release(spec, state, lane, job)
    own.status = ENDED
    header.done += 1
    state.users[lane, own.user].jobs -= 1
    if state.users[lane, own.user].jobs == 0:
        header.active_users -= 1
    slowdown = max(1.0, (header.now - own.submit) * PER_S / own.bound)
    state.terms[lane, SLOWDOWN] += slowdown - own.waited * PER_S / own.bound
    state.terms[lane, THROUGHPUT] += 1.0
    record(state, lane, FINISH, own.gpus, job, own.level, own.node)


@inlined
def done_since_start(own, now):
    """Return the work that a running job has done since its start, at time `now`."""
    passed = max(0, now - own.start - own.setup)
    done = passed if own.factor == 1.0 else int(math.floor(passed / own.factor))
    return min(done, own.left - 1)


@kernel
def interrupt(spec, state, lane, job):
    """Interrupt the running `job` and put it back into the queue."""
    header = state.lanes[lane]
    own = state.jobs[lane, job]
    release(spec, state, lane, job)
    own.left -= done_since_start(own, header.now)
    own.attained += header.now - own.start
    own.interrupted += 1
    record(state, lane, PREEMPT, own.gpus, job, own.level, own.node)
    make_waiting(spec, state, lane, job)
