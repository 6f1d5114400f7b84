"""Event loop of the edge machine, compiled: events and decisions. `docs/edge-machine.md` specifies it exactly.

State changes in two ways only: `apply` processes an event, `take_effect` executes a decision. A simulated lane takes
all events from the heap. A lane that follows a device takes timers from the heap as its clock passes them, and
completion times from the device (`device/lane.py`); everything else is the same.
"""

from __future__ import annotations

import numpy as np

from slipstream.families.edge.kernel.memory import weights_fit
from slipstream.families.edge.kernel.queues import (
    begin_spells,
    dequeue,
    dequeue_run,
    discard,
    enqueue,
    next_release,
    schedule_release,
)
from slipstream.families.edge.kernel.slots import arrival_slot, effect_slot, horizon_slot
from slipstream.families.edge.kernel.state import (
    BURSTY,
    DISPATCHING,
    DROPPING,
    DROPS,
    ENERGY,
    LATENESS,
    NO_PREEMPTION,
    NOTHING,
    ON_TIME_ACCURACY,
    PREEMPTING,
    UTILISATION,
    WAITING,
)
from slipstream.families.edge.kernel.streams import advance_stream, is_preemptible, preempt, start
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import ARRIVAL, DROP, EXPIRE, REJECT
from slipstream.sim.kernel.heap import NEVER, clear, earliest_slot, earliest_time, schedule
from slipstream.sim.kernel.lanes import (
    ASKING,
    LOG_FULL,
    PENDING,
    TERMINATED,
    TRUNCATED,
    begin_episode,
    end_episode,
    log_is_full,
    record,
)
from slipstream.sim.kernel.rng import stream_key

# Events


@inlined
def arrive(spec, state, lane, task):
    """Release a job of `task`: enqueue it, or reject it if the queue is full."""
    counts = state.tasks[lane, task]
    job = counts.released
    counts.released += 1
    counts.stale = 1
    state.lanes[lane].released += 1
    state.lanes[lane].alert = 1
    counts.last_release = state.lanes[lane].now
    record(state, lane, ARRIVAL, task, job, -1, -1)
    schedule_release(spec, state, lane, task, next_release(spec, spec.tasks[task], counts))
    if counts.length < spec.device[0].queue_limit:
        enqueue(spec, state, lane, task, job)
    else:
        discard(spec, state, lane, task, job, REJECT)


@kernel
def expire(spec, state, lane, task):
    """Drop the oldest waiting job of `task`, whose deadline has passed."""
    dequeue(spec, state, lane, task)
    discard(spec, state, lane, task, state.lanes[lane].dequeued_job, EXPIRE)


@inlined
def advance_clock(state, lane, time):
    """Advance the clock to `time`; accrue busy time and energy."""
    header = state.lanes[lane]
    header.busy_time += header.busy * (time - header.now)
    if header.power > 0.0:
        header.joules += header.power * ((time - header.now) * 1e-9)
    header.now = time


@inlined
def apply(spec, state, lane, slot, time):
    """Advance the clock to `time` and apply the event of `slot`."""
    device = spec.device[0]
    header = state.lanes[lane]
    advance_clock(state, lane, time)
    if slot == effect_slot(spec):
        take_effect_if_valid(spec, state, lane)
        return
    header.events += 1
    if slot < device.streams:
        advance_stream(spec, state, lane, slot)
    elif slot < arrival_slot(spec, 0):
        expire(spec, state, lane, slot - device.streams)
    elif slot < horizon_slot(spec):
        arrive(spec, state, lane, slot - arrival_slot(spec, 0))
    elif slot == horizon_slot(spec):
        end_episode(state, lane, TRUNCATED)
    else:
        # The wait for a fuller batch ends: as with every event, streams that wait are asked again.
        schedule(state.heap, lane, slot, NEVER)


@kernel
def all_work_done(spec, state, lane):
    """Return whether the episode can end early: every trace has ended, no job waits and none runs."""
    header = state.lanes[lane]
    return (
        spec.device[0].finite and header.exhausted == spec.tasks.shape[0] and header.waiting == 0 and header.busy == 0
    )


# Decisions


@inlined
def take_effect(spec, state, lane):
    """Execute the decision in flight."""
    header = state.lanes[lane]
    task, stream = header.chosen_task, header.chosen_stream
    if header.in_flight == WAITING:
        header.alert = 0
        if stream < spec.device[0].streams:
            state.streams[lane, stream].parked = header.events
    else:
        # Dequeued before the preemption: the preempted job may be an older one of the same task.
        if spec.device[0].batches and header.in_flight != DROPPING:
            dequeue_run(spec, state, lane, task, header.chosen_variant)
        else:
            dequeue(spec, state, lane, task)
        if header.in_flight == DROPPING:
            discard(spec, state, lane, task, header.dequeued_job, DROP)
        else:
            switch_cost = 0
            if header.in_flight == PREEMPTING:
                preempt(spec, state, lane, stream)
                switch_cost = spec.device[0].switch_cost
            start(spec, state, lane, stream, task, header.chosen_variant, switch_cost)
    header.in_flight = NOTHING


