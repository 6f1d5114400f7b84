"""What a policy may know at a choice, compiled: candidate rows, globals and mask.

Nothing here reads a drawn number that lies in the future: next arrivals and remaining times are expectations.
"""

from __future__ import annotations

import math

import numpy as np

from slipstream.core import lanes as core
from slipstream.core.jit import implement, kernel
from slipstream.core.rng import stream_key, uniform
from slipstream.core.sheets import put
from slipstream.edge import features as f
from slipstream.edge.kernel import advance, reset, resume
from slipstream.edge.state import BURSTY, CLOSED, PERIODIC, POISSON, SHARE, EdgeStateType


@kernel
def prepare(spec, state, sheet):
    """Write the columns that never change, once, into every slot of the sheet."""
    device = spec.device[0]
    throughput = min(device.throughput, device.streams) if device.interference == SHARE else device.streams
    rows, columns = spec.static_rows.shape
    for slot in range(sheet.rows.shape[0]):
        put(sheet.globals[slot], sheet.global_image, f.STREAMS, device.streams)
        put(sheet.globals[slot], sheet.global_image, f.THROUGHPUT, throughput)
        for row in range(rows):
            for column in range(columns):
                put(sheet.rows[slot, row], sheet.row_image, column, spec.static_rows[row, column])


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
def slack_of(spec, state, lane, stream):
    """Return the time left to the deadline of the stream's job."""
    running = state.streams[lane, stream]
    return running.release + spec.tasks[running.task].deadline - state.lanes[lane].now


@kernel
def put_starts(spec, state, lane, task, rows, image):
    """Write what starting each variant now would mean for it and for the jobs that run, nothing else starting."""
    co_runners = state.lanes[lane].busy
    if spec.device[0].interference != SHARE or co_runners == 0:
        put_undisturbed(spec, state, lane, task, rows, image)
    elif co_runners == 1:
        put_pairs(spec, state, lane, task, rows, image)
    else:
        for variant in range(spec.tasks[task].variants):
            row = rows[task * spec.variants.shape[1] + variant]
            put_group(spec, state, lane, spec.variants[task, variant], row, image)


@kernel
def put_undisturbed(spec, state, lane, task, rows, image):
    """Beside nobody, or nobody who matters: every job runs at rate 1."""
    margin = math.inf
    for stream in range(spec.device[0].streams):
        if state.probe[lane, stream] >= 0.0:
            margin = min(margin, slack_of(spec, state, lane, stream) - np.ceil(state.probe[lane, stream]))
    for variant in range(spec.tasks[task].variants):
        row = rows[task * spec.variants.shape[1] + variant]
        put(row, image, f.CORUN_LATENCY, spec.variants[task, variant].latency)
        put(row, image, f.CORUN_MARGIN, margin if state.lanes[lane].busy > 0 else 0.0)


@kernel
def put_pairs(spec, state, lane, task, rows, image):
    """Beside one co-runner: both run together until one of them ends, then the other alone."""
    throughput = spec.device[0].throughput
    other = 0
    while state.probe[lane, other] < 0.0:
        other += 1
    slack = slack_of(spec, state, lane, other)
    work, their_demand = state.probe[lane, other], state.streams[lane, other].demand
    demand, my_rate, their_rate, their_time = -1.0, 1.0, 1.0, 0.0
    for variant in range(spec.tasks[task].variants):
        chosen = spec.variants[task, variant]
        if chosen.demand != demand:
            # Most ladders have one demand for all, and divisions are dear.
            demand = chosen.demand
            total = demand + their_demand
            my_rate = min(1.0, throughput * demand / total)
            their_rate = min(1.0, throughput * their_demand / total)
            their_time = work / their_rate
        mine, theirs = chosen.latency / my_rate, their_time
        if mine <= theirs:
            theirs = mine + max(0.0, work - mine * their_rate)
        else:
            mine = theirs + (chosen.latency - theirs * my_rate)
        row = rows[task * spec.variants.shape[1] + variant]
        put(row, image, f.CORUN_LATENCY, np.ceil(mine))
        put(row, image, f.CORUN_MARGIN, slack - np.ceil(theirs))


