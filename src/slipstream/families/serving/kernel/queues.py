"""Request queue of an accelerator, compiled: a ring buffer in which the running batch stays in front until it ends."""

from __future__ import annotations

import math

from slipstream.families.serving.kernel.state import EXPONENTIAL_SERVICE, FIXED
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import DROP, START
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.lanes import record
from slipstream.sim.kernel.rng import normal, uniform


@inlined
def waiting_request(state, lane, accelerator, index):
    """Return the waiting request at offset `index` from the head."""
    own = state.accelerators[lane, accelerator]
    return state.queues[lane, accelerator, (own.head + own.running + index) & (state.queues.shape[2] - 1)]


@inlined
def can_start(own):
    """Return whether an accelerator could start a batch."""
    return own.column >= 0 and not own.busy and not own.loading


@inlined
def largest_filled(spec, own, requests):
    """Return the largest batch size that `requests` requests fill."""
    largest = 1
    for index in range(spec.machine[0].sizes):
        size = spec.sizes[index]
        if size <= requests and size <= own.largest:
            largest = size
    return largest


@kernel
def append(state, lane, accelerator, arrival, deadline, number):
    """Append a request to a queue that is not full."""
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
def remove_waiting(state, lane, accelerator, requests):
    """Subtract `requests` from the counters of waiting requests."""
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
    """Drop a request."""
    state.models[lane, model].dropped += 1
    count_violation(state, lane, model)
    record(state, lane, DROP, model, number, -1, -1)


@kernel
def drop_head(state, lane, accelerator):
    """Drop the request at the head of the queue of an accelerator that runs nothing."""
    own = state.accelerators[lane, accelerator]
    number = waiting_request(state, lane, accelerator, 0).number
    remove_waiting(state, lane, accelerator, 1)
    own.head = (own.head + 1) & (state.queues.shape[2] - 1)
    drop(state, lane, own.model, number)


@kernel
def service_factor(spec, state, lane, model, number):
    """Return the random factor on the service time of the batch that request `number` leads."""
    machine = spec.machine[0]
    key = state.models[lane, model].service_key
    if machine.service == EXPONENTIAL_SERVICE:
        return -math.log(uniform(key, number))
    return math.exp(machine.spread * normal(key, number) - 0.5 * machine.spread * machine.spread)


@inlined
def schedule_end(state, lane, accelerator, duration):
    """Schedule the end of a batch or load after `duration`, or leave it to the engine that the lane follows.

    The engine then reads the duration, and reports the end.
    """
    end = state.lanes[lane].now + duration
    if state.lanes[lane].clock > 0:
        own = state.accelerators[lane, accelerator]
        own.piece += 1
        own.planned = duration
        end = NEVER
    schedule(state.heap, lane, accelerator, end)


@kernel
def start(spec, state, lane, accelerator, requests, size):
    """Start a batch of the first `requests` waiting requests, with the service time of `size` requests."""
    header = state.lanes[lane]
    own = state.accelerators[lane, accelerator]
    expected = spec.service[own.kind, own.variant, size]
    duration = expected
    first = waiting_request(state, lane, accelerator, 0).number
    if spec.machine[0].service != FIXED:
        factor = service_factor(spec, state, lane, own.model, first)
        duration = max(1, int(math.ceil(expected * factor)))
    if state.log.shape[1] > 0:
        for index in range(requests):
            number = waiting_request(state, lane, accelerator, index).number
            record(state, lane, START, own.model, number, own.variant, accelerator)
    remove_waiting(state, lane, accelerator, requests)
    own.running = requests
    own.ran = own.variant
    own.busy = 1
    own.ready = header.now + expected
    own.began = header.now
    own.expected = expected
    schedule_end(state, lane, accelerator, duration)
