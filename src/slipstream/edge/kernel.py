"""The edge machine, compiled: state, events and choices. `docs/edge-machine.md` says exactly what it does.

State changes in two ways only: `apply` an event, or let a choice take effect (`take_effect`). The simulator takes its
events from the heap; everything else would be the same on a device.
"""

from __future__ import annotations

import math

import numpy as np

from slipstream.core.eventlog import ARRIVAL, DROP, END, EXPIRE, FINISH, PREEMPT, READY, REJECT, START
from slipstream.core.heap import NEVER, clear, earliest_slot, earliest_time, schedule
from slipstream.core.jit import inlined, kernel
from slipstream.core.lanes import ASKING, LOG_FULL, TERMINATED, TRUNCATED, record
from slipstream.core.rng import episode_key, exponential, normal, stream_key, uniform
from slipstream.edge.memory import fit, leave_weights, loading_time, take_weights
from slipstream.edge.rates import join_crew, share_out
from slipstream.edge.state import (
    BURSTY,
    CLOSED,
    DISPATCHING,
    DROPPING,
    DROPS,
    ENERGY,
    EXPONENTIAL,
    LATENESS,
    LOGNORMAL,
    NO_INTERFERENCE,
    NO_PREEMPTION,
    NOTHING,
    ON_TIME_ACCURACY,
    PERIODIC,
    POISSON,
    PREEMPTING,
    RESTART,
    SHARE,
    STAGE,
    TRACE,
    UTILISATION,
    WAITING,
)

LONGEST_RUN = 2.0**60
"""Runs are cut to this many ns (36 years), so that no sum of times overflows."""

# Event slots, in the order in which simultaneous events are applied: what each stream's job comes to next, expiry of
# each task's oldest job, release of each task, horizon, effect of a choice.


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


# Releases


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


# Queues


@inlined
def schedule_expiry(spec, state, lane, task):
    """Plan the expiry of the task's oldest waiting job."""
    if spec.device[0].drop_late:
        queue = state.tasks[lane, task]
        time = NEVER
        if queue.length > 0:
            deadline = state.queue[lane, task, queue.head].release + spec.tasks[task].deadline
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
    if place >= state.queue.shape[2]:
        place -= state.queue.shape[2]
    entry = state.queue[lane, task, place]
    entry.index = job
    entry.release = state.lanes[lane].now
    if spec.device[0].preemption != NO_PREEMPTION:
        state.kept[lane, task, place].variant = -1
    count_waiting(spec, state, lane, task, 1)
    if queue.length == 1:
        schedule_expiry(spec, state, lane, task)


@inlined
def dequeue(spec, state, lane, task):
    """Take the oldest waiting job out of its task's queue; the lane's `taken` fields show it."""
    header = state.lanes[lane]
    queue = state.tasks[lane, task]
    place = queue.head
    header.taken_job = state.queue[lane, task, place].index
    header.taken_release = state.queue[lane, task, place].release
    if spec.device[0].preemption != NO_PREEMPTION:
        kept = state.kept[lane, task, place]
        header.taken_variant = kept.variant
        header.taken_stage = kept.stage
        header.taken_work = kept.work
        header.taken_expected = kept.expected
    queue.head = place + 1 if place + 1 < state.queue.shape[2] else 0
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
    ring = state.queue.shape[2]
    place = queue.head - 1 if queue.head > 0 else ring - 1
    queue.head = place
    for _ in range(queue.length):
        after = place + 1 if place + 1 < ring else 0
        if state.queue[lane, task, after].index > running.job:
            break
        state.queue[lane, task, place].index = state.queue[lane, task, after].index
        state.queue[lane, task, place].release = state.queue[lane, task, after].release
        copy_kept(state.kept[lane, task, after], state.kept[lane, task, place])
        place = after
    state.queue[lane, task, place].index = running.job
    state.queue[lane, task, place].release = running.release
    kept = state.kept[lane, task, place]
    kept.variant = -1 if spec.device[0].preemption == RESTART else running.variant
    kept.stage = state.courses[lane, stream].stage
    kept.work = running.work
    kept.expected = running.expected
    count_waiting(spec, state, lane, task, 1)
    schedule_expiry(spec, state, lane, task)


@kernel
def copy_kept(source, target):
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


@inlined
def bring_up_to_date(running, now):
    """Account for the work done since the last time."""
    done = (now - running.updated) * running.rate
    running.work = max(0.0, running.work - done)
    running.expected = max(0.0, running.expected - done)
    running.updated = now


