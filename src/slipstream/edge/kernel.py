"""The edge machine, compiled: state, events and choices. `docs/edge-machine.md` says exactly what it does.

State changes in two ways only: `apply` an event, or let a choice take effect (`take_effect`). The simulator takes its
events from the heap; everything else would be the same on a device.
"""

from __future__ import annotations

import math

import numpy as np

from slipstream.core.eventlog import ARRIVAL, DROP, END, EXPIRE, FINISH, REJECT, START
from slipstream.core.heap import NEVER, clear, earliest_slot, earliest_time, schedule
from slipstream.core.jit import kernel
from slipstream.core.lanes import ASKING, LOG_FULL, LOG_MARGIN, TERMINATED, TRUNCATED
from slipstream.core.rng import episode_key, exponential, normal, stream_key, uniform
from slipstream.edge.state import (
    BURSTY,
    CLOSED,
    DISPATCHING,
    DROPPING,
    DROPS,
    EXPONENTIAL,
    LATENESS,
    LOGNORMAL,
    NOTHING,
    ON_TIME_ACCURACY,
    PERIODIC,
    POISSON,
    SHARE,
    TRACE,
    UTILISATION,
    WAITING,
)

LONGEST_RUN = 2.0**60
"""Runs are cut to this many ns (36 years), so that no sum of times overflows."""

# Event slots, in the order in which simultaneous events are applied: finish of each stream, expiry of each task's
# oldest job, release of each task, horizon, effect of a choice.


@kernel
def expiry_slot(spec, task):
    return spec.device[0].streams + task


@kernel
def arrival_slot(spec, task):
    return spec.device[0].streams + spec.tasks.shape[0] + task


@kernel
def horizon_slot(spec):
    return spec.device[0].streams + 2 * spec.tasks.shape[0]


@kernel
def effect_slot(spec):
    return horizon_slot(spec) + 1


@kernel
def record(state, lane, kind, task, job, variant, resource):
    """Append a row to the lane's event log, if it keeps one."""
    if state.log.shape[1] == 0:
        return
    header = state.lanes[lane]
    row = state.log[lane, header.log_rows]
    row.time = header.now
    row.kind = kind
    row.task = task
    row.job = job
    row.variant = variant
    row.resource = resource
    header.log_rows += 1


# Releases


@kernel
def draw_gap(task_state, mean):
    """Return an exponential gap of at least 1 ns from the task's own stream of numbers."""
    gap = exponential(task_state.arrival_key, task_state.draws, mean)
    task_state.draws += 1
    return max(1, int(math.ceil(gap)))


@kernel
def begin_spells(task, task_state):
    """Put a bursty task into equilibrium: the state by its share of time, then the rest of the spell."""
    share = task.burst_spell / (task.calm_spell + task.burst_spell)
    task_state.burst = 1 if uniform(task_state.arrival_key, task_state.draws) < share else 0
    task_state.draws += 1
    task_state.spell_end = draw_gap(task_state, task.burst_spell if task_state.burst else task.calm_spell)


@kernel
def next_bursty(task, task_state, time, horizon):
    """Return the next release of a bursty task; gaps are memoryless, so a spell's end restarts the draw."""
    while True:
        release = time + draw_gap(task_state, task.burst_gap if task_state.burst else task.calm_gap)
        if release <= task_state.spell_end or time >= horizon:
            return release
        time = task_state.spell_end
        task_state.burst = 1 - task_state.burst
        task_state.spell_end = time + draw_gap(task_state, task.burst_spell if task_state.burst else task.calm_spell)


@kernel
def next_release(spec, task, task_state):
    """Return the time of the task's next release, NEVER if it has none of its own accord."""
    if task.arrival == PERIODIC:
        release = task.phase + task_state.released * task.period
        if task.jitter > 0:
            release += int(task.jitter * uniform(task_state.arrival_key, task_state.draws))
            task_state.draws += 1
        return release
    if task.arrival == POISSON:
        return task_state.last_release + draw_gap(task_state, task.calm_gap)
    if task.arrival == BURSTY:
        return next_bursty(task, task_state, task_state.last_release, spec.device[0].horizon)
    if task.arrival == TRACE:
        place = task.trace_start + task_state.released
        return spec.trace[place] if place < task.trace_end else NEVER
    return task.phase if task_state.released == 0 else NEVER


@kernel
def schedule_release(spec, state, lane, task, time):
    """Plan the task's next release; one at or after the horizon never happens."""
    if time < spec.device[0].horizon:
        schedule(state.heap, lane, arrival_slot(spec, task), time)
    else:
        schedule(state.heap, lane, arrival_slot(spec, task), NEVER)
        state.lanes[lane].silent += 1


