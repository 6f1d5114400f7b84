"""The cluster machine, compiled: events and choices. `docs/cluster-machine.md` says exactly what it does.

State changes in two ways only: `apply` an event, or let a choice take effect (`decide`).
"""

from __future__ import annotations

from slipstream.families.cluster.kernel.backfill import (
    begin_profile,
    find_narrow_shadow,
    find_shadow,
    find_slot,
    most_power,
    safe_place,
    take_slot,
)
from slipstream.families.cluster.kernel.lifecycle import (
    expected_left,
    finish,
    fits,
    interrupt,
    pass_time,
    start,
    submit,
)
from slipstream.families.cluster.kernel.placement import stretched
from slipstream.families.cluster.kernel.priorities import score_of_job
from slipstream.families.cluster.kernel.queues import next_end, place_of, sort_queue
from slipstream.families.cluster.kernel.state import (
    BY_NUMBER,
    CONSERVATIVE,
    EASY,
    ENERGY,
    FLAT,
    GREEDY,
    SLOWDOWN,
    THROUGHPUT,
    UNFAIRNESS,
    UTILISATION,
    WAIT_HOURS,
)
from slipstream.families.cluster.kernel.window import arrange
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

EPISODES = 1
"""Stream of random numbers: where an episode begins."""

# Events


@inlined
def next_submit(spec, state, lane):
    """Return when the next job comes, NEVER if none is left."""
    header = state.lanes[lane]
    if header.arrived >= spec.machine[0].jobs:
        return NEVER
    return spec.jobs[header.first + header.arrived].submit - spec.jobs[header.first].submit


@inlined
def next_round(spec, state, lane):
    """Return when the round ends, NEVER if that changes nothing."""
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
    """Let time pass to the next event and let it happen."""
    header = state.lanes[lane]
    ends, comes = next_end(state, lane), next_submit(spec, state, lane)
    time = min(ends, comes, next_round(spec, state, lane))
    pass_time(spec, state, lane, time)
    header.events += 1
    header.due = 1
    header.open = 0
    if comes == time and (ends > time or spec.machine[0].compat):
        submit(spec, state, lane)
    elif ends == time:
        finish(spec, state, lane, state.ends[lane, 0])


# Scheduling points


@kernel
def open_point(spec, state, lane):
    """Begin a scheduling point: the reserved job starts if it can, or is reserved no more."""
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
        start(spec, state, lane, place_of(state, lane, job), header.reserved_level, nodes)
    elif machine.backfill == EASY:
        if machine.compat:
            backfill_narrowly(spec, state, lane)
        else:
            find_shadow(spec, state, lane)


@kernel
def backfill_narrowly(spec, state, lane):
    """Start the jobs, by number, that end before the shadow time as it was when the job was reserved.

    The queue may be in any order; whatever starts leaves less room, so nothing that was passed over fits later.
    """
    header = state.lanes[lane]
    queue = state.queue[lane]
    last = -1
    while header.free > 0:
        best = -1
        for place in range(header.waiting):
            row = queue[place]
            in_time = row.gpus <= header.free and header.now + row.expected < header.shadow
            if in_time and row.job > last and (best < 0 or row.job < queue[best].job):
                best = place
        if best < 0:
            return
        last = queue[best].job
        start(spec, state, lane, best, 0, 1)


@inlined
def may_be_chosen(spec, state, lane, job, level):
    """Return whether a job may be chosen at a level at all: by its user's quota and the budget."""
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
    """Return whether a row starts, or reserves for, a waiting job."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    if job == header.reserved or not may_be_chosen(spec, state, lane, job, level):
        return False
    if header.reserved >= 0:
        return machine.backfill == EASY and not machine.compat and safe_place(spec, state, lane, job, level) > 0
    if machine.backfill == GREEDY:
        return fits(spec, state, lane, job, level) > 0
    return machine.backfill != CONSERVATIVE or state.jobs[lane, job].slot != header.point


@inlined
def can_be_interrupted(spec, state, lane, job):
    """Return whether there is a row that interrupts a running job."""
    header = state.lanes[lane]
    began = state.jobs[lane, job].start
    return header.reserved < 0 and began < header.now and header.now - began >= spec.machine[0].least_run


@kernel
def list_simple_rows(spec, state, lane, first):
    """List the rows that start a job where only numbers of GPUs and times count; return where the list ends."""
    header = state.lanes[lane]
    queue, candidates = state.queue[lane], state.candidates[lane]
    reserved, free, extra = header.reserved, header.free, header.extra
    in_time = header.shadow - header.now
    factor = spec.levels[0, 0].factor
    count = first
    for place in range(header.waiting):
        row = queue[place]
        if reserved >= 0:
            if row.gpus > free or row.job == reserved:
                continue
            if row.gpus > extra and stretched(row.expected, factor) > in_time:
                continue
        candidates[count] = row.job
        count += 1
    return count


@kernel
def list_rows(spec, state, lane):
    """List the rows of a choice in the second half of the list, in their order."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    first = state.candidates.shape[1] // 2
    count, jobs = first, 0
    if header.free > 0 or (header.reserved < 0 and (machine.hold or machine.preemption)):
        if machine.simple and machine.levels == 1 and (header.reserved < 0 or machine.backfill == EASY):
            count = list_simple_rows(spec, state, lane, first)
            jobs = count - first
        else:
            for place in range(header.waiting):
                job = state.queue[lane, place].job
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
        for place in range(header.running - 1, -1, -1):
            job = state.running[lane, place]
            if can_be_interrupted(spec, state, lane, job):
                state.candidates[lane, count] = -1 - job
                count += 1
    header.candidates = count - first


