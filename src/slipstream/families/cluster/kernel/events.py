"""The event loop of the cluster machine, compiled: events and decisions. `docs/cluster-machine.md` specifies it.

State changes in two ways only: `apply` an event, or `decide`: carry out an action. A second loop over the same steps,
`fast_path`, plays whole episodes of sorted-queue policies.
"""

from __future__ import annotations

from slipstream.families.cluster.kernel.backfill import (
    build_profile,
    find_anchor,
    find_shadow,
    fits_by_count,
    is_safe_by_count,
    may_pass,
    most_power,
    reserve_profile,
    safe_placement,
)
from slipstream.families.cluster.kernel.compat import (
    applies_events_singly,
    backfill_by_number,
    policy_backfills,
    reserve_and_backfill,
)
from slipstream.families.cluster.kernel.lifecycle import (
    advance_clock,
    expected_left,
    finish,
    fits,
    interrupt,
    start,
    submit,
)
from slipstream.families.cluster.kernel.placement import run_time
from slipstream.families.cluster.kernel.priorities import score_of_job
from slipstream.families.cluster.kernel.queues import next_end, queue_index, sort_queue
from slipstream.families.cluster.kernel.state import (
    BY_NUMBER,
    CONSERVATIVE,
    EASY,
    ENERGY,
    GREEDY,
    SLOWDOWN,
    THROUGHPUT,
    UNFAIRNESS,
    UTILISATION,
    WAIT_HOURS,
)
from slipstream.families.cluster.kernel.window import order_rows
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER
from slipstream.sim.kernel.lanes import (
    ASKING,
    LOG_FULL,
    TERMINATED,
    begin_episode,
    begin_step,
    end_episode,
    log_is_full,
)
from slipstream.sim.kernel.rng import TRAIN, stream_key, uniform
from slipstream.sim.kernel.window import candidate_of, is_wait

UNKNOWN_SHADOW = -1
"""Shadow time of a reservation that has not been computed yet."""
EPISODES = 1
"""Random-number stream that draws the first job of an episode."""

# Events


@inlined
def next_submit(spec, state, lane):
    """Return the time of the next submission, NEVER if no job is left."""
    header = state.lanes[lane]
    if header.arrived >= header.jobs:
        return NEVER
    return spec.jobs[header.first + header.arrived].submit - header.time_zero


