"""Queues and batch of an engine, compiled: requests that wait, those that run, and their seats."""

from __future__ import annotations

from slipstream.families.llm.kernel.blocks import allocate, release
from slipstream.families.llm.kernel.state import DONE, LOWEST_PRIORITY, RUNNING, TIME, VIOLATIONS, WAITING
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import EVICT, FINISH, PREEMPT, START
from slipstream.sim.kernel.lanes import record


@kernel
def enqueue(state, lane, engine, number, front):
    """Put a request at the end of an engine's queue, or at its front."""
    own, queue = state.engines[lane, engine], state.waiting[lane, engine]
    index = own.first + own.waiting
    if front and own.first > 0:
        own.first -= 1
        index = own.first
    elif front:
        while index > 0:
            queue[index] = queue[index - 1]
            index -= 1
    queue[index] = number
    own.waiting += 1
    request = state.requests[lane, number]
    request.status = WAITING
    request.engine = engine


@kernel
def leave_queue(state, lane, engine, place):
    """Remove the request at `place` of an engine's queue."""
    own, queue = state.engines[lane, engine], state.waiting[lane, engine]
    own.waiting -= 1
    index = own.first + place
    # Those on the shorter side move up.
    if place < own.waiting - place:
        while index > own.first:
            queue[index] = queue[index - 1]
            index -= 1
        own.first += 1
    else:
        while index < own.first + own.waiting:
            queue[index] = queue[index + 1]
            index += 1


@kernel
def take_seat(spec, state, lane, engine, number):
    """Give a request the first free seat, and record its start."""
    request = state.requests[lane, number]
    seat = 0
    while state.seats[lane, engine, seat] >= 0:
        seat += 1
    state.seats[lane, engine, seat] = number
    request.seat = engine * spec.machine[0].seats + seat
    record(state, lane, START, request.group, request.number, 0, request.seat)


@inlined
def leave_seat(spec, state, lane, engine, number):
    """Free the seat of a request."""
    state.seats[lane, engine, state.requests[lane, number].seat - engine * spec.machine[0].seats] = -1


@kernel
def leave_batch(spec, state, lane, engine, place):
    """Remove the request at `place` of an engine's batch, with its seat and its blocks."""
    own = state.engines[lane, engine]
    number = state.running[lane, engine, place]
    leave_seat(spec, state, lane, engine, number)
    release(spec, state, lane, engine, number)
    own.running -= 1
    for index in range(place, own.running):
        state.running[lane, engine, index] = state.running[lane, engine, index + 1]


@kernel
def usual_victim(spec, state, lane, engine):
    """Return the place in the batch of the request that the engine's own rule preempts."""
    own = state.engines[lane, engine]
    victim = own.running - 1
    if spec.machine[0].preempt == LOWEST_PRIORITY:
        worst = state.running[lane, engine, victim]
        for place in range(own.running - 2, -1, -1):
            other = state.running[lane, engine, place]
            priority = spec.classes[state.requests[lane, other].group].priority
            lowest = spec.classes[state.requests[lane, worst].group].priority
            # Requests are numbered in the order of their arrivals.
            if priority > lowest or (priority == lowest and other > worst):
                victim, worst = place, other
    return victim


@kernel
def preempt(spec, state, lane, engine, place):
    """Preempt the request at `place` of the batch: its blocks are freed, and it waits at the front of the queue.

    Tokens that it was to compute in this step go back to the budget. If the schedule has come to it, no other running
    request is scheduled any more.
    """
    own = state.engines[lane, engine]
    number = state.running[lane, engine, place]
    request = state.requests[lane, number]
    record(state, lane, PREEMPT, request.group, request.number, 0, request.seat)
    leave_batch(spec, state, lane, engine, place)
    if place < own.index:
        own.index -= 1
    elif place == own.index:
        own.index = own.running
    if request.scheduled > 0:
        own.left += request.scheduled
        own.sequences -= 1
        request.scheduled = 0
    own.preempted = 1
    request.computed = 0
    request.preemptions += 1
    enqueue(state, lane, engine, number, True)


# The end of a request


@inlined
def is_violation(group, request):
    """Return whether a request that has its last token missed a limit of its class."""
    late = group.ttft > 0 and request.first - request.arrival > group.ttft
    return late or (group.tpot > 0 and request.last - request.first > group.tpot * (request.output - 1))


@kernel
def finish(spec, state, lane, engine, number):
    """Finish a request with its last token; one that was preempted meanwhile takes a seat for that.

    The log states its output length with the row of its blocks.
    """
    header, own, request = state.lanes[lane], state.engines[lane, engine], state.requests[lane, number]
    place = 0
    if request.status == RUNNING:
        while state.running[lane, engine, place] != number:
            place += 1
        record(state, lane, FINISH, request.group, request.number, 0, request.seat)
        if spec.machine[0].prefix:
            # It takes no block: its last one may be full now.
            allocate(spec, state, lane, engine, number, request.computed - request.pending)
        leave_batch(spec, state, lane, engine, place)
    else:
        while state.waiting[lane, engine, own.first + place] != number:
            place += 1
        leave_queue(state, lane, engine, place)
        take_seat(spec, state, lane, engine, number)
        record(state, lane, FINISH, request.group, request.number, 0, request.seat)
        leave_seat(spec, state, lane, engine, number)
    record(state, lane, EVICT, request.group, request.number, -1, request.output)
    request.status = DONE
    header.unfinished -= 1
    state.clients[lane, request.group].active -= 1
    if is_violation(spec.classes[request.group], request):
        header.failed += 1


@kernel
def end_step_terms(spec, state, lane):
    """Compute reward and terms of the step of a decision."""
    machine, header = spec.machine[0], state.lanes[lane]
    seconds = header.request_time / 1e9
    state.terms[lane, TIME] = seconds
    state.terms[lane, VIOLATIONS] = header.failed
    header.reward = -(machine.time_weight * seconds + machine.violation_weight * header.failed)
    header.elapsed = header.now - header.step_began
