"""Backfilling, compiled: the shadow time of EASY, safe starts, and the profile of conservative backfilling."""

from __future__ import annotations

from slipstream.families.cluster.kernel.lifecycle import expected_left, fits
from slipstream.families.cluster.kernel.placement import (
    AT_SHADOW,
    add_shadow_free,
    change_shadow_free,
    factor_of,
    find_placement,
    power_of,
    run_time,
    setup_of,
)
from slipstream.families.cluster.kernel.state import BEST_FIT, FIRST_FIT, FLAT
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER


@kernel
def find_shadow(spec, state, lane):
    """Compute the shadow time of the reserved job: when it will fit, and the GPUs and power left beside it then."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    jobs, running = state.jobs[lane], state.running[lane]
    own = jobs[header.reserved]
    free, power = header.free, header.power
    by_count = fits_by_count(machine)
    more = own.gpus * most_power(spec, header.reserved_level)
    header.shadow = NEVER
    if not by_count:
        for node in range(machine.nodes):
            state.shadow_free[lane, node] = state.free[lane, node]
    for index in range(header.running):
        job = running[index]
        end = max(header.now, jobs[job].expected_end)
        if end > header.shadow:
            break
        free += jobs[job].gpus
        power -= jobs[job].power
        if not by_count:
            add_shadow_free(state, lane, job)
        enough = free >= own.gpus and (not machine.has_budget or power + more <= machine.budget)
        if header.shadow == NEVER and enough and fits_at_shadow(spec, state, lane, own.gpus):
            header.shadow = end
    header.extra = free - own.gpus
    header.shadow_power = power + more


@inlined
def fits_by_count(machine):
    """Return whether a job has a placement whenever enough GPUs are free, on whichever nodes."""
    return machine.placement in (FLAT, FIRST_FIT, BEST_FIT)


@inlined
def fits_at_shadow(spec, state, lane, gpus):
    """Return whether a job of `gpus` GPUs has a placement at the shadow time, when that many are free."""
    return fits_by_count(spec.machine[0]) or find_placement(spec, state, lane, state.shadow_free, gpus, AT_SHADOW) > 0


@kernel
def least_factor(spec, level):
    """Return the least time factor at `level`, over all kinds of node."""
    least = spec.levels[0, level].factor
    for kind in range(1, spec.levels.shape[0]):
        least = min(least, spec.levels[kind, level].factor)
    return least


@kernel
def most_power(spec, level):
    """Return the greatest power that a busy GPU adds at `level`, over all kinds of node."""
    most = spec.levels[0, level].power
    for kind in range(1, spec.levels.shape[0]):
        most = max(most, spec.levels[kind, level].power)
    return most


@kernel
def safe_placement(spec, state, lane, job, level):
    """Return the number of nodes on which `job` can start now without delaying the reserved job; 0 if it cannot."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    nodes = fits(spec, state, lane, job, level)
    if nodes == 0:
        return 0
    own = state.jobs[lane, job]
    setup = setup_of(spec, state, lane, own, nodes)
    end = header.now + setup + run_time(expected_left(own), factor_of(spec, state, lane, nodes, level))
    if end <= header.shadow:
        return nodes
    if own.gpus > header.extra:
        return 0
    if machine.has_budget:
        power = power_of(spec, state, lane, own.gpus, nodes, level)
        if header.shadow_power + power > machine.budget:
            return 0
    if fits_by_count(machine):
        return nodes
    change_shadow_free(state, lane, nodes, -1)
    still = fits_at_shadow(spec, state, lane, state.jobs[lane, header.reserved].gpus)
    change_shadow_free(state, lane, nodes, 1)
    return nodes if still else 0


@inlined
def may_pass(row, reserved, free):
    """Return whether a queued job fits the free GPUs by number and is not the reserved one.

    The reserved job does not fit by placement or power, even if by number; leaving it out saves finding that out again.
    """
    return row.gpus <= free and row.job != reserved


@inlined
def is_safe_by_count(row, extra, time_left, factor):
    """Return whether a queued job leaves the reserved one undelayed where only GPU counts and times matter.

    `extra` GPUs are free beside the reserved job at the shadow time, which is `time_left` away.
    """
    return row.gpus <= extra or run_time(row.expected, factor) <= time_left


# The profile of conservative backfilling: the number of free GPUs as a step function of time


@kernel
def build_profile(state, lane):
    """Initialise the profile of free GPUs from the expected ends of the running jobs."""
    header = state.lanes[lane]
    steps = state.profile
    steps[lane, 0].time = header.now
    steps[lane, 0].free = header.free
    count = 1
    for index in range(header.running):
        job = state.running[lane, index]
        end = max(header.now + 1, state.jobs[lane, job].expected_end)
        if steps[lane, count - 1].time < end:
            steps[lane, count].time = end
            steps[lane, count].free = steps[lane, count - 1].free
            count += 1
        steps[lane, count - 1].free += state.jobs[lane, job].gpus
    header.profile = count


@kernel
def find_anchor(state, lane, gpus, duration):
    """Return the first step of the profile from which `gpus` GPUs are free for `duration`."""
    header = state.lanes[lane]
    steps = state.profile
    begin = 0
    for index in range(header.profile):
        if index > begin and steps[lane, index].time >= steps[lane, begin].time + duration:
            break
        if steps[lane, index].free < gpus:
            begin = index + 1
    return begin


@kernel
def split_step(state, lane, time):
    """Make a step of the profile begin at `time`; return its index."""
    header = state.lanes[lane]
    steps = state.profile
    index = header.profile
    while steps[lane, index - 1].time > time:
        index -= 1
    if steps[lane, index - 1].time == time:
        return index - 1
    for later in range(header.profile, index, -1):
        steps[lane, later].time = steps[lane, later - 1].time
        steps[lane, later].free = steps[lane, later - 1].free
    steps[lane, index].time = time
    steps[lane, index].free = steps[lane, index - 1].free
    header.profile += 1
    return index


@kernel
def reserve_profile(state, lane, begin, gpus, duration):
    """Subtract `gpus` GPUs from the profile for `duration`, from the step `begin` on."""
    end = split_step(state, lane, state.profile[lane, begin].time + duration)
    for index in range(begin, end):
        state.profile[lane, index].free -= gpus
