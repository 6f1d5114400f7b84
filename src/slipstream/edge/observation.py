"""What a policy may know at a choice, compiled: candidate rows, globals and mask.

Nothing here reads a drawn number that lies in the future: next arrivals and remaining times are expectations.
"""

from __future__ import annotations

import math

import numpy as np

from slipstream.core import lanes as core
from slipstream.core.jit import implement, kernel
from slipstream.core.rng import stream_key, uniform
from slipstream.core.sheets import put_global, put_row
from slipstream.edge import features as f
from slipstream.edge.kernel import advance, reset, resume
from slipstream.edge.state import BURSTY, CLOSED, PERIODIC, POISSON, SHARE, EdgeStateType


@kernel
def prepare(spec, state, sheet):
    """Write the columns that never change, once, into every slot of the sheet."""
    rows, columns = spec.static_rows.shape
    for slot in range(sheet.rows.shape[0]):
        for row in range(rows):
            for column in range(columns):
                put_row(sheet, slot, row, column, spec.static_rows[row, column])


@kernel
def expected_left(state, lane, stream):
    """Return the solo work that the stream's job has left by its profile, in ns."""
    running = state.streams[lane, stream]
    return max(0.0, running.expected - (state.lanes[lane].now - running.updated) * running.rate)


@kernel
def probe_streams(spec, state, lane):
    """Note the expected work left on every stream, -1 where it is idle."""
    for stream in range(spec.device[0].streams):
        state.probe[lane, stream] = (
            expected_left(state, lane, stream) if state.streams[lane, stream].task >= 0 else -1.0
        )


@kernel
def corun_latency(spec, state, lane, chosen):
    """Return the expected time of a run started now, beside what `probe_streams` noted, nothing else starting."""
    device = spec.device[0]
    co_runners = state.lanes[lane].busy
    if device.interference != SHARE or co_runners == 0:
        return float(chosen.latency)
    if co_runners == 1:
        return pair_latency(spec, state, lane, chosen.latency, chosen.demand)
    return group_latency(spec, state, lane, chosen.latency, chosen.demand)


@kernel
def pair_latency(spec, state, lane, latency, demand):
    """Return the expected time beside one co-runner: together until one of them ends, then alone."""
    device = spec.device[0]
    other = 0
    while state.probe[lane, other] < 0.0:
        other += 1
    other_demand = state.streams[lane, other].demand
    total = demand + other_demand
    rate = min(1.0, device.throughput * demand / total)
    mine = latency / rate
    theirs = state.probe[lane, other] / min(1.0, device.throughput * other_demand / total)
    if mine <= theirs:
        return np.ceil(mine)
    return np.ceil(theirs + (latency - theirs * rate))


@kernel
def group_latency(spec, state, lane, latency, demand):
    """Return the expected time beside several co-runners, which leave one by one; restores the probe."""
    device = spec.device[0]
    elapsed = 0.0
    work = float(latency)
    left = state.lanes[lane].busy
    while left > 0:
        total = demand
        for stream in range(device.streams):
            if state.probe[lane, stream] >= 0.0:
                total += state.streams[lane, stream].demand
        rate = min(1.0, device.throughput * demand / total)
        first, first_time = -1, math.inf
        for stream in range(device.streams):
            if state.probe[lane, stream] >= 0.0:
                their_rate = min(1.0, device.throughput * state.streams[lane, stream].demand / total)
                if state.probe[lane, stream] / their_rate < first_time:
                    first, first_time = stream, state.probe[lane, stream] / their_rate
        if work / rate <= first_time:
            elapsed += work / rate
            work = 0.0
            break
        elapsed += first_time
        work -= first_time * rate
        for stream in range(device.streams):
            if state.probe[lane, stream] >= 0.0:
                their_rate = min(1.0, device.throughput * state.streams[lane, stream].demand / total)
                state.probe[lane, stream] = max(0.0, state.probe[lane, stream] - first_time * their_rate)
        state.probe[lane, first] = -1.0
        left -= 1
    probe_streams(spec, state, lane)
    return np.ceil(elapsed + work)


@kernel
def expected_next_arrival(spec, state, lane, task):
    """Return the expected time to the task's next release, at most the time to the horizon."""
    now = state.lanes[lane].now
    source = spec.tasks[task]
    counts = state.tasks[lane, task]
    if source.arrival == PERIODIC:
        gap = source.phase + counts.released * source.period - now
    elif source.arrival == POISSON or source.arrival == BURSTY:
        gap = source.period
    elif source.arrival == CLOSED:
        gap = 0
    else:
        gap = counts.last_release + source.period - now
    return min(max(gap, 0), spec.device[0].horizon - now)


@kernel
def write_task(spec, state, lane, task, sheet, slot, dispatch_only):
    """Write the changing columns of the task's rows: its variants and, unless only those are wanted, its drop row."""
    counts = state.tasks[lane, task]
    tasks, variants = spec.variants.shape
    first = task * variants
    slack = 0
    if counts.length > 0:
        slack = state.queue[lane, task, counts.head].release + spec.tasks[task].deadline - state.lanes[lane].now
    next_arrival = expected_next_arrival(spec, state, lane, task)
    completed = counts.finished / counts.released if counts.released > 0 else 0.0
    for variant in range(spec.tasks[task].variants):
        chosen = spec.variants[task, variant]
        put_task(sheet, slot, first + variant, slack, next_arrival, counts, completed)
        put_row(sheet, slot, first + variant, f.CORUN_LATENCY, corun_latency(spec, state, lane, chosen))
    if not dispatch_only:
        put_task(sheet, slot, tasks * variants + task, slack, next_arrival, counts, completed)
    return next_arrival


