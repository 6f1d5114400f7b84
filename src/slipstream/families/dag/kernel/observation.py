"""Compiled observation at a decision: globals, candidate rows and mask.

Nothing here reads a future random draw: work and paths are expectations over tasks that have not started.
"""

from __future__ import annotations

import numpy as np

from slipstream.families.dag import features as f
from slipstream.families.dag.kernel.compat import share_of_higher_level
from slipstream.families.dag.kernel.graph import write_candidate_nodes, write_graph
from slipstream.families.dag.kernel.rounds import may_stop
from slipstream.families.dag.kernel.state import (
    CHOOSE_COUNT,
    NOWHERE,
)
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.lanes import ASKING, RULE_ON_ALL, toss_coin
from slipstream.sim.kernel.observation import ROWS, ROWS_BEHIND, clear_graph, clear_rows, finish_rows, mark_legal, put
from slipstream.sim.kernel.window import filled_rows


@kernel
def prepare(spec, state, buffer):
    """Write the constant columns into every entry of the buffer."""
    machine = spec.machine[0]
    for slot in range(buffer.rows.shape[0]):
        put(buffer.globals[slot], buffer.global_image, f.EXECUTORS, machine.executors)
        put(buffer.globals[slot], buffer.global_image, f.MOVING_DELAY, machine.moving_delay)
        put(buffer.rows[slot, buffer.rows.shape[1] - 1], buffer.row_image, f.WAIT, 1.0)
        clear_graph(buffer, slot)


@inlined
def expected_duration(spec, stage, executors):
    """Return the mean time of a further task of a stage, interpolated for `executors` executors at its job."""
    between = spec.parallelism_of[min(executors, spec.machine[0].executors)]
    low, high = spec.expected[stage, between.low], spec.expected[stage, between.high]
    if between.gap == 0.0:
        return np.float64(low)
    return low + share_of_higher_level(spec, between.offset / between.gap) * (high - low)


@inlined
def write_row(spec, state, lane, job, stage, count, row, image):
    """Write the columns of the row that chooses a stage, or that assigns `count` executors to it."""
    header = state.lanes[lane]
    owner, own = state.jobs[lane, job], state.stages[lane, job, stage]
    source = spec.stages[owner.first_stage + stage]
    # Executors of the source are already at its own job.
    further = 0 if job == header.source_job else count
    serving = max(1, own.unfinished - own.remaining + own.assigned + count)
    put(row, image, f.TASKS_LEFT, own.remaining)
    put(row, image, f.TASKS_RUNNING, own.unfinished - own.remaining)
    put(row, image, f.ASSIGNED, own.assigned)
    put(row, image, f.DEMAND, own.demand)
    put(row, image, f.DURATION, source.duration)
    put(row, image, f.RECENT, own.recent)
    put(row, image, f.WORK, own.remaining * source.duration)
    put(row, image, f.PATH, source.path)
    put(row, image, f.BELOW, source.below)
    put(row, image, f.CAN_BEGIN, 1.0 if own.waiting_parents == 0 else 0.0)
    put(row, image, f.DURATION_HERE, expected_duration(spec, owner.first_stage + stage, owner.local + further))
    put(row, image, f.STAGE_TIME, own.remaining * source.duration / serving)
    put(row, image, f.JOB_WORK, owner.work)
    put(row, image, f.JOB_TASKS, owner.tasks)
    put(row, image, f.JOB_STAGES, owner.left)
    put(row, image, f.JOB_PATH, owner.path)
    put(row, image, f.JOB_SUPPLY, owner.supply)
    put(row, image, f.JOB_LOCAL, owner.local)
    put(row, image, f.JOB_TIME, max(np.float64(owner.path), owner.work / max(1, owner.supply + further)))
    put(row, image, f.JOBS_BEFORE, owner.jobs_before)
    put(row, image, f.WORK_BEFORE, owner.work_before)
    put(row, image, f.JOB_AGE, header.now - owner.arrival)
    put(row, image, f.JOB_RANK, owner.rank)
    put(row, image, f.SOURCE, 1.0 if job == header.source_job else 0.0)
    put(row, image, f.COUNT, count)
    put(row, image, f.DISPATCH, 1.0)


