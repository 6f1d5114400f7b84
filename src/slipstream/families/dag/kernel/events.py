"""Compiled event loop of the dag simulator: events and decisions. `docs/dag-machine.md` specifies its behaviour.

State changes only by an event (`apply`) or by a decision (`decide`). A simulated lane takes all events from the heap. A
lane that follows an engine takes arrivals and the horizon from it as its clock passes them; the ends of tasks and moves
are put there when the engine reports them (`engine/lane.py`).
"""

from __future__ import annotations

from slipstream.families.dag.kernel.compat import asks_other_pools
from slipstream.families.dag.kernel.demand import assign
from slipstream.families.dag.kernel.pools import enter_pool, return_to_pool
from slipstream.families.dag.kernel.rounds import (
    choose_count,
    choose_stage,
    find_round,
    first_commitment,
    fulfil_commitment,
    go_to_stage,
    may_stop,
    set_source,
    stop_round,
)
from slipstream.families.dag.kernel.slots import arrival_slot, horizon_slot
from slipstream.families.dag.kernel.state import (
    CHOOSE_COUNT,
    CHOOSE_STAGE,
    FIXED,
    IDLE,
    JOB_SECONDS,
    MAKESPAN,
    NO_HORIZON,
    NOWHERE,
    REST,
    RUNNING,
)
from slipstream.families.dag.kernel.tasks import (
    complete_stage,
    count_busy,
    count_jobs,
    finish_job,
    restart_stage,
    retry_task,
    start_task,
)
from slipstream.families.dag.kernel.waves import DURATIONS, job_stream, stage_fails
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import ARRIVAL, FINISH, READY
from slipstream.sim.kernel.heap import NEVER, clear, earliest_slot, earliest_time, schedule
from slipstream.sim.kernel.job_stream import begin_stream, next_arrival, template_of
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
from slipstream.sim.kernel.rng import exponential_time
from slipstream.sim.kernel.window import candidate_of, is_wait

HORIZON_COUNTER = 2**40
"""Counter of the draw of a memoryless horizon in the arrival stream."""

# Arrivals


@kernel
def free_job_index(state, lane):
    """Return the first index of the job array that no job uses."""
    index = 0
    while state.jobs[lane, index].number >= 0:
        index += 1
    return index


@kernel
def arrive(spec, state, lane):
    """Add the next job to the system: draw its template, reset its state and schedule the next arrival."""
    header = state.lanes[lane]
    count_jobs(spec, header)
    job = free_job_index(state, lane)
    template = template_of(spec, header)
    source, owner = spec.templates[template], state.jobs[lane, job]
    owner.number = header.arrived
    owner.template = template
    owner.arrival = header.now
    owner.key = job_stream(header, header.arrived, DURATIONS)
    owner.path = source.path
    owner.stages = source.stages
    owner.first_stage = source.first_stage
    owner.left = source.stages
    owner.unstarted = source.stages
    owner.local = 0
    owner.supply = 0
    owner.pooled = 0
    owner.edges = source.edges
    owner.done = 0
    owner.stopped = -1
    owner.dirty = 1
    for stage in range(source.stages):
        prepare_stage(spec.stages[source.first_stage + stage], state.stages[lane, job, stage])
    state.order[lane, header.active] = job
    state.by_work[lane, header.active] = job
    header.active += 1
    header.arrived += 1
    header.common_due = 1
    header.graph_stale = 1
    record(state, lane, ARRIVAL, template, owner.number, -1, -1)
    schedule(state.heap, lane, arrival_slot(spec), next_arrival(spec, header))


@inlined
def prepare_stage(source, own):
    """Reset the state `own` of a stage of which no task has started."""
    own.remaining = source.tasks
    own.unfinished = source.tasks
    own.demand = source.tasks
    own.assigned = 0
    own.open_parents = source.parents
    own.waiting_parents = source.parents
    own.located = 0
    own.outgoing = 0
    own.selected = -1
    own.started = 0
    own.failures = 0
    own.recent = source.duration


# Executors


