"""Release times and waiting queues of tasks, compiled."""

from __future__ import annotations

import math

from slipstream.families.edge.kernel.slots import arrival_slot, expiry_slot, fill_slot
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
    """Return an exponential gap of mean `mean`, at least 1 ns, from the task's own random stream."""
    gap = exponential(task_state.arrival_key, task_state.draws, mean)
    task_state.draws += 1
    return max(1, int(math.ceil(gap)))


@kernel
def begin_spells(task, task_state):
    """Draw a bursty task's initial state from its stationary distribution, and the end of its first spell."""
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
    """Return the time of the task's next release, NEVER if its trace has ended or it waits for its last job."""
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
        index = task.trace_start + task_state.released
        if task_state.burst < 0 and index < task.trace_end:
            return task_state.last_release + draw_gap(task_state, task.period)
        return spec.trace[index] if index < task.trace_end else NEVER
    return task.phase if task_state.released == 0 else NEVER


@inlined
def schedule_release(spec, state, lane, task, time):
    """Schedule the task's next release at `time`; one at or after the horizon never happens."""
    if time < spec.device[0].horizon:
        schedule(state.heap, lane, arrival_slot(spec, task), time)
    else:
        schedule(state.heap, lane, arrival_slot(spec, task), NEVER)
        state.lanes[lane].exhausted += 1


@kernel
def release_after(spec, state, lane, task, dropped):
    """Schedule the next release of a closed-loop task, whose last job has just ended."""
    closed = spec.tasks[task]
    if closed.arrival == CLOSED:
        state.lanes[lane].exhausted -= 1
        pause = max(closed.think, closed.retry) if dropped else closed.think
        schedule_release(spec, state, lane, task, state.lanes[lane].now + pause)


@inlined
def schedule_expiry(spec, state, lane, task):
    """Schedule the expiry of the task's oldest waiting job."""
    if spec.device[0].drop_late:
        queue = state.tasks[lane, task]
        time = NEVER
        if queue.length > 0:
            deadline = state.queue[lane, queue.head, task].release + spec.tasks[task].deadline
            # A job preempted after its deadline expires now.
            time = max(deadline, state.lanes[lane].now)
        schedule(state.heap, lane, expiry_slot(spec, task), time)


@kernel
def schedule_fill(spec, state, lane, task):
    """Schedule the end of the task's wait for a fuller batch, by its oldest waiting job."""
    queue, fill = state.tasks[lane, task], spec.tasks[task].fill_time
    time = NEVER
    if queue.length > 0 and fill >= 0:
        time = max(state.queue[lane, queue.head, task].release + fill, state.lanes[lane].now)
    schedule(state.heap, lane, fill_slot(spec, task), time)


@inlined
def follow_head(spec, state, lane, task):
    """Schedule the events of the task's oldest waiting job, which is another one now."""
    schedule_expiry(spec, state, lane, task)
    if spec.device[0].batches:
        schedule_fill(spec, state, lane, task)


@inlined
def count_waiting(spec, state, lane, task, change):
    """Update the counts of waiting jobs and the backlog by `change`: 1 for a job that joins, -1 for one that leaves."""
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
    """Append a released job to its task's queue."""
    queue = state.tasks[lane, task]
    position = queue.head + queue.length
    if position >= state.queue.shape[1]:
        position -= state.queue.shape[1]
    entry = state.queue[lane, position, task]
    entry.index = job
    entry.release = state.lanes[lane].now
    if spec.device[0].preemption != NO_PREEMPTION:
        state.checkpoints[lane, position, task].variant = -1
    count_waiting(spec, state, lane, task, 1)
    if queue.length == 1:
        follow_head(spec, state, lane, task)


@inlined
def dequeue(spec, state, lane, task):
    """Remove the oldest waiting job from its task's queue into the lane's `dequeued_` fields."""
    header = state.lanes[lane]
    queue = state.tasks[lane, task]
    position = queue.head
    header.dequeued_job = state.queue[lane, position, task].index
    header.dequeued_release = state.queue[lane, position, task].release
    if spec.device[0].preemption != NO_PREEMPTION:
        checkpoint = state.checkpoints[lane, position, task]
        header.dequeued_variant = checkpoint.variant
        header.dequeued_stage = checkpoint.stage
        header.dequeued_work = checkpoint.work
        header.dequeued_expected = checkpoint.expected
    queue.head = position + 1 if position + 1 < state.queue.shape[1] else 0
    count_waiting(spec, state, lane, task, -1)
    if queue.length == 0:
        # An empty ring restarts at position 0, which is still in the processor's cache.
        queue.head = 0
    follow_head(spec, state, lane, task)