@kernel
def put_task(sheet, slot, row, slack, next_arrival, counts, completed):
    """Write the columns that all rows of a task share."""
    put_row(sheet, slot, row, f.SLACK, slack)
    put_row(sheet, slot, row, f.NEXT_ARRIVAL, next_arrival)
    put_row(sheet, slot, row, f.QUEUE_LENGTH, counts.length)
    put_row(sheet, slot, row, f.RUNNING, counts.running)
    put_row(sheet, slot, row, f.COMPLETED, completed)


@kernel
def write_globals(spec, state, lane, sheet, slot):
    """Write the state of the whole device."""
    device = spec.device[0]
    header = state.lanes[lane]
    first, last = math.inf, 0.0
    for stream in range(device.streams):
        if state.probe[lane, stream] >= 0.0:
            left = state.probe[lane, stream] / state.streams[lane, stream].rate
            first = min(first, left)
            last = max(last, left)
    backlog = 0.0
    waiting_tasks, released, finished, missed = 0, 0, 0, 0
    for task in range(spec.tasks.shape[0]):
        counts = state.tasks[lane, task]
        backlog += counts.length * spec.tasks[task].fastest
        waiting_tasks += 1 if counts.length > 0 else 0
        released += counts.released
        finished += counts.finished
        missed += counts.missed
    put_global(sheet, slot, f.TIME, header.now)
    put_global(sheet, slot, f.REMAINING, device.horizon - header.now)
    put_global(sheet, slot, f.STREAM, max(header.asked, 0))
    put_global(sheet, slot, f.STREAMS, device.streams)
    put_global(sheet, slot, f.IDLE_STREAMS, device.streams - header.busy)
    put_global(sheet, slot, f.WAITING_JOBS, header.waiting)
    put_global(sheet, slot, f.WAITING_TASKS, waiting_tasks)
    put_global(sheet, slot, f.CORUN_FIRST, first if header.busy > 0 else 0.0)
    put_global(sheet, slot, f.CORUN_LAST, last)
    put_global(sheet, slot, f.BACKLOG, backlog)
    put_global(sheet, slot, f.FINISHED, finished / released if released > 0 else 0.0)
    put_global(sheet, slot, f.MISSED, missed / released if released > 0 else 0.0)
    put_global(sheet, slot, f.UTILISATION, header.busy_time / (device.streams * header.now) if header.now > 0 else 0.0)
    shared = device.interference == SHARE
    put_global(sheet, slot, f.THROUGHPUT, min(device.throughput, device.streams) if shared else device.streams)
    if sheet.globals.shape[1] > f.COIN:
        put_global(sheet, slot, f.COIN, uniform(stream_key(header.key, 0), header.choices - 1))


@kernel
def observe(spec, state, lane, sheet, slot):
    """Write globals, every row and the mask of the lane's present choice."""
    tasks, variants = spec.variants.shape
    wait = tasks * variants + tasks
    probe_streams(spec, state, lane)
    write_globals(spec, state, lane, sheet, slot)
    soonest = spec.device[0].horizon - state.lanes[lane].now
    for task in range(tasks):
        soonest = min(soonest, write_task(spec, state, lane, task, sheet, slot, False))
        legal = 1 if state.tasks[lane, task].length > 0 else 0
        for variant in range(spec.tasks[task].variants):
            sheet.mask[slot, task * variants + variant] = legal
        sheet.mask[slot, tasks * variants + task] = legal
    put_row(sheet, slot, wait, f.NEXT_ARRIVAL, soonest)
    sheet.mask[slot, wait] = 1


@kernel
def list_legal(spec, state, lane, sheet, slot, dispatch_only):
    """Write only the legal rows (or the dispatch rows among them), their packed indices and their counts."""
    tasks, variants = spec.variants.shape
    probe_streams(spec, state, lane)
    dispatches = 0
    for task in range(tasks):
        if state.tasks[lane, task].length > 0:
            write_task(spec, state, lane, task, sheet, slot, dispatch_only)
            for variant in range(spec.tasks[task].variants):
                sheet.legal[slot, dispatches] = task * variants + variant
                dispatches += 1
    sheet.counts[slot, 0] = dispatches
    sheet.counts[slot, 1] = dispatches
    if not dispatch_only:
        sheet.counts[slot, 1] = list_drops_and_wait(spec, state, lane, sheet, slot, dispatches)


@kernel
def list_drops_and_wait(spec, state, lane, sheet, slot, legal):
    """Append the legal drop rows and wait to the list; return its new length."""
    tasks, variants = spec.variants.shape
    wait = tasks * variants + tasks
    soonest = spec.device[0].horizon - state.lanes[lane].now
    for task in range(tasks):
        soonest = min(soonest, expected_next_arrival(spec, state, lane, task))
        if state.tasks[lane, task].length > 0:
            sheet.legal[slot, legal] = tasks * variants + task
            legal += 1
    put_row(sheet, slot, wait, f.NEXT_ARRIVAL, soonest)
    sheet.legal[slot, legal] = wait
    return legal + 1


implement(core.reset, EdgeStateType, reset)
implement(core.advance, EdgeStateType, advance)
implement(core.resume, EdgeStateType, resume)
implement(core.prepare, EdgeStateType, prepare)
implement(core.observe, EdgeStateType, observe)
implement(core.list_legal, EdgeStateType, list_legal)