@kernel
def put_group(spec, state, lane, chosen, row, image):
    """Beside several co-runners: all run together, and leave one by one; restores the probe."""
    streams = spec.device[0].streams
    elapsed, mine, margin = 0.0, -1.0, math.inf
    work = float(chosen.latency)
    left = state.lanes[lane].busy
    while left > 0:
        total = group_demand(spec, state, lane, chosen.demand if mine < 0.0 else 0.0)
        first, first_time = -1, math.inf
        for stream in range(streams):
            if state.probe[lane, stream] >= 0.0:
                rate = group_rate(spec, state.streams[lane, stream].demand, total)
                if state.probe[lane, stream] / rate < first_time:
                    first, first_time = stream, state.probe[lane, stream] / rate
        my_rate = group_rate(spec, chosen.demand, total)
        my_turn = mine < 0.0 and work / my_rate <= first_time
        if my_turn:
            first_time = work / my_rate
        elapsed += first_time
        work -= first_time * my_rate
        for stream in range(streams):
            if state.probe[lane, stream] >= 0.0:
                rate = group_rate(spec, state.streams[lane, stream].demand, total)
                state.probe[lane, stream] = max(0.0, state.probe[lane, stream] - first_time * rate)
        if my_turn:
            mine = elapsed
        else:
            margin = min(margin, slack_of(spec, state, lane, first) - np.ceil(elapsed))
            state.probe[lane, first] = -1.0
            left -= 1
    if mine < 0.0:
        mine = elapsed + work
    probe_streams(spec, state, lane)
    put(row, image, f.CORUN_LATENCY, np.ceil(mine))
    put(row, image, f.CORUN_MARGIN, margin)


@kernel
def group_demand(spec, state, lane, mine):
    """Return the demand of the jobs in the probe and one more; 0 if a single one is left, which runs alone."""
    total, count = mine, 1 if mine > 0.0 else 0
    for stream in range(spec.device[0].streams):
        if state.probe[lane, stream] >= 0.0:
            total += state.streams[lane, stream].demand
            count += 1
    return total if count > 1 else 0.0


@kernel
def group_rate(spec, demand, total):
    """Return the rate of a job among others of that total demand; 0 means that it is alone."""
    if total == 0.0:
        return 1.0
    return min(1.0, spec.device[0].throughput * demand / total)


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
    # Local views of the arrays: the compiler keeps them in registers, where it would reload the fields of a struct.
    rows, image = sheet.rows[slot], sheet.row_image
    tasks, variants = spec.variants.shape
    first, last = task * variants, task * variants + spec.tasks[task].variants
    drop = rows[tasks * variants + task]
    counts = state.tasks[lane, task]
    if counts.length > 0:
        slack = state.queue[lane, task, counts.head].release + spec.tasks[task].deadline - state.lanes[lane].now
        next_arrival = expected_next_arrival(spec, state, lane, task)
        for place in range(first, last):
            put(rows[place], image, f.SLACK, slack)
            put(rows[place], image, f.NEXT_ARRIVAL, next_arrival)
        put_starts(spec, state, lane, task, rows, image)
        if not dispatch_only:
            put(drop, image, f.SLACK, slack)
            put(drop, image, f.NEXT_ARRIVAL, next_arrival)
    else:
        for place in range(first, last):
            rows[place, f.SLACK] = 0.0
            rows[place, f.NEXT_ARRIVAL] = 0.0
            rows[place, f.CORUN_LATENCY] = 0.0
            rows[place, f.CORUN_MARGIN] = 0.0
        drop[f.SLACK] = 0.0
        drop[f.NEXT_ARRIVAL] = 0.0


@kernel
def write_counts(spec, state, lane, task, sheet, slot):
    """Write what changes only when a job of the task comes, starts or goes: its counts and whether it may be chosen."""
    rows, image, mask = sheet.rows[slot], sheet.row_image, sheet.mask[slot]
    tasks, variants = spec.variants.shape
    counts = state.tasks[lane, task]
    length, running = counts.length, counts.running
    completed = counts.finished / counts.released if counts.released > 0 else 0.0
    legal = 1 if length > 0 else 0
    for place in range(task * variants, task * variants + spec.tasks[task].variants):
        put_counts(rows[place], image, length, running, completed)
        mask[place] = legal
    drop = tasks * variants + task
    put_counts(rows[drop], image, length, running, completed)
    mask[drop] = legal


@kernel
def put_counts(row, image, length, running, completed):
    """Write how many jobs of a task wait, run and have finished."""
    put(row, image, f.QUEUE_LENGTH, length)
    put(row, image, f.RUNNING, running)
    put(row, image, f.COMPLETED, completed)


