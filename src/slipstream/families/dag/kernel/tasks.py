"""Compiled life cycle of tasks, stages and jobs."""

from __future__ import annotations

import math

from slipstream.families.dag.kernel.demand import add_demand
from slipstream.families.dag.kernel.pools import enter_pool, leave_pool, return_all_to_pool, schedule_end
from slipstream.families.dag.kernel.state import FIRST, FRESH, NOWHERE, REST, RUNNING
from slipstream.families.dag.kernel.waves import draw_duration
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import DONE, FAIL, START
from slipstream.sim.kernel.lanes import record


@kernel
def count_busy(header):
    """Accrue executor busy time up to now."""
    header.busy_time += header.running * (header.now - header.busy_counted)
    header.busy_counted = header.now


@kernel
def count_jobs(spec, header):
    """Accrue job time, and its discounted value, up to now."""
    header.job_time += header.active * (header.now - header.counted)
    rate = spec.machine[0].discount
    if rate > 0.0:
        since, until = header.counted - header.step_began, header.now - header.step_began
        header.discounted += header.active * ((math.exp(-rate * since) - math.exp(-rate * until)) / rate)
    header.counted = header.now


@inlined
def start_task(spec, state, lane, executor, job, stage, wave):
    """Start the next task of a stage on an executor in its pool."""
    now = state.lanes[lane].now
    owner = state.jobs[lane, job]
    own = state.stages[lane, job, stage]
    duration = draw_duration(spec, state, lane, job, stage, executor, wave)
    own.remaining -= 1
    own.started += 1
    if own.remaining == 0:
        owner.unstarted -= 1
    add_demand(spec, state, lane, job, stage, -1)
    worker = state.executors[lane, executor]
    worker.began = now
    worker.wave = wave
    worker.local = owner.local
    schedule_end(state, lane, executor, duration)
    record(state, lane, START, stage, owner.number, wave, executor)


@kernel
def begin_work(spec, state, lane, executor, job, stage):
    """Move an idle executor into the pool of a stage of its job and start a task."""
    leave_pool(state, lane, executor)
    enter_pool(state, lane, executor, job, stage)
    count_busy(state.lanes[lane])
    state.lanes[lane].running += 1
    worker = state.executors[lane, executor]
    worker.activity = RUNNING
    wave = FRESH if worker.last < 0 else REST if worker.last == stage else FIRST
    worker.last = stage
    start_task(spec, state, lane, executor, job, stage, wave)


@kernel
def restart_stage(spec, state, lane, job, stage):
    """Restart a failed stage with all its tasks."""
    owner, own = state.jobs[lane, job], state.stages[lane, job, stage]
    source = spec.stages[owner.first_stage + stage]
    own.failures += 1
    own.remaining = source.tasks
    own.unfinished = source.tasks
    owner.unstarted += 1
    add_demand(spec, state, lane, job, stage, source.tasks)
    record(state, lane, FAIL, stage, owner.number, -1, -1)


@kernel
def retry_task(spec, state, lane, executor, job, stage):
    """Start the task of an executor once more, which failed on the engine that the lane follows."""
    owner, own = state.jobs[lane, job], state.stages[lane, job, stage]
    state.executors[lane, executor].failed = 0
    record(state, lane, FAIL, stage, owner.number, -1, executor)
    if own.remaining == 0:
        owner.unstarted += 1
    own.remaining += 1
    add_demand(spec, state, lane, job, stage, 1)
    start_task(spec, state, lane, executor, job, stage, REST)


@kernel
def complete_stage(spec, state, lane, job, stage):
    """Mark a stage as complete; return whether children of it can begin."""
    owner = state.jobs[lane, job]
    source = spec.stages[owner.first_stage + stage]
    owner.left -= 1
    owner.edges -= source.children
    state.lanes[lane].graph_stale = 1
    opened = False
    for offset in range(source.first_child, source.first_child + source.children):
        child = state.stages[lane, job, spec.children[offset]]
        child.waiting_parents -= 1
        if child.waiting_parents == 0:
            opened = True
    owner.path = 0
    for other in range(owner.stages):
        if state.stages[lane, job, other].unfinished > 0:
            owner.path = max(owner.path, spec.stages[owner.first_stage + other].path)
    return opened


@kernel
def remove_job(jobs, job, last):
    """Remove `job` from `jobs`, which then has `last` elements; the others keep their order."""
    index = 0
    while jobs[index] != job:
        index += 1
    for later in range(index, last):
        jobs[later] = jobs[later + 1]


@kernel
def finish_job(spec, state, lane, job):
    """Remove a complete job from the system; its idle executors return to the common pool."""
    header = state.lanes[lane]
    count_jobs(spec, header)
    header.active -= 1
    remove_job(state.order[lane], job, header.active)
    remove_job(state.by_work[lane], job, header.active)
    header.finished += 1
    state.jobs[lane, job].done = 1
    return_all_to_pool(spec, state, lane, job, NOWHERE)
    record(state, lane, DONE, -1, state.jobs[lane, job].number, -1, -1)
