"""Deployment, compiled: replicas of models are added and removed, weights are loaded, requests are routed again."""

from __future__ import annotations

from slipstream.families.serving.kernel.batching import try_start
from slipstream.families.serving.kernel.compat import on_arrival
from slipstream.families.serving.kernel.queues import (
    append,
    can_start,
    count_violation,
    remove_waiting,
    schedule_end,
    waiting_request,
)
from slipstream.families.serving.kernel.routing import choose_replica
from slipstream.families.serving.kernel.slots import timer_slot
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import EVICT, MOVE, READY, REJECT
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.lanes import record


@kernel
def reject(state, lane, model, number):
    """Reject a request."""
    state.models[lane, model].rejected += 1
    count_violation(state, lane, model)
    record(state, lane, REJECT, model, number, -1, -1)


@kernel
def enqueue(spec, state, lane, accelerator, model, arrival, deadline, number):
    """Append a request to the queue of `accelerator`, or reject it if that is full; an idle accelerator may start."""
    if accelerator < 0:
        reject(state, lane, model, number)
        return
    own = state.accelerators[lane, accelerator]
    if own.running + own.queued >= spec.machine[0].queue:
        reject(state, lane, model, number)
        return
    append(state, lane, accelerator, arrival, deadline, number)
    if spec.machine[0].proteus:
        on_arrival(spec, state, lane, accelerator)
    elif can_start(own):
        try_start(spec, state, lane, accelerator)


# Adding replicas


@kernel
def free_accelerator(spec, state, lane, column):
    """Return the free accelerator to host `column`: one that holds its weights, else the first; -1 if none."""
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
    """Begin to load the weights of the hosted variant on an idle accelerator."""
    own = state.accelerators[lane, accelerator]
    own.ready = state.lanes[lane].now + spec.variants[own.variant].load
    schedule_end(state, lane, accelerator, spec.variants[own.variant].load)


@kernel
def finish_load(state, lane, accelerator):
    """Mark the weights of the hosted variant as loaded."""
    own = state.accelerators[lane, accelerator]
    own.loading = 0
    own.holds = own.variant
    record(state, lane, READY, own.model, -1, own.variant, accelerator)


@kernel
def load_weights(spec, state, lane, accelerator):
    """Load the weights of a new replica, at once where they are there already or cost no time."""
    header = state.lanes[lane]
    own = state.accelerators[lane, accelerator]
    load = spec.variants[own.variant].load
    if own.holds == own.variant or header.now == 0:
        finish_load(state, lane, accelerator)
        return
    header.switched += 1
    if load == 0 and not own.busy:
        finish_load(state, lane, accelerator)
        return
    own.loading = 1
    own.holds = -1
    if own.busy:
        own.ready = max(header.now, own.ready) + load
    else:
        begin_load(spec, state, lane, accelerator)


@kernel
def host(spec, state, lane, column):
    """Host the variant of `column` on one more accelerator."""
    source = spec.columns[column]
    accelerator = free_accelerator(spec, state, lane, column)
    own, model = state.accelerators[lane, accelerator], state.models[lane, source.model]
    own.column = column
    own.variant = source.variant
    own.model = source.model
    own.largest = source.largest
    own.limit = 0
    own.alarm_pending = 0
    own.alarm_set = 0
    state.replicas[lane, source.model, model.replicas] = accelerator
    model.replicas += 1
    state.columns[lane, column].hosted += 1
    state.idle[lane, source.kind] -= 1
    state.lanes[lane].free -= 1
    record(state, lane, MOVE, source.model, -1, source.variant, accelerator)
    load_weights(spec, state, lane, accelerator)


# Removing replicas


@kernel
def accelerator_to_free(spec, state, lane, column):
    """Return the accelerator of `column` with the fewest waiting requests; ties go to the last."""
    best = -1
    for accelerator in range(spec.machine[0].accelerators):
        own = state.accelerators[lane, accelerator]
        if own.column == column and (best < 0 or own.queued <= state.accelerators[lane, best].queued):
            best = accelerator
    return best


@kernel
def remove_replica(state, lane, accelerator):
    """Remove an accelerator from the replicas of its model; the others keep their order."""
    model = state.accelerators[lane, accelerator].model
    replicas = state.models[lane, model].replicas
    index = 0
    while state.replicas[lane, model, index] != accelerator:
        index += 1
    for later in range(index + 1, replicas):
        state.replicas[lane, model, later - 1] = state.replicas[lane, model, later]
    state.models[lane, model].replicas = replicas - 1


@kernel
def release(spec, state, lane, column):
    """Free an accelerator of `column`; requests waiting there are routed again."""
    accelerator = accelerator_to_free(spec, state, lane, column)
    own = state.accelerators[lane, accelerator]
    model = own.model
    remove_replica(state, lane, accelerator)
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
    remove_waiting(state, lane, accelerator, requests)
    own.column = -1
    own.variant = -1
    own.model = -1
    for index in range(requests):
        request = waiting_request(state, lane, accelerator, index)
        target = choose_replica(spec, state, lane, model, request.deadline, request.number)
        enqueue(spec, state, lane, target, model, request.arrival, request.deadline, request.number)
