"""Jobs on streams, compiled: how they start, get on beside each other, are interrupted and end."""

from __future__ import annotations

import math

import numpy as np

from slipstream.families.edge.kernel.memory import leave_weights, loading_time, take_weights
from slipstream.families.edge.kernel.queues import release_after, requeue
from slipstream.families.edge.kernel.rates import join_crew, share_out
from slipstream.families.edge.kernel.state import (
    DROPS,
    EXPONENTIAL,
    LATENESS,
    LOGNORMAL,
    NO_INTERFERENCE,
    NO_PREEMPTION,
    ON_TIME_ACCURACY,
    SHARE,
    STAGE,
)
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import FAIL, FINISH, PREEMPT, READY, START
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.lanes import record
from slipstream.sim.kernel.rng import exponential, normal

LONGEST_RUN = 2.0**60
"""Runs are cut to this many ns (36 years), so that no sum of times overflows."""


@kernel
def latency_factor(spec, task_state, job):
    """Return how much longer than on average the job runs; it depends on the job alone, not on the policy."""
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


@inlined
def update_rates(spec, state, lane):
    """Give every running job the rate its co-runners leave it."""
    if spec.device[0].simple:
        update_simple_rates(spec, state, lane)
    else:
        update_any_rates(spec, state, lane)


@kernel
def update_any_rates(spec, state, lane):
    """Do that on any device."""
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
    """Do that where `share_out` could only share among all streams, or need not; most devices are like that."""
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


@inlined
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
    running.work = chosen.actual * latency_factor(spec, state.tasks[lane, task], running.job)
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


@inlined
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
    let_go(spec, state, lane, stream, False)


@inlined
def let_go(spec, state, lane, stream, dropped):
    """Free a stream from a job that is over; the others go on at the rates this leaves them."""
    task = state.streams[lane, stream].task
    vacate(spec, state, lane, stream)
    update_rates(spec, state, lane)
    if not spec.device[0].simple:
        update_power(spec, state, lane)
    release_after(spec, state, lane, task, dropped)


@kernel
def end_as_heard(spec, state, lane, stream):
    """Let a job end as the device said: finished, or failed, which counts as dropped."""
    running = state.streams[lane, stream]
    running.ended = NEVER
    if running.failed == 0:
        finish(spec, state, lane, stream)
        return
    state.lanes[lane].missed += 1
    state.terms[lane, DROPS] += spec.tasks[running.task].weight
    record(state, lane, FAIL, running.task, running.job, running.variant, stream)
    let_go(spec, state, lane, stream, True)


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


@inlined
def move_on(spec, state, lane, stream):
    """Let the stream's job come to what was planned: the end of its set-up, a border, or its finish."""
    course = state.courses[lane, stream]
    if state.lanes[lane].clock > 0:
        end_as_heard(spec, state, lane, stream)
    elif not spec.device[0].simple and course.runs == 0:
        get_ready(spec, state, lane, stream)
    elif not spec.device[0].simple and course.stop > 0.0:
        reach_border(spec, state, lane, stream)
    else:
        finish(spec, state, lane, stream)