@kernel
def release_after(spec, state, lane, task, dropped):
    """Let a closed-loop task release its next job after the last one ended."""
    closed = spec.tasks[task]
    if closed.arrival == CLOSED:
        state.lanes[lane].silent -= 1
        pause = max(closed.think, closed.retry) if dropped else closed.think
        schedule_release(spec, state, lane, task, state.lanes[lane].now + pause)


# Queues


@kernel
def schedule_expiry(spec, state, lane, task):
    """Plan the expiry of the task's oldest waiting job."""
    if spec.device[0].drop_late:
        queue = state.tasks[lane, task]
        time = NEVER
        if queue.length > 0:
            time = state.queue[lane, task, queue.head].release + spec.tasks[task].deadline
        schedule(state.heap, lane, expiry_slot(spec, task), time)


@kernel
def enqueue(spec, state, lane, task, job):
    """Let a released job wait at the end of its task's queue."""
    queue = state.tasks[lane, task]
    place = queue.head + queue.length
    if place >= state.queue.shape[2]:
        place -= state.queue.shape[2]
    entry = state.queue[lane, task, place]
    entry.index = job
    entry.release = state.lanes[lane].now
    queue.length += 1
    queue.stale = 1
    state.lanes[lane].waiting += 1
    state.lanes[lane].backlog += spec.tasks[task].fastest
    if queue.length == 1:
        state.lanes[lane].waiting_tasks += 1
        schedule_expiry(spec, state, lane, task)


@kernel
def dequeue(spec, state, lane, task):
    """Take the oldest waiting job out of its task's queue; return its place in the ring."""
    queue = state.tasks[lane, task]
    place = queue.head
    queue.head = place + 1 if place + 1 < state.queue.shape[2] else 0
    queue.length -= 1
    queue.stale = 1
    state.lanes[lane].waiting -= 1
    state.lanes[lane].backlog -= spec.tasks[task].fastest
    if queue.length == 0:
        # An empty ring starts again at its first place, which is still in the processor's cache.
        queue.head = 0
        state.lanes[lane].waiting_tasks -= 1
    schedule_expiry(spec, state, lane, task)
    return place


@kernel
def discard(spec, state, lane, task, job, kind):
    """Count a job that will never run."""
    record(state, lane, kind, task, job, -1, -1)
    state.lanes[lane].missed += 1
    state.terms[lane, DROPS] += spec.tasks[task].weight
    release_after(spec, state, lane, task, True)


# Streams


@kernel
def latency_factor(spec, task_state, job):
    """Return how much longer than profiled the job runs; it depends on the job alone, not on the policy."""
    device = spec.device[0]
    if device.latency_kind == LOGNORMAL:
        return math.exp(device.sigma * normal(task_state.latency_key, job) - device.half_variance)
    if device.latency_kind == EXPONENTIAL:
        return exponential(task_state.latency_key, job, 1.0)
    return 1.0


@kernel
def update_rates(spec, state, lane):
    """Give every running job the rate its co-runners leave it, and a new finish time where the rate changed."""
    device = spec.device[0]
    header = state.lanes[lane]
    shared = device.interference == SHARE and header.busy > 1
    total = 0.0
    if shared:
        for stream in range(device.streams):
            if state.streams[lane, stream].task >= 0:
                total += state.streams[lane, stream].demand
    for stream in range(device.streams):
        running = state.streams[lane, stream]
        if running.task < 0:
            continue
        rate = min(1.0, device.throughput * running.demand / total) if shared else 1.0
        if rate != running.rate:
            done = (header.now - running.updated) * running.rate
            running.work = max(0.0, running.work - done)
            running.expected = max(0.0, running.expected - done)
            running.updated = header.now
            running.rate = rate
            left = min(np.ceil(running.work / rate), LONGEST_RUN)
            schedule(state.heap, lane, stream, header.now + int(left))


@kernel
def start(spec, state, lane, stream, task, variant):
    """Start the task's oldest waiting job on an idle stream."""
    header = state.lanes[lane]
    job = state.queue[lane, task, dequeue(spec, state, lane, task)]
    chosen = spec.variants[task, variant]
    running = state.streams[lane, stream]
    running.task = task
    running.variant = variant
    running.job = job.index
    running.release = job.release
    running.work = chosen.latency * latency_factor(spec, state.tasks[lane, task], job.index)
    running.expected = chosen.latency
    running.demand = chosen.demand
    running.rate = 0.0
    running.updated = header.now
    state.tasks[lane, task].running += 1
    header.busy += 1
    record(state, lane, START, task, job.index, variant, stream)
    update_rates(spec, state, lane)


