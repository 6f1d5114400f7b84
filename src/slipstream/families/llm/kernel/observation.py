"""Observation of a decision, compiled: globals, candidate rows and mask.

Nothing here reads the output length of a request that has not finished: lengths are those predicted.
"""

from __future__ import annotations

from slipstream.families.llm import features as f
from slipstream.families.llm.kernel.blocks import cached_blocks
from slipstream.families.llm.kernel.events import may_wait
from slipstream.families.llm.kernel.schedule import admission_blocks, free_for_admission
from slipstream.families.llm.kernel.state import ADMITS, EVICTS, FAR, LEVELS, SENDS
from slipstream.families.llm.kernel.timing import interpolated
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.lanes import ASKING, PLAIN_RULE, RULE_ON_ALL, toss_coin
from slipstream.sim.kernel.observation import ROWS, ROWS_BEHIND, clear_rows, finish_rows, mark_legal, put
from slipstream.sim.kernel.window import filled_rows


@kernel
def prepare(spec, state, buffer):
    """Write the constant columns once into every slot of the observation buffer."""
    for slot in range(buffer.rows.shape[0]):
        put(buffer.rows[slot, buffer.rows.shape[1] - 1], buffer.row_image, f.WAIT, 1.0)


# Predictions


@inlined
def predicted_left(request):
    """Return the tokens that a request is predicted to generate still, at least 1."""
    return max(1, request.predicted - (request.known - request.prompt))


@kernel
def sort_batch(state, lane, engine):
    """Write the requests of a batch into `sorted`, those with the fewest predicted tokens left first."""
    for place in range(state.engines[lane, engine].running):
        number = state.running[lane, engine, place]
        left = predicted_left(state.requests[lane, number])
        index = place
        while index > 0 and predicted_left(state.requests[lane, state.sorted[lane, index - 1]]) > left:
            state.sorted[lane, index] = state.sorted[lane, index - 1]
            index -= 1
        state.sorted[lane, index] = number


@kernel
def predicted_peak(state, lane, engine, number):
    """Return the most tokens that the batch and request `number` hold at a predicted end (Jaillet et al., 2025).

    Every request gets a token in each round. `sort_batch` has sorted the batch.
    """
    own, request = state.engines[lane, engine], state.requests[lane, number]
    left = predicted_left(request)
    count, total, peak, index = 0, 0, 0, own.running - 1
    joined = False
    while index >= 0 or not joined:
        rounds, known = left, request.known
        if index >= 0:
            other = state.requests[lane, state.sorted[lane, index]]
            if joined or predicted_left(other) > left:
                rounds, known = predicted_left(other), other.known
                index -= 1
            else:
                joined = True
        else:
            joined = True
        count += 1
        total += known
        peak = max(peak, total + count * rounds)
    return peak


# Rows


@kernel
def write_request(spec, state, lane, number, order, row, image):
    """Write the columns of a request that waits or runs."""
    header, request = state.lanes[lane], state.requests[lane, number]
    group = spec.classes[request.group]
    put(row, image, f.PROMPT, request.prompt)
    put(row, image, f.GENERATED, request.known - request.prompt)
    put(row, image, f.PREDICTED, request.predicted)
    put(row, image, f.WAITED, header.now - request.arrival)
    put(row, image, f.ORDER, order)
    put(row, image, f.PRIORITY, group.priority)
    due = group.ttft > 0 and request.first < 0
    put(row, image, f.SLACK, request.arrival + group.ttft - header.now if due else FAR)
    put(row, image, f.TPOT_LIMIT, group.tpot)
    put(row, image, f.SERVICE, state.clients[lane, request.group].service)
    work = interpolated(spec.dense_at, spec.dense, request.known)
    put(row, image, f.WORK, work + spec.machine[0].decode_token * predicted_left(request))
    put(row, image, f.PREEMPTIONS, request.preemptions)
    if row.shape[0] > f.CLASS:
        put(row, image, f.NUMBER, number)
        put(row, image, f.CLASS, request.group)


@kernel
def write_admission(spec, state, lane, place, row, image, form):
    """Write the row that admits the request at `place` of the queue; without on-demand columns for plain rules."""
    header, machine = state.lanes[lane], spec.machine[0]
    own = state.engines[lane, header.engine]
    number = state.waiting[lane, header.engine, own.first + place]
    write_request(spec, state, lane, number, place, row, image)
    put(row, image, f.ADMIT, 1.0)
    put(row, image, f.DISPATCH, 1.0)
    if form != PLAIN_RULE:
        needed, hits = admission_blocks(spec, state, lane, header.engine, number)
        put(row, image, f.CACHED, hits * machine.block_tokens)
        put(row, image, f.BLOCKS, needed / machine.blocks)
        put(row, image, f.FITS, 1.0 if needed <= free_for_admission(own) else 0.0)
        if row.shape[0] > f.CLASS:
            peak = predicted_peak(state, lane, header.engine, number)
            put(row, image, f.PEAK, peak / (machine.blocks * machine.block_tokens))


