"""Tasks, compiled: they start, they end, and with them stages and jobs."""

from __future__ import annotations

import math

from slipstream.families.dag.kernel.demand import add_demand
from slipstream.families.dag.kernel.pools import enter_pool, leave_pool, settle_all
from slipstream.families.dag.kernel.state import FIRST, FRESH, NOWHERE, REST, RUNNING
from slipstream.families.dag.kernel.waves import draw_duration
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import DONE, FAIL, START
from slipstream.sim.kernel.heap import schedule
from slipstream.sim.kernel.lanes import record


@kernel
def count_busy(header):
    """Count the time that executors have spent on tasks up to now."""
    header.busy_time += header.running * (header.now - header.busy_counted)
    header.busy_counted = header.now


@kernel
def count_jobs(spec, header):
    """Count the time that jobs have spent in the system up to now."""
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
    end = now + draw_duration(spec, state, lane, job, stage, executor, wave)
    own.remaining -= 1
    own.started += 1
    if own.remaining == 0:
        owner.unstarted -= 1
    add_demand(spec, state, lane, job, stage, -1)
    state.executors[lane, executor].began = now
    schedule(state.heap, lane, executor, end)
    record(state, lane, START, stage, owner.number, wave, executor)


@kernel
def begin_work(spec, state, lane, executor, job, stage):
    """Let an idle executor begin to serve a stage of the job where it is."""
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
def begin_again(spec, state, lane, job, stage):
    """Let a stage that has failed have all its tasks before it."""
    owner, own = state.jobs[lane, job], state.stages[lane, job, stage]
    source = spec.stages[owner.first_stage + stage]
    own.failures += 1
    own.remaining = source.tasks
    own.unfinished = source.tasks
    owner.unstarted += 1
    add_demand(spec, state, lane, job, stage, source.tasks)
    record(state, lane, FAIL, stage, owner.number, -1, -1)


@kernel
def complete_stage(spec, state, lane, job, stage):
    """Note that a stage is complete; return whether stages that waited for it can begin."""
    owner = state.jobs[lane, job]
    source = spec.stages[owner.first_stage + stage]
    owner.left -= 1
    owner.edges -= source.children
    state.lanes[lane].graph_stale = 1
    opened = False
    for place in range(source.first_child, source.first_child + source.children):
        child = state.stages[lane, job, spec.children[place]]
        child.waiting_parents -= 1
        if child.waiting_parents == 0:
            opened = True
    owner.path = 0
    for other in range(owner.stages):
        if state.stages[lane, job, other].unfinished > 0:
            owner.path = max(owner.path, spec.stages[owner.first_stage + other].path)
    return opened


@kernel
def take_out(jobs, job, last):
    """Take a job out of a list that then ends at `last`; the others keep their order."""
    place = 0
    while jobs[place] != job:
        place += 1
    for later in range(place, last):
        jobs[later] = jobs[later + 1]


@kernel
def finish_job(spec, state, lane, job):
    """Let a job whose stages are complete leave; its idle executors go to the common pool."""
    header = state.lanes[lane]
    count_jobs(spec, header)
    header.active -= 1
    take_out(state.order[lane], job, header.active)
    take_out(state.by_work[lane], job, header.active)
    header.finished += 1
    state.jobs[lane, job].done = 1
    settle_all(spec, state, lane, job, NOWHERE)
    record(state, lane, DONE, -1, state.jobs[lane, job].number, -1, -1)
