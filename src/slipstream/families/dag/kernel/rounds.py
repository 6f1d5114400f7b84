"""Compiled rounds: the executors of one pool, the source, are committed to stages, stage by stage.

A commitment is fulfilled when its executor is free: at once if it is idle, otherwise at the end of its task.
"""

from __future__ import annotations

import numpy as np

from slipstream.families.dag.kernel.compat import asks_other_pools
from slipstream.families.dag.kernel.demand import anything_to_choose, assign, find_backup_stage
from slipstream.families.dag.kernel.pools import (
    decrease_supply,
    enter_pool,
    leave_pool,
    return_all_to_pool,
    return_to_pool,
    send,
)
from slipstream.families.dag.kernel.slots import arrival_slot
from slipstream.families.dag.kernel.state import CHOOSE_COUNT, CHOOSE_STAGE, IDLE, NOWHERE
from slipstream.families.dag.kernel.tasks import begin_work
from slipstream.families.dag.kernel.window import list_candidates
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import pending

# Commitments


@kernel
def commit(state, lane, count, job, stage):
    """Commit `count` executors of the source to a stage, or to their own pool if `job` is NOWHERE."""
    header = state.lanes[lane]
    if header.source_stage != NOWHERE:
        state.stages[lane, header.source_job, header.source_stage].outgoing += count
    header.committable -= count
    for index in range(header.commitments):
        known = state.commitments[lane, index]
        same_source = known.source_job == header.source_job and known.source_stage == header.source_stage
        if same_source and known.job == job and known.stage == stage:
            known.count += count
            return
    new = state.commitments[lane, header.commitments]
    new.source_job = header.source_job
    new.source_stage = header.source_stage
    new.job = job
    new.stage = stage
    new.count = count
    header.commitments += 1


@kernel
def commit_to_stage(spec, state, lane, count):
    """Commit `count` executors of the source to the chosen stage."""
    header = state.lanes[lane]
    job, stage = header.chosen_job, header.chosen_stage
    commit(state, lane, count, job, stage)
    assign(spec, state, lane, job, stage, count)
    if job != header.source_job:
        state.jobs[lane, job].supply += count
    state.stages[lane, job, stage].selected = header.round_number
    header.round_commitments += 1


@kernel
def first_commitment(state, lane, job, stage):
    """Return the index of the oldest commitment of a pool; -1 if it has none."""
    for index in range(state.lanes[lane].commitments):
        known = state.commitments[lane, index]
        if known.source_job == job and known.source_stage == stage:
            return index
    return -1


@kernel
def remove_commitment(state, lane, index):
    """Remove the commitment at `index`; the others keep their order."""
    header = state.lanes[lane]
    header.commitments -= 1
    for later in range(index, header.commitments):
        kept, following = state.commitments[lane, later], state.commitments[lane, later + 1]
        kept.source_job = following.source_job
        kept.source_stage = following.source_stage
        kept.job = following.job
        kept.stage = following.stage
        kept.count = following.count


@kernel
def fulfil_commitment(spec, state, lane, executor, index):
    """Fulfil the commitment at `index` with an idle executor."""
    commitment = state.commitments[lane, index]
    source_job, source_stage, job, stage = (
        commitment.source_job,
        commitment.source_stage,
        commitment.job,
        commitment.stage,
    )
    commitment.count -= 1
    if commitment.count == 0:
        remove_commitment(state, lane, index)
    if source_stage != NOWHERE:
        state.stages[lane, source_job, source_stage].outgoing -= 1
    if job == NOWHERE:
        return_to_pool(state, lane, executor)
        return
    assign(spec, state, lane, job, stage, -1)
    if job != source_job:
        decrease_supply(state, lane, job)
    go_to_stage(spec, state, lane, executor, job, stage)


@kernel
def go_to_stage(spec, state, lane, executor, job, stage):
    """Assign an idle executor to a stage, to a backup stage if no task of it is left, or to its pool."""
    worker = state.executors[lane, executor]
    if state.stages[lane, job, stage].remaining == 0:
        found = find_backup_stage(state, lane, worker.job)
        if found < 0:
            return_to_pool(state, lane, executor)
            return
        job = found // state.stages.shape[2]
        stage = found - job * state.stages.shape[2]
    if worker.job != job:
        send(spec, state, lane, executor, job, stage)
    elif state.stages[lane, job, stage].waiting_parents > 0:
        # The executor waits in the pool of the job for the parents of the stage; it is no longer warm.
        worker.last = -1
        leave_pool(state, lane, executor)
        enter_pool(state, lane, executor, job, NOWHERE)
    else:
        begin_work(spec, state, lane, executor, job, stage)


# Rounds


@kernel
def set_source(state, lane, job, stage):
    """Make a pool the source: the pool whose executors are to be committed."""
    header = state.lanes[lane]
    # Nodes show whether their job is the source.
    if header.source_job != NOWHERE:
        state.jobs[lane, header.source_job].dirty = 1
    if job != NOWHERE:
        state.jobs[lane, job].dirty = 1
    header.has_source = 1
    header.source_job = job
    header.source_stage = stage


@kernel
def begin_round(state, lane):
    """Begin a round; count the executors of the source that are not committed."""
    header = state.lanes[lane]
    header.in_round = 1
    header.round_commitments = 0
    if header.source_job == NOWHERE:
        header.committable = header.common
    elif header.source_stage == NOWHERE:
        header.committable = state.jobs[lane, header.source_job].pooled
    else:
        pool = state.stages[lane, header.source_job, header.source_stage]
        header.committable = pool.located - pool.outgoing