@kernel
def write_eviction(spec, state, lane, index, row, image):
    """Write the row that preempts the running request at `index` from the end of the batch."""
    header = state.lanes[lane]
    place = state.engines[lane, header.engine].running - 1 - index
    number = state.running[lane, header.engine, place]
    write_request(spec, state, lane, number, place, row, image)
    put(row, image, f.BLOCKS, state.requests[lane, number].blocks / spec.machine[0].blocks)
    put(row, image, f.EVICT, 1.0)


@kernel
def write_engine(spec, state, lane, engine, row, image):
    """Write the row that sends the pending request to an engine."""
    header, machine, own = state.lanes[lane], spec.machine[0], state.engines[lane, engine]
    write_request(spec, state, lane, header.pending, 0, row, image)
    hits = cached_blocks(spec, state, lane, engine, header.pending)[0]
    put(row, image, f.CACHED, hits * machine.block_tokens)
    put(row, image, f.RUNNING, own.running)
    put(row, image, f.WAITING, own.waiting)
    put(row, image, f.FREE, own.free / machine.blocks)
    put(row, image, f.SEND, 1.0)
    if row.shape[0] > f.CLASS:
        put(row, image, f.NUMBER, engine)


@kernel
def write_row(spec, state, lane, index, row, image, form):
    """Write the candidate row of `index`, which may hold another."""
    kind = state.lanes[lane].kind
    for column in range(row.shape[0]):
        row[column] = 0.0
    if kind == ADMITS:
        write_admission(spec, state, lane, index, row, image, form)
    elif kind == LEVELS:
        put(row, image, f.BUDGET, spec.levels[index].budget)
        put(row, image, f.HEADROOM, spec.levels[index].headroom / spec.machine[0].blocks)
        put(row, image, f.LEVEL, 1.0)
    elif kind == EVICTS:
        write_eviction(spec, state, lane, index, row, image)
    else:
        write_engine(spec, state, lane, index, row, image)


@kernel
def list_legal(spec, state, lane, buffer, slot, form):
    """Write the rows of all candidates, their packed indices and counts; clear the rows that are left over."""
    header = state.lanes[lane]
    asking = header.status == ASKING
    last, first = buffer.mask.shape[1] - 1, spec.machine[0].rows + 1
    listed = header.shown if asking else 0
    behind = header.candidates - header.shown if asking and last > spec.machine[0].rows else 0
    if asking and header.kind == ADMITS and form != PLAIN_RULE and buffer.rows.shape[2] > f.CLASS:
        sort_batch(state, lane, header.engine)
    for index in range(listed + behind):
        row = index if index < listed else first + index - listed
        write_row(spec, state, lane, index, buffer.rows[slot, row], buffer.row_image, form)
        mark_legal(buffer, slot, row, index)
    clear_rows(buffer, slot, listed, buffer.counts[slot, ROWS])
    buffer.counts[slot, ROWS] = listed
    if last > spec.machine[0].rows:
        clear_rows(buffer, slot, first + behind, first + buffer.counts[slot, ROWS_BEHIND])
        buffer.counts[slot, ROWS_BEHIND] = behind
    rules = asking and (header.kind == ADMITS or form == RULE_ON_ALL)
    finish_rows(buffer, slot, listed + behind if rules else 0, asking and may_wait(spec, state, lane))


@kernel
def summarise(spec, state, lane, buffer, slot):
    """Write the global columns."""
    row, image = buffer.globals[slot], buffer.global_image
    header, machine = state.lanes[lane], spec.machine[0]
    asking = header.status == ASKING
    own = state.engines[lane, header.engine]
    put(row, image, f.TIME, header.now)
    put(row, image, f.ASKS_ADMIT, 1.0 if asking and header.kind == ADMITS else 0.0)
    put(row, image, f.ASKS_LEVEL, 1.0 if asking and header.kind == LEVELS else 0.0)
    put(row, image, f.ASKS_EVICT, 1.0 if asking and header.kind == EVICTS else 0.0)
    put(row, image, f.ASKS_SEND, 1.0 if asking and header.kind == SENDS else 0.0)
    put(row, image, f.ENGINE, header.engine)
    put(row, image, f.QUEUED, own.waiting)
    put(row, image, f.BATCH, own.running)
    put(row, image, f.SEATS, machine.seats - own.running)
    put(row, image, f.FREE_BLOCKS, own.free / machine.blocks)
    put(row, image, f.LEFT, own.left)
    put(row, image, f.SCHEDULED, own.budget - own.left)
    put(row, image, f.IN_FLIGHT, own.flight)
    put(row, image, f.TOKEN_BUDGET, own.budget)
    put(row, image, f.KEPT_FREE, own.headroom / machine.blocks)
    put(row, image, f.LAST_STEP, own.duration)
    put(row, image, f.UNFINISHED, header.unfinished)
    if row.shape[0] > f.COIN:
        behind = header.candidates - header.shown
        put(row, image, f.ROWS, filled_rows(machine, header.shown, behind))
        put(row, image, f.PARAMETER, header.parameter)
        put(row, image, f.COIN, toss_coin(header))
