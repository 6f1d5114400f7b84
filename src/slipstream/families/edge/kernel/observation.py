"""Observation of a decision, compiled: candidate rows, globals and mask.

Nothing here reads a random number of the future: next arrivals and remaining times are expectations.
"""

from __future__ import annotations

import math

from slipstream.families.edge import features as f
from slipstream.families.edge.kernel.events import may_dispatch, may_preempt
from slipstream.families.edge.kernel.lookahead import (
    clear_corun_estimates,
    expected_remaining,
    expected_work,
    load_corunners,
    put_beside_many,
    put_corun_estimates,
    put_timing,
    slack_of,
)
from slipstream.families.edge.kernel.memory import loading_time
from slipstream.families.edge.kernel.state import BURSTY, CLOSED, NO_PREEMPTION, PERIODIC, POISSON, SHARE
from slipstream.families.edge.kernel.streams import is_preemptible
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER
from slipstream.sim.kernel.lanes import PLAIN_RULE, RULE_ON_ALL, RULE_ON_DISPATCH, toss_coin
from slipstream.sim.kernel.observation import observed_value, put, put_static_rows


@kernel
def prepare(spec, state, buffer):
    """Write the static columns into every entry of the buffer."""
    device = spec.device[0]
    throughput = min(device.throughput, device.streams) if device.interference == SHARE else device.streams
    put_static_rows(spec, buffer)
    for index in range(buffer.rows.shape[0]):
        put(buffer.globals[index], buffer.global_image, f.STREAMS, device.streams)
        put(buffer.globals[index], buffer.global_image, f.THROUGHPUT, throughput)
        put(buffer.globals[index], buffer.global_image, f.FREE_MEMORY, 1.0)
        put(buffer.globals[index], buffer.global_image, f.POWER, device.idle_power)


@inlined
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


@inlined
def slack_of_head(spec, state, lane, task):
    """Return the time left to the deadline of the task's oldest waiting job."""
    head = state.tasks[lane, task].head
    return state.queue[lane, head, task].release + spec.tasks[task].deadline - state.lanes[lane].now


@inlined
def write_task(spec, state, lane, task, buffer, index, form):
    """Write the dynamic columns of the task's dispatch rows and, if `form` scores them, of its other rows."""
    # Local views: the compiler keeps them in registers, but reloads the fields of a struct.
    rows, image = buffer.rows[index], buffer.row_image
    variants = spec.variants.shape[1]
    first, last = task * variants, task * variants + spec.tasks[task].variants
    drop = rows[spec.device[0].first_drop + task]
    slack, next_arrival = 0.0, 0.0
    if form == PLAIN_RULE:
        slack = observed_value(rows, image, f.SLACK, slack_of_head(spec, state, lane, task))
        for row_index in range(first, last):
            rows[row_index][f.SLACK] = slack
    elif state.tasks[lane, task].length > 0:
        # Values that all rows of a task share are scaled and clipped once.
        slack = observed_value(rows, image, f.SLACK, slack_of_head(spec, state, lane, task))
        next_arrival = observed_value(rows, image, f.NEXT_ARRIVAL, expected_next_arrival(spec, state, lane, task))
        put_corun_estimates(spec, state, lane, task, slack, next_arrival, rows, image)
        if form == RULE_ON_ALL:
            put_timing(drop, slack, next_arrival)
    else:
        for row_index in range(first, last):
            put_timing(rows[row_index], 0.0, 0.0)
            clear_corun_estimates(rows[row_index])
        put_timing(drop, 0.0, 0.0)
    if not spec.device[0].simple:
        write_starts(spec, state, lane, task, buffer, index)
        if spec.device[0].preemption != NO_PREEMPTION and form == RULE_ON_ALL:
            for variant in range(spec.tasks[task].variants):
                for stream in range(spec.device[0].streams):
                    row_index = preempt_row(spec, task, variant, stream)
                    put_preemption(
                        spec, state, lane, task, variant, stream, slack, next_arrival, rows[row_index], image
                    )
                    buffer.mask[index, row_index] = may_preempt(spec, state, lane, task, variant, stream)


@kernel
def write_starts(spec, state, lane, task, buffer, index):
    """Write priority, setup, progress and mask of the task's dispatch rows, on a device that is not simple."""
    asked = state.lanes[lane].asked
    waits = state.tasks[lane, task].length > 0
    priority = spec.streams[asked].priority if waits and 0 <= asked < spec.device[0].streams else 0.0
    for variant in range(spec.tasks[task].variants):
        row_index = task * spec.variants.shape[1] + variant
        put(buffer.rows[index, row_index], buffer.row_image, f.STREAM_PRIORITY, priority)
        put_run(spec, state, lane, task, variant, 0, buffer.rows[index, row_index], buffer.row_image)
        buffer.mask[index, row_index] = may_dispatch(spec, state, lane, task, variant)