@kernel
def take_effect_if_valid(spec, state, lane):
    """Execute the decision after the decision time if its job and victim are still there; otherwise discard it."""
    header = state.lanes[lane]
    schedule(state.heap, lane, effect_slot(spec), NEVER)
    if header.in_flight == WAITING:
        valid = header.events == header.chosen_events
    else:
        queue = state.tasks[lane, header.chosen_task]
        valid = queue.length > 0 and state.queue[lane, queue.head, header.chosen_task].index == header.chosen_job
    if header.in_flight == PREEMPTING:
        victim = state.streams[lane, header.chosen_stream]
        valid = valid and victim.task == header.victim_task and victim.job == header.victim_job
    if valid:
        take_effect(spec, state, lane)
    else:
        header.in_flight = NOTHING


@inlined
def may_dispatch(spec, state, lane, task, variant):
    """Return whether the task's oldest waiting job may start in `variant` on the stream at its decision point."""
    device = spec.device[0]
    if state.tasks[lane, task].length == 0 or variant >= spec.tasks[task].variants:
        return False
    return device.simple or (
        state.lanes[lane].asked < device.streams
        and state.tasks[lane, task].length >= spec.variants[task, variant].jobs
        and weights_fit(spec, state, lane, task, variant, np.int64(-1))
    )


@kernel
def may_preempt(spec, state, lane, task, variant, stream):
    """Return whether the task's oldest waiting job may preempt the job that runs on `stream`."""
    return (
        state.tasks[lane, task].length > 0
        and variant < spec.tasks[task].variants
        and state.tasks[lane, task].length >= spec.variants[task, variant].jobs
        and is_preemptible(spec, state, lane, stream)
        and weights_fit(spec, state, lane, task, variant, stream)
    )


@inlined
def decode_action(spec, state, lane, action):
    """Decode `action` into a decision; an illegal action counts as wait."""
    device = spec.device[0]
    header = state.lanes[lane]
    tasks, variants = spec.variants.shape
    header.in_flight = WAITING
    header.chosen_stream = header.asked
    if 0 <= action < tasks * variants:
        task = action // variants
        variant = action - task * variants
        if may_dispatch(spec, state, lane, task, variant):
            header.in_flight = DISPATCHING
            header.chosen_task = task
            header.chosen_variant = variant
    elif tasks * variants <= action < device.first_drop:
        pair = (action - tasks * variants) // device.streams
        stream = (action - tasks * variants) - pair * device.streams
        task = pair // variants
        variant = pair - task * variants
        if may_preempt(spec, state, lane, task, variant, stream):
            header.in_flight = PREEMPTING
            header.chosen_task = task
            header.chosen_variant = variant
            header.chosen_stream = stream
            header.victim_task = state.streams[lane, stream].task
            header.victim_job = state.streams[lane, stream].job
    elif device.first_drop <= action < device.first_drop + tasks:
        task = action - device.first_drop
        if state.tasks[lane, task].length > 0:
            header.in_flight = DROPPING
            header.chosen_task = task
    header.illegal = 1 if header.in_flight == WAITING and action != device.first_drop + tasks else 0
    header.mistakes += header.illegal


@inlined
def decide(spec, state, lane, action):
    """Execute the decision of `action` at once, or schedule it after the decision time."""
    header = state.lanes[lane]
    decode_action(spec, state, lane, action)
    header.chosen_events = header.events
    if spec.device[0].decision_time == 0:
        take_effect(spec, state, lane)
    else:
        if header.in_flight != WAITING:
            queue = state.tasks[lane, header.chosen_task]
            header.chosen_job = state.queue[lane, queue.head, header.chosen_task].index
        schedule(state.heap, lane, effect_slot(spec), header.now + spec.device[0].decision_time)


@inlined
def next_decision_point(spec, state, lane):
    """Return the stream that needs a decision, the number of streams if only preemption is possible, else -1.

    Idle streams that are not parked come in order of priority: with a decision time, the first decision starts first.
    """
    device = spec.device[0]
    header = state.lanes[lane]
    if header.waiting == 0 or header.in_flight != NOTHING:
        return -1
    for rank in range(device.priority_ranks):
        for stream in range(device.streams):
            candidate = state.streams[lane, stream]
            if candidate.task < 0 and candidate.parked != header.events and spec.streams[stream].rank == rank:
                return stream
    if device.preemption != NO_PREEMPTION and header.alert and header.busy == device.streams:
        for stream in range(device.streams):
            if is_preemptible(spec, state, lane, stream):
                return device.streams
    return -1