@kernel
def end_move(spec, state, lane, executor):
    """End the move of an executor at its job, then send it to the stage it was moved for."""
    header = state.lanes[lane]
    worker = state.executors[lane, executor]
    job, stage = worker.job, worker.stage
    schedule(state.heap, lane, executor, NEVER)
    header.moving -= 1
    worker.activity = IDLE
    state.jobs[lane, job].local += 1
    assign(spec, state, lane, job, stage, -1)
    enter_pool(state, lane, executor, job, NOWHERE)
    record(state, lane, READY, stage, state.jobs[lane, job].number, -1, executor)
    go_to_stage(spec, state, lane, executor, job, stage)


@kernel
def end_task(spec, state, lane, executor):
    """End the task of an executor; start the next task of the stage on it, or release it.

    Return whether the executor continues with the same stage: the most frequent event, after which no decision is due.
    """
    header = state.lanes[lane]
    worker = state.executors[lane, executor]
    job, stage = worker.job, worker.stage
    if worker.failed:
        retry_task(spec, state, lane, executor, job, stage)
        return True
    own = state.stages[lane, job, stage]
    own.unfinished -= 1
    own.recent = header.now - worker.began
    state.jobs[lane, job].dirty = 1
    record(state, lane, FINISH, stage, state.jobs[lane, job].number, -1, executor)
    if own.remaining == 0:
        if own.unfinished > 0 or not stage_fails(spec, state, lane, job, stage):
            release_executor(spec, state, lane, executor, job, stage)
            return False
        restart_stage(spec, state, lane, job, stage)
    start_task(spec, state, lane, executor, job, stage, REST)
    return True


@kernel
def release_executor(spec, state, lane, executor, job, stage):
    """Release an executor from a stage whose tasks have all started; set the source of the next round."""
    header = state.lanes[lane]
    schedule(state.heap, lane, executor, NEVER)
    count_busy(header)
    header.running -= 1
    state.executors[lane, executor].activity = IDLE
    opened = False
    if state.stages[lane, job, stage].unfinished == 0:
        opened = complete_stage(spec, state, lane, job, stage)
        if state.jobs[lane, job].left == 0:
            finish_job(spec, state, lane, job)
    committed = state.stages[lane, job, stage].outgoing > 0
    if committed:
        fulfil_commitment(spec, state, lane, executor, first_commitment(state, lane, job, stage))
    else:
        state.executors[lane, executor].last = -1
        if opened:
            return_to_pool(state, lane, executor)
    if opened:
        set_source(state, lane, job, NOWHERE)
        if asks_other_pools(spec):
            header.common_due = 1
    elif not committed:
        set_source(state, lane, job, stage)


# The clock


@kernel
def end_lane(state, lane, status):
    """End the episode with `status` and mark the observed graph as stale."""
    state.lanes[lane].graph_stale = 1
    end_episode(state, lane, status)


@inlined
def apply(spec, state, lane, event_slot, time):
    """Advance the clock to `time` and apply the event of `event_slot`; return whether no decision can follow."""
    header = state.lanes[lane]
    header.now = time
    header.events += 1
    if event_slot < spec.machine[0].executors:
        if state.executors[lane, event_slot].activity == RUNNING:
            return end_task(spec, state, lane, event_slot)
        end_move(spec, state, lane, event_slot)
    elif event_slot == arrival_slot(spec):
        arrive(spec, state, lane)
    else:
        end_lane(state, lane, TRUNCATED)
    return False


@kernel
def work_is_over(spec, state, lane):
    """Return whether all jobs of the episode have arrived and are done."""
    return state.lanes[lane].active == 0 and state.lanes[lane].arrived == state.lanes[lane].jobs