@inlined
def put_run(spec, state, lane, task, variant, switch_cost, row, image):
    """Write setup time, residency of weights and progress of a run of `variant`."""
    counts = state.tasks[lane, task]
    setup, progress, resident = 0, 0.0, 0
    if counts.length > 0:
        setup = switch_cost
        latency = spec.variants[task, variant].latency
        expected = expected_work(spec, state, lane, task, variant)
        if expected < latency:
            progress = 1.0 - expected / latency
        if spec.device[0].loads:
            setup += loading_time(spec, state, lane, task, variant)
            resident = state.weights[lane, task, spec.variants[task, variant].rank].resident
    put(row, image, f.SETUP, setup)
    put(row, image, f.PROGRESS, progress)
    if spec.device[0].loads:
        put(row, image, f.RESIDENT, resident)


@inlined
def preempt_row(spec, task, variant, stream):
    """Return the index of the row that starts `variant` of `task` in place of the job on `stream`."""
    tasks, variants = spec.variants.shape
    return tasks * variants + (task * variants + variant) * spec.device[0].streams + stream


@inlined
def put_preemption(spec, state, lane, task, variant, stream, slack, next_arrival, row, image):
    """Write a preempt row: the columns of a dispatch row, beside the remaining jobs, and those of its victim."""
    put_timing(row, slack, next_arrival)
    put_run(spec, state, lane, task, variant, spec.device[0].switch_cost, row, image)
    if state.tasks[lane, task].length > 0 and is_preemptible(spec, state, lane, stream):
        put_victim(spec, state, lane, task, variant, stream, row, image)
    else:
        clear_victim(row)


@inlined
def put_victim(spec, state, lane, task, variant, stream, row, image):
    """Write the victim's columns and the co-run estimates without it."""
    put(row, image, f.VICTIM_SLACK, slack_of(spec, state, lane, stream))
    put(row, image, f.VICTIM_LEFT, expected_remaining(spec, state, lane, stream))
    victim = state.streams[lane, stream]
    weight = spec.tasks[victim.task].weight * spec.variants[victim.task, victim.variant].jobs
    put(row, image, f.VICTIM_WEIGHT, weight)
    put_beside_many(spec, state, lane, task, variant, stream, spec.device[0].switch_cost, row, image)


@inlined
def clear_victim(row):
    """Reset the columns of a preempt row that has no victim."""
    row[f.VICTIM_SLACK] = 0.0
    row[f.VICTIM_LEFT] = 0.0
    row[f.VICTIM_WEIGHT] = 0.0
    clear_corun_estimates(row)


@inlined
def write_counts(spec, state, lane, task, buffer, index, dispatch_only):
    """Write the task's counts and mask, which change only when one of its jobs arrives, starts or leaves."""
    rows, image, mask = buffer.rows[index], buffer.row_image, buffer.mask[index]
    device = spec.device[0]
    variants = spec.variants.shape[1]
    counts = state.tasks[lane, task]
    length = observed_value(rows, image, f.QUEUE_LENGTH, counts.length)
    running = observed_value(rows, image, f.RUNNING, counts.running)
    completed = observed_value(
        rows, image, f.COMPLETED, counts.finished / counts.released if counts.released > 0 else 0.0
    )
    legal = 1 if counts.length > 0 else 0
    for row_index in range(task * variants, task * variants + spec.tasks[task].variants):
        put_counts(rows[row_index], length, running, completed)
        if device.simple and not dispatch_only:
            mask[row_index] = legal
    if dispatch_only:
        return
    if device.preemption != NO_PREEMPTION:
        first = preempt_row(spec, task, 0, 0)
        for row_index in range(first, first + spec.tasks[task].variants * device.streams):
            put_counts(rows[row_index], length, running, completed)
    drop = device.first_drop + task
    put_counts(rows[drop], length, running, completed)
    mask[drop] = legal


@inlined
def put_counts(row, length, running, completed):
    """Write the queue length, running jobs and completed share of a task, already scaled."""
    row[f.QUEUE_LENGTH] = length
    row[f.RUNNING] = running
    row[f.COMPLETED] = completed


@inlined
def write_wait(spec, state, lane, buffer, index):
    """Write the wait row: the task whose release is expected next."""
    soonest, task = expected_next_arrival(spec, state, lane, 0), 0
    for other in range(1, spec.tasks.shape[0]):
        time = expected_next_arrival(spec, state, lane, other)
        if time < soonest:
            soonest, task = time, other
    wait, image = buffer.mask.shape[1] - 1, buffer.row_image
    row = buffer.rows[index, wait]
    put(row, image, f.NEXT_ARRIVAL, soonest)
    put(row, image, f.DEADLINE, spec.tasks[task].deadline)
    put(row, image, f.FASTEST_LATENCY, spec.tasks[task].fastest)
    put(row, image, f.WEIGHT, spec.tasks[task].weight)
    buffer.mask[index, wait] = 1