@kernel
def finish(spec, state, lane, stream):
    """Take the finished job off its stream and count it."""
    header = state.lanes[lane]
    running = state.streams[lane, stream]
    task = running.task
    counts = state.tasks[lane, task]
    deadline = spec.tasks[task].deadline
    tardiness = header.now - running.release - deadline
    if tardiness <= 0:
        state.terms[lane, ON_TIME_ACCURACY] += spec.tasks[task].weight * spec.variants[task, running.variant].accuracy
    else:
        header.missed += 1
        state.terms[lane, LATENESS] += spec.tasks[task].weight * min(1.0, tardiness / deadline)
    counts.finished += 1
    counts.running -= 1
    counts.stale = 1
    header.finished += 1
    record(state, lane, FINISH, task, running.job, running.variant, stream)
    running.task = -1
    header.busy -= 1
    schedule(state.heap, lane, stream, NEVER)
    update_rates(spec, state, lane)
    release_after(spec, state, lane, task, False)


# Events


@kernel
def arrive(spec, state, lane, task):
    """Release a job: it waits, or is rejected where the queue is full."""
    counts = state.tasks[lane, task]
    job = counts.released
    counts.released += 1
    counts.stale = 1
    state.lanes[lane].released += 1
    counts.last_release = state.lanes[lane].now
    record(state, lane, ARRIVAL, task, job, -1, -1)
    schedule_release(spec, state, lane, task, next_release(spec, spec.tasks[task], counts))
    if counts.length < spec.device[0].queue_limit:
        enqueue(spec, state, lane, task, job)
    else:
        discard(spec, state, lane, task, job, REJECT)


@kernel
def expire(spec, state, lane, task):
    """Drop the oldest waiting job of a task at its deadline."""
    place = dequeue(spec, state, lane, task)
    discard(spec, state, lane, task, state.queue[lane, task, place].index, EXPIRE)


@kernel
def end_episode(state, lane, status):
    state.lanes[lane].status = status
    record(state, lane, END, -1, -1, -1, -1)


@kernel
def apply(spec, state, lane, slot, time):
    """Let time pass to an event and let it happen."""
    device = spec.device[0]
    header = state.lanes[lane]
    header.busy_time += header.busy * (time - header.now)
    header.now = time
    if slot == effect_slot(spec):
        take_effect_if_fresh(spec, state, lane)
        return
    header.events += 1
    if slot < device.streams:
        finish(spec, state, lane, slot)
    elif slot < arrival_slot(spec, 0):
        expire(spec, state, lane, slot - device.streams)
    elif slot < horizon_slot(spec):
        arrive(spec, state, lane, slot - arrival_slot(spec, 0))
    else:
        end_episode(state, lane, TRUNCATED)


@kernel
def work_is_over(spec, state, lane):
    """Return whether nothing is left to do: every trace has ended, no job waits and none runs."""
    header = state.lanes[lane]
    return spec.device[0].finite and header.silent == spec.tasks.shape[0] and header.waiting == 0 and header.busy == 0


# Choices


@kernel
def take_effect(spec, state, lane):
    """Do what was chosen."""
    header = state.lanes[lane]
    if header.in_flight == DISPATCHING:
        start(spec, state, lane, header.chosen_stream, header.chosen_task, header.chosen_variant)
    elif header.in_flight == DROPPING:
        place = dequeue(spec, state, lane, header.chosen_task)
        discard(spec, state, lane, header.chosen_task, state.queue[lane, header.chosen_task, place].index, DROP)
    else:
        state.streams[lane, header.chosen_stream].parked = header.events
    header.in_flight = NOTHING


@kernel
def take_effect_if_fresh(spec, state, lane):
    """After the decision time: do what was chosen, unless the world has moved on; then ask again."""
    header = state.lanes[lane]
    schedule(state.heap, lane, effect_slot(spec), NEVER)
    if header.in_flight == WAITING:
        fresh = header.events == header.chosen_events
    else:
        queue = state.tasks[lane, header.chosen_task]
        fresh = queue.length > 0 and state.queue[lane, header.chosen_task, queue.head].index == header.chosen_job
    if fresh:
        take_effect(spec, state, lane)
    else:
        header.in_flight = NOTHING


