"""Jobs on streams, compiled: start, progress under interference, preemption and completion."""

from __future__ import annotations

import math

import numpy as np

from slipstream.families.edge.kernel.memory import acquire_weights, loading_time, release_weights
from slipstream.families.edge.kernel.queues import release_after, requeue
from slipstream.families.edge.kernel.rates import allocate_rates, set_corunner
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
    """Return the job's run time relative to the mean; it depends on the job's number alone, not on the policy."""
    device = spec.device[0]
    if device.latency_kind == LOGNORMAL:
        return math.exp(device.sigma * normal(task_state.latency_key, job) - device.half_variance)
    if device.latency_kind == EXPONENTIAL:
        return exponential(task_state.latency_key, job, 1.0)
    return 1.0


@inlined
def update_progress(running, now):
    """Subtract the work done since the last update from the remaining work."""
    done = (now - running.updated) * running.rate
    running.work = max(0.0, running.work - done)
    running.expected = max(0.0, running.expected - done)
    running.updated = now


@inlined
def schedule_next_event(spec, state, lane, stream):
    """Schedule the next stage boundary or finish of the stream's job."""
    running = state.streams[lane, stream]
    work = running.work
    if not spec.device[0].simple:
        work = max(0.0, work - state.runs[lane, stream].boundary_work)
    left = min(np.ceil(work / running.rate), LONGEST_RUN)
    schedule(state.heap, lane, stream, state.lanes[lane].now + int(left))


@inlined
def set_rate(spec, state, lane, stream, rate):
    """Set the rate of the stream's job; if it changed, schedule its next event again."""
    running = state.streams[lane, stream]
    if rate != running.rate:
        update_progress(running, state.lanes[lane].now)
        running.rate = rate
        schedule_next_event(spec, state, lane, stream)


@inlined
def update_rates(spec, state, lane):
    """Set the rate of every running job under interference."""
    if spec.device[0].simple:
        update_simple_rates(spec, state, lane)
    else:
        update_general_rates(spec, state, lane)


@kernel
def update_general_rates(spec, state, lane):
    """Set the rates on any device, by `allocate_rates`."""
    if spec.device[0].interference == NO_INTERFERENCE:
        for stream in range(spec.device[0].streams):
            if state.runs[lane, stream].active:
                set_rate(spec, state, lane, stream, 1.0)
        return
    corunners = state.corunners[lane]
    for stream in range(spec.device[0].streams):
        set_corunner(spec, corunners[stream], state.streams[lane, stream].task, state.streams[lane, stream].variant)
        corunners[stream].active = state.runs[lane, stream].active
    allocate_rates(spec, corunners)
    for stream in range(spec.device[0].streams):
        if corunners[stream].active:
            set_rate(spec, state, lane, stream, corunners[stream].rate)


@inlined
def update_simple_rates(spec, state, lane):
    """Set the rates on a simple device, where all streams share the throughput or none does."""
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
    """Recompute the power of the device from its running jobs."""
    if not spec.device[0].metered:
        return
    power = spec.device[0].idle_power
    for stream in range(spec.device[0].streams):
        if state.streams[lane, stream].task >= 0:
            power += state.runs[lane, stream].power
    state.lanes[lane].power = power


@kernel
def work_at_boundary(run, stages):
    """Return the work left at the run's next stage boundary, 0 if there is none."""
    if run.stage + 1 >= stages:
        return 0.0
    return run.total * (stages - run.stage - 1) / stages


@inlined
def record_jobs(spec, state, lane, stream, kind):
    """Record an event of every job of the stream's run."""
    running = state.streams[lane, stream]
    if spec.device[0].batches:
        rank = spec.variants[running.task, running.variant].rank
        for number in range(spec.variants[running.task, running.variant].jobs):
            record(state, lane, kind, running.task, state.members[lane, stream, number].index, rank, stream)
    else:
        record(state, lane, kind, running.task, running.job, running.variant, stream)


@inlined
def start(spec, state, lane, stream, task, variant, switch_cost):
    """Start the job dequeued last on an idle stream, after a setup where it needs one."""
    device = spec.device[0]
    header = state.lanes[lane]
    chosen = spec.variants[task, variant]
    running = state.streams[lane, stream]
    running.task = task
    running.variant = variant
    running.job = header.dequeued_job
    running.release = header.dequeued_release
    running.work = chosen.actual * latency_factor(spec, state.tasks[lane, task], running.job)
    running.expected = chosen.latency
    running.demand = chosen.demand
    running.rate = 0.0
    running.updated = header.now
    if not device.simple:
        prepare_run(spec, state, lane, stream, switch_cost)
    state.tasks[lane, task].running += 1
    header.busy += 1
    record_jobs(spec, state, lane, stream, START)
    update_rates(spec, state, lane)
    if not device.simple:
        update_power(spec, state, lane)


@kernel
def prepare_run(spec, state, lane, stream, switch_cost):
    """Prepare a run on a device that is not simple: restore its checkpoint, acquire weights, schedule the setup."""
    device = spec.device[0]
    header = state.lanes[lane]
    running, run = state.streams[lane, stream], state.runs[lane, stream]
    task, variant = running.task, running.variant
    chosen = spec.variants[task, variant]
    if device.batches:
        state.tasks[lane, task].running += chosen.jobs - 1
        for number in range(chosen.jobs):
            member = state.members[lane, device.streams, number]
            state.members[lane, stream, number].index = member.index
            state.members[lane, stream, number].release = member.release
    run.power = chosen.power
    run.total = running.work
    run.boundary_work = 0.0
    run.stage = 0
    run.boundary = -1
    if device.preemption != NO_PREEMPTION and header.dequeued_variant == variant:
        running.work = header.dequeued_work
        running.expected = header.dequeued_expected
        run.stage = header.dequeued_stage
    if device.preemption == STAGE:
        run.boundary_work = work_at_boundary(run, chosen.stages)
    setup = switch_cost
    if device.loads:
        loading = loading_time(spec, state, lane, task, variant)
        acquire_weights(spec, state, lane, task, variant, header.now + loading)
        setup += loading
    run.began = header.now + setup
    run.active = 1 if setup == 0 else 0
    if setup > 0:
        schedule(state.heap, lane, stream, run.began)


