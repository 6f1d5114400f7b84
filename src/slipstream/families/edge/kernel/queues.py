"""Jobs before they run, compiled: when tasks release them, and the queues in which they wait."""

from __future__ import annotations

import math

from slipstream.families.edge.kernel.slots import arrival_slot, expiry_slot
from slipstream.families.edge.kernel.state import (
    BURSTY,
    CLOSED,
    DROPS,
    NO_PREEMPTION,
    PERIODIC,
    POISSON,
    RESTART,
    TRACE,
)
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.lanes import record
from slipstream.sim.kernel.rng import exponential, uniform


@inlined
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


@inlined
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


@inlined
def schedule_expiry(spec, state, lane, task):
    """Plan the expiry of the task's oldest waiting job."""
    if spec.device[0].drop_late:
        queue = state.tasks[lane, task]
        time = NEVER
        if queue.length > 0:
            deadline = state.queue[lane, queue.head, task].release + spec.tasks[task].deadline
            # A job that was interrupted after its deadline has expired already.
            time = max(deadline, state.lanes[lane].now)
        schedule(state.heap, lane, expiry_slot(spec, task), time)


@inlined
def count_waiting(spec, state, lane, task, change):
    """Count a job that joins its task's queue (1) or leaves it (-1); plan the expiry of the head that is left."""
    header = state.lanes[lane]
    queue = state.tasks[lane, task]
    queue.length += change
    queue.stale = 1
    header.waiting += change
    if queue.length == (1 if change > 0 else 0):
        header.waiting_tasks += change
    header.backlog += change * spec.tasks[task].fastest


@inlined
def enqueue(spec, state, lane, task, job):
    """Let a released job wait at the end of its task's queue."""
    queue = state.tasks[lane, task]
    place = queue.head + queue.length
    if place >= state.queue.shape[1]:
        place -= state.queue.shape[1]
    entry = state.queue[lane, place, task]
    entry.index = job
    entry.release = state.lanes[lane].now
    if spec.device[0].preemption != NO_PREEMPTION:
        state.kept[lane, place, task].variant = -1
    count_waiting(spec, state, lane, task, 1)
    if queue.length == 1:
        schedule_expiry(spec, state, lane, task)


@inlined
def dequeue(spec, state, lane, task):
    """Take the oldest waiting job out of its task's queue; the lane's `taken` fields show it."""
    header = state.lanes[lane]
    queue = state.tasks[lane, task]
    place = queue.head
    header.taken_job = state.queue[lane, place, task].index
    header.taken_release = state.queue[lane, place, task].release
    if spec.device[0].preemption != NO_PREEMPTION:
        kept = state.kept[lane, place, task]
        header.taken_variant = kept.variant
        header.taken_stage = kept.stage
        header.taken_work = kept.work
        header.taken_expected = kept.expected
    queue.head = place + 1 if place + 1 < state.queue.shape[1] else 0
    count_waiting(spec, state, lane, task, -1)
    if queue.length == 0:
        # An empty ring starts again at its first place, which is still in the processor's cache.
        queue.head = 0
    schedule_expiry(spec, state, lane, task)


@kernel
def requeue(spec, state, lane, stream):
    """Let an interrupted job wait again, in its place in the order of release, with what it keeps of its run."""
    running = state.streams[lane, stream]
    task = running.task
    queue = state.tasks[lane, task]
    ring = state.queue.shape[1]
    place = queue.head - 1 if queue.head > 0 else ring - 1
    queue.head = place
    for _ in range(queue.length):
        after = place + 1 if place + 1 < ring else 0
        if state.queue[lane, after, task].index > running.job:
            break
        state.queue[lane, place, task].index = state.queue[lane, after, task].index
        state.queue[lane, place, task].release = state.queue[lane, after, task].release
        copy_kept(state.kept[lane, after, task], state.kept[lane, place, task])
        place = after
    state.queue[lane, place, task].index = running.job
    state.queue[lane, place, task].release = running.release
    kept = state.kept[lane, place, task]
    kept.variant = -1 if spec.device[0].preemption == RESTART else running.variant
    kept.stage = state.courses[lane, stream].stage
    kept.work = running.work
    kept.expected = running.expected
    count_waiting(spec, state, lane, task, 1)
    schedule_expiry(spec, state, lane, task)


@kernel
def copy_kept(source, target):
    """Copy what a job kept of its run."""
    target.variant = source.variant
    target.stage = source.stage
    target.work = source.work
    target.expected = source.expected


@kernel
def discard(spec, state, lane, task, job, kind):
    """Count a job that will never run."""
    record(state, lane, kind, task, job, -1, -1)
    state.lanes[lane].missed += 1
    state.terms[lane, DROPS] += spec.tasks[task].weight
    release_after(spec, state, lane, task, True)
