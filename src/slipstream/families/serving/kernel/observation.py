"""Observation of a decision, compiled: globals, candidate rows and mask.

Nothing here reads a random number that lies in the future: times and rates are expectations.
"""

from __future__ import annotations

from slipstream.families.serving import features as f
from slipstream.families.serving.kernel.events import is_allowed
from slipstream.families.serving.kernel.routing import expected_finish
from slipstream.families.serving.kernel.state import HOST, ROWS_PER_COLUMN
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.lanes import ASKING, toss_coin
from slipstream.sim.kernel.observation import ROWS, clear_rows, finish_rows, mark_legal, put


@kernel
def write_column(spec, column, row, image):
    """Write the constant columns of a variant on a kind of accelerator."""
    source = spec.columns[column]
    variant = spec.variants[source.variant]
    put(row, image, f.ACCURACY, variant.accuracy)
    put(row, image, f.LATENCY, spec.service[source.kind, source.variant, 1])
    put(row, image, f.BATCH_LATENCY, spec.service[source.kind, source.variant, source.largest])
    put(row, image, f.PEAK, source.peak)
    put(row, image, f.LOAD_TIME, variant.load)
    put(row, image, f.DISPATCH, 1.0)
    if row.shape[0] > f.SLO:
        put(row, image, f.MODEL, source.model)
        put(row, image, f.VARIANT, source.variant)
        put(row, image, f.KIND, source.kind)
        put(row, image, f.SLO, spec.models[source.model].slo)


