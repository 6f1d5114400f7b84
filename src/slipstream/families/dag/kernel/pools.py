"""Compiled executor pools: an executor is in the common pool, in the pool of a job or of a stage, or moving."""

from __future__ import annotations

from slipstream.families.dag.kernel.demand import assign
from slipstream.families.dag.kernel.state import IDLE, MOVING, NOWHERE
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import MOVE
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.lanes import record


@inlined
def leave_pool(state, lane, executor):
    """Remove an executor from its pool."""
    worker = state.executors[lane, executor]
    if worker.job == NOWHERE:
        state.lanes[lane].common -= 1
    elif worker.stage == NOWHERE:
        state.jobs[lane, worker.job].pooled -= 1
    else:
        state.stages[lane, worker.job, worker.stage].located -= 1


@inlined
def enter_pool(state, lane, executor, job, stage):
    """Add an executor to the pool of a stage, of a job (`stage` NOWHERE) or the common pool (`job` NOWHERE)."""
    worker = state.executors[lane, executor]
    worker.job = job
    worker.stage = stage
    if job == NOWHERE:
        state.lanes[lane].common += 1
    elif stage == NOWHERE:
        state.jobs[lane, job].pooled += 1
    else:
        state.stages[lane, job, stage].located += 1


@inlined
def decrease_supply(state, lane, job):
    """Decrease the supply of a job by one executor; free the index of a job that is done and has none left."""
    owner = state.jobs[lane, job]
    owner.supply -= 1
    owner.dirty = 1
    if owner.done and owner.supply == 0:
        owner.number = -1


@kernel
def detach(state, lane, executor):
    """Remove an executor from its pool and from its job, if any; it is no longer warm."""
    job = state.executors[lane, executor].job
    leave_pool(state, lane, executor)
    if job != NOWHERE:
        state.jobs[lane, job].local -= 1
        decrease_supply(state, lane, job)
    state.executors[lane, executor].last = -1


@inlined
def schedule_end(state, lane, executor, duration):
    """Schedule the end of an executor's task or move after `duration`, or leave it to the engine that the lane follows.

    The engine then reads the duration, and reports the end.
    """
    end = state.lanes[lane].now + duration
    if state.lanes[lane].clock > 0:
        state.executors[lane, executor].planned = duration
        end = NEVER
    schedule(state.heap, lane, executor, end)


@kernel
def send(spec, state, lane, executor, job, stage):
    """Start moving an executor to a stage of another job."""
    detach(state, lane, executor)
    worker = state.executors[lane, executor]
    worker.job = job
    worker.stage = stage
    worker.activity = MOVING
    state.jobs[lane, job].supply += 1
    assign(spec, state, lane, job, stage, 1)
    state.lanes[lane].moving += 1
    schedule_end(state, lane, executor, spec.machine[0].moving_delay)
    record(state, lane, MOVE, stage, state.jobs[lane, job].number, -1, executor)


@kernel
def return_to_pool(state, lane, executor):
    """Return an idle executor to the common pool if all tasks of its job have started, otherwise to the job's pool."""
    worker = state.executors[lane, executor]
    job = worker.job
    if job == NOWHERE:
        return
    if state.jobs[lane, job].unstarted == 0:
        detach(state, lane, executor)
        enter_pool(state, lane, executor, NOWHERE, NOWHERE)
    elif worker.stage != NOWHERE:
        leave_pool(state, lane, executor)
        enter_pool(state, lane, executor, job, NOWHERE)


@kernel
def return_all_to_pool(spec, state, lane, job, stage):
    """Apply `return_to_pool` to all idle executors of a pool."""
    for executor in range(spec.machine[0].executors):
        worker = state.executors[lane, executor]
        if worker.job == job and worker.stage == stage and worker.activity == IDLE:
            return_to_pool(state, lane, executor)