@kernel
def look_for_choice(spec, state, lane):
    """Find out whether there is anything to choose, and list it."""
    header = state.lanes[lane]
    if not header.open:
        open_point(spec, state, lane)
    if header.waiting == 0:
        return False
    use_order(spec, state, lane, BY_NUMBER)
    list_rows(spec, state, lane)
    if header.candidates == 0:
        return False
    arrange(spec, state, lane)
    return True


@kernel
def use_order(spec, state, lane, order):
    """Put the queue into an order."""
    header = state.lanes[lane]
    if header.order == order:
        return
    header.order = order
    for place in range(header.waiting):
        row = state.queue[lane, place]
        row.score = score_of_job(spec, state, lane, row.job, order)
    sort_queue(state, lane)


# Choices


@kernel
def choose_job(spec, state, lane, place, level):
    """Start the job at a place of the queue, or reserve for it."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    if machine.backfill == CONSERVATIVE:
        choose_slot(spec, state, lane, place, level)
        return
    job = state.queue[lane, place].job
    nodes = fits(spec, state, lane, job, level)
    if nodes > 0:
        start(spec, state, lane, place, level, nodes)
        if header.reserved >= 0:
            note_backfilled(spec, state, lane, job)
        return
    header.reserved = job
    header.reserved_level = level
    if machine.backfill == EASY:
        if machine.compat:
            find_narrow_shadow(state, lane)
            backfill_narrowly(spec, state, lane)
        else:
            find_shadow(spec, state, lane)


@inlined
def note_backfilled(spec, state, lane, job):
    """Let what is free at the shadow time be less, where a job that has passed the reserved one ends after it."""
    header = state.lanes[lane]
    own = state.jobs[lane, job]
    if spec.machine[0].placement != FLAT:
        find_shadow(spec, state, lane)
    elif own.expected_end > header.shadow:
        header.extra -= own.gpus
        header.shadow_power += own.power


@kernel
def choose_slot(spec, state, lane, place, level):
    """Give the job at a place of the queue its slot; it starts if that begins now."""
    header = state.lanes[lane]
    own = state.jobs[lane, state.queue[lane, place].job]
    if header.profile == 0:
        begin_profile(state, lane)
    own.slot = header.point
    duration = stretched(expected_left(own), spec.levels[0, level].factor)
    begin = find_slot(state, lane, own.gpus, duration)
    now = state.profile[lane, begin].time == header.now
    take_slot(state, lane, begin, own.gpus, duration)
    if now:
        start(spec, state, lane, place, level, 1)


@inlined
def may_wait(spec, state, lane):
    """Return whether anything is to come."""
    header = state.lanes[lane]
    return header.running > 0 or header.arrived < spec.machine[0].jobs


@kernel
def decide(spec, state, lane, action):
    """Let a choice take effect; what is not allowed waits or, where that is not allowed, is the first row."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    header.illegal = 0
    place = candidate_of(spec, state, lane, action)
    waits = place < 0 and may_wait(spec, state, lane)
    if place < 0 and not (waits and is_wait(machine, action)):
        header.illegal = 1
    header.mistakes += header.illegal
    if waits:
        header.due = 0
        return
    chosen = state.candidates[lane, max(place, 0)]
    if chosen < 0:
        interrupt(spec, state, lane, -1 - chosen)
    else:
        job = chosen // machine.levels
        choose_job(spec, state, lane, place_of(state, lane, job), chosen - job * machine.levels)


# Steps


@kernel
def end_step(spec, state, lane):
    """Add up the reward of the step that ends here."""
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
    """Return whether a scheduling point comes now: all events of the instant have happened."""
    header = state.lanes[lane]
    if not header.due:
        return False
    return header.open or spec.machine[0].compat or next_time(spec, state, lane) > header.now


@kernel
def resume(spec, state, lane):
    """Apply events until a choice is due, the episode ends, or the log must be flushed."""
    header = state.lanes[lane]
    header.status = ASKING
    while True:
        if log_is_full(state, lane, spec.machine[0].log_margin):
            header.status = LOG_FULL
            return
        if header.done == spec.machine[0].jobs:
            close_episode(state, lane)
            break
        if point_is_due(spec, state, lane):
            if look_for_choice(spec, state, lane):
                header.choices += 1
                break
            header.due = 0
            continue
        apply(spec, state, lane)
    end_step(spec, state, lane)


@kernel
def close_episode(state, lane):
    """Let the episode be over, with nothing to choose."""
    header = state.lanes[lane]
    header.asked = -1
    header.candidates = 0
    header.shown = 0
    end_episode(state, lane, TERMINATED)


@kernel
def act(spec, state, lane, action):
    """Apply a choice."""
    begin_step(state, lane)
    decide(spec, state, lane, action)


@kernel
def begin(spec, state, lane, seed, split):
    """Start an episode."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    begin_episode(header, seed, split)
    part = spec.parts[0 if split == TRAIN else 1]
    chance = uniform(stream_key(header.key, EPISODES), 0)
    header.first = part.low + int(chance * (part.high - part.low + 1))
    header.asked = 0
    header.arrived = 0
    header.done = 0
    header.waiting = 0
    header.running = 0
    header.free = machine.gpus
    header.power = machine.idle_power
    header.turns = 0
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
    """Let all nodes be free, and no user hold anything."""
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