@kernel
def decide(spec, state, lane, action):
    """Turn an action into a choice; what is not allowed counts as wait."""
    header = state.lanes[lane]
    tasks, variants = spec.variants.shape
    wait = tasks * variants + tasks
    header.in_flight = WAITING
    if 0 <= action < tasks * variants:
        task = action // variants
        variant = action - task * variants
        if state.tasks[lane, task].length > 0 and variant < spec.tasks[task].variants:
            header.in_flight = DISPATCHING
            header.chosen_task = task
            header.chosen_variant = variant
    elif tasks * variants <= action < wait:
        task = action - tasks * variants
        if state.tasks[lane, task].length > 0:
            header.in_flight = DROPPING
            header.chosen_task = task
    header.illegal = 1 if header.in_flight == WAITING and action != wait else 0
    header.mistakes += header.illegal
    header.chosen_stream = header.asked
    header.chosen_events = header.events
    if spec.device[0].decision_time == 0:
        take_effect(spec, state, lane)
    else:
        if header.in_flight != WAITING:
            queue = state.tasks[lane, header.chosen_task]
            header.chosen_job = state.queue[lane, header.chosen_task, queue.head].index
        schedule(state.heap, lane, effect_slot(spec), header.now + spec.device[0].decision_time)


@kernel
def stream_to_ask(spec, state, lane):
    """Return the first stream that is idle and not parked, -1 if no choice is due."""
    header = state.lanes[lane]
    if header.waiting > 0 and header.in_flight == NOTHING:
        for stream in range(spec.device[0].streams):
            candidate = state.streams[lane, stream]
            if candidate.task < 0 and candidate.parked != header.events:
                return stream
    return -1


@kernel
def end_step(spec, state, lane):
    """Add up the reward of the step that ends here."""
    device = spec.device[0]
    header = state.lanes[lane]
    terms = state.terms[lane]
    terms[UTILISATION] = (header.busy_time - header.step_busy_time) / (device.streams * 1e9)
    header.reward = (
        device.on_time_accuracy * terms[ON_TIME_ACCURACY]
        - device.lateness * terms[LATENESS]
        - device.drops * terms[DROPS]
        + device.utilisation * terms[UTILISATION]
    )
    header.elapsed = header.now - header.step_began


@kernel
def resume(spec, state, lane):
    """Apply events until a choice is due, the episode ends, or the log must be flushed."""
    header = state.lanes[lane]
    header.status = ASKING
    while True:
        log_full = state.log.shape[1] > 0 and header.log_rows + LOG_MARGIN > state.log.shape[1]
        # After the end nothing more is written: its row stays, and the status with it.
        if log_full and header.status == ASKING:
            header.status = LOG_FULL
            return
        if header.status == ASKING and work_is_over(spec, state, lane):
            end_episode(state, lane, TERMINATED)
        if header.status != ASKING:
            header.asked = -1
            break
        time = earliest_time(state.heap, lane)
        if time > header.now:
            header.asked = stream_to_ask(spec, state, lane)
            if header.asked >= 0:
                header.choices += 1
                break
        apply(spec, state, lane, earliest_slot(state.heap, lane, time), time)
    end_step(spec, state, lane)


@kernel
def advance(spec, state, lane, action):
    """Apply a choice and run to the next one, or to the end; the first step also gets what came before it."""
    header = state.lanes[lane]
    header.step_began = header.now
    if header.choices > 1:
        header.step_busy_time = header.busy_time
        for term in range(state.terms.shape[1]):
            state.terms[lane, term] = 0.0
    decide(spec, state, lane, action)
    resume(spec, state, lane)


@kernel
def reset(spec, state, lane, seed, namespace):
    """Start an episode and run to its first choice."""
    header = state.lanes[lane]
    header.now = 0
    header.seed = seed
    header.namespace = namespace
    header.key = episode_key(namespace, seed)
    header.choices = 0
    header.events = 0
    header.step_began = 0
    header.illegal = 0
    header.mistakes = 0
    header.log_rows = 0
    header.waiting = 0
    header.waiting_tasks = 0
    header.backlog = 0
    header.released = 0
    header.finished = 0
    header.missed = 0
    header.busy = 0
    header.busy_time = 0
    header.step_busy_time = 0
    header.silent = 0
    header.in_flight = NOTHING
    for term in range(state.terms.shape[1]):
        state.terms[lane, term] = 0.0
    for stream in range(spec.device[0].streams):
        state.streams[lane, stream].task = -1
        state.streams[lane, stream].parked = -1
    clear(state.heap, lane)
    schedule(state.heap, lane, horizon_slot(spec), spec.device[0].horizon)
    for task in range(spec.tasks.shape[0]):
        counts = state.tasks[lane, task]
        counts.arrival_key = stream_key(header.key, 1 + 2 * task)
        counts.latency_key = stream_key(header.key, 2 + 2 * task)
        counts.draws = 0
        counts.released = 0
        counts.last_release = 0
        counts.head = 0
        counts.length = 0
        counts.running = 0
        counts.finished = 0
        counts.stale = 1
        if spec.tasks[task].arrival == BURSTY:
            begin_spells(spec.tasks[task], counts)
        schedule_release(spec, state, lane, task, next_release(spec, spec.tasks[task], counts))
    resume(spec, state, lane)
