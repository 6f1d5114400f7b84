"""What accelerators host, compiled: members of models come and go, weights are loaded, requests find another place."""

from __future__ import annotations

from slipstream.families.serving.kernel.batching import consider
from slipstream.families.serving.kernel.proteus_batching import arrived_at
from slipstream.families.serving.kernel.queues import append, can_start, count_violation, leave, waiting_request
from slipstream.families.serving.kernel.routing import choose_member
from slipstream.families.serving.kernel.slots import timer_slot
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import EVICT, MOVE, READY, REJECT
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.lanes import record


@kernel
def reject(state, lane, model, number):
    """Turn a request away."""
    state.models[lane, model].rejected += 1
    count_violation(state, lane, model)
    record(state, lane, REJECT, model, number, -1, -1)


@kernel
def join(spec, state, lane, accelerator, model, arrival, deadline, number):
    """Let a request join a queue, if there is one with room; an accelerator that can start considers it."""
    if accelerator < 0:
        reject(state, lane, model, number)
        return
    own = state.accelerators[lane, accelerator]
    if own.running + own.queued >= spec.machine[0].queue:
        reject(state, lane, model, number)
        return
    append(state, lane, accelerator, arrival, deadline, number)
    if spec.machine[0].proteus:
        arrived_at(spec, state, lane, accelerator)
    elif can_start(own):
        consider(spec, state, lane, accelerator)


# Hosting


@kernel
def free_accelerator(spec, state, lane, column):
    """Return the accelerator that would host a variant: one with its weights, else the first, -1 if none is free."""
    source = spec.columns[column]
    found = -1
    for accelerator in range(spec.machine[0].accelerators):
        own = state.accelerators[lane, accelerator]
        if own.column < 0 and own.kind == source.kind:
            if own.holds == source.variant:
                return accelerator
            if found < 0:
                found = accelerator
    return found


@inlined
def begin_load(spec, state, lane, accelerator):
    """Let an accelerator that runs nothing load."""
    own = state.accelerators[lane, accelerator]
    own.ready = state.lanes[lane].now + spec.variants[own.variant].load
    schedule(state.heap, lane, accelerator, own.ready)


@kernel
def be_ready(state, lane, accelerator):
    """Let the weights be there."""
    own = state.accelerators[lane, accelerator]
    own.loading = 0
    own.holds = own.variant
    record(state, lane, READY, own.model, -1, own.variant, accelerator)


@kernel
def bring_weights(spec, state, lane, accelerator):
    """Let a new member have its weights, at once or after a load."""
    header = state.lanes[lane]
    own = state.accelerators[lane, accelerator]
    load = spec.variants[own.variant].load
    if own.holds == own.variant or header.now == 0:
        be_ready(state, lane, accelerator)
        return
    header.switched += 1
    if load == 0 and not own.busy:
        be_ready(state, lane, accelerator)
        return
    own.loading = 1
    own.holds = -1
    if own.busy:
        own.ready = max(header.now, own.ready) + load
    else:
        begin_load(spec, state, lane, accelerator)


@kernel
def host(spec, state, lane, column):
    """Let one more accelerator host a variant."""
    source = spec.columns[column]
    accelerator = free_accelerator(spec, state, lane, column)
    own, model = state.accelerators[lane, accelerator], state.models[lane, source.model]
    own.column = column
    own.variant = source.variant
    own.model = source.model
    own.largest = source.largest
    own.limit = 0
    own.noted = 0
    own.marked = 0
    state.members[lane, source.model, model.members] = accelerator
    model.members += 1
    state.columns[lane, column].hosted += 1
    state.idle[lane, source.kind] -= 1
    state.lanes[lane].free -= 1
    record(state, lane, MOVE, source.model, -1, source.variant, accelerator)
    bring_weights(spec, state, lane, accelerator)


# Freeing


@kernel
def accelerator_to_free(spec, state, lane, column):
    """Return the accelerator with the fewest waiting requests, the last of these."""
    best = -1
    for accelerator in range(spec.machine[0].accelerators):
        own = state.accelerators[lane, accelerator]
        if own.column == column and (best < 0 or own.queued <= state.accelerators[lane, best].queued):
            best = accelerator
    return best


@kernel
def leave_members(state, lane, accelerator):
    """Take an accelerator from the list of its model's members; the others keep their order."""
    model = state.accelerators[lane, accelerator].model
    members = state.models[lane, model].members
    place = 0
    while state.members[lane, model, place] != accelerator:
        place += 1
    for behind in range(place + 1, members):
        state.members[lane, model, behind - 1] = state.members[lane, model, behind]
    state.models[lane, model].members = members - 1


@kernel
def release(spec, state, lane, column):
    """Free an accelerator; what waits there is routed again."""
    accelerator = accelerator_to_free(spec, state, lane, column)
    own = state.accelerators[lane, accelerator]
    model = own.model
    leave_members(state, lane, accelerator)
    state.columns[lane, column].hosted -= 1
    state.idle[lane, own.kind] += 1
    state.lanes[lane].free += 1
    record(state, lane, EVICT, model, -1, own.variant, accelerator)
    schedule(state.heap, lane, timer_slot(spec, accelerator), NEVER)
    own.alarms = 0
    if own.loading:
        own.loading = 0
        own.holds = -1
        if own.busy:
            own.ready -= spec.variants[own.variant].load
        else:
            own.ready = state.lanes[lane].now
            schedule(state.heap, lane, accelerator, NEVER)
    requests = own.queued
    leave(state, lane, accelerator, requests)
    own.column = -1
    own.variant = -1
    own.model = -1
    for place in range(requests):
        request = waiting_request(state, lane, accelerator, place)
        target = choose_member(spec, state, lane, model, request.deadline, request.number)
        join(spec, state, lane, target, model, request.arrival, request.deadline, request.number)
