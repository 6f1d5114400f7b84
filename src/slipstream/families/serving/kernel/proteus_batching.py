"""Batching by the rules of Proteus's simulator, quirks included, compiled. `docs/serving-machine.md` states them.

Its alarms may outlive what they were set for, and one that rings while the accelerator is busy still has an effect: so
each accelerator keeps a list of them, and its timer shows the earliest.
"""

from __future__ import annotations

from slipstream.families.serving.kernel.queues import can_start, drop, drop_head, fill, leave, start, waiting_request
from slipstream.families.serving.kernel.slots import timer_slot
from slipstream.families.serving.kernel.state import ACCSCALE, AIMD, NEXUS
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER, schedule

# Alarms


@kernel
def show_earliest(spec, state, lane, accelerator):
    """Set the timer to the earliest alarm."""
    earliest = NEVER
    for place in range(state.accelerators[lane, accelerator].alarms):
        earliest = min(earliest, state.alarms[lane, accelerator, place].time)
    if earliest != NEVER:
        earliest = max(earliest, state.lanes[lane].now)
    schedule(state.heap, lane, timer_slot(spec, accelerator), earliest)


@kernel
def set_alarm(spec, state, lane, accelerator, time, number):
    """Add an alarm for a request, or for nobody; there is room for so many."""
    own = state.accelerators[lane, accelerator]
    if own.alarms == state.alarms.shape[2]:
        return
    alarm = state.alarms[lane, accelerator, own.alarms]
    alarm.time = time
    alarm.number = number
    own.alarms += 1
    show_earliest(spec, state, lane, accelerator)


@kernel
def take_alarm(spec, state, lane, accelerator):
    """Remove the earliest alarm, of several the one set last; return its time, and the request that it was set for.

    The original inserts an event before one of the same time. So the head's own alarm, always the last that was set,
    starts its batch before older ones of that time ring, and they find the accelerator busy.
    """
    own = state.accelerators[lane, accelerator]
    chosen = 0
    for place in range(1, own.alarms):
        if state.alarms[lane, accelerator, place].time <= state.alarms[lane, accelerator, chosen].time:
            chosen = place
    time = state.alarms[lane, accelerator, chosen].time
    number = state.alarms[lane, accelerator, chosen].number
    for place in range(chosen + 1, own.alarms):
        state.alarms[lane, accelerator, place - 1].time = state.alarms[lane, accelerator, place].time
        state.alarms[lane, accelerator, place - 1].number = state.alarms[lane, accelerator, place].number
    own.alarms -= 1
    show_earliest(spec, state, lane, accelerator)
    return time, number


@kernel
def watch(spec, state, lane, accelerator):
    """Set the alarm of the head of the queue, unless it is the last one that was set for it."""
    own = state.accelerators[lane, accelerator]
    if own.queued == 0:
        return
    head = waiting_request(state, lane, accelerator, 0)
    time = head.deadline - spec.service[own.kind, own.variant, fill(spec, own, own.queued)]
    if head.alarm != time:
        head.alarm = time
        set_alarm(spec, state, lane, accelerator, time, head.number)


# Batches


@inlined
def filled(spec, own, requests):
    """Return the batch size for so many requests; for none, the original looks in the wrong place."""
    return fill(spec, own, requests) if requests > 0 else spec.sizes[spec.machine[0].sizes - 1]


@kernel
def drop_twice_late(state, lane, accelerator):
    """Give up all requests that have waited for twice their time."""
    now = state.lanes[lane].now
    own = state.accelerators[lane, accelerator]
    kept = 0
    for place in range(own.queued):
        request = waiting_request(state, lane, accelerator, place)
        if now > request.arrival + 2 * (request.deadline - request.arrival):
            drop(state, lane, own.model, request.number)
            continue
        if kept < place:
            target = waiting_request(state, lane, accelerator, kept)
            target.arrival = request.arrival
            target.deadline = request.deadline
            target.number = request.number
            target.alarm = request.alarm
        kept += 1
    leave(state, lane, accelerator, own.queued - kept)