@kernel
def write_wait(spec, state, lane, sheet, slot):
    """Write the wait row: the release it would most likely wait for."""
    soonest, task = expected_next_arrival(spec, state, lane, 0), 0
    for other in range(1, spec.tasks.shape[0]):
        time = expected_next_arrival(spec, state, lane, other)
        if time < soonest:
            soonest, task = time, other
    wait, image = sheet.mask.shape[1] - 1, sheet.row_image
    row = sheet.rows[slot, wait]
    put(row, image, f.NEXT_ARRIVAL, soonest)
    put(row, image, f.DEADLINE, spec.tasks[task].deadline)
    put(row, image, f.FASTEST_LATENCY, spec.tasks[task].fastest)
    put(row, image, f.WEIGHT, spec.tasks[task].weight)
    sheet.mask[slot, wait] = 1


@kernel
def write_globals(spec, state, lane, sheet, slot):
    """Write the state of the whole device."""
    row, image = sheet.globals[slot], sheet.global_image
    device = spec.device[0]
    header = state.lanes[lane]
    now, released = header.now, header.released
    first, last = math.inf, 0.0
    for stream in range(device.streams):
        if state.probe[lane, stream] >= 0.0:
            left = state.probe[lane, stream] / state.streams[lane, stream].rate
            first = min(first, left)
            last = max(last, left)
    put(row, image, f.TIME, now)
    put(row, image, f.REMAINING, device.horizon - now)
    put(row, image, f.STREAM, max(header.asked, 0))
    put(row, image, f.IDLE_STREAMS, device.streams - header.busy)
    put(row, image, f.WAITING_JOBS, header.waiting)
    put(row, image, f.WAITING_TASKS, header.waiting_tasks)
    put(row, image, f.CORUN_FIRST, first if header.busy > 0 else 0.0)
    put(row, image, f.CORUN_LAST, last)
    put(row, image, f.BACKLOG, header.backlog)
    put(row, image, f.FINISHED, header.finished / released if released > 0 else 0.0)
    put(row, image, f.MISSED, header.missed / released if released > 0 else 0.0)
    put(row, image, f.UTILISATION, header.busy_time / (device.streams * now) if now > 0 else 0.0)
    if sheet.globals.shape[1] > f.COIN:
        put(row, image, f.COIN, uniform(stream_key(header.key, 0), header.choices - 1))


@kernel
def observe(spec, state, lane, sheet, slot, afresh):
    """Write globals, rows and mask of the present choice; unless `afresh`, only what changed since the last time."""
    probe_streams(spec, state, lane)
    write_globals(spec, state, lane, sheet, slot)
    write_wait(spec, state, lane, sheet, slot)
    for task in range(spec.tasks.shape[0]):
        counts = state.tasks[lane, task]
        if afresh or counts.stale or counts.length > 0:
            write_task(spec, state, lane, task, sheet, slot, False)
        if afresh or counts.stale:
            write_counts(spec, state, lane, task, sheet, slot)
        if not afresh:
            counts.stale = 0


@kernel
def list_legal(spec, state, lane, sheet, slot, dispatch_only):
    """Write only the legal rows (or the dispatch rows among them), their packed indices and their counts."""
    tasks, variants = spec.variants.shape
    probe_streams(spec, state, lane)
    listed = 0
    for task in range(tasks):
        if state.tasks[lane, task].length > 0:
            write_task(spec, state, lane, task, sheet, slot, dispatch_only)
            write_counts(spec, state, lane, task, sheet, slot)
            for variant in range(spec.tasks[task].variants):
                sheet.legal[slot, listed] = task * variants + variant
                listed += 1
    sheet.counts[slot, 0] = listed
    if not dispatch_only:
        for task in range(tasks):
            if state.tasks[lane, task].length > 0:
                sheet.legal[slot, listed] = tasks * variants + task
                listed += 1
        write_wait(spec, state, lane, sheet, slot)
        sheet.legal[slot, listed] = tasks * variants + tasks
        listed += 1
    sheet.counts[slot, 1] = listed


implement(core.reset, EdgeStateType, reset)
implement(core.advance, EdgeStateType, advance)
implement(core.resume, EdgeStateType, resume)
implement(core.prepare, EdgeStateType, prepare)
implement(core.observe, EdgeStateType, observe)
implement(core.list_legal, EdgeStateType, list_legal)
