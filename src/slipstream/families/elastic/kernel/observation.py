"""Observation of elastic jobs, compiled: globals, candidate rows and mask."""

from __future__ import annotations

from slipstream.families.elastic import features as f
from slipstream.families.elastic.kernel.lifecycle import configuration_of, setup_of
from slipstream.families.elastic.kernel.rounds import may_wait
from slipstream.families.elastic.kernel.state import NOWHERE
from slipstream.jit.decorators import kernel
from slipstream.sim.kernel.lanes import ASKING, toss_coin
from slipstream.sim.kernel.observation import ROWS, ROWS_BEHIND, clear_rows, finish_rows, mark_legal, put
from slipstream.sim.kernel.window import filled_rows


@kernel
def prepare(spec, state, buffer):
    """Write the wait flag into every entry of `buffer`."""
    for index in range(buffer.rows.shape[0]):
        put(buffer.rows[index, buffer.rows.shape[1] - 1], buffer.row_image, f.WAIT, 1.0)


@kernel
def write_row(spec, state, lane, candidate, order, row, image):
    """Write the row of a candidate whose job is the one at `order` among the unfinished ones."""
    machine, header = spec.machine[0], state.lanes[lane]
    chosen = state.candidates[lane, candidate]
    number, index = chosen // machine.widest, chosen % machine.widest
    job = state.jobs[lane, number]
    template, own = spec.templates[job.template], configuration_of(spec, job, index)
    setup = setup_of(spec, job, index)
    if job.runs == index and job.setting_up:
        setup = job.since - header.now
    put(row, image, f.GPUS, own.gpus)
    put(row, image, f.SHARE, own.gpus / spec.kinds[own.kind].gpus)
    put(row, image, f.FREE, state.free[lane, own.kind])
    put(row, image, f.SPEED, own.rate / template.best)
    put(row, image, f.FINISH, setup + job.left / own.rate * 1e9)
    put(row, image, f.ALONE, job.left / template.best * 1e9)
    put(row, image, f.DONE, 1.0 - job.left / template.work)
    put(row, image, f.AGE, header.now - job.arrival)
    put(row, image, f.RAN, job.ran)
    put(row, image, f.RECEIVED, job.received)
    put(row, image, f.ORDER, order)
    put(row, image, f.WEIGHT, template.weight)
    put(row, image, f.RESTARTS, job.restarts)
    put(row, image, f.SETUP, setup)
    put(row, image, f.KEEP, 1.0 if job.runs == index else 0.0)
    put(row, image, f.RUNNING, 1.0 if job.runs != NOWHERE else 0.0)
    put(row, image, f.DISPATCH, 1.0)
    if row.shape[0] > f.LEFT:
        put(row, image, f.LEFT, job.left)
        put(row, image, f.RATE, own.rate)
        put(row, image, f.KIND, own.kind)
        put(row, image, f.NUMBER, number)
        put(row, image, f.CONFIGURATION, index)


@kernel
def list_legal(spec, state, lane, buffer, slot, form):
    """Write the rows of all candidates, their packed indices and counts; clear the rows that are left over."""
    machine, header = spec.machine[0], state.lanes[lane]
    asking = header.status == ASKING
    last, first = buffer.mask.shape[1] - 1, machine.rows + 1
    listed = header.shown if asking else 0
    behind = header.candidates - header.shown if asking and last > machine.rows else 0
    order = 0
    for index in range(listed + behind):
        while state.active[lane, order] != state.candidates[lane, index] // machine.widest:
            order += 1
        row = index if index < listed else first + index - listed
        write_row(spec, state, lane, index, order, buffer.rows[slot, row], buffer.row_image)
        mark_legal(buffer, slot, row, index)
    clear_rows(buffer, slot, listed, buffer.counts[slot, ROWS])
    buffer.counts[slot, ROWS] = listed
    if last > machine.rows:
        clear_rows(buffer, slot, first + behind, first + buffer.counts[slot, ROWS_BEHIND])
        buffer.counts[slot, ROWS_BEHIND] = behind
    finish_rows(buffer, slot, listed + behind, asking and may_wait(header))


@kernel
def summarise(spec, state, lane, buffer, slot):
    """Write the global columns."""
    row, image = buffer.globals[slot], buffer.global_image
    machine, header = spec.machine[0], state.lanes[lane]
    put(row, image, f.TIME, header.now)
    put(row, image, f.JOBS, header.active)
    put(row, image, f.PLACED, header.placed)
    put(row, image, f.FREE_GPUS, header.free_gpus / machine.gpus)
    put(row, image, f.ROUND, machine.round_length)
    if row.shape[0] > f.BEGAN:
        behind = header.candidates - header.shown
        put(row, image, f.BEGAN, header.rounds)
        put(row, image, f.ROWS, filled_rows(machine, header.shown, behind))
        put(row, image, f.PARAMETER, header.parameter)
        put(row, image, f.COIN, toss_coin(header))