@kernel
def summarise(spec, state, lane, buffer, slot):
    """Write the global columns."""
    row, image = buffer.globals[slot], buffer.global_image
    machine = spec.machine[0]
    header = state.lanes[lane]
    counting = header.phase == CHOOSE_COUNT
    busy = header.busy_time + header.running * (header.now - header.busy_counted)
    put(row, image, f.TIME, header.now)
    put(row, image, f.PHASE, 1.0 if counting else 0.0)
    put(row, image, f.COMMITTABLE, header.committable)
    put(row, image, f.MOST, header.most if counting else 0)
    put(row, image, f.SOURCE_COMMON, 1.0 if header.source_job == NOWHERE else 0.0)
    put(row, image, f.IDLE, machine.executors - header.running - header.moving)
    put(row, image, f.MOVING, header.moving)
    put(row, image, f.ACTIVE_JOBS, header.active)
    put(row, image, f.ARRIVED_JOBS, header.arrived)
    put(row, image, f.CANDIDATES, header.candidates)
    put(row, image, f.HIDDEN_JOBS, header.active - header.shown_jobs)
    put(row, image, f.TOTAL_WORK, header.work)
    put(row, image, f.MEAN_GAP, machine.mean_gap if header.arrived < machine.jobs else 0.0)
    put(row, image, f.UTILISATION, busy / (machine.executors * header.now) if header.now > 0 else 0.0)
    if buffer.globals.shape[1] > f.COIN:
        beyond = header.candidates if counting else header.candidates - header.shown
        listed = header.most if counting else header.shown
        put(row, image, f.ROWS, filled_rows(machine, listed, beyond))
        put(row, image, f.PARAMETER, header.parameter)
        put(row, image, f.COIN, toss_coin(header))


@kernel
def list_legal(spec, state, lane, buffer, slot, form):
    """Write the legal rows, their packed indices and their counts; clear rows that are legal no longer.

    Rows begin at 0 in both phases, so the counts of the buffer delimit what was written before.
    """
    header = state.lanes[lane]
    counting = header.phase == CHOOSE_COUNT
    asking = header.status == ASKING
    last = buffer.mask.shape[1] - 1
    listed = 0
    if asking and counting:
        listed = header.most
        for row in range(listed):
            job, stage = header.chosen_job, header.chosen_stage
            write_row(spec, state, lane, job, stage, row + 1, buffer.rows[slot, row], buffer.row_image)
            mark_legal(buffer, slot, row, row)
    elif asking:
        listed = header.shown
        for row in range(listed):
            write_candidate(spec, state, lane, row, buffer, slot, row)
            mark_legal(buffer, slot, row, row)
    clear_rows(buffer, slot, listed, buffer.counts[slot, ROWS])
    buffer.counts[slot, ROWS] = listed
    dispatch = listed
    if last > spec.machine[0].rows:
        dispatch += list_beyond_window(spec, state, lane, buffer, slot, listed)
    stops = asking and not counting and may_stop(spec, state, lane)
    finish_rows(buffer, slot, dispatch, stops)


@inlined
def write_candidate(spec, state, lane, index, buffer, slot, row):
    """Write the row of the stage at `index` of the candidate list."""
    job = state.candidates[lane, index] // state.stages.shape[2]
    stage = state.candidates[lane, index] - job * state.stages.shape[2]
    write_row(spec, state, lane, job, stage, 0, buffer.rows[slot, row], buffer.row_image)


@kernel
def list_beyond_window(spec, state, lane, buffer, slot, listed):
    """Write the rows after those of an observation, which only heuristics see; return how many of them are legal.

    In phase 0 the stages outside the observation window; in phase 1 all stages of phase 0, none of them legal.
    """
    header = state.lanes[lane]
    first = spec.machine[0].rows + 1
    counting = header.phase == CHOOSE_COUNT
    skipped = 0 if counting else header.shown
    beyond = header.candidates - skipped if header.status == ASKING else 0
    for index in range(beyond):
        write_candidate(spec, state, lane, skipped + index, buffer, slot, first + index)
        if counting:
            buffer.mask[slot, first + index] = 0
        else:
            mark_legal(buffer, slot, first + index, listed + index)
    clear_rows(buffer, slot, first + beyond, first + buffer.counts[slot, ROWS_BEHIND])
    buffer.counts[slot, ROWS_BEHIND] = beyond
    return 0 if counting else beyond


@kernel
def observe(spec, state, lane, buffer, slot, afresh):
    """Write globals, rows and mask of the present decision, and the graph if the buffer holds one."""
    summarise(spec, state, lane, buffer, slot)
    list_legal(spec, state, lane, buffer, slot, RULE_ON_ALL)
    if buffer.nodes.shape[1] > 0:
        write_graph(spec, state, lane, buffer, slot, afresh)
        write_candidate_nodes(state, lane, buffer, slot)
