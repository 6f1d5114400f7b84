"""What a policy may know at a choice, compiled: candidate rows, globals and mask.

Nothing here reads a drawn number that lies in the future: next arrivals and remaining times are expectations.
"""

from __future__ import annotations

import math

from slipstream.families.edge import features as f
from slipstream.families.edge.kernel.events import may_dispatch, may_preempt
from slipstream.families.edge.kernel.lookahead import (
    clear_outlook,
    expected_left,
    expected_work,
    note_crew,
    put_due,
    put_group,
    put_outlook,
    slack_of,
)
from slipstream.families.edge.kernel.memory import loading_time
from slipstream.families.edge.kernel.state import BURSTY, CLOSED, NO_PREEMPTION, PERIODIC, POISSON, SHARE
from slipstream.families.edge.kernel.streams import can_be_interrupted
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel import lanes as core
from slipstream.sim.kernel.heap import NEVER
from slipstream.sim.kernel.observation import observed_value, put


@kernel
def prepare(spec, state, buffer):
    """Write the columns that never change, once, into every slot of the buffer."""
    device = spec.device[0]
    throughput = min(device.throughput, device.streams) if device.interference == SHARE else device.streams
    rows, columns = spec.static_rows.shape[0], buffer.rows.shape[2]
    for slot in range(buffer.rows.shape[0]):
        put(buffer.globals[slot], buffer.global_image, f.STREAMS, device.streams)
        put(buffer.globals[slot], buffer.global_image, f.THROUGHPUT, throughput)
        put(buffer.globals[slot], buffer.global_image, f.FREE_MEMORY, 1.0)
        put(buffer.globals[slot], buffer.global_image, f.POWER, device.idle_power)
        for row in range(rows):
            for column in range(columns):
                put(buffer.rows[slot, row], buffer.row_image, column, spec.static_rows[row, column])


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
def write_task(spec, state, lane, task, buffer, slot, form):
    """Write the changing columns of the task's rows: its variants and, for whom they matter, all others."""
    # Local views of the arrays: the compiler keeps them in registers, where it would reload the fields of a struct.
    rows, image = buffer.rows[slot], buffer.row_image
    variants = spec.variants.shape[1]
    first, last = task * variants, task * variants + spec.tasks[task].variants
    drop = rows[spec.device[0].first_drop + task]
    slack, next_arrival = 0.0, 0.0
    if form == core.PLAIN_RULE:
        slack = observed_value(rows, image, f.SLACK, slack_of_head(spec, state, lane, task))
        for place in range(first, last):
            rows[place][f.SLACK] = slack
    elif state.tasks[lane, task].length > 0:
        # What is the same in all rows of a task is scaled and clipped once.
        slack = observed_value(rows, image, f.SLACK, slack_of_head(spec, state, lane, task))
        next_arrival = observed_value(rows, image, f.NEXT_ARRIVAL, expected_next_arrival(spec, state, lane, task))
        put_outlook(spec, state, lane, task, slack, next_arrival, rows, image)
        if form == core.RULE_ON_ALL:
            put_due(drop, slack, next_arrival)
    else:
        for place in range(first, last):
            put_due(rows[place], 0.0, 0.0)
            clear_outlook(rows[place])
        put_due(drop, 0.0, 0.0)
    if not spec.device[0].simple:
        write_starts(spec, state, lane, task, buffer, slot)
        if spec.device[0].preemption != NO_PREEMPTION and form == core.RULE_ON_ALL:
            for variant in range(spec.tasks[task].variants):
                for stream in range(spec.device[0].streams):
                    place = preempt_row(spec, task, variant, stream)
                    put_preemption(spec, state, lane, task, variant, stream, slack, next_arrival, rows[place], image)
                    buffer.mask[slot, place] = may_preempt(spec, state, lane, task, variant, stream)


@kernel
def write_starts(spec, state, lane, task, buffer, slot):
    """Write what only some devices have into the task's dispatch rows, and which of them are allowed."""
    asked = state.lanes[lane].asked
    waits = state.tasks[lane, task].length > 0
    priority = spec.streams[asked].priority if waits and 0 <= asked < spec.device[0].streams else 0.0
    for variant in range(spec.tasks[task].variants):
        place = task * spec.variants.shape[1] + variant
        put(buffer.rows[slot, place], buffer.row_image, f.STREAM_PRIORITY, priority)
        put_run(spec, state, lane, task, variant, 0, buffer.rows[slot, place], buffer.row_image)
        buffer.mask[slot, place] = may_dispatch(spec, state, lane, task, variant)