@kernel
def end_step(spec, state, lane):
    """Compute the reward terms, the reward and the duration of the step that ends now."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    terms = state.terms[lane]
    count_jobs(spec, header)
    time = header.discounted if machine.discount > 0.0 else header.job_time - header.step_job_time
    terms[JOB_SECONDS] = time / 1e9
    terms[MAKESPAN] = (header.now - header.step_counted) / 1e9
    header.reward = -machine.job_seconds * terms[JOB_SECONDS] - machine.makespan * terms[MAKESPAN]
    header.elapsed = header.now - header.step_began


@kernel
def resume(spec, state, lane):
    """Apply events until a decision is due, the episode ends, or the log must be flushed."""
    header = state.lanes[lane]
    margin = spec.machine[0].log_margin
    header.status = ASKING
    while True:
        # After the end nothing more is recorded, so a full log must not replace the final status.
        if log_is_full(state, lane, margin) and header.status == ASKING:
            header.status = LOG_FULL
            return
        if header.status == ASKING and work_is_over(spec, state, lane):
            end_lane(state, lane, TERMINATED)
        if header.status != ASKING:
            header.asked = -1
            break
        if find_round(spec, state, lane):
            header.asked = 0
            header.choices += 1
            break
        nothing_to_choose = True
        while nothing_to_choose and not log_is_full(state, lane, margin):
            time = earliest_time(state.heap, lane)
            if header.clock > 0 and time > header.clock:
                header.status = PENDING
                return
            nothing_to_choose = apply(spec, state, lane, earliest_slot(state.heap, lane, time), time)
    end_step(spec, state, lane)


# Decisions


@kernel
def decide(spec, state, lane, action):
    """Apply `action`; an illegal one counts as stop or, where stopping is illegal, as the first row."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    header.illegal = 0
    if header.phase == CHOOSE_COUNT:
        if not 0 <= action < header.most:
            header.illegal = 1
            action = 0
        choose_count(spec, state, lane, action + 1)
    else:
        index = candidate_of(spec, state, lane, action)
        stops = index < 0 and may_stop(spec, state, lane)
        if index < 0 and not (stops and is_wait(machine, action)):
            header.illegal = 1
        if stops:
            stop_round(spec, state, lane)
        else:
            choose_stage(spec, state, lane, max(index, 0))
    header.mistakes += header.illegal


@kernel
def act(spec, state, lane, action):
    """Apply `action` and begin a step; the first step also counts the time before it."""
    header = state.lanes[lane]
    header.step_began = header.now
    if header.choices > 1:
        header.step_job_time = header.job_time
        header.step_counted = header.now
        header.discounted = 0.0
    decide(spec, state, lane, action)


@kernel
def begin(spec, state, lane, seed, split):
    """Reset a lane and start the episode of `seed` in `split`."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    begin_episode(header, seed, split)
    begin_stream(spec, header)
    header.phase = CHOOSE_STAGE
    header.active = 0
    header.finished = 0
    header.running = 0
    header.moving = 0
    header.common = 0
    header.has_source = 0
    header.source_job = NOWHERE
    header.source_stage = NOWHERE
    header.in_round = 0
    header.committable = 0
    header.common_due = 0
    header.stopped = -1
    header.round_number = 0
    header.round_commitments = 0
    header.commitments = 0
    header.candidates = 0
    header.shown = 0
    header.shown_jobs = 0
    header.most = 0
    header.graph_stale = 1
    header.counted = 0
    header.job_time = 0
    header.step_job_time = 0
    header.step_counted = 0
    header.discounted = 0.0
    header.busy_counted = 0
    header.busy_time = 0
    for job in range(state.jobs.shape[1]):
        state.jobs[lane, job].number = -1
    clear(state.heap, lane)
    for executor in range(machine.executors):
        worker = state.executors[lane, executor]
        worker.activity = IDLE
        worker.last = -1
        worker.failed = 0
        enter_pool(state, lane, executor, NOWHERE, NOWHERE)
    if machine.horizon_kind != NO_HORIZON:
        schedule(state.heap, lane, horizon_slot(spec), draw_horizon(machine, header))
    schedule(state.heap, lane, arrival_slot(spec), next_arrival(spec, header))


@kernel
def draw_horizon(machine, header):
    """Return the time at which the episode is truncated."""
    if machine.horizon_kind == FIXED:
        return int(machine.horizon)
    return exponential_time(header.arrival_key, HORIZON_COUNTER, machine.horizon)
