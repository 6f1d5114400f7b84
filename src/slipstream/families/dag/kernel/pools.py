"""Where executors are, compiled: in the common pool, in the pool of a job or of a stage, or on their way."""

from __future__ import annotations

from slipstream.families.dag.kernel.demand import assign
from slipstream.families.dag.kernel.state import IDLE, MOVING, NOWHERE
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import MOVE
from slipstream.sim.kernel.heap import schedule
from slipstream.sim.kernel.lanes import record


@inlined
def leave_pool(state, lane, executor):
    """Take an executor out of the pool where it is."""
    place = state.executors[lane, executor]
    if place.job == NOWHERE:
        state.lanes[lane].common -= 1
    elif place.stage == NOWHERE:
        state.jobs[lane, place.job].pooled -= 1
    else:
        state.stages[lane, place.job, place.stage].located -= 1


@inlined
def enter_pool(state, lane, executor, job, stage):
    """Put an executor into a pool: of a stage, of a job, or the common one."""
    place = state.executors[lane, executor]
    place.job = job
    place.stage = stage
    if job == NOWHERE:
        state.lanes[lane].common += 1
    elif stage == NOWHERE:
        state.jobs[lane, job].pooled += 1
    else:
        state.stages[lane, job, stage].located += 1


@inlined
def lose_supply(state, lane, job):
    """Note that a job has an executor less to count on; one that is done and has none makes room for another."""
    owner = state.jobs[lane, job]
    owner.supply -= 1
    owner.touched = 1
    if owner.done and owner.supply == 0:
        owner.number = -1


@kernel
def detach(state, lane, executor):
    """Let an executor leave its pool and its job, where it has one; it goes cold."""
    job = state.executors[lane, executor].job
    leave_pool(state, lane, executor)
    if job != NOWHERE:
        state.jobs[lane, job].local -= 1
        lose_supply(state, lane, job)
    state.executors[lane, executor].last = -1


@kernel
def send(spec, state, lane, executor, job, stage):
    """Send an executor to a stage of a job where it is not."""
    detach(state, lane, executor)
    traveller = state.executors[lane, executor]
    traveller.job = job
    traveller.stage = stage
    traveller.activity = MOVING
    state.jobs[lane, job].supply += 1
    assign(spec, state, lane, job, stage, 1)
    state.lanes[lane].moving += 1
    schedule(state.heap, lane, executor, state.lanes[lane].now + spec.machine[0].moving_delay)
    record(state, lane, MOVE, stage, state.jobs[lane, job].number, -1, executor)


@kernel
def settle(state, lane, executor):
    """Let an idle executor go home: to the common pool if all tasks of its job have started, else to the job's."""
    place = state.executors[lane, executor]
    job = place.job
    if job == NOWHERE:
        return
    if state.jobs[lane, job].unstarted == 0:
        detach(state, lane, executor)
        enter_pool(state, lane, executor, NOWHERE, NOWHERE)
    elif place.stage != NOWHERE:
        leave_pool(state, lane, executor)
        enter_pool(state, lane, executor, job, NOWHERE)


@kernel
def settle_all(spec, state, lane, job, stage):
    """Let all idle executors of a pool go home."""
    for executor in range(spec.machine[0].executors):
        place = state.executors[lane, executor]
        if place.job == job and place.stage == stage and place.activity == IDLE:
            settle(state, lane, executor)