@kernel
def summarise(spec, state, lane, buffer, index):
    """Write the global row: the state of the whole device."""
    row, image = buffer.globals[index], buffer.global_image
    device = spec.device[0]
    header = state.lanes[lane]
    now, released = header.now, header.released
    first, last = math.inf, 0.0
    for stream in range(device.streams):
        running = state.streams[lane, stream]
        if running.task >= 0:
            left = expected_remaining(spec, state, lane, stream)
            left /= running.rate if device.simple or state.runs[lane, stream].active else 1.0
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
    if device.memory < NEVER:
        put(row, image, f.FREE_MEMORY, (device.memory - header.memory_resident) / device.memory)
    if not device.simple:
        put(row, image, f.POWER, header.power)
    if buffer.globals.shape[1] > f.COIN:
        put(row, image, f.COIN, toss_coin(header))


@kernel
def observe(spec, state, lane, buffer, index, afresh):
    """Write globals, rows and mask of the decision; unless `afresh`, only what changed since the last one."""
    load_corunners(spec, state, lane)
    summarise(spec, state, lane, buffer, index)
    write_wait(spec, state, lane, buffer, index)
    for task in range(spec.tasks.shape[0]):
        counts = state.tasks[lane, task]
        # Rows of an empty queue need clearing only if the drop row was legal the last time.
        if afresh or counts.length > 0 or (counts.stale and buffer.mask[index, spec.device[0].first_drop + task]):
            write_task(spec, state, lane, task, buffer, index, RULE_ON_ALL)
        if afresh or counts.stale:
            write_counts(spec, state, lane, task, buffer, index, False)
        if not afresh:
            counts.stale = 0


@kernel
def list_legal(spec, state, lane, buffer, index, form):
    """Write only the legal rows that rules of `form` score, their packed indices and their counts."""
    device = spec.device[0]
    tasks, variants = spec.variants.shape
    plain = form == PLAIN_RULE
    if not plain:
        load_corunners(spec, state, lane)
    listed, task = 0, 0
    unlisted = state.lanes[lane].waiting_tasks if state.lanes[lane].asked < device.streams else 0
    while unlisted > 0:
        if state.tasks[lane, task].length > 0:
            unlisted -= 1
            write_task(spec, state, lane, task, buffer, index, PLAIN_RULE if plain else RULE_ON_DISPATCH)
            if not plain:
                write_counts(spec, state, lane, task, buffer, index, True)
            for row_index in range(task * variants, task * variants + spec.tasks[task].variants):
                if device.simple or buffer.mask[index, row_index]:
                    buffer.legal[index, listed] = row_index
                    listed += 1
        task += 1
    buffer.counts[index, 0] = listed
    if form == RULE_ON_ALL:
        for task in range(tasks):
            if state.tasks[lane, task].length > 0:
                listed = list_preemptions(spec, state, lane, task, buffer, index, listed)
        for task in range(tasks):
            if state.tasks[lane, task].length > 0:
                buffer.legal[index, listed] = device.first_drop + task
                listed += 1
        write_wait(spec, state, lane, buffer, index)
        buffer.legal[index, listed] = device.first_drop + tasks
        listed += 1
    buffer.counts[index, 1] = listed


@inlined
def list_preemptions(spec, state, lane, task, buffer, index, listed):
    """Write the task's drop row; write and list its legal preempt rows; return the length of the list."""
    device = spec.device[0]
    rows, image = buffer.rows[index], buffer.row_image
    counts = state.tasks[lane, task]
    slack = observed_value(rows, image, f.SLACK, slack_of_head(spec, state, lane, task))
    next_arrival = observed_value(rows, image, f.NEXT_ARRIVAL, expected_next_arrival(spec, state, lane, task))
    length = observed_value(rows, image, f.QUEUE_LENGTH, counts.length)
    running = observed_value(rows, image, f.RUNNING, counts.running)
    completed = observed_value(rows, image, f.COMPLETED, counts.finished / counts.released)
    put_timing(rows[device.first_drop + task], slack, next_arrival)
    put_counts(rows[device.first_drop + task], length, running, completed)
    if device.preemption != NO_PREEMPTION:
        for variant in range(spec.tasks[task].variants):
            for stream in range(device.streams):
                if may_preempt(spec, state, lane, task, variant, stream):
                    row_index = preempt_row(spec, task, variant, stream)
                    put_preemption(
                        spec, state, lane, task, variant, stream, slack, next_arrival, rows[row_index], image
                    )
                    put_counts(rows[row_index], length, running, completed)
                    buffer.legal[index, listed] = row_index
                    listed += 1
    return listed
