"""The event loop of LLM engines, compiled: arrivals, ends of steps, schedules and decisions.

State changes in two ways only: an event is applied, or a decision takes effect. `docs/llm-machine.md` specifies both.
"""

from __future__ import annotations

from slipstream.families.llm.kernel.arrivals import choose_window, derive_keys, fill_request, next_arrival
from slipstream.families.llm.kernel.blocks import clear_blocks
from slipstream.families.llm.kernel.queues import end_step_terms, enqueue, preempt, usual_victim
from slipstream.families.llm.kernel.routing import usual_engine
from slipstream.families.llm.kernel.schedule import (
    begin_schedule,
    end_oldest_step,
    launch,
    may_admit,
    schedule_running,
    try_admit,
)
from slipstream.families.llm.kernel.state import (
    ADMITS,
    ADMITTING,
    CONTINUING,
    EVICTS,
    IDLE,
    LAUNCHING,
    LEVELLING,
    LEVELS,
    NONE,
    REJECTED,
    SENDS,
)
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import ARRIVAL, REJECT
from slipstream.sim.kernel.heap import NEVER, clear, earliest_slot, earliest_time, schedule
from slipstream.sim.kernel.lanes import ASKING, LOG_FULL, TERMINATED, begin_episode, end_episode, log_is_full, record
from slipstream.sim.kernel.window import candidate_of, is_wait

# Arrivals


@inlined
def arrival_slot(spec):
    """Return the event slot of the next request; the slots before it are the ends of the engines' steps."""
    return spec.machine[0].engines


@kernel
def arrive(spec, state, lane):
    """Apply an arrival: reject a request that no engine can hold, else leave it to be sent to an engine."""
    machine, header = spec.machine[0], state.lanes[lane]
    number = header.arrived
    fill_request(spec, state, lane, number)
    request = state.requests[lane, number]
    client = state.clients[lane, request.group]
    header.arrived += 1
    request.arrival = header.now
    request.number = client.arrived
    client.arrived += 1
    request.first, request.last = -1, -1
    request.known, request.pending, request.computed, request.scheduled = request.prompt, 0, 0, 0
    request.blocks, request.tail, request.entered, request.hits = 0, -1, 0, 0
    request.shown, request.started, request.preemptions, request.seat = 0, 0, 0, -1
    record(state, lane, ARRIVAL, request.group, request.number, -1, request.prompt)
    schedule(state.heap, lane, arrival_slot(spec), next_arrival(spec, header))
    if request.prompt + request.output + machine.eos > machine.longest:
        request.status = REJECTED
        header.failed += 1
        record(state, lane, REJECT, request.group, request.number, -1, -1)
        return
    header.unfinished += 1
    lift_service(spec, state, lane, request.group)
    client.active += 1
    header.pending = number


@kernel
def lift_service(spec, state, lane, group):
    """Lift the service of a class without requests to the least of those that have some."""
    if state.clients[lane, group].active > 0:
        return
    least = -1
    for other in range(spec.machine[0].classes):
        client = state.clients[lane, other]
        if client.active > 0 and (least < 0 or client.service < least):
            least = client.service
    state.clients[lane, group].service = max(state.clients[lane, group].service, least)


@kernel
def send(state, lane, engine):
    """Send the pending request to an engine."""
    header = state.lanes[lane]
    enqueue(state, lane, engine, header.pending, False)
    header.pending = -1


# Schedules


@kernel
def due_engine(spec, state, lane):
    """Return the engine whose schedule goes on or can begin, -1 if there is none."""
    machine, header = spec.machine[0], state.lanes[lane]
    for engine in range(machine.engines):
        if state.engines[lane, engine].phase != IDLE:
            return engine
    for engine in range(machine.engines):
        if is_due(machine, header, state.engines[lane, engine]):
            return engine
    return -1


@inlined
def is_due(machine, header, own):
    """Return whether an engine can begin a schedule: a step has ended, or it stands still and has requests."""
    if own.flight >= machine.depth:
        return False
    idle = own.flight == 0 and own.waiting + own.running > 0 and own.parked != header.events
    return own.due == 1 or idle


@kernel
def asks_level(spec, state, lane, engine):
    """Return whether the levels of the next step are chosen: requests wait, or a prompt is not finished."""
    own = state.engines[lane, engine]
    if not spec.machine[0].decides_budget or own.waiting + own.running == 0:
        return False
    if own.waiting > 0:
        return True
    for place in range(own.running):
        request = state.requests[lane, state.running[lane, engine, place]]
        if request.known + request.pending - request.computed > 1:
            return True
    return False


@kernel
def go_on(spec, state, lane, engine):
    """Continue an engine's schedule; return what must be decided, NONE when it is complete and the step has begun."""
    header, own = state.lanes[lane], state.engines[lane, engine]
    if own.phase == IDLE:
        begin_schedule(spec, state, lane, engine)
        if asks_level(spec, state, lane, engine):
            own.phase = LEVELLING
            return LEVELS
        own.phase = CONTINUING
    if own.phase == CONTINUING:
        if schedule_running(spec, state, lane, engine):
            return EVICTS
        own.phase = ADMITTING
    if own.phase == ADMITTING and may_admit(spec, own):
        return ADMITS
    own.phase = IDLE
    if own.sequences > 0:
        launch(spec, state, lane, engine)
        own.due = 1 if own.flight < spec.machine[0].depth else 0
    else:
        # After a preemption nothing was admitted: that is for another schedule, at once if no step is in flight.
        own.due = 1 if own.preempted and own.flight == 0 else 0
        own.parked = header.events
    return NONE