@inlined
def next_round(spec, state, lane):
    """Return the end of the present round, NEVER if there are no rounds, or no job waits or none runs."""
    header = state.lanes[lane]
    length = spec.machine[0].round_length
    if length == 0 or header.waiting == 0 or header.running == 0:
        return NEVER
    return (header.now // length + 1) * length


@inlined
def next_time(spec, state, lane):
    """Return the time of the next event, NEVER if there is none."""
    return min(next_end(state, lane), next_submit(spec, state, lane), next_round(spec, state, lane))


@kernel
def apply(spec, state, lane):
    """Advance the clock to the next event and apply it: a submission, the end of a job or the end of a round."""
    header = state.lanes[lane]
    ends, comes = next_end(state, lane), next_submit(spec, state, lane)
    time = min(ends, comes, next_round(spec, state, lane))
    advance_clock(spec, state, lane, time)
    header.events += 1
    header.due = 1
    header.open = 0
    if comes == time and (ends > time or applies_events_singly(spec)):
        submit(spec, state, lane)
    elif ends == time:
        finish(spec, state, lane, state.ends[lane, 0])


# Scheduling points


@kernel
def open_point(spec, state, lane):
    """Open a scheduling point: start the reserved job if it fits; drop the reservation unless the scenario holds it."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    header.open = 1
    header.point += 1
    header.profile = 0
    if header.reserved < 0:
        return
    if not machine.hold:
        header.reserved = -1
        return
    nodes = fits(spec, state, lane, header.reserved, header.reserved_level)
    if nodes > 0:
        job = header.reserved
        header.reserved = -1
        start(spec, state, lane, queue_index(state, lane, job), header.reserved_level, nodes)
    elif machine.backfill == EASY:
        if machine.compat:
            backfill_by_number(spec, state, lane)
        else:
            find_shadow(spec, state, lane)


@inlined
def may_be_chosen(spec, state, lane, job, level):
    """Return whether the user's quota and the power budget admit `job` at `level`."""
    machine = spec.machine[0]
    own = state.jobs[lane, job]
    if machine.has_quotas:
        header = state.lanes[lane]
        held = state.users[lane, own.user].held + own.gpus
        if header.reserved >= 0 and state.jobs[lane, header.reserved].user == own.user:
            held += state.jobs[lane, header.reserved].gpus
        if held > spec.users[own.user].quota:
            return False
    return not machine.has_budget or machine.idle_power + own.gpus * most_power(spec, level) <= machine.budget


@kernel
def is_start_row(spec, state, lane, job, level):
    """Return whether a candidate row may start, or reserve for, the waiting `job` at `level`."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    if job == header.reserved or not may_be_chosen(spec, state, lane, job, level):
        return False
    if header.reserved >= 0:
        return policy_backfills(machine) and safe_placement(spec, state, lane, job, level) > 0
    if machine.backfill == GREEDY:
        return fits(spec, state, lane, job, level) > 0
    return machine.backfill != CONSERVATIVE or state.jobs[lane, job].profiled_at != header.point


@inlined
def can_be_interrupted(spec, state, lane, job):
    """Return whether a candidate row may interrupt the running `job`."""
    header = state.lanes[lane]
    began = state.jobs[lane, job].start
    return header.reserved < 0 and began < header.now and header.now - began >= spec.machine[0].least_run


@kernel
def list_simple_rows(spec, state, lane, first):
    """List the jobs that may start where only GPU counts and times matter; return the end of the list."""
    header = state.lanes[lane]
    queue, candidates = state.queue[lane], state.candidates[lane]
    reserved, free, extra = header.reserved, header.free, header.extra
    time_left = header.shadow - header.now
    factor = spec.levels[0, 0].factor
    count = first
    for index in range(header.waiting):
        row = queue[index]
        if reserved < 0 or (may_pass(row, reserved, free) and is_safe_by_count(row, extra, time_left, factor)):
            candidates[count] = row.job
            count += 1
    return count


@inlined
def starts_are_possible(machine, header):
    """Return whether a waiting job may be chosen: GPUs are free, or a job that does not fit may be reserved."""
    return header.free > 0 or (header.reserved < 0 and (machine.hold or machine.preemption))


@kernel
def list_rows(spec, state, lane):
    """List the candidate rows of a decision in the second half of `candidates`, in row order."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    first = state.candidates.shape[1] // 2
    count, jobs = first, 0
    if starts_are_possible(machine, header):
        if machine.simple and machine.levels == 1 and (header.reserved < 0 or machine.backfill == EASY):
            count = list_simple_rows(spec, state, lane, first)
            jobs = count - first
        else:
            for index in range(header.waiting):
                job = state.queue[lane, index].job
                before = count
                for level in range(machine.levels):
                    if is_start_row(spec, state, lane, job, level):
                        state.candidates[lane, count] = job * machine.levels + level
                        count += 1
                if count > before:
                    jobs += 1
    header.start_jobs = jobs
    header.starts = count - first
    if machine.preemption:
        for index in range(header.running - 1, -1, -1):
            job = state.running[lane, index]
            if can_be_interrupted(spec, state, lane, job):
                state.candidates[lane, count] = -1 - job
                count += 1
    header.candidates = count - first


@kernel
def find_candidates(spec, state, lane):
    """List the candidate rows of the scheduling point; return whether there are any."""
    header = state.lanes[lane]
    if header.waiting == 0:
        return False
    set_order(spec, state, lane, BY_NUMBER)
    list_rows(spec, state, lane)
    if header.candidates == 0:
        return False
    order_rows(spec, state, lane)
    return True


@kernel
def set_order(spec, state, lane, order):
    """Sort the queue by the priority function `order`, unless it is sorted so already."""
    if state.lanes[lane].order != order:
        state.lanes[lane].order = order
        rescore(spec, state, lane)


@kernel
def rescore(spec, state, lane):
    """Compute the scores of all waiting jobs under the present order and sort the queue by them."""
    header = state.lanes[lane]
    for index in range(header.waiting):
        row = state.queue[lane, index]
        row.score = score_of_job(spec, state, lane, row.job, header.order)
    sort_queue(state, lane)


# Decisions


@kernel
def start_or_reserve(spec, state, lane, index, level):
    """Start the queued job at `index`, or reserve for it if it does not fit."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    if machine.backfill == CONSERVATIVE:
        reserve_conservatively(spec, state, lane, index, level)
        return
    job = state.queue[lane, index].job
    if start_if_fits(spec, state, lane, index, level):
        if header.reserved >= 0:
            account_backfilled(spec, state, lane, job)
        return
    reserve(state, lane, job, level)
    if machine.backfill == EASY:
        if machine.compat:
            reserve_and_backfill(spec, state, lane)
        else:
            find_shadow(spec, state, lane)


@inlined
def start_if_fits(spec, state, lane, index, level):
    """Start the queued job at `index` if it fits now; return whether it does."""
    row = state.queue[lane, index]
    nodes = fits(spec, state, lane, row.job, level) if row.gpus <= state.lanes[lane].free else 0
    if nodes > 0:
        start(spec, state, lane, index, level, nodes)
    return nodes > 0


@inlined
def reserve(state, lane, job, level):
    """Reserve for `job` at `level`; its shadow time is not computed yet."""
    header = state.lanes[lane]
    header.reserved = job
    header.reserved_level = level
    header.shadow = UNKNOWN_SHADOW


@inlined
def account_backfilled(spec, state, lane, job):
    """Subtract a backfilled `job` that ends after the shadow time from the GPUs and power left then."""
    header = state.lanes[lane]
    own = state.jobs[lane, job]
    if not fits_by_count(spec.machine[0]):
        find_shadow(spec, state, lane)
    elif own.expected_end > header.shadow:
        header.extra -= own.gpus
        header.shadow_power += own.power


@kernel
def reserve_conservatively(spec, state, lane, index, level):
    """Reserve the queued job at `index` in the profile; start it if the reservation begins now."""
    header = state.lanes[lane]
    own = state.jobs[lane, state.queue[lane, index].job]
    if header.profile == 0:
        build_profile(state, lane)
    own.profiled_at = header.point
    duration = run_time(expected_left(own), spec.levels[0, level].factor)
    begin = find_anchor(state, lane, own.gpus, duration)
    now = state.profile[lane, begin].time == header.now
    reserve_profile(state, lane, begin, own.gpus, duration)
    if now:
        start(spec, state, lane, index, level, 1)


@inlined
def may_wait(spec, state, lane):
    """Return whether an event is still to come, so that waiting is legal."""
    header = state.lanes[lane]
    return header.running > 0 or header.arrived < header.jobs


@kernel
def decide(spec, state, lane, action):
    """Carry out `action`; an illegal one waits or, where waiting is illegal, takes the first row."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    header.illegal = 0
    index = candidate_of(spec, state, lane, action)
    waits = index < 0 and may_wait(spec, state, lane)
    if index < 0 and not (waits and is_wait(machine, action)):
        header.illegal = 1
    header.mistakes += header.illegal
    if waits:
        header.due = 0
        return
    chosen = state.candidates[lane, max(index, 0)]
    if chosen < 0:
        interrupt(spec, state, lane, -1 - chosen)
    else:
        job = chosen // machine.levels
        start_or_reserve(spec, state, lane, queue_index(state, lane, job), chosen - job * machine.levels)


# Steps


@kernel
def end_step(spec, state, lane):
    """Compute the reward of the step from its terms."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    terms = state.terms
    header.reward = (
        -machine.slowdown * terms[lane, SLOWDOWN]
        - machine.waiting * terms[lane, WAIT_HOURS]
        + machine.throughput * terms[lane, THROUGHPUT]
        + machine.utilisation * terms[lane, UTILISATION]
        - machine.energy * terms[lane, ENERGY]
        - machine.unfairness * terms[lane, UNFAIRNESS]
    )
    header.elapsed = header.now - header.step_began


@inlined
def point_is_due(spec, state, lane):
    """Return whether a scheduling point is due: all events of this instant have been applied."""
    header = state.lanes[lane]
    if not header.due:
        return False
    return header.open or applies_events_singly(spec) or next_time(spec, state, lane) > header.now


@inlined
def advance_to_point(spec, state, lane):
    """Apply events until a scheduling point is open; return False where the episode ends or the log must be flushed."""
    header = state.lanes[lane]
    header.status = ASKING
    while True:
        if log_is_full(state, lane, spec.machine[0].log_margin):
            header.status = LOG_FULL
            return False
        if header.done == header.jobs:
            close_episode(state, lane)
            return False
        if point_is_due(spec, state, lane):
            if not header.open:
                open_point(spec, state, lane)
            return True
        apply(spec, state, lane)


@kernel
def resume(spec, state, lane):
    """Apply events until a decision is due, the episode ends, or the log must be flushed."""
    header = state.lanes[lane]
    while advance_to_point(spec, state, lane):
        if find_candidates(spec, state, lane):
            header.choices += 1
            break
        header.due = 0
    if header.status != LOG_FULL:
        end_step(spec, state, lane)


@kernel
def close_episode(state, lane):
    """End the episode, with no candidates left."""
    header = state.lanes[lane]
    header.asked = -1
    header.candidates = 0
    header.shown = 0
    end_episode(state, lane, TERMINATED)


@kernel
def act(spec, state, lane, action):
    """Carry out `action` and begin the next step."""
    begin_step(state, lane)
    decide(spec, state, lane, action)


@kernel
def begin(spec, state, lane, seed, split):
    """Start the episode of `seed` and `split`."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    begin_episode(header, seed, split)
    starts = spec.splits[0 if split == TRAIN else 1]
    draw = uniform(stream_key(header.key, EPISODES), 0)
    header.first = starts.low + int(draw * (starts.high - starts.low + 1))
    header.origin = header.first
    header.jobs = machine.jobs
    header.time_zero = machine.beginning if machine.has_begun else spec.jobs[header.first].submit
    header.shift_s = 0.0
    header.asked = 0
    header.arrived = 0
    header.done = 0
    header.waiting = 0
    header.running = 0
    header.free = machine.gpus
    header.power = machine.idle_power
    header.started = 0
    header.due = 0
    header.open = 0
    header.point = 0
    header.reserved = -1
    header.shadow = 0
    header.extra = 0
    header.profile = 0
    header.free_piece = 0
    header.candidates = 0
    header.active_users = 0
    header.held = 0
    header.held_squares = 0
    header.waiting_gpus = 0
    header.rate = 0.0
    header.busy_hours = 0.0
    header.order = BY_NUMBER
    clear(spec, state, lane)


@kernel
def clear(spec, state, lane):
    """Free all nodes and reset the counters of users and terms."""
    for node in range(state.free.shape[1]):
        state.free[lane, node] = spec.nodes[node].gpus
        state.idle[lane, node] = 0
    for piece in range(state.pieces.shape[1]):
        state.pieces[lane, piece].next = piece + 1
    for user in range(state.users.shape[1]):
        state.users[lane, user].held = 0
        state.users[lane, user].jobs = 0
    for term in range(state.terms.shape[1]):
        state.terms[lane, term] = 0.0