@kernel
def end_step(spec, state, lane):
    """Compute the reward terms and the reward of the step that ends now."""
    device = spec.device[0]
    header = state.lanes[lane]
    terms = state.terms[lane]
    terms[UTILISATION] = (header.busy_time - header.step_busy_time) / (device.streams * 1e9)
    terms[ENERGY] = header.joules - header.step_joules
    header.reward = (
        device.on_time_accuracy * terms[ON_TIME_ACCURACY]
        - device.lateness * terms[LATENESS]
        - device.drops * terms[DROPS]
        + device.utilisation * terms[UTILISATION]
        - device.energy * terms[ENERGY]
    )
    header.elapsed = header.now - header.step_began


@kernel
def schedule_reported_ends(spec, state, lane):
    """Schedule the ends of runs that the device has reported, in place of the expected ones."""
    for stream in range(spec.device[0].streams):
        ended = state.streams[lane, stream].ended
        # An end reported after later events is applied now: the clock never runs backwards.
        schedule(state.heap, lane, stream, max(ended, state.lanes[lane].now))


@kernel
def resume(spec, state, lane):
    """Apply events until a decision is due, the episode ends, or the log must be flushed."""
    header = state.lanes[lane]
    header.status = ASKING
    while True:
        # After the end nothing more is recorded, so a full log must not overwrite the final status.
        if log_is_full(state, lane, spec.device[0].log_margin) and header.status == ASKING:
            header.status = LOG_FULL
            return
        if header.status == ASKING and all_work_done(spec, state, lane):
            end_episode(state, lane, TERMINATED)
        if header.status != ASKING:
            header.asked = -1
            break
        if header.clock > 0:
            schedule_reported_ends(spec, state, lane)
        time = earliest_time(state.heap, lane)
        if time > header.now and time > header.clock:
            if header.clock > 0:
                advance_clock(state, lane, header.clock)
            header.asked = next_decision_point(spec, state, lane)
            if header.asked >= 0:
                header.choices += 1
                break
            if header.in_flight == NOTHING:
                header.alert = 0
            if header.clock > 0:
                header.status = PENDING
                return
        apply(spec, state, lane, earliest_slot(state.heap, lane, time), time)
    end_step(spec, state, lane)


@kernel
def act(spec, state, lane, action):
    """Apply `action`; the reward of the first step includes everything before it."""
    header = state.lanes[lane]
    header.step_began = header.now
    if header.choices > 1:
        header.step_busy_time = header.busy_time
        header.step_joules = header.joules
        for term in range(state.terms.shape[1]):
            state.terms[lane, term] = 0.0
    decide(spec, state, lane, action)


@kernel
def begin(spec, state, lane, seed, split):
    """Reset `lane` and start the episode of `seed` and `split`."""
    header = state.lanes[lane]
    begin_episode(header, seed, split)
    header.waiting = 0
    header.waiting_tasks = 0
    header.backlog = 0
    header.released = 0
    header.finished = 0
    header.missed = 0
    header.busy = 0
    header.busy_time = 0
    header.step_busy_time = 0
    header.exhausted = 0
    header.in_flight = NOTHING
    header.power = spec.device[0].idle_power
    header.joules = 0.0
    header.step_joules = 0.0
    header.alert = 0
    header.memory_resident = 0
    header.memory_in_use = 0
    header.use_count = 0
    for term in range(state.terms.shape[1]):
        state.terms[lane, term] = 0.0
    for stream in range(spec.device[0].streams):
        state.streams[lane, stream].task = -1
        state.runs[lane, stream].active = 0
        state.streams[lane, stream].parked = -1
        state.streams[lane, stream].ended = NEVER
    clear(state.heap, lane)
    schedule(state.heap, lane, horizon_slot(spec), spec.device[0].horizon)
    for task in range(spec.tasks.shape[0]):
        counts = state.tasks[lane, task]
        counts.arrival_key = stream_key(header.key, 1 + 2 * task)
        counts.latency_key = stream_key(header.key, 2 + 2 * task)
        counts.draws = 0
        counts.released = 0
        counts.last_release = 0
        counts.burst = 0
        counts.head = 0
        counts.length = 0
        counts.running = 0
        counts.finished = 0
        counts.stale = 1
        for variant in range(state.weights.shape[2]):
            state.weights[lane, task, variant].resident = 0
            state.weights[lane, task, variant].users = 0
        if spec.tasks[task].arrival == BURSTY:
            begin_spells(spec.tasks[task], counts)
        schedule_release(spec, state, lane, task, next_release(spec, spec.tasks[task], counts))