@kernel
def prepare(spec, state, buffer):
    """Write the constant columns once into every slot of the observation buffer."""
    machine = spec.machine[0]
    for slot in range(buffer.rows.shape[0]):
        put(buffer.globals[slot], buffer.global_image, f.INTERVAL, machine.interval)
        put(buffer.globals[slot], buffer.global_image, f.ACCELERATORS, machine.accelerators)
        if buffer.globals.shape[1] > f.COIN:
            put(buffer.globals[slot], buffer.global_image, f.HEADROOM, machine.headroom)
            put(buffer.globals[slot], buffer.global_image, f.SHORTAGE, machine.shortage)
            put(buffer.globals[slot], buffer.global_image, f.ACCURACY_WEIGHT, machine.accuracy_weight)
            put(buffer.globals[slot], buffer.global_image, f.SERVED_SHARE, machine.served_share)
            put(buffer.globals[slot], buffer.global_image, f.GAP, machine.gap)
            put(buffer.globals[slot], buffer.global_image, f.SECONDS, machine.seconds)
        put(buffer.rows[slot, buffer.rows.shape[1] - 1], buffer.row_image, f.WAIT, 1.0)
        if not machine.route:
            for row in range(machine.rows):
                write_column(spec, row // ROWS_PER_COLUMN, buffer.rows[slot, row], buffer.row_image)
                hosts = row % ROWS_PER_COLUMN == HOST
                put(buffer.rows[slot, row], buffer.row_image, f.HOST, 1.0 if hosts else 0.0)
                put(buffer.rows[slot, row], buffer.row_image, f.RELEASE, 0.0 if hosts else 1.0)


@kernel
def capacity_of(spec, state, lane, model):
    """Return the sum of the peaks of a model's replicas."""
    total = 0.0
    for index in range(state.models[lane, model].replicas):
        total += spec.columns[state.accelerators[lane, state.replicas[lane, model, index]].column].peak
    return total


@kernel
def loading_in(state, lane, model, column):
    """Return the number of replicas of `column` that still load their weights."""
    count = 0
    for index in range(state.models[lane, model].replicas):
        own = state.accelerators[lane, state.replicas[lane, model, index]]
        if own.column == column and own.loading:
            count += 1
    return count


@inlined
def write_model(own, capacity, row, image):
    """Write the columns that all rows of a model share."""
    put(row, image, f.RATE, own.rate)
    put(row, image, f.FORECAST, own.forecast)
    put(row, image, f.CAPACITY, capacity)
    put(row, image, f.OFFERED, own.offered)
    put(row, image, f.VIOLATIONS, own.violations)


@kernel
def write_moves(spec, state, lane, buffer, slot):
    """Write the two rows of every column: host and release."""
    model, capacity = -1, 0.0
    for column in range(spec.machine[0].columns):
        source = spec.columns[column]
        if source.model != model:
            model = source.model
            capacity = capacity_of(spec, state, lane, model)
        own = state.models[lane, model]
        hosted = state.columns[lane, column].hosted
        loading = loading_in(state, lane, model, column) if hosted > 0 else 0
        for which in range(ROWS_PER_COLUMN):
            row, image = buffer.rows[slot, ROWS_PER_COLUMN * column + which], buffer.row_image
            write_model(own, capacity, row, image)
            put(row, image, f.HOSTED, hosted)
            put(row, image, f.LOADING, loading)
            put(row, image, f.FREE, state.idle[lane, source.kind])
            put(row, image, f.QUEUED, own.queued)


@kernel
def write_replicas(spec, state, lane, buffer, slot, replicas):
    """Write the row of every replica that the pending request can go to."""
    header = state.lanes[lane]
    model = header.pending
    capacity = capacity_of(spec, state, lane, model)
    for index in range(replicas):
        own = state.accelerators[lane, state.replicas[lane, model, index]]
        row, image = buffer.rows[slot, index], buffer.row_image
        write_column(spec, own.column, row, image)
        write_model(state.models[lane, model], capacity, row, image)
        finish = expected_finish(spec, own, header.now)
        put(row, image, f.HOSTED, state.columns[lane, own.column].hosted)
        put(row, image, f.LOADING, 1.0 if own.loading else 0.0)
        put(row, image, f.FREE, state.idle[lane, own.kind])
        put(row, image, f.QUEUED, own.queued)
        put(row, image, f.FINISH, finish - header.now)
        put(row, image, f.SLACK, header.pending_deadline - finish)
        put(row, image, f.SEND, 1.0)


@kernel
def summarise(spec, state, lane, buffer, slot):
    """Write the global columns."""
    header = state.lanes[lane]
    row, image = buffer.globals[slot], buffer.global_image
    rate, forecast, capacity, offered, violations = 0.0, 0.0, 0.0, 0, 0
    for model in range(spec.machine[0].models):
        own = state.models[lane, model]
        rate += own.rate
        forecast += own.forecast
        capacity += capacity_of(spec, state, lane, model)
        offered += own.offered
        violations += own.violations
    put(row, image, f.TIME, header.now)
    put(row, image, f.MOVES, header.moves if header.planning else 0)
    put(row, image, f.IDLE, header.free)
    put(row, image, f.ALL_RATE, rate)
    put(row, image, f.ALL_FORECAST, forecast)
    put(row, image, f.ALL_CAPACITY, capacity)
    put(row, image, f.ALL_QUEUED, header.waiting)
    put(row, image, f.ALL_OFFERED, offered)
    put(row, image, f.ALL_VIOLATIONS, violations)
    put(row, image, f.ASKED_MODEL, max(0, header.pending))
    put(row, image, f.ASKED_SLACK, header.pending_deadline - header.now if header.pending >= 0 else 0)
    if row.shape[0] > f.COIN:
        put(row, image, f.FIRST, 1.0 if header.plans == 0 and header.planning else 0.0)
        put(row, image, f.COIN, toss_coin(header))


@kernel
def list_legal(spec, state, lane, buffer, slot, form):
    """Write the rows, their mask, and the packed indices of the legal ones."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    asking = header.status == ASKING
    if machine.route:
        replicas = 0
        if asking:
            replicas = min(machine.rows, state.models[lane, header.pending].replicas)
            write_replicas(spec, state, lane, buffer, slot, replicas)
        clear_rows(buffer, slot, replicas, buffer.counts[slot, ROWS])
        buffer.counts[slot, ROWS] = replicas
    else:
        write_moves(spec, state, lane, buffer, slot)
    dispatch = 0
    for row in range(machine.rows):
        if asking and is_allowed(spec, state, lane, row):
            mark_legal(buffer, slot, row, dispatch)
            dispatch += 1
        else:
            buffer.mask[slot, row] = 0
    finish_rows(buffer, slot, dispatch, asking)
