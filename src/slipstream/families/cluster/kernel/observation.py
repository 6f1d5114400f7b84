"""Observation of a decision, compiled: globals, candidate rows and mask.

Nothing here reads the run time of a job that has not ended: times are those that were requested.
"""

from __future__ import annotations

import math

from slipstream.families.cluster import features as f
from slipstream.families.cluster.kernel.backfill import most_power
from slipstream.families.cluster.kernel.events import may_wait
from slipstream.families.cluster.kernel.lifecycle import done_since_start, fits, jain
from slipstream.families.cluster.kernel.placement import run_time, sleeps
from slipstream.families.cluster.kernel.state import (
    BOUND_S,
    EASY,
    FLAT,
)
from slipstream.jit.decorators import kernel
from slipstream.sim.kernel.lanes import ASKING, toss_coin
from slipstream.sim.kernel.observation import ROWS, ROWS_BEHIND, clear_rows, finish_rows, mark_legal, put
from slipstream.sim.kernel.window import filled_rows

PER_S = 1e-9


@kernel
def prepare(spec, state, buffer):
    """Write the constant columns once into every slot of the observation buffer."""
    for slot in range(buffer.rows.shape[0]):
        put(buffer.rows[slot, buffer.rows.shape[1] - 1], buffer.row_image, f.WAIT, 1.0)
        if buffer.globals.shape[1] > f.COIN:
            put(buffer.globals[slot], buffer.global_image, f.ALL_GPUS, spec.machine[0].gpus)