@kernel
def may_wait(spec, state, lane):
    """Return whether nothing more may be admitted: something is scheduled, will happen, or can be done elsewhere."""
    machine, header = spec.machine[0], state.lanes[lane]
    if header.kind != ADMITS or state.engines[lane, header.engine].sequences > 0:
        return True
    if earliest_time(state.heap, lane) < NEVER:
        return True
    for engine in range(machine.engines):
        own = state.engines[lane, engine]
        if engine != header.engine and own.waiting + own.running > 0 and is_due(machine, header, own):
            return True
    return False


# Decisions


@kernel
def ask(spec, state, lane, kind, engine):
    """Make a decision due, and count its candidates."""
    machine, header = spec.machine[0], state.lanes[lane]
    header.kind, header.engine, header.asked = kind, engine, engine
    header.choices += 1
    if kind == ADMITS:
        header.candidates = state.engines[lane, engine].waiting
    elif kind == LEVELS:
        header.candidates = machine.levels
    elif kind == EVICTS:
        header.candidates = state.engines[lane, engine].running
    else:
        header.candidates = machine.engines
    header.shown = min(header.candidates, machine.rows)


@kernel
def decide(spec, state, lane, action):
    """Carry out `action`; an illegal one waits or, where waiting is illegal, takes the first row."""
    machine, header = spec.machine[0], state.lanes[lane]
    engine, kind = header.engine, header.kind
    own = state.engines[lane, engine]
    index = candidate_of(spec, state, lane, action)
    waits = index < 0 and may_wait(spec, state, lane)
    header.illegal = 0 if index >= 0 or (waits and is_wait(machine, action)) else 1
    header.mistakes += header.illegal
    header.kind = NONE
    if kind == SENDS:
        send(state, lane, usual_engine(spec, state, lane, header.pending) if waits else index)
    elif kind == LEVELS:
        if not waits:
            own.budget, own.headroom = spec.levels[index].budget, spec.levels[index].headroom
            own.left = own.budget
        own.phase = CONTINUING
    elif kind == EVICTS:
        place = usual_victim(spec, state, lane, engine) if waits else own.running - 1 - index
        preempt(spec, state, lane, engine, place)
    elif waits or not try_admit(spec, state, lane, engine, max(index, 0)):
        own.phase = LAUNCHING


# Steps


@kernel
def apply(spec, state, lane, time):
    """Advance the clock to the next event, which is at `time`, and apply it."""
    header = state.lanes[lane]
    slot = earliest_slot(state.heap, lane, time)
    header.request_time += header.unfinished * (time - header.now)
    header.now = time
    header.events += 1
    if slot == arrival_slot(spec):
        arrive(spec, state, lane)
    else:
        end_oldest_step(spec, state, lane, slot)


@kernel
def resume(spec, state, lane):
    """Apply events and schedule steps until a decision is due, the episode ends, or the log must be flushed."""
    machine, header = spec.machine[0], state.lanes[lane]
    header.status, header.asked = ASKING, -1
    while True:
        if log_is_full(state, lane, machine.log_margin):
            header.status = LOG_FULL
            return
        if header.pending >= 0:
            if machine.decides_route:
                ask(spec, state, lane, SENDS, 0)
                break
            send(state, lane, usual_engine(spec, state, lane, header.pending))
            continue
        time = earliest_time(state.heap, lane)
        engine = due_engine(spec, state, lane) if time > header.now else -1
        if engine >= 0:
            kind = go_on(spec, state, lane, engine)
            if kind != NONE:
                ask(spec, state, lane, kind, engine)
                break
        elif time == NEVER:
            end_episode(state, lane, TERMINATED)
            break
        else:
            apply(spec, state, lane, time)
    end_step_terms(spec, state, lane)


@kernel
def act(spec, state, lane, action):
    """Carry out the action of the decision that is due."""
    header = state.lanes[lane]
    header.step_began = header.now
    # The first step keeps what happened before its decision.
    if header.choices > 1:
        header.request_time = 0
        header.failed = 0
    decide(spec, state, lane, action)


@kernel
def begin(spec, state, lane, seed, split):
    """Start the episode of `seed` and `split` with empty engines; schedule the first request."""
    machine, header = spec.machine[0], state.lanes[lane]
    begin_episode(header, seed, split)
    header.asked, header.kind, header.engine, header.pending = -1, NONE, 0, -1
    header.candidates, header.shown = 0, 0
    header.arrived, header.to_come, header.unfinished = 0, machine.requests, 0
    header.request_time, header.failed = 0, 0
    header.redrawn, header.seen, header.block = 0, 0, 0
    derive_keys(header)
    choose_window(spec, header, split)
    clear(state.heap, lane)
    for group in range(machine.classes):
        client = state.clients[lane, group]
        client.arrived, client.active, client.service = 0, 0, 0
    for engine in range(machine.engines):
        own = state.engines[lane, engine]
        own.ended, own.duration, own.parked = 0, 0, -1
        own.running, own.waiting, own.first, own.flight, own.oldest, own.due, own.phase = 0, 0, 0, 0, 0, 0, IDLE
        own.index, own.preempted, own.sequences, own.left = 0, 0, 0, 0
        own.budget, own.headroom = machine.budget, machine.headroom
        clear_blocks(spec, state, lane, engine)
        for seat in range(machine.seats):
            state.seats[lane, engine, seat] = -1
    schedule(state.heap, lane, arrival_slot(spec), next_arrival(spec, header))