@inlined
def plan_next(spec, state, lane, stream):
    """Plan the border or finish that the stream's job comes to next."""
    running = state.streams[lane, stream]
    work = running.work
    if not spec.device[0].simple:
        work = max(0.0, work - state.courses[lane, stream].stop)
    left = min(np.ceil(work / running.rate), LONGEST_RUN)
    schedule(state.heap, lane, stream, state.lanes[lane].now + int(left))


@inlined
def set_rate(spec, state, lane, stream, rate):
    """Give a running job a rate, and a new time for its event if that is another than before."""
    running = state.streams[lane, stream]
    if rate != running.rate:
        bring_up_to_date(running, state.lanes[lane].now)
        running.rate = rate
        plan_next(spec, state, lane, stream)


@kernel
def update_rates(spec, state, lane):
    """Give every running job the rate its co-runners leave it."""
    if spec.device[0].simple:
        update_simple_rates(spec, state, lane)
        return
    if spec.device[0].interference == NO_INTERFERENCE:
        for stream in range(spec.device[0].streams):
            if state.courses[lane, stream].runs:
                set_rate(spec, state, lane, stream, 1.0)
        return
    crew = state.crew[lane]
    for stream in range(spec.device[0].streams):
        join_crew(spec, crew[stream], state.streams[lane, stream].task, state.streams[lane, stream].variant)
        crew[stream].runs = state.courses[lane, stream].runs
    share_out(spec, crew)
    for stream in range(spec.device[0].streams):
        if crew[stream].runs:
            set_rate(spec, state, lane, stream, crew[stream].rate)


@inlined
def update_simple_rates(spec, state, lane):
    """Do the same where `share_out` could only share among all streams, or need not; most devices are like that."""
    device = spec.device[0]
    shared = device.interference == SHARE and state.lanes[lane].busy > 1
    total = 0.0
    if shared:
        for stream in range(device.streams):
            if state.streams[lane, stream].task >= 0:
                total += state.streams[lane, stream].demand
    for stream in range(device.streams):
        running = state.streams[lane, stream]
        if running.task >= 0:
            set_rate(spec, state, lane, stream, min(1.0, device.throughput * running.demand / total) if shared else 1.0)


@kernel
def update_power(spec, state, lane):
    """Add up what the device draws from now on."""
    if not spec.device[0].metered:
        return
    power = spec.device[0].idle_power
    for stream in range(spec.device[0].streams):
        if state.streams[lane, stream].task >= 0:
            power += state.courses[lane, stream].power
    state.lanes[lane].power = power


@kernel
def work_at_border(course, stages):
    """Return the work left at the run's next border, 0 if none is to come."""
    if course.stage + 1 >= stages:
        return 0.0
    return course.total * (stages - course.stage - 1) / stages


@kernel
def start(spec, state, lane, stream, task, variant, switch_cost):
    """Start the job that left its queue last on an idle stream, after a set-up where it needs one."""
    device = spec.device[0]
    header = state.lanes[lane]
    chosen = spec.variants[task, variant]
    running = state.streams[lane, stream]
    running.task = task
    running.variant = variant
    running.job = header.taken_job
    running.release = header.taken_release
    running.work = chosen.latency * latency_factor(spec, state.tasks[lane, task], running.job)
    running.expected = chosen.latency
    running.demand = chosen.demand
    running.rate = 0.0
    running.updated = header.now
    if not device.simple:
        prepare_run(spec, state, lane, stream, switch_cost)
    state.tasks[lane, task].running += 1
    header.busy += 1
    record(state, lane, START, task, running.job, variant, stream)
    update_rates(spec, state, lane)
    if not device.simple:
        update_power(spec, state, lane)


@kernel
def prepare_run(spec, state, lane, stream, switch_cost):
    """Do what only some devices need at a start: bring weights, go on where an interrupted run stopped, set up."""
    device = spec.device[0]
    header = state.lanes[lane]
    running, course = state.streams[lane, stream], state.courses[lane, stream]
    task, variant = running.task, running.variant
    chosen = spec.variants[task, variant]
    course.power = chosen.power
    course.total = running.work
    course.stop = 0.0
    course.stage = 0
    course.border = -1
    if device.preemption != NO_PREEMPTION and header.taken_variant == variant:
        running.work = header.taken_work
        running.expected = header.taken_expected
        course.stage = header.taken_stage
    if device.preemption == STAGE:
        course.stop = work_at_border(course, chosen.stages)
    setup = switch_cost
    if device.loads:
        loading = loading_time(spec, state, lane, task, variant)
        take_weights(spec, state, lane, task, variant, header.now + loading)
        setup += loading
    course.began = header.now + setup
    course.runs = 1 if setup == 0 else 0
    if setup > 0:
        schedule(state.heap, lane, stream, course.began)


