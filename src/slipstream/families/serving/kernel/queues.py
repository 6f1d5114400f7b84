"""The queue of an accelerator, compiled: a ring in which the requests of its batch stay in front until they end."""

from __future__ import annotations

import math

from slipstream.families.serving.kernel.state import EXPONENTIAL_SERVICE, FIXED
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import DROP, START
from slipstream.sim.kernel.heap import schedule
from slipstream.sim.kernel.lanes import record
from slipstream.sim.kernel.rng import normal, uniform


@inlined
def waiting_request(state, lane, accelerator, place):
    """Return the request in a place of those that wait."""
    own = state.accelerators[lane, accelerator]
    return state.queues[lane, accelerator, (own.head + own.running + place) & (state.queues.shape[2] - 1)]


@inlined
def can_start(own):
    """Return whether an accelerator could start a batch."""
    return own.column >= 0 and not own.busy and not own.loading


@inlined
def fill(spec, own, requests):
    """Return the largest batch size that so many requests fill."""
    largest = 1
    for place in range(spec.machine[0].sizes):
        size = spec.sizes[place]
        if size <= requests and size <= own.largest:
            largest = size
    return largest


@kernel
def append(state, lane, accelerator, arrival, deadline, number):
    """Let a request join a queue that has room."""
    own = state.accelerators[lane, accelerator]
    own.queued += 1
    request = waiting_request(state, lane, accelerator, own.queued - 1)
    request.arrival = arrival
    request.deadline = deadline
    request.number = number
    request.alarm = -1
    state.models[lane, own.model].queued += 1
    state.lanes[lane].waiting += 1


@inlined
def leave(state, lane, accelerator, requests):
    """Count requests that wait no longer."""
    own = state.accelerators[lane, accelerator]
    own.queued -= requests
    state.models[lane, own.model].queued -= requests
    state.lanes[lane].waiting -= requests


@inlined
def count_violation(state, lane, model):
    """Count a request that was not answered in time."""
    state.models[lane, model].violations += 1
    state.lanes[lane].failed += 1


@kernel
def drop(state, lane, model, number):
    """Give a request up."""
    state.models[lane, model].dropped += 1
    count_violation(state, lane, model)
    record(state, lane, DROP, model, number, -1, -1)


@kernel
def drop_head(state, lane, accelerator):
    """Give up the request at the head of a queue; the accelerator runs nothing."""
    own = state.accelerators[lane, accelerator]
    number = waiting_request(state, lane, accelerator, 0).number
    leave(state, lane, accelerator, 1)
    own.head = (own.head + 1) & (state.queues.shape[2] - 1)
    drop(state, lane, own.model, number)


@kernel
def luck_of(spec, state, lane, model, number):
    """Return by how much the batch that a request leads takes longer than expected."""
    machine = spec.machine[0]
    key = state.models[lane, model].service_key
    if machine.service == EXPONENTIAL_SERVICE:
        return -math.log(uniform(key, number))
    return math.exp(machine.spread * normal(key, number) - 0.5 * machine.spread * machine.spread)


@kernel
def start(spec, state, lane, accelerator, requests, size):
    """Start a batch of the first requests, which takes as long as `size` of them."""
    header = state.lanes[lane]
    own = state.accelerators[lane, accelerator]
    expected = spec.service[own.kind, own.variant, size]
    duration = expected
    first = waiting_request(state, lane, accelerator, 0).number
    if spec.machine[0].service != FIXED:
        luck = luck_of(spec, state, lane, own.model, first)
        duration = max(1, int(math.ceil(expected * luck)))
    if state.log.shape[1] > 0:
        for place in range(requests):
            number = waiting_request(state, lane, accelerator, place).number
            record(state, lane, START, own.model, number, own.variant, accelerator)
    leave(state, lane, accelerator, requests)
    own.running = requests
    own.ran = own.variant
    own.busy = 1
    own.ready = header.now + expected
    schedule(state.heap, lane, accelerator, header.now + duration)
