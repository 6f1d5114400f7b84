"""Batching by the rules of Proteus's simulator, quirks included, compiled. `docs/serving-machine.md` specifies them.

Alarms may outlive what they were set for, and one that expires while the accelerator is busy still has an effect: so
each accelerator keeps a list of them, and its timer is set to the earliest.
"""

from __future__ import annotations

from slipstream.families.serving.kernel.queues import (
    can_start,
    drop,
    drop_head,
    largest_filled,
    remove_waiting,
    start,
    waiting_request,
)
from slipstream.families.serving.kernel.slots import timer_slot
from slipstream.families.serving.kernel.state import ACCSCALE, AIMD, NEXUS
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER, schedule

# Alarms


@kernel
def set_timer_to_earliest(spec, state, lane, accelerator):
    """Set the timer to the earliest alarm."""
    earliest = NEVER
    for index in range(state.accelerators[lane, accelerator].alarms):
        earliest = min(earliest, state.alarms[lane, accelerator, index].time)
    if earliest != NEVER:
        earliest = max(earliest, state.lanes[lane].now)
    schedule(state.heap, lane, timer_slot(spec, accelerator), earliest)


@kernel
def set_alarm(spec, state, lane, accelerator, time, number):
    """Add an alarm at `time` for request `number`, -1 for none, unless the list is full."""
    own = state.accelerators[lane, accelerator]
    if own.alarms == state.alarms.shape[2]:
        return
    alarm = state.alarms[lane, accelerator, own.alarms]
    alarm.time = time
    alarm.number = number
    own.alarms += 1
    set_timer_to_earliest(spec, state, lane, accelerator)


@kernel
def take_alarm(spec, state, lane, accelerator):
    """Remove the earliest alarm, of several the one set last; return its time and its request.

    The original inserts an event before one of the same time. So the head's own alarm, always the last that was set,
    starts its batch before older ones of that time expire, and they find the accelerator busy.
    """
    own = state.accelerators[lane, accelerator]
    chosen = 0
    for index in range(1, own.alarms):
        if state.alarms[lane, accelerator, index].time <= state.alarms[lane, accelerator, chosen].time:
            chosen = index
    time = state.alarms[lane, accelerator, chosen].time
    number = state.alarms[lane, accelerator, chosen].number
    for index in range(chosen + 1, own.alarms):
        state.alarms[lane, accelerator, index - 1].time = state.alarms[lane, accelerator, index].time
        state.alarms[lane, accelerator, index - 1].number = state.alarms[lane, accelerator, index].number
    own.alarms -= 1
    set_timer_to_earliest(spec, state, lane, accelerator)
    return time, number


@kernel
def set_head_alarm(spec, state, lane, accelerator):
    """Set the alarm of the head of the queue, unless its last alarm was set to the same time."""
    own = state.accelerators[lane, accelerator]
    if own.queued == 0:
        return
    head = waiting_request(state, lane, accelerator, 0)
    time = head.deadline - spec.service[own.kind, own.variant, largest_filled(spec, own, own.queued)]
    if head.alarm != time:
        head.alarm = time
        set_alarm(spec, state, lane, accelerator, time, head.number)


# Batches


@inlined
def proteus_batch_size(spec, own, requests):
    """Return the batch size for `requests` requests; for none, the original reads the wrong entry."""
    return largest_filled(spec, own, requests) if requests > 0 else spec.sizes[spec.machine[0].sizes - 1]


@kernel
def drop_twice_late(state, lane, accelerator):
    """Drop all requests that have waited for twice their time to the deadline."""
    now = state.lanes[lane].now
    own = state.accelerators[lane, accelerator]
    kept = 0
    for index in range(own.queued):
        request = waiting_request(state, lane, accelerator, index)
        if now > request.arrival + 2 * (request.deadline - request.arrival):
            drop(state, lane, own.model, request.number)
            continue
        if kept < index:
            target = waiting_request(state, lane, accelerator, kept)
            target.arrival = request.arrival
            target.deadline = request.deadline
            target.number = request.number
            target.alarm = request.alarm
        kept += 1
    remove_waiting(state, lane, accelerator, own.queued - kept)