@inlined
def vacate(spec, state, lane, stream):
    """Take the job off its stream."""
    header = state.lanes[lane]
    running = state.streams[lane, stream]
    counts = state.tasks[lane, running.task]
    counts.running -= 1
    counts.stale = 1
    header.busy -= 1
    if not spec.device[0].simple:
        state.courses[lane, stream].runs = 0
        if spec.device[0].loads:
            leave_weights(spec, state, lane, running.task, running.variant)
    running.task = -1
    schedule(state.heap, lane, stream, NEVER)


@kernel
def get_ready(spec, state, lane, stream):
    """Let a job that has ended its set-up run."""
    running = state.streams[lane, stream]
    record(state, lane, READY, running.task, running.job, running.variant, stream)
    state.courses[lane, stream].runs = 1
    running.updated = state.lanes[lane].now
    update_rates(spec, state, lane)


@kernel
def reach_border(spec, state, lane, stream):
    """Note that the stream's job has one more stage behind it; here it may be interrupted."""
    header = state.lanes[lane]
    running, course = state.streams[lane, stream], state.courses[lane, stream]
    chosen = spec.variants[running.task, running.variant]
    course.stage += 1
    course.border = header.now
    running.work = course.stop
    running.expected = chosen.latency * (chosen.stages - course.stage) / chosen.stages
    running.updated = header.now
    course.stop = work_at_border(course, chosen.stages)
    plan_next(spec, state, lane, stream)
    header.alert = 1


@kernel
def finish(spec, state, lane, stream):
    """Take the finished job off its stream and count it."""
    header = state.lanes[lane]
    running = state.streams[lane, stream]
    task = running.task
    deadline = spec.tasks[task].deadline
    tardiness = header.now - running.release - deadline
    if tardiness <= 0:
        state.terms[lane, ON_TIME_ACCURACY] += spec.tasks[task].weight * spec.variants[task, running.variant].accuracy
    else:
        header.missed += 1
        state.terms[lane, LATENESS] += spec.tasks[task].weight * min(1.0, tardiness / deadline)
    state.tasks[lane, task].finished += 1
    header.finished += 1
    record(state, lane, FINISH, task, running.job, running.variant, stream)
    vacate(spec, state, lane, stream)
    update_rates(spec, state, lane)
    if not spec.device[0].simple:
        update_power(spec, state, lane)
    release_after(spec, state, lane, task, False)


@kernel
def interrupt(spec, state, lane, stream):
    """Take a running job off its stream; it waits again."""
    running = state.streams[lane, stream]
    bring_up_to_date(running, state.lanes[lane].now)
    record(state, lane, PREEMPT, running.task, running.job, running.variant, stream)
    requeue(spec, state, lane, stream)
    vacate(spec, state, lane, stream)


@kernel
def can_be_interrupted(spec, state, lane, stream):
    """Return whether the stream holds a job that another may displace at this instant."""
    course = state.courses[lane, stream]
    now = state.lanes[lane].now
    if state.streams[lane, stream].task < 0:
        return False
    if spec.device[0].preemption == STAGE:
        return course.border == now
    return course.runs == 1 and course.began < now


@kernel
def move_on(spec, state, lane, stream):
    """Let the stream's job come to what was planned: the end of its set-up, a border, or its finish."""
    if spec.device[0].simple:
        finish(spec, state, lane, stream)
    elif state.courses[lane, stream].runs == 0:
        get_ready(spec, state, lane, stream)
    elif state.courses[lane, stream].stop > 0.0:
        reach_border(spec, state, lane, stream)
    else:
        finish(spec, state, lane, stream)


# Events


@kernel
def arrive(spec, state, lane, task):
    """Release a job: it waits, or is rejected where the queue is full."""
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
    """Drop the oldest waiting job of a task at its deadline."""
    dequeue(spec, state, lane, task)
    discard(spec, state, lane, task, state.lanes[lane].taken_job, EXPIRE)


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
    if header.power > 0.0:
        header.joules += header.power * ((time - header.now) * 1e-9)
    header.now = time
    if slot == effect_slot(spec):
        take_effect_if_fresh(spec, state, lane)
        return
    header.events += 1
    if slot < device.streams:
        move_on(spec, state, lane, slot)
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
    task, stream = header.chosen_task, header.chosen_stream
    if header.in_flight == DISPATCHING:
        dequeue(spec, state, lane, task)
        start(spec, state, lane, stream, task, header.chosen_variant, 0)
    elif header.in_flight == PREEMPTING:
        # First out of the queue: the interrupted job may be an older one of the same task.
        dequeue(spec, state, lane, task)
        interrupt(spec, state, lane, stream)
        start(spec, state, lane, stream, task, header.chosen_variant, spec.device[0].switch_cost)
    elif header.in_flight == DROPPING:
        dequeue(spec, state, lane, task)
        discard(spec, state, lane, task, header.taken_job, DROP)
    else:
        header.alert = 0
        if stream < spec.device[0].streams:
            state.streams[lane, stream].parked = header.events
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
    if header.in_flight == PREEMPTING:
        victim = state.streams[lane, header.chosen_stream]
        fresh = fresh and victim.task == header.victim_task and victim.job == header.victim_job
    if fresh:
        take_effect(spec, state, lane)
    else:
        header.in_flight = NOTHING