@kernel
def write_row(spec, state, lane, code, rank, row, image):
    """Write the candidate row of `code`: a job and the level at which it starts, or a job to interrupt."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    starts = code >= 0
    job = code // machine.levels if starts else -1 - code
    own = state.jobs[lane, job]
    level = code - job * machine.levels if starts else own.level
    gpus = float(own.gpus)
    done = own.run - own.left
    attained = own.attained
    if not starts:
        done += done_since_start(own, header.now)
        attained += header.now - own.start
    factor = spec.levels[0, level].factor
    left = max(1, own.requested - done)
    expected = run_time(left, factor)
    seconds = expected * PER_S
    waited = (header.now - own.submit) * PER_S
    bound = max(own.requested * PER_S, BOUND_S)
    can_start = starts and fits(spec, state, lane, job, level) > 0
    power = gpus * most_power(spec, level)
    in_time = header.reserved >= 0 and machine.backfill == EASY and header.now + expected <= header.shadow
    put(row, image, f.GPUS_SHARE, gpus / machine.gpus)
    put(row, image, f.EXPECTED, expected)
    if own.log_of != expected:
        # Logarithms dominate the cost of a row, and these hardly ever change.
        own.log_of = expected
        own.log_expected = math.log10(seconds)
        own.log_area = math.log10(seconds * gpus)
    put(row, image, f.LOG_EXPECTED, own.log_expected)
    put(row, image, f.LOG_AREA, own.log_area)
    put(row, image, f.WAITED, header.now - own.submit)
    put(row, image, f.LOG_WAITED, math.log10(waited + 1.0) if waited > 0.0 else 0.0)
    slowdown = (waited + seconds) / bound
    put(row, image, f.LOG_SLOWDOWN, math.log10(slowdown) if slowdown > 1.0 else 0.0)
    put(row, image, f.FITS, 1.0 if can_start else 0.0)
    put(row, image, f.LEAVES_SHARE, (header.free - gpus) / machine.gpus if can_start else 0.0)
    put(row, image, f.BEFORE_SHADOW, 1.0 if in_time else 0.0)
    put(row, image, f.RANK, rank)
    put(row, image, f.USER_SHARE, state.users[lane, own.user].held / machine.gpus)
    put(row, image, f.USER_JOBS, state.users[lane, own.user].jobs)
    put(row, image, f.ATTAINED, float(attained) * gpus)
    put(row, image, f.INTERRUPTED, own.interrupted)
    put(row, image, f.TIME_FACTOR, factor)
    put(row, image, f.ADDED_POWER, power if starts else -float(own.power))
    put(row, image, f.START, 1.0 if starts else 0.0)
    put(row, image, f.INTERRUPT, 0.0 if starts else 1.0)
    put(row, image, f.DISPATCH, 1.0)
    if row.shape[0] > f.JOB:
        put(row, image, f.JOB, job)
        put(row, image, f.GPUS, gpus)
        put(row, image, f.LEVEL, level)
        put(row, image, f.SUBMITTED, own.submitted_s)
        put(row, image, f.LEFT, left)
        put(row, image, f.USER, own.user)


@kernel
def summarise(spec, state, lane, buffer, slot):
    """Write the global columns."""
    row, image = buffer.globals[slot], buffer.global_image
    machine = spec.machine[0]
    header = state.lanes[lane]
    reserved = header.reserved >= 0
    shadowed = reserved and machine.backfill == EASY
    put(row, image, f.TIME, header.now)
    put(row, image, f.FREE_SHARE, header.free / machine.gpus)
    put(row, image, f.WAITING, header.waiting)
    put(row, image, f.RUNNING, header.running)
    put(row, image, f.WAITING_GPUS, header.waiting_gpus / machine.gpus)
    put(row, image, f.RESERVED, 1.0 if reserved else 0.0)
    put(row, image, f.RESERVED_SHARE, state.jobs[lane, header.reserved].gpus / machine.gpus if reserved else 0.0)
    put(row, image, f.SHADOW_IN, header.shadow - header.now if shadowed else 0)
    put(row, image, f.EXTRA_SHARE, header.extra / machine.gpus if shadowed else 0.0)
    put(row, image, f.TO_COME, (machine.jobs - header.arrived) / machine.jobs)
    put(row, image, f.POWER, header.power - asleep_power(spec, state, lane))
    put(row, image, f.POWER_LEFT, 1.0 - header.power / machine.budget if machine.has_budget else 1.0)
    put(row, image, f.USERS, header.active_users)
    put(row, image, f.JAIN, jain(header))
    put(row, image, f.LARGEST_NODE, largest_free(spec, state, lane) / machine.gpus)
    put(row, image, f.HIDDEN_ROWS, header.candidates - header.shown)
    hours = header.now / 3.6e12
    put(row, image, f.ALLOCATION, header.busy_hours / hours if header.now > 0 else 0.0)
    if buffer.globals.shape[1] > f.COIN:
        behind = header.candidates - header.shown
        put(row, image, f.ROWS, filled_rows(machine, header.shown, behind))
        put(row, image, f.FREE, header.free)
        put(row, image, f.ACTIVE_USERS, header.active_users)
        put(row, image, f.PARAMETER, header.parameter)
        put(row, image, f.COIN, toss_coin(header))


@kernel
def asleep_power(spec, state, lane):
    """Return the power that sleeping nodes save now."""
    saved = 0
    if spec.machine[0].has_sleep:
        for node in range(spec.machine[0].nodes):
            if sleeps(spec, state, lane, node):
                saved += spec.nodes[node].saved
    return saved


@kernel
def largest_free(spec, state, lane):
    """Return the most free GPUs of a node; all free GPUs where placement is flat."""
    if spec.machine[0].placement == FLAT:
        return state.lanes[lane].free
    most = 0
    for node in range(spec.machine[0].nodes):
        most = max(most, state.free[lane, node])
    return most


@kernel
def list_legal(spec, state, lane, buffer, slot, form):
    """Write the legal rows, their packed indices and counts; clear the rows that are no longer legal."""
    header = state.lanes[lane]
    asking = header.status == ASKING
    last = buffer.mask.shape[1] - 1
    listed = header.shown if asking else 0
    write_rows(spec, state, lane, buffer, slot, 0, listed, 0)
    clear_rows(buffer, slot, listed, buffer.counts[slot, ROWS])
    buffer.counts[slot, ROWS] = listed
    dispatch = listed
    first = spec.machine[0].rows + 1
    if last > spec.machine[0].rows:
        behind = header.candidates - listed if asking else 0
        write_rows(spec, state, lane, buffer, slot, listed, behind, first)
        clear_rows(buffer, slot, first + behind, first + buffer.counts[slot, ROWS_BEHIND])
        buffer.counts[slot, ROWS_BEHIND] = behind
        dispatch += behind
    finish_rows(buffer, slot, dispatch, asking and may_wait(spec, state, lane))


@kernel
def write_rows(spec, state, lane, buffer, slot, first_index, count, row):
    """Write `count` candidates from `first_index` on into rows from `row` on; ranks count waiting jobs before each."""
    header = state.lanes[lane]
    levels = spec.machine[0].levels
    waiting, before = 0, -1
    for number in range(first_index, first_index + count):
        code = state.candidates[lane, number]
        rank = 0
        if code >= 0:
            job = code // levels
            if job < before:
                waiting = 0
            before = job
            while waiting < header.waiting and state.queue[lane, waiting].job < job:
                waiting += 1
            rank = waiting
        write_row(spec, state, lane, code, rank, buffer.rows[slot, row], buffer.row_image)
        mark_legal(buffer, slot, row, number)
        row += 1