@kernel
def dequeue_run(spec, state, lane, task, variant):
    """Remove the jobs of a run of `variant` from the queue into the last row of members; the oldest as `dequeue`."""
    header = state.lanes[lane]
    members = state.members[lane, spec.device[0].streams]
    goes_on = spec.device[0].preemption != NO_PREEMPTION and continues(spec, state, lane, task, variant)
    dequeue(spec, state, lane, task)
    members[0].index = header.dequeued_job
    members[0].release = header.dequeued_release
    header.dequeued_variant = variant if goes_on else -1
    stage, work, expected = header.dequeued_stage, header.dequeued_work, header.dequeued_expected
    for number in range(1, spec.variants[task, variant].jobs):
        dequeue(spec, state, lane, task)
        members[number].index = header.dequeued_job
        members[number].release = header.dequeued_release
    header.dequeued_job = members[0].index
    header.dequeued_release = members[0].release
    header.dequeued_variant = variant if goes_on else -1
    header.dequeued_stage = stage
    header.dequeued_work = work
    header.dequeued_expected = expected


@kernel
def continues(spec, state, lane, task, variant):
    """Return whether a start of `variant` goes on with an interrupted run: the same jobs, in the same kind of run."""
    queue = state.tasks[lane, task]
    jobs = spec.variants[task, variant].jobs
    if queue.length < jobs:
        return False
    position, lead = queue.head, state.queue[lane, queue.head, task].index
    for _ in range(jobs):
        checkpoint = state.checkpoints[lane, position, task]
        if checkpoint.variant != variant or checkpoint.lead != lead:
            return False
        position = position + 1 if position + 1 < state.queue.shape[1] else 0
    return True


@kernel
def requeue(spec, state, lane, stream):
    """Insert the preempted jobs of `stream` into their queue in order of release, with their checkpoint."""
    running = state.streams[lane, stream]
    if spec.device[0].batches:
        for number in range(spec.variants[running.task, running.variant].jobs):
            member = state.members[lane, stream, number]
            requeue_job(spec, state, lane, stream, member.index, member.release)
    else:
        requeue_job(spec, state, lane, stream, running.job, running.release)


@kernel
def requeue_job(spec, state, lane, stream, job, release):
    """Insert a preempted job of `stream` into its queue in order of release, with its checkpoint."""
    running = state.streams[lane, stream]
    task = running.task
    queue = state.tasks[lane, task]
    ring = state.queue.shape[1]
    position = queue.head - 1 if queue.head > 0 else ring - 1
    queue.head = position
    for _ in range(queue.length):
        after = position + 1 if position + 1 < ring else 0
        if state.queue[lane, after, task].index > job:
            break
        state.queue[lane, position, task].index = state.queue[lane, after, task].index
        state.queue[lane, position, task].release = state.queue[lane, after, task].release
        copy_checkpoint(state.checkpoints[lane, after, task], state.checkpoints[lane, position, task])
        position = after
    state.queue[lane, position, task].index = job
    state.queue[lane, position, task].release = release
    checkpoint = state.checkpoints[lane, position, task]
    checkpoint.variant = -1 if spec.device[0].preemption == RESTART else running.variant
    checkpoint.lead = running.job
    checkpoint.stage = state.runs[lane, stream].stage
    checkpoint.work = running.work
    checkpoint.expected = running.expected
    count_waiting(spec, state, lane, task, 1)
    if position == queue.head:
        follow_head(spec, state, lane, task)


@kernel
def copy_checkpoint(source, target):
    """Copy the checkpoint of a job."""
    target.variant = source.variant
    target.lead = source.lead
    target.stage = source.stage
    target.work = source.work
    target.expected = source.expected


@kernel
def discard(spec, state, lane, task, job, kind):
    """Record a job that will never run, and its cost."""
    record(state, lane, kind, task, job, -1, -1)
    state.lanes[lane].missed += 1
    state.terms[lane, DROPS] += spec.tasks[task].weight
    release_after(spec, state, lane, task, True)