@inlined
def may_dispatch(spec, state, lane, task, variant):
    """Return whether the task's oldest waiting job may start on the stream that is asked."""
    device = spec.device[0]
    if state.tasks[lane, task].length == 0 or variant >= spec.tasks[task].variants:
        return False
    return device.simple or (
        state.lanes[lane].asked < device.streams and fit(spec, state, lane, task, variant, np.int64(-1))
    )


@kernel
def may_preempt(spec, state, lane, task, variant, stream):
    """Return whether the task's oldest waiting job may take the stream from the job that runs there."""
    return (
        state.tasks[lane, task].length > 0
        and variant < spec.tasks[task].variants
        and can_be_interrupted(spec, state, lane, stream)
        and fit(spec, state, lane, task, variant, stream)
    )


@inlined
def read_action(spec, state, lane, action):
    """Turn an action into a choice; what is not allowed counts as wait."""
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


@kernel
def decide(spec, state, lane, action):
    """Let a choice take effect, at once or after the decision time."""
    header = state.lanes[lane]
    read_action(spec, state, lane, action)
    header.chosen_events = header.events
    if spec.device[0].decision_time == 0:
        take_effect(spec, state, lane)
    else:
        if header.in_flight != WAITING:
            queue = state.tasks[lane, header.chosen_task]
            header.chosen_job = state.queue[lane, header.chosen_task, queue.head].index
        schedule(state.heap, lane, effect_slot(spec), header.now + spec.device[0].decision_time)


@inlined
def whom_to_ask(spec, state, lane):
    """Return the first stream that is idle and not parked, the device if a job could be interrupted, else -1."""
    device = spec.device[0]
    header = state.lanes[lane]
    if header.waiting == 0 or header.in_flight != NOTHING:
        return -1
    for stream in range(device.streams):
        candidate = state.streams[lane, stream]
        if candidate.task < 0 and candidate.parked != header.events:
            return stream
    if device.preemption != NO_PREEMPTION and header.alert and header.busy == device.streams:
        for stream in range(device.streams):
            if can_be_interrupted(spec, state, lane, stream):
                return device.streams
    return -1


@kernel
def end_step(spec, state, lane):
    """Add up the reward of the step that ends here."""
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
def resume(spec, state, lane):
    """Apply events until a choice is due, the episode ends, or the log must be flushed."""
    header = state.lanes[lane]
    header.status = ASKING
    while True:
        log_full = state.log.shape[1] > 0 and header.log_rows + spec.device[0].log_margin > state.log.shape[1]
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
            header.asked = whom_to_ask(spec, state, lane)
            if header.asked >= 0:
                header.choices += 1
                break
            if header.in_flight == NOTHING:
                header.alert = 0
        apply(spec, state, lane, earliest_slot(state.heap, lane, time), time)
    end_step(spec, state, lane)


@kernel
def advance(spec, state, lane, action):
    """Apply a choice and run to the next one, or to the end; the first step also gets what came before it."""
    header = state.lanes[lane]
    header.step_began = header.now
    if header.choices > 1:
        header.step_busy_time = header.busy_time
        header.step_joules = header.joules
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
    header.power = spec.device[0].idle_power
    header.joules = 0.0
    header.step_joules = 0.0
    header.alert = 0
    header.memory_taken = 0
    header.memory_in_use = 0
    header.uses = 0
    for term in range(state.terms.shape[1]):
        state.terms[lane, term] = 0.0
    for stream in range(spec.device[0].streams):
        state.streams[lane, stream].task = -1
        state.courses[lane, stream].runs = 0
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
        for variant in range(state.weights.shape[2]):
            state.weights[lane, task, variant].resident = 0
            state.weights[lane, task, variant].users = 0
        if spec.tasks[task].arrival == BURSTY:
            begin_spells(spec.tasks[task], counts)
        schedule_release(spec, state, lane, task, next_release(spec, spec.tasks[task], counts))
    resume(spec, state, lane)