@kernel
def process(spec, state, lane, accelerator, size):
    """Start a batch; it takes as long as `size` requests, however few there are."""
    drop_twice_late(state, lane, accelerator)
    own = state.accelerators[lane, accelerator]
    size = min(size, own.largest)
    requests = min(size, own.queued)
    if requests == 0:
        return
    late = False
    finish = state.lanes[lane].now + spec.service[own.kind, own.variant, size]
    for place in range(requests):
        late = late or finish > waiting_request(state, lane, accelerator, place).deadline
    start(spec, state, lane, accelerator, requests, size)
    if spec.machine[0].batching == ACCSCALE:
        watch(spec, state, lane, accelerator)
    elif spec.machine[0].batching == AIMD:
        if late:
            own.limit = max(0, own.limit - 1)
        else:
            own.limit = min(spec.machine[0].sizes - 1, own.limit + 1)


@kernel
def drop_heads(spec, state, lane, accelerator):
    """Give up heads that would be late if what waits ran now."""
    now = state.lanes[lane].now
    own = state.accelerators[lane, accelerator]
    while own.queued > 0:
        time = spec.service[own.kind, own.variant, fill(spec, own, own.queued)]
        if now + time <= waiting_request(state, lane, accelerator, 0).deadline:
            return
        drop_head(state, lane, accelerator)


# What happens to an accelerator


@kernel
def arrived_at(spec, state, lane, accelerator):
    """React to a request that has just joined the queue."""
    batching = spec.machine[0].batching
    now = state.lanes[lane].now
    own = state.accelerators[lane, accelerator]
    if not can_start(own):
        if batching == ACCSCALE:
            watch(spec, state, lane, accelerator)
        elif batching == NEXUS and not own.marked:
            request = waiting_request(state, lane, accelerator, own.queued - 1)
            own.marked = 1
            time = now + (request.deadline - request.arrival) - spec.service[own.kind, own.variant, own.largest]
            set_alarm(spec, state, lane, accelerator, time, -1)
    elif batching == AIMD:
        if own.queued >= spec.sizes[own.limit]:
            process(spec, state, lane, accelerator, spec.sizes[own.limit])
    elif batching == NEXUS:
        if own.queued >= own.largest:
            process(spec, state, lane, accelerator, own.largest)
    else:
        drop_heads(spec, state, lane, accelerator)
        if own.queued == 0:
            return
        watch(spec, state, lane, accelerator)
        head = waiting_request(state, lane, accelerator, 0)
        if now >= head.deadline - spec.service[own.kind, own.variant, fill(spec, own, own.queued)]:
            process(spec, state, lane, accelerator, filled(spec, own, own.queued - 1))


@kernel
def went_idle(spec, state, lane, accelerator):
    """React to the end of a batch or load."""
    batching = spec.machine[0].batching
    own = state.accelerators[lane, accelerator]
    if own.queued == 0:
        return
    if batching == ACCSCALE:
        if own.noted:
            own.noted = 0
            process(spec, state, lane, accelerator, fill(spec, own, own.queued))
        elif own.queued > own.largest:
            process(spec, state, lane, accelerator, own.largest)
    elif batching == AIMD:
        if own.queued >= spec.sizes[own.limit]:
            process(spec, state, lane, accelerator, spec.sizes[own.limit])
    else:
        own.marked = 0
        if own.queued >= own.largest:
            process(spec, state, lane, accelerator, own.largest)
            return
        head = waiting_request(state, lane, accelerator, 0)
        own.marked = 1
        time = state.lanes[lane].now + (head.deadline - head.arrival)
        set_alarm(spec, state, lane, accelerator, time - spec.service[own.kind, own.variant, own.largest], -1)


@kernel
def ring(spec, state, lane, accelerator):
    """React to an alarm."""
    time, number = take_alarm(spec, state, lane, accelerator)
    own = state.accelerators[lane, accelerator]
    accscale = spec.machine[0].batching == ACCSCALE
    if not can_start(own):
        if accscale:
            own.noted = 1
        return
    if not accscale:
        drop_heads(spec, state, lane, accelerator)
    if own.queued == 0:
        return
    if accscale:
        head = waiting_request(state, lane, accelerator, 0)
        if head.number != number or head.alarm != time:
            return
        process(spec, state, lane, accelerator, fill(spec, own, own.queued))
    elif own.queued >= own.largest:
        process(spec, state, lane, accelerator, own.largest)
    else:
        process(spec, state, lane, accelerator, fill(spec, own, own.queued))
