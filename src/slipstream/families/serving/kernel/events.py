"""The event loop of the serving machine, compiled: events and decisions. `docs/serving-machine.md` specifies it.

State changes in two ways only: `apply` an event, or `decide`: carry out an action. A simulated lane takes all events
from the heap. A lane that follows an engine takes timers from it as its clock passes them; the ends of batches and
loads are put there when the engine reports them (`engine/lane.py`).
"""

from __future__ import annotations

from slipstream.families.serving.kernel.batching import adapt_limit, try_start
from slipstream.families.serving.kernel.compat import on_alarm, on_idle
from slipstream.families.serving.kernel.demand import derive_keys, listed_row, next_request, take_sample
from slipstream.families.serving.kernel.deployment import begin_load, enqueue, finish_load, host, release
from slipstream.families.serving.kernel.queues import count_violation, drop
from slipstream.families.serving.kernel.routing import choose_replica
from slipstream.families.serving.kernel.slots import arrival_slot, plan_slot, sample_slot
from slipstream.families.serving.kernel.state import (
    ACCURACY,
    AIMD,
    EWMA,
    HOST,
    ROWS_PER_COLUMN,
    SILENT,
    SWITCHES,
    TRACE,
    VIOLATIONS,
)
from slipstream.jit.decorators import kernel
from slipstream.sim.eventlog import ARRIVAL, FINISH
from slipstream.sim.kernel.heap import NEVER, clear, earliest_slot, earliest_time, schedule
from slipstream.sim.kernel.lanes import (
    ASKING,
    LOG_FULL,
    PENDING,
    TERMINATED,
    begin_episode,
    end_episode,
    log_is_full,
    record,
)

# Requests


@kernel
def schedule_arrival(spec, state, lane, model):
    """Schedule a model's next request; when no model has any left, samples and plans end."""
    header = state.lanes[lane]
    time = next_request(spec, model, state.models[lane, model])
    schedule(state.heap, lane, arrival_slot(spec, model), time)
    if time == NEVER:
        header.streams -= 1
        if header.streams == 0:
            schedule(state.heap, lane, sample_slot(spec), NEVER)
            schedule(state.heap, lane, plan_slot(spec), NEVER)


@kernel
def arrive(spec, state, lane, model):
    """Apply the arrival of a request of `model`: route it, or leave that to a decision in mode route."""
    header = state.lanes[lane]
    own, source = state.models[lane, model], spec.models[model]
    number = own.arrived
    own.arrived += 1
    own.last = own.time
    own.sampled += 1
    own.offered += 1
    deadline = header.now + source.slo
    if source.law == TRACE:
        row = listed_row(spec, model, own, number)
        if row >= 0:
            deadline = header.now + spec.requests[row].deadline - spec.requests[row].time
    record(state, lane, ARRIVAL, model, number, -1, -1)
    schedule_arrival(spec, state, lane, model)
    if spec.machine[0].route and own.replicas > 0:
        header.pending = model
        header.pending_deadline = deadline
        header.pending_number = number
        return
    target = choose_replica(spec, state, lane, model, deadline, number)
    enqueue(spec, state, lane, target, model, header.now, deadline, number)


# Accelerators


@kernel
def finish_requests(spec, state, lane, accelerator):
    """Finish the requests of a batch; return whether some were late."""
    now = state.lanes[lane].now
    own = state.accelerators[lane, accelerator]
    variant = spec.variants[own.ran]
    model = state.models[lane, variant.model]
    late = False
    mask = state.queues.shape[2] - 1
    for index in range(own.running):
        request = state.queues[lane, accelerator, (own.head + index) & mask]
        record(state, lane, FINISH, variant.model, request.number, own.ran, accelerator)
        if now <= request.deadline:
            model.on_time += 1
            model.accuracy += variant.accuracy / 100.0
            state.lanes[lane].gained += variant.accuracy / 100.0
        else:
            late = True
            model.late += 1
            count_violation(state, lane, variant.model)
    return late


