"""Rounds, compiled: the executors of one pool, the source, are committed to stages, one stage after the other.

A commitment is kept when its executor is free: at once if it is idle, else at the end of its task.
"""

from __future__ import annotations

import numpy as np

from slipstream.families.dag.kernel.demand import anything_to_choose, assign, find_backup
from slipstream.families.dag.kernel.pools import enter_pool, leave_pool, lose_supply, send, settle, settle_all
from slipstream.families.dag.kernel.slots import arrival_slot
from slipstream.families.dag.kernel.state import CHOOSE_COUNT, CHOOSE_STAGE, IDLE, NOWHERE
from slipstream.families.dag.kernel.tasks import begin_work
from slipstream.families.dag.kernel.window import list_candidates
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import pending

# Commitments


@kernel
def commit(state, lane, count, job, stage):
    """Record that executors of the source will go to a stage, or home if the job is NOWHERE."""
    header = state.lanes[lane]
    if header.source_stage != NOWHERE:
        state.stages[lane, header.source_job, header.source_stage].outgoing += count
    header.committable -= count
    for place in range(header.commitments):
        known = state.commitments[lane, place]
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
    """Commit executors of the source to the stage that was chosen."""
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
    """Return the oldest commitment of a pool, -1 if it has none."""
    for place in range(state.lanes[lane].commitments):
        known = state.commitments[lane, place]
        if known.source_job == job and known.source_stage == stage:
            return place
    return -1


@kernel
def forget_commitment(state, lane, place):
    """Drop a commitment that all its executors have kept; the others stay in their order."""
    header = state.lanes[lane]
    header.commitments -= 1
    for later in range(place, header.commitments):
        kept, following = state.commitments[lane, later], state.commitments[lane, later + 1]
        kept.source_job = following.source_job
        kept.source_stage = following.source_stage
        kept.job = following.job
        kept.stage = following.stage
        kept.count = following.count


@kernel
def keep_commitment(spec, state, lane, executor, place):
    """Let an idle executor do what its pool is committed to."""
    promise = state.commitments[lane, place]
    home, pool, job, stage = promise.source_job, promise.source_stage, promise.job, promise.stage
    promise.count -= 1
    if promise.count == 0:
        forget_commitment(state, lane, place)
    if pool != NOWHERE:
        state.stages[lane, home, pool].outgoing -= 1
    if job == NOWHERE:
        settle(state, lane, executor)
        return
    assign(spec, state, lane, job, stage, -1)
    if job != home:
        lose_supply(state, lane, job)
    go_to_stage(spec, state, lane, executor, job, stage)


@kernel
def go_to_stage(spec, state, lane, executor, job, stage):
    """Let an idle executor serve a stage, or another one if it has no tasks left, or go home if there is none."""
    worker = state.executors[lane, executor]
    if state.stages[lane, job, stage].remaining == 0:
        found = find_backup(state, lane, worker.job)
        if found < 0:
            settle(state, lane, executor)
            return
        job = found // state.stages.shape[2]
        stage = found - job * state.stages.shape[2]
    if worker.job != job:
        send(spec, state, lane, executor, job, stage)
    elif state.stages[lane, job, stage].waiting_parents > 0:
        # It waits in the pool of the job for the parents of its stage, and goes cold.
        worker.last = -1
        leave_pool(state, lane, executor)
        enter_pool(state, lane, executor, job, NOWHERE)
    else:
        begin_work(spec, state, lane, executor, job, stage)


# Rounds


@kernel
def set_source(state, lane, job, stage):
    """Note the pool whose executors may be given away."""
    header = state.lanes[lane]
    # What is the source, and what was, shows in the nodes of the job.
    if header.source_job != NOWHERE:
        state.jobs[lane, header.source_job].touched = 1
    if job != NOWHERE:
        state.jobs[lane, job].touched = 1
    header.has_source = 1
    header.source_job = job
    header.source_stage = stage