@inlined
def put_run(spec, state, lane, task, variant, switch_cost, row, image):
    """Write what the run of a variant would find: its set-up, its weights, and work that is done already."""
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
            resident = state.weights[lane, task, variant].resident
    put(row, image, f.SETUP, setup)
    put(row, image, f.PROGRESS, progress)
    if spec.device[0].loads:
        put(row, image, f.RESIDENT, resident)


@inlined
def preempt_row(spec, task, variant, stream):
    """Return the row that starts a variant of a task in place of a stream's job."""
    tasks, variants = spec.variants.shape
    return tasks * variants + (task * variants + variant) * spec.device[0].streams + stream


@inlined
def put_preemption(spec, state, lane, task, variant, stream, slack, next_arrival, row, image):
    """Write a preempt row: what its dispatch row says, beside the jobs that would be left, and whom it interrupts."""
    put_due(row, slack, next_arrival)
    put_run(spec, state, lane, task, variant, spec.device[0].switch_cost, row, image)
    if state.tasks[lane, task].length > 0 and can_be_interrupted(spec, state, lane, stream):
        put_victim(spec, state, lane, task, variant, stream, row, image)
    else:
        clear_victim(row)


@inlined
def put_victim(spec, state, lane, task, variant, stream, row, image):
    """Write whom the row interrupts and what its start would mean then."""
    put(row, image, f.VICTIM_SLACK, slack_of(spec, state, lane, stream))
    put(row, image, f.VICTIM_LEFT, expected_left(spec, state, lane, stream))
    put(row, image, f.VICTIM_WEIGHT, spec.tasks[state.streams[lane, stream].task].weight)
    put_group(spec, state, lane, task, variant, stream, spec.device[0].switch_cost, row, image)


@inlined
def clear_victim(row):
    row[f.VICTIM_SLACK] = 0.0
    row[f.VICTIM_LEFT] = 0.0
    row[f.VICTIM_WEIGHT] = 0.0
    clear_outlook(row)


@inlined
def write_counts(spec, state, lane, task, buffer, slot, dispatch_only):
    """Write what changes only when a job of the task comes, starts or goes: its counts and whether it may be chosen."""
    rows, image, mask = buffer.rows[slot], buffer.row_image, buffer.mask[slot]
    device = spec.device[0]
    variants = spec.variants.shape[1]
    counts = state.tasks[lane, task]
    length = observed_value(rows, image, f.QUEUE_LENGTH, counts.length)
    running = observed_value(rows, image, f.RUNNING, counts.running)
    completed = observed_value(
        rows, image, f.COMPLETED, counts.finished / counts.released if counts.released > 0 else 0.0
    )
    legal = 1 if counts.length > 0 else 0
    for place in range(task * variants, task * variants + spec.tasks[task].variants):
        put_counts(rows[place], length, running, completed)
        if device.simple and not dispatch_only:
            mask[place] = legal
    if dispatch_only:
        return
    if device.preemption != NO_PREEMPTION:
        first = preempt_row(spec, task, 0, 0)
        for place in range(first, first + spec.tasks[task].variants * device.streams):
            put_counts(rows[place], length, running, completed)
    drop = device.first_drop + task
    put_counts(rows[drop], length, running, completed)
    mask[drop] = legal


@inlined
def put_counts(row, length, running, completed):
    """Write how many jobs of a task wait, run and have finished, as these are shown."""
    row[f.QUEUE_LENGTH] = length
    row[f.RUNNING] = running
    row[f.COMPLETED] = completed


@inlined
def write_wait(spec, state, lane, buffer, slot):
    """Write the wait row: the release it would most likely wait for."""
    soonest, task = expected_next_arrival(spec, state, lane, 0), 0
    for other in range(1, spec.tasks.shape[0]):
        time = expected_next_arrival(spec, state, lane, other)
        if time < soonest:
            soonest, task = time, other
    wait, image = buffer.mask.shape[1] - 1, buffer.row_image
    row = buffer.rows[slot, wait]
    put(row, image, f.NEXT_ARRIVAL, soonest)
    put(row, image, f.DEADLINE, spec.tasks[task].deadline)
    put(row, image, f.FASTEST_LATENCY, spec.tasks[task].fastest)
    put(row, image, f.WEIGHT, spec.tasks[task].weight)
    buffer.mask[slot, wait] = 1