@inlined
def remove_job(spec, state, lane, stream):
    """Remove the job from its stream and cancel its event."""
    header = state.lanes[lane]
    running = state.streams[lane, stream]
    counts = state.tasks[lane, running.task]
    counts.running -= 1
    counts.stale = 1
    header.busy -= 1
    if not spec.device[0].simple:
        counts.running -= spec.variants[running.task, running.variant].jobs - 1
        state.runs[lane, stream].active = 0
        if spec.device[0].loads:
            release_weights(spec, state, lane, running.task, running.variant)
    running.task = -1
    schedule(state.heap, lane, stream, NEVER)


@kernel
def finish_setup(spec, state, lane, stream):
    """Begin the run of a job whose setup has ended."""
    running = state.streams[lane, stream]
    record_jobs(spec, state, lane, stream, READY)
    state.runs[lane, stream].active = 1
    running.updated = state.lanes[lane].now
    update_rates(spec, state, lane)


@kernel
def reach_stage_boundary(spec, state, lane, stream):
    """Complete a stage of the stream's job, which may be preempted at this instant."""
    header = state.lanes[lane]
    running, run = state.streams[lane, stream], state.runs[lane, stream]
    chosen = spec.variants[running.task, running.variant]
    run.stage += 1
    run.boundary = header.now
    running.work = run.boundary_work
    running.expected = chosen.latency * (chosen.stages - run.stage) / chosen.stages
    running.updated = header.now
    run.boundary_work = work_at_boundary(run, chosen.stages)
    schedule_next_event(spec, state, lane, stream)
    header.alert = 1


@inlined
def count_finish(spec, state, lane, stream, release):
    """Count the finish of a job of the stream, and its part of the reward."""
    header = state.lanes[lane]
    running = state.streams[lane, stream]
    task = running.task
    deadline = spec.tasks[task].deadline
    tardiness = header.now - release - deadline
    if tardiness <= 0:
        state.terms[lane, ON_TIME_ACCURACY] += spec.tasks[task].weight * spec.variants[task, running.variant].accuracy
    else:
        header.missed += 1
        state.terms[lane, LATENESS] += spec.tasks[task].weight * min(1.0, tardiness / deadline)
    state.tasks[lane, task].finished += 1
    header.finished += 1


@inlined
def finish(spec, state, lane, stream):
    """Record the finish of the stream's jobs, and free the stream."""
    running = state.streams[lane, stream]
    if spec.device[0].batches:
        for number in range(spec.variants[running.task, running.variant].jobs):
            count_finish(spec, state, lane, stream, state.members[lane, stream, number].release)
    else:
        count_finish(spec, state, lane, stream, running.release)
    record_jobs(spec, state, lane, stream, FINISH)
    free_stream(spec, state, lane, stream, False)


@inlined
def free_stream(spec, state, lane, stream, dropped):
    """Free the stream of a job that has ended; update rates and power of the others."""
    task = state.streams[lane, stream].task
    remove_job(spec, state, lane, stream)
    update_rates(spec, state, lane)
    if not spec.device[0].simple:
        update_power(spec, state, lane)
    release_after(spec, state, lane, task, dropped)


@kernel
def end_as_reported(spec, state, lane, stream):
    """End the stream's job as the device reported: finished, or failed, which counts as dropped."""
    running = state.streams[lane, stream]
    running.ended = NEVER
    if running.failed == 0:
        finish(spec, state, lane, stream)
        return
    for _ in range(spec.variants[running.task, running.variant].jobs):
        state.lanes[lane].missed += 1
        state.terms[lane, DROPS] += spec.tasks[running.task].weight
    record_jobs(spec, state, lane, stream, FAIL)
    free_stream(spec, state, lane, stream, True)


@kernel
def preempt(spec, state, lane, stream):
    """Preempt the stream's job; it returns to its queue."""
    running = state.streams[lane, stream]
    update_progress(running, state.lanes[lane].now)
    record_jobs(spec, state, lane, stream, PREEMPT)
    requeue(spec, state, lane, stream)
    remove_job(spec, state, lane, stream)


@kernel
def is_preemptible(spec, state, lane, stream):
    """Return whether the stream's job may be preempted at this instant."""
    run = state.runs[lane, stream]
    now = state.lanes[lane].now
    if state.streams[lane, stream].task < 0:
        return False
    if spec.device[0].preemption == STAGE:
        return run.boundary == now
    return run.active == 1 and run.began < now


@inlined
def advance_stream(spec, state, lane, stream):
    """Process the scheduled event of the stream's job: end of setup, stage boundary, or finish."""
    run = state.runs[lane, stream]
    if state.lanes[lane].clock > 0:
        end_as_reported(spec, state, lane, stream)
    elif not spec.device[0].simple and run.active == 0:
        finish_setup(spec, state, lane, stream)
    elif not spec.device[0].simple and run.boundary_work > 0.0:
        reach_stage_boundary(spec, state, lane, stream)
    else:
        finish(spec, state, lane, stream)