@kernel
def begin_round(state, lane):
    """Ask for the source."""
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
    """Send what is left home, and let idle executors keep the commitments."""
    header = state.lanes[lane]
    job, stage = header.source_job, header.source_stage
    if header.committable > 0 and job != NOWHERE:
        commit(state, lane, header.committable, NOWHERE, NOWHERE)
    header.in_round = 0
    header.has_source = 0
    header.round_number += 1
    for place in range(header.commitments):
        # What was chosen in this round can be chosen again in the next.
        if state.commitments[lane, place].job != NOWHERE:
            state.jobs[lane, state.commitments[lane, place].job].touched = 1
    for executor in range(spec.machine[0].executors):
        worker = state.executors[lane, executor]
        if worker.job == job and worker.stage == stage and worker.activity == IDLE:
            place = first_commitment(state, lane, job, stage)
            if place < 0:
                return
            keep_commitment(spec, state, lane, executor, place)


@kernel
def something_is_coming(spec, state, lane):
    """Return whether an event is to come that can change what there is to choose."""
    header = state.lanes[lane]
    return header.running > 0 or header.moving > 0 or header.arrived < spec.machine[0].jobs


@kernel
def may_stop(spec, state, lane):
    """Return whether the round may end here: not where nothing would ever happen again.

    Where no event is pending, only the last pool of idle executors that could still be asked has to choose.
    """
    if something_is_coming(spec, state, lane) or state.lanes[lane].round_commitments > 0:
        return True
    return not spec.machine[0].compat and another_pool_is_left(state, lane)


@kernel
def another_pool_is_left(state, lane):
    """Return whether a pool other than the source has idle executors and has not stopped since the last event."""
    header = state.lanes[lane]
    if header.source_job != NOWHERE and header.common > 0 and header.stopped != header.events:
        return True
    for place in range(header.active):
        job = state.order[lane, place]
        if job != header.source_job and pool_is_left(state, lane, job):
            return True
    return False


@inlined
def pool_is_left(state, lane, job):
    """Return whether the pool of a job has idle executors and has not stopped since the last event."""
    owner = state.jobs[lane, job]
    return owner.pooled > 0 and owner.stopped != state.lanes[lane].events


@kernel
def stop_round(spec, state, lane):
    """End the round by choice; a pool that leaves all to the others is not asked again before the next event."""
    header = state.lanes[lane]
    if not something_is_coming(spec, state, lane) and header.round_commitments == 0:
        if header.source_job == NOWHERE:
            header.stopped = header.events
        else:
            state.jobs[lane, header.source_job].stopped = header.events
    end_round(spec, state, lane)


@kernel
def open_round(spec, state, lane):
    """Begin a round at the source if it has executors to give and there is a stage to give them to."""
    header = state.lanes[lane]
    begin_round(state, lane)
    if header.committable > 0:
        if anything_to_choose(state, lane):
            return True
        settle_all(spec, state, lane, header.source_job, header.source_stage)
    header.in_round = 0
    header.has_source = 0
    return False


@kernel
def look_for_round(spec, state, lane):
    """Return whether there is something to choose now; if so, list it."""
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
    if not asking and header.active > 0 and not something_is_coming(spec, state, lane):
        set_source(state, lane, idle_job(state, lane), NOWHERE)
        asking = open_round(spec, state, lane)
    if asking:
        list_candidates(spec, state, lane)
    return asking


@kernel
def idle_job(state, lane):
    """Return the oldest job whose pool is left to be asked; NOWHERE if the common pool is."""
    header = state.lanes[lane]
    if header.common > 0 and header.stopped != header.events:
        return NOWHERE
    place = 0
    while not pool_is_left(state, lane, state.order[lane, place]):
        place += 1
    return np.int64(state.order[lane, place])


# Choices


@kernel
def choose_stage(spec, state, lane, place):
    """Take the stage at a place of the list; ask how many executors it gets, unless only one can go."""
    header = state.lanes[lane]
    width = state.stages.shape[2]
    job = state.candidates[lane, place] // width
    header.chosen_job = job
    header.chosen_stage = state.candidates[lane, place] - job * width
    header.most = min(header.committable, np.int64(state.stages[lane, job, header.chosen_stage].demand))
    if header.most > 1:
        header.phase = CHOOSE_COUNT
    else:
        choose_count(spec, state, lane, 1)


@kernel
def choose_count(spec, state, lane, count):
    """Commit so many executors to the chosen stage; the round ends with the executors, or with the stages."""
    header = state.lanes[lane]
    header.phase = CHOOSE_STAGE
    commit_to_stage(spec, state, lane, count)
    if header.committable == 0 or not anything_to_choose(state, lane):
        end_round(spec, state, lane)