@kernel
def summarise(spec, state, lane, buffer, slot):
    """Write the state of the whole device."""
    row, image = buffer.globals[slot], buffer.global_image
    device = spec.device[0]
    header = state.lanes[lane]
    now, released = header.now, header.released
    first, last = math.inf, 0.0
    for stream in range(device.streams):
        running = state.streams[lane, stream]
        if running.task >= 0:
            left = expected_left(spec, state, lane, stream)
            left /= running.rate if device.simple or state.courses[lane, stream].runs else 1.0
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
        put(row, image, f.FREE_MEMORY, (device.memory - header.memory_taken) / device.memory)
    if not device.simple:
        put(row, image, f.POWER, header.power)
    if buffer.globals.shape[1] > f.COIN:
        put(row, image, f.COIN, core.toss_coin(header))


@kernel
def observe(spec, state, lane, buffer, slot, afresh):
    """Write globals, rows and mask of the present choice; unless `afresh`, only what changed since the last time."""
    note_crew(spec, state, lane)
    summarise(spec, state, lane, buffer, slot)
    write_wait(spec, state, lane, buffer, slot)
    for task in range(spec.tasks.shape[0]):
        counts = state.tasks[lane, task]
        # Where nobody waits, there is only something to clear if the drop row was allowed the last time.
        if afresh or counts.length > 0 or (counts.stale and buffer.mask[slot, spec.device[0].first_drop + task]):
            write_task(spec, state, lane, task, buffer, slot, core.RULE_ON_ALL)
        if afresh or counts.stale:
            write_counts(spec, state, lane, task, buffer, slot, False)
        if not afresh:
            counts.stale = 0


@kernel
def list_legal(spec, state, lane, buffer, slot, form):
    """Write only the legal rows, their packed indices and their counts; for some rules less than that."""
    device = spec.device[0]
    tasks, variants = spec.variants.shape
    plain = form == core.PLAIN_RULE
    if not plain:
        note_crew(spec, state, lane)
    listed, task = 0, 0
    unlisted = state.lanes[lane].waiting_tasks if state.lanes[lane].asked < device.streams else 0
    while unlisted > 0:
        if state.tasks[lane, task].length > 0:
            unlisted -= 1
            write_task(spec, state, lane, task, buffer, slot, core.PLAIN_RULE if plain else core.RULE_ON_DISPATCH)
            if not plain:
                write_counts(spec, state, lane, task, buffer, slot, True)
            for place in range(task * variants, task * variants + spec.tasks[task].variants):
                if device.simple or buffer.mask[slot, place]:
                    buffer.legal[slot, listed] = place
                    listed += 1
        task += 1
    buffer.counts[slot, 0] = listed
    if form == core.RULE_ON_ALL:
        for task in range(tasks):
            if state.tasks[lane, task].length > 0:
                listed = list_preemptions(spec, state, lane, task, buffer, slot, listed)
        for task in range(tasks):
            if state.tasks[lane, task].length > 0:
                buffer.legal[slot, listed] = device.first_drop + task
                listed += 1
        write_wait(spec, state, lane, buffer, slot)
        buffer.legal[slot, listed] = device.first_drop + tasks
        listed += 1
    buffer.counts[slot, 1] = listed


@inlined
def list_preemptions(spec, state, lane, task, buffer, slot, listed):
    """Write the task's drop row; write and list its preempt rows, if allowed; return the length of the list."""
    device = spec.device[0]
    rows, image = buffer.rows[slot], buffer.row_image
    counts = state.tasks[lane, task]
    slack = observed_value(rows, image, f.SLACK, slack_of_head(spec, state, lane, task))
    next_arrival = observed_value(rows, image, f.NEXT_ARRIVAL, expected_next_arrival(spec, state, lane, task))
    length = observed_value(rows, image, f.QUEUE_LENGTH, counts.length)
    running = observed_value(rows, image, f.RUNNING, counts.running)
    completed = observed_value(rows, image, f.COMPLETED, counts.finished / counts.released)
    put_due(rows[device.first_drop + task], slack, next_arrival)
    put_counts(rows[device.first_drop + task], length, running, completed)
    if device.preemption != NO_PREEMPTION:
        for variant in range(spec.tasks[task].variants):
            for stream in range(device.streams):
                if may_preempt(spec, state, lane, task, variant, stream):
                    place = preempt_row(spec, task, variant, stream)
                    put_preemption(spec, state, lane, task, variant, stream, slack, next_arrival, rows[place], image)
                    put_counts(rows[place], length, running, completed)
                    buffer.legal[slot, listed] = place
                    listed += 1
    return listed