@kernel
def start_batch(spec, state, lane, accelerator, size):
    """Start a batch with the service time of `size` requests, even if fewer wait."""
    drop_twice_late(state, lane, accelerator)
    own = state.accelerators[lane, accelerator]
    size = min(size, own.largest)
    requests = min(size, own.queued)
    if requests == 0:
        return
    late = False
    finish = state.lanes[lane].now + spec.service[own.kind, own.variant, size]
    for index in range(requests):
        late = late or finish > waiting_request(state, lane, accelerator, index).deadline
    start(spec, state, lane, accelerator, requests, size)
    if spec.machine[0].batching == ACCSCALE:
        set_head_alarm(spec, state, lane, accelerator)
    elif spec.machine[0].batching == AIMD:
        if late:
            own.limit = max(0, own.limit - 1)
        else:
            own.limit = min(spec.machine[0].sizes - 1, own.limit + 1)


@kernel
def drop_heads(spec, state, lane, accelerator):
    """Drop heads that would be late if the waiting requests ran now."""
    now = state.lanes[lane].now
    own = state.accelerators[lane, accelerator]
    while own.queued > 0:
        time = spec.service[own.kind, own.variant, largest_filled(spec, own, own.queued)]
        if now + time <= waiting_request(state, lane, accelerator, 0).deadline:
            return
        drop_head(state, lane, accelerator)


# Event handlers


@kernel
def on_arrival(spec, state, lane, accelerator):
    """Handle a request that has just joined the queue."""
    batching = spec.machine[0].batching
    now = state.lanes[lane].now
    own = state.accelerators[lane, accelerator]
    if not can_start(own):
        if batching == ACCSCALE:
            set_head_alarm(spec, state, lane, accelerator)
        elif batching == NEXUS and not own.alarm_set:
            request = waiting_request(state, lane, accelerator, own.queued - 1)
            own.alarm_set = 1
            time = now + (request.deadline - request.arrival) - spec.service[own.kind, own.variant, own.largest]
            set_alarm(spec, state, lane, accelerator, time, -1)
    elif batching == AIMD:
        if own.queued >= spec.sizes[own.limit]:
            start_batch(spec, state, lane, accelerator, spec.sizes[own.limit])
    elif batching == NEXUS:
        if own.queued >= own.largest:
            start_batch(spec, state, lane, accelerator, own.largest)
    else:
        drop_heads(spec, state, lane, accelerator)
        if own.queued == 0:
            return
        set_head_alarm(spec, state, lane, accelerator)
        head = waiting_request(state, lane, accelerator, 0)
        if now >= head.deadline - spec.service[own.kind, own.variant, largest_filled(spec, own, own.queued)]:
            start_batch(spec, state, lane, accelerator, proteus_batch_size(spec, own, own.queued - 1))


@kernel
def on_idle(spec, state, lane, accelerator):
    """Handle the end of a batch or load."""
    batching = spec.machine[0].batching
    own = state.accelerators[lane, accelerator]
    if own.queued == 0:
        return
    if batching == ACCSCALE:
        if own.alarm_pending:
            own.alarm_pending = 0
            start_batch(spec, state, lane, accelerator, largest_filled(spec, own, own.queued))
        elif own.queued > own.largest:
            start_batch(spec, state, lane, accelerator, own.largest)
    elif batching == AIMD:
        if own.queued >= spec.sizes[own.limit]:
            start_batch(spec, state, lane, accelerator, spec.sizes[own.limit])
    else:
        own.alarm_set = 0
        if own.queued >= own.largest:
            start_batch(spec, state, lane, accelerator, own.largest)
            return
        head = waiting_request(state, lane, accelerator, 0)
        own.alarm_set = 1
        time = state.lanes[lane].now + (head.deadline - head.arrival)
        set_alarm(spec, state, lane, accelerator, time - spec.service[own.kind, own.variant, own.largest], -1)


@kernel
def on_alarm(spec, state, lane, accelerator):
    """Handle an alarm that has expired."""
    time, number = take_alarm(spec, state, lane, accelerator)
    own = state.accelerators[lane, accelerator]
    accscale = spec.machine[0].batching == ACCSCALE
    if not can_start(own):
        if accscale:
            own.alarm_pending = 1
        return
    if not accscale:
        drop_heads(spec, state, lane, accelerator)
    if own.queued == 0:
        return
    if accscale:
        head = waiting_request(state, lane, accelerator, 0)
        if head.number != number or head.alarm != time:
            return
        start_batch(spec, state, lane, accelerator, largest_filled(spec, own, own.queued))
    elif own.queued >= own.largest:
        start_batch(spec, state, lane, accelerator, own.largest)
    else:
        start_batch(spec, state, lane, accelerator, largest_filled(spec, own, own.queued))
