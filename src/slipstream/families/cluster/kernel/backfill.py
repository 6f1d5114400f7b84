"""Who may pass a reserved job, compiled: the shadow time, what is safe, and the profile of free GPUs."""

from __future__ import annotations

from slipstream.families.cluster.kernel.lifecycle import expected_left, fits
from slipstream.families.cluster.kernel.placement import (
    THEN,
    add_later,
    change_later,
    factor_of,
    find_place,
    power_of,
    setup_of,
    stretched,
)
from slipstream.families.cluster.kernel.state import FLAT
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER


@kernel
def find_shadow(spec, state, lane):
    """Find when the reserved job will fit, and what will be free beside it."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    jobs, running = state.jobs[lane], state.running[lane]
    own = jobs[header.reserved]
    free, power = header.free, header.power
    flat = machine.placement == FLAT
    more = own.gpus * most_power(spec, header.reserved_level)
    header.shadow = NEVER
    if not flat:
        for node in range(machine.nodes):
            state.later[lane, node] = state.free[lane, node]
    for place in range(header.running):
        job = running[place]
        end = max(header.now, jobs[job].expected_end)
        if end > header.shadow:
            break
        free += jobs[job].gpus
        power -= jobs[job].power
        if not flat:
            add_later(state, lane, job)
        enough = free >= own.gpus and (not machine.has_budget or power + more <= machine.budget)
        if header.shadow == NEVER and enough and is_there_later(spec, state, lane, own.gpus):
            header.shadow = end
    header.extra = free - own.gpus
    header.shadow_power = power + more


@inlined
def is_there_later(spec, state, lane, gpus):
    """Return whether there is a place for so many GPUs at the shadow time."""
    return spec.machine[0].placement == FLAT or find_place(spec, state, lane, state.later, gpus, THEN) > 0


@kernel
def most_power(spec, level):
    """Return the most that a GPU at work adds at a level, whatever its kind."""
    most = spec.levels[0, level].power
    for kind in range(1, spec.levels.shape[0]):
        most = max(most, spec.levels[kind, level].power)
    return most


@kernel
def safe_place(spec, state, lane, job, level):
    """Return the number of nodes of a place at which a job can start without delaying the reserved one, 0 if none."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    nodes = fits(spec, state, lane, job, level)
    if nodes == 0:
        return 0
    own = state.jobs[lane, job]
    setup = setup_of(spec, state, lane, own, nodes)
    end = header.now + setup + stretched(expected_left(own), factor_of(spec, state, lane, nodes, level))
    if end <= header.shadow:
        return nodes
    if own.gpus > header.extra:
        return 0
    if machine.has_budget:
        power = power_of(spec, state, lane, own.gpus, nodes, level)
        if header.shadow_power + power > machine.budget:
            return 0
    if machine.placement == FLAT:
        return nodes
    change_later(state, lane, nodes, -1)
    still = is_there_later(spec, state, lane, state.jobs[lane, header.reserved].gpus)
    change_later(state, lane, nodes, 1)
    return nodes if still else 0


@kernel
def find_narrow_shadow(state, lane):
    """Find when the reserved job will fit as RLScheduler does: by the order of expected ends, late ones included."""
    header = state.lanes[lane]
    need = state.jobs[lane, header.reserved].gpus
    free = header.free
    header.shadow = header.now
    for place in range(header.running):
        job = state.running[lane, place]
        free += state.jobs[lane, job].gpus
        header.shadow = state.jobs[lane, job].expected_end
        if free >= need:
            break


# The profile of conservative backfilling: how many GPUs are free from when on


@kernel
def begin_profile(state, lane):
    """Begin with the running jobs."""
    header = state.lanes[lane]
    steps = state.profile
    steps[lane, 0].time = header.now
    steps[lane, 0].free = header.free
    count = 1
    for place in range(header.running):
        job = state.running[lane, place]
        end = max(header.now + 1, state.jobs[lane, job].expected_end)
        if steps[lane, count - 1].time < end:
            steps[lane, count].time = end
            steps[lane, count].free = steps[lane, count - 1].free
            count += 1
        steps[lane, count - 1].free += state.jobs[lane, job].gpus
    header.profile = count


@kernel
def find_slot(state, lane, gpus, duration):
    """Return the first step at which so many GPUs are free for so long."""
    header = state.lanes[lane]
    steps = state.profile
    begin = 0
    for place in range(header.profile):
        if place > begin and steps[lane, place].time >= steps[lane, begin].time + duration:
            break
        if steps[lane, place].free < gpus:
            begin = place + 1
    return begin


@kernel
def split_profile(state, lane, time):
    """Let a step begin at a time; return its place."""
    header = state.lanes[lane]
    steps = state.profile
    place = header.profile
    while steps[lane, place - 1].time > time:
        place -= 1
    if steps[lane, place - 1].time == time:
        return place - 1
    for later in range(header.profile, place, -1):
        steps[lane, later].time = steps[lane, later - 1].time
        steps[lane, later].free = steps[lane, later - 1].free
    steps[lane, place].time = time
    steps[lane, place].free = steps[lane, place - 1].free
    header.profile += 1
    return place


@kernel
def take_slot(state, lane, begin, gpus, duration):
    """Let so many GPUs be taken for so long, from the begin of a step."""
    end = split_profile(state, lane, state.profile[lane, begin].time + duration)
    for place in range(begin, end):
        state.profile[lane, place].free -= gpus