@kernel
def end_batch_or_load(spec, state, lane, accelerator):
    """Apply the end of an accelerator's batch or load, and start what follows."""
    machine = spec.machine[0]
    own = state.accelerators[lane, accelerator]
    schedule(state.heap, lane, accelerator, NEVER)
    if own.busy:
        late = finish_requests(spec, state, lane, accelerator)
        if machine.batching == AIMD and not machine.proteus and own.variant == own.ran:
            adapt_limit(spec, own, late)
        own.head = (own.head + own.running) & (state.queues.shape[2] - 1)
        own.running = 0
        own.busy = 0
        if own.loading:
            begin_load(spec, state, lane, accelerator)
            return
    else:
        finish_load(state, lane, accelerator)
    if own.column < 0:
        return
    if machine.proteus:
        on_idle(spec, state, lane, accelerator)
    else:
        try_start(spec, state, lane, accelerator)


# Events


@kernel
def apply(spec, state, lane):
    """Advance the clock to the next event and apply it."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    time = earliest_time(state.heap, lane)
    slot = earliest_slot(state.heap, lane, time)
    header.now = time
    header.events += 1
    if slot >= arrival_slot(spec, 0):
        arrive(spec, state, lane, slot - arrival_slot(spec, 0))
    elif slot < machine.accelerators:
        end_batch_or_load(spec, state, lane, slot)
    elif slot < sample_slot(spec):
        if machine.proteus:
            on_alarm(spec, state, lane, slot - machine.accelerators)
        else:
            try_start(spec, state, lane, slot - machine.accelerators)
    elif slot == sample_slot(spec):
        take_sample(spec, state, lane)
        schedule(state.heap, lane, slot, time + machine.sample)
    else:
        header.planning = 1
        header.moves = machine.moves
        schedule(state.heap, lane, slot, time + machine.interval)


@kernel
def end_step(spec, state, lane):
    """Compute the reward of the step from its terms."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    state.terms[lane, ACCURACY] = header.gained
    state.terms[lane, VIOLATIONS] = header.failed
    state.terms[lane, SWITCHES] = header.switched
    cost = machine.violations * header.failed + machine.switches * header.switched
    header.reward = machine.accuracy * header.gained - cost
    header.elapsed = header.now - header.step_began


@kernel
def close_episode(state, lane):
    """End the episode; requests still in queues count as violations."""
    state.lanes[lane].asked = -1
    for model in range(state.models.shape[1]):
        for _ in range(state.models[lane, model].queued):
            count_violation(state, lane, model)
    end_episode(state, lane, TERMINATED)


@kernel
def works(state, lane):
    """Return whether an accelerator runs a batch or loads weights."""
    for accelerator in range(state.accelerators.shape[1]):
        own = state.accelerators[lane, accelerator]
        if own.busy or own.loading:
            return True
    return False


@kernel
def resume(spec, state, lane):
    """Apply events until a decision is due, the episode ends, or the log must be flushed."""
    header = state.lanes[lane]
    header.status = ASKING
    while True:
        if log_is_full(state, lane, spec.machine[0].log_margin):
            header.status = LOG_FULL
            return
        if header.planning or header.pending >= 0:
            header.choices += 1
            header.asked = max(0, header.pending)
            break
        time = earliest_time(state.heap, lane)
        if header.clock > 0 and time > header.clock and (time < NEVER or works(state, lane)):
            header.status = PENDING
            return
        if time == NEVER:
            close_episode(state, lane)
            break
        apply(spec, state, lane)
    end_step(spec, state, lane)


# Decisions


@kernel
def is_allowed(spec, state, lane, action):
    """Return whether `action`, a row other than the last, is legal."""
    header = state.lanes[lane]
    if action < 0 or action >= spec.machine[0].rows:
        return False
    if header.pending >= 0:
        return action < state.models[lane, header.pending].replicas
    column = action // ROWS_PER_COLUMN
    if action % ROWS_PER_COLUMN == HOST:
        return state.idle[lane, spec.columns[column].kind] > 0
    return state.columns[lane, column].hosted > 0


@kernel
def end_plan(spec, state, lane):
    """End the plan and reset the counters of offered requests and violations."""
    header = state.lanes[lane]
    header.planning = 0
    header.plans += 1
    for model in range(spec.machine[0].models):
        state.models[lane, model].offered = 0
        state.models[lane, model].violations = 0


@kernel
def send_request(spec, state, lane, index):
    """Send the pending request to replica `index` of its model, or drop it if `index` is negative."""
    header = state.lanes[lane]
    model, number = header.pending, header.pending_number
    header.pending = -1
    if index < 0:
        drop(state, lane, model, number)
        return
    target = state.replicas[lane, model, index]
    enqueue(spec, state, lane, target, model, header.now, header.pending_deadline, number)