@kernel
def end_round(spec, state, lane):
    """Return uncommitted executors to their pool and fulfil the commitments of the idle ones."""
    header = state.lanes[lane]
    job, stage = header.source_job, header.source_stage
    if header.committable > 0 and job != NOWHERE:
        commit(state, lane, header.committable, NOWHERE, NOWHERE)
    header.in_round = 0
    header.has_source = 0
    header.round_number += 1
    for index in range(header.commitments):
        # A stage chosen in this round can be chosen again in the next one.
        if state.commitments[lane, index].job != NOWHERE:
            state.jobs[lane, state.commitments[lane, index].job].dirty = 1
    for executor in range(spec.machine[0].executors):
        worker = state.executors[lane, executor]
        if worker.job == job and worker.stage == stage and worker.activity == IDLE:
            index = first_commitment(state, lane, job, stage)
            if index < 0:
                return
            fulfil_commitment(spec, state, lane, executor, index)


@kernel
def has_future_events(spec, state, lane):
    """Return whether a task end, a move or an arrival is still to come."""
    header = state.lanes[lane]
    return header.running > 0 or header.moving > 0 or header.arrived < header.jobs


@kernel
def may_stop(spec, state, lane):
    """Return whether the round may end now: not if the simulation would then never advance.

    Without future events, only the last pool of idle executors that has not stopped must choose a stage.
    """
    if has_future_events(spec, state, lane) or state.lanes[lane].round_commitments > 0:
        return True
    return asks_other_pools(spec) and another_pool_can_choose(state, lane)


@kernel
def another_pool_can_choose(state, lane):
    """Return whether a pool other than the source has idle executors and has not stopped since the last event."""
    header = state.lanes[lane]
    if header.source_job != NOWHERE and header.common > 0 and header.stopped != header.events:
        return True
    for index in range(header.active):
        job = state.order[lane, index]
        if job != header.source_job and pool_can_choose(state, lane, job):
            return True
    return False


@inlined
def pool_can_choose(state, lane, job):
    """Return whether the pool of a job has idle executors and has not stopped since the last event."""
    owner = state.jobs[lane, job]
    return owner.pooled > 0 and owner.stopped != state.lanes[lane].events


@kernel
def stop_round(spec, state, lane):
    """End the round by decision; without future events, a pool without commitments is skipped until the next event."""
    header = state.lanes[lane]
    if not has_future_events(spec, state, lane) and header.round_commitments == 0:
        if header.source_job == NOWHERE:
            header.stopped = header.events
        else:
            state.jobs[lane, header.source_job].stopped = header.events
    end_round(spec, state, lane)


@kernel
def open_round(spec, state, lane):
    """Begin a round if the source has uncommitted executors and a stage can be chosen; return whether it began."""
    header = state.lanes[lane]
    begin_round(state, lane)
    if header.committable > 0:
        if anything_to_choose(state, lane):
            return True
        return_all_to_pool(spec, state, lane, header.source_job, header.source_stage)
    header.in_round = 0
    header.has_source = 0
    return False


@kernel
def find_round(spec, state, lane):
    """Return whether a decision is due now; if so, list its candidates."""
    header = state.lanes[lane]
    if header.phase == CHOOSE_COUNT:
        return True
    asking = header.in_round != 0
    if not asking and header.has_source:
        asking = open_round(spec, state, lane)
    arrivals_to_come = pending(state.heap, lane, arrival_slot(spec)) == header.now
    if not asking and header.common_due and not arrivals_to_come:
        header.common_due = 0
        set_source(state, lane, NOWHERE, NOWHERE)
        asking = open_round(spec, state, lane)
    if not asking and header.active > 0 and not has_future_events(spec, state, lane):
        set_source(state, lane, idle_job(state, lane), NOWHERE)
        asking = open_round(spec, state, lane)
    if asking:
        list_candidates(spec, state, lane)
    return asking


@kernel
def idle_job(state, lane):
    """Return the oldest job whose pool can still choose; NOWHERE if the common pool can."""
    header = state.lanes[lane]
    if header.common > 0 and header.stopped != header.events:
        return NOWHERE
    index = 0
    while not pool_can_choose(state, lane, state.order[lane, index]):
        index += 1
    return np.int64(state.order[lane, index])


# Decisions


@kernel
def choose_stage(spec, state, lane, index):
    """Choose the stage at `index` of the candidates; its number of executors is the next decision unless it is 1."""
    header = state.lanes[lane]
    width = state.stages.shape[2]
    job = state.candidates[lane, index] // width
    header.chosen_job = job
    header.chosen_stage = state.candidates[lane, index] - job * width
    header.most = min(header.committable, np.int64(state.stages[lane, job, header.chosen_stage].demand))
    if header.most > 1:
        header.phase = CHOOSE_COUNT
    else:
        choose_count(spec, state, lane, 1)


@kernel
def choose_count(spec, state, lane, count):
    """Commit `count` executors to the chosen stage; end the round if no executor or no stage is left."""
    header = state.lanes[lane]
    header.phase = CHOOSE_STAGE
    commit_to_stage(spec, state, lane, count)
    if header.committable == 0 or not anything_to_choose(state, lane):
        end_round(spec, state, lane)