@kernel
def decide(spec, state, lane, action):
    """Carry out `action`; an illegal one counts as the last row."""
    header = state.lanes[lane]
    allowed = is_allowed(spec, state, lane, action)
    header.illegal = 0 if allowed or action == spec.machine[0].rows else 1
    header.mistakes += header.illegal
    if header.pending >= 0:
        send_request(spec, state, lane, action if allowed else -1)
    elif not allowed:
        end_plan(spec, state, lane)
    else:
        column = action // ROWS_PER_COLUMN
        if action % ROWS_PER_COLUMN == HOST:
            host(spec, state, lane, column)
        else:
            release(spec, state, lane, column)
        header.moves -= 1
        if header.moves == 0:
            end_plan(spec, state, lane)


@kernel
def begin_step(state, lane):
    """Reset the reward terms for the next step; the first step keeps those accrued before it."""
    header = state.lanes[lane]
    header.step_began = header.now
    if header.choices > 1:
        header.gained = 0.0
        header.failed = 0
        header.switched = 0


@kernel
def act(spec, state, lane, action):
    """Carry out `action` and begin the next step."""
    begin_step(state, lane)
    decide(spec, state, lane, action)


# Episodes


@kernel
def clear_accelerators(spec, state, lane):
    """Reset all accelerators to hosting nothing."""
    for kind in range(state.idle.shape[1]):
        state.idle[lane, kind] = 0
    for column in range(spec.machine[0].columns):
        state.columns[lane, column].hosted = 0
    for accelerator in range(spec.machine[0].accelerators):
        own = state.accelerators[lane, accelerator]
        own.kind = spec.kinds[accelerator]
        own.column = -1
        own.variant = -1
        own.model = -1
        own.holds = -1
        own.ran = -1
        own.busy = 0
        own.loading = 0
        own.head = 0
        own.running = 0
        own.queued = 0
        own.alarms = 0
        own.ready = 0
        own.began = 0
        own.piece = 0
        own.expected = 0
        state.idle[lane, own.kind] += 1


@kernel
def clear_models(spec, state, lane):
    """Reset the arrivals, counters and forecasts of all models."""
    header = state.lanes[lane]
    for model in range(spec.machine[0].models):
        own = state.models[lane, model]
        derive_keys(spec, header, model, own)
        own.arrived = 0
        own.segment = 0
        own.time = 0.0
        own.last = 0.0
        own.redrawn = 0
        own.replicas = 0
        own.routed = 0
        own.queued = 0
        own.on_time = 0
        own.late = 0
        own.dropped = 0
        own.rejected = 0
        own.accuracy = 0.0
        own.sampled = 0
        own.offered = 0
        own.violations = 0
        own.rate = spec.models[model].expected
        own.forecast = spec.models[model].expected
        own.weighed = 0.0 if spec.machine[0].forecast == EWMA else spec.models[model].expected
        own.weight = 0.0
        own.deviation = 0.0


@kernel
def begin(spec, state, lane, seed, split):
    """Start the episode of `seed` and `split`."""
    machine = spec.machine[0]
    header = state.lanes[lane]
    begin_episode(header, seed, split)
    header.planning = 0
    header.moves = 0
    header.plans = 0
    header.samples = 0
    header.waiting = 0
    header.pending = -1
    header.gained = 0.0
    header.failed = 0
    header.switched = 0
    header.free = machine.accelerators
    clear(state.heap, lane)
    clear_accelerators(spec, state, lane)
    clear_models(spec, state, lane)
    for index in range(spec.initial.shape[0]):
        host(spec, state, lane, spec.initial[index])
    schedule(state.heap, lane, sample_slot(spec), machine.sample)
    if not machine.route:
        schedule(state.heap, lane, plan_slot(spec), 0)
    header.streams = 1
    for model in range(machine.models):
        if spec.models[model].law != SILENT:
            header.streams += 1
            schedule_arrival(spec, state, lane, model)
    header.streams -= 1
    if header.streams == 0:
        schedule(state.heap, lane, sample_slot(spec), NEVER)
        schedule(state.heap, lane, plan_slot(spec), NEVER)
