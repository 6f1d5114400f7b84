"""The event loop of elastic jobs, compiled: arrivals, ends of set-ups, jobs and rounds, and decisions.

State changes in two ways only: an event is applied, or a decision takes effect. `docs/elastic-machine.md` specifies
both.
"""

from __future__ import annotations

from slipstream.families.elastic.kernel.lifecycle import arrival_slot, arrive, progress, round_slot
from slipstream.families.elastic.kernel.rounds import (
    allocate,
    begin_allocation,
    begin_round,
    list_candidates,
    may_wait,
)
from slipstream.families.elastic.kernel.state import RESTARTS, TIME
from slipstream.jit.decorators import kernel
from slipstream.sim.kernel.heap import NEVER, clear, earliest_slot, earliest_time, pending, schedule
from slipstream.sim.kernel.job_stream import begin_stream, next_arrival
from slipstream.sim.kernel.lanes import ASKING, LOG_FULL, TERMINATED, begin_episode, end_episode, log_is_full
from slipstream.sim.kernel.window import candidate_of, is_wait


@kernel
def apply(spec, state, lane, time):
    """Advance the clock to the next event, which is at `time`, and apply it."""
    machine, header = spec.machine[0], state.lanes[lane]
    slot = earliest_slot(state.heap, lane, time)
    header.job_time += header.active * (time - header.now)
    header.now = time
    header.events += 1
    if slot == round_slot(state):
        schedule(state.heap, lane, slot, NEVER)
        header.due = 1
        return
    if slot == arrival_slot(state):
        arrive(spec, state, lane)
        # Between rounds, when nothing was left to do, a job begins one.
        if machine.at_events or pending(state.heap, lane, round_slot(state)) == NEVER:
            header.due = 1
        return
    active = header.active
    progress(spec, state, lane, slot)
    if header.active < active:
        if machine.at_events:
            header.due = 1
        if header.active == 0:
            schedule(state.heap, lane, round_slot(state), NEVER)


@kernel
def decision_follows(spec, state, lane):
    """Go on with the allocation of the round that begins; return whether a decision is due."""
    header = state.lanes[lane]
    if header.active == 0:
        header.due = 0
        return False
    if not header.planning:
        begin_allocation(spec, state, lane)
    list_candidates(spec, state, lane)
    if header.candidates > 0:
        return True
    begin_round(spec, state, lane)
    return False


@kernel
def end_step_terms(spec, state, lane):
    """Compute reward and terms of the step of a decision."""
    machine, header = spec.machine[0], state.lanes[lane]
    seconds = header.job_time / 1e9
    state.terms[lane, TIME] = seconds
    state.terms[lane, RESTARTS] = header.restarted
    header.reward = -(machine.time_weight * seconds + machine.restart_weight * header.restarted)
    header.elapsed = header.now - header.step_began


@kernel
def resume(spec, state, lane):
    """Apply events and begin rounds until a decision is due, the episode ends, or the log must be flushed."""
    machine, header = spec.machine[0], state.lanes[lane]
    header.status, header.asked = ASKING, -1
    while True:
        if log_is_full(state, lane, machine.log_margin):
            header.status = LOG_FULL
            return
        time = earliest_time(state.heap, lane)
        if time > header.now and (header.due or header.planning):
            if decision_follows(spec, state, lane):
                header.asked = 0
                header.choices += 1
                break
        elif time == NEVER:
            end_episode(state, lane, TERMINATED)
            break
        else:
            apply(spec, state, lane, time)
    end_step_terms(spec, state, lane)


@kernel
def act(spec, state, lane, action):
    """Carry out the action of the decision that is due; an illegal one waits or, where that is illegal, is row 0."""
    machine, header = spec.machine[0], state.lanes[lane]
    header.step_began = header.now
    # The first step keeps what happened before its decision.
    if header.choices > 1:
        header.job_time = 0
        header.restarted = 0
    candidate = candidate_of(spec, state, lane, action)
    waits = candidate < 0 and may_wait(header)
    header.illegal = 0 if candidate >= 0 or (waits and is_wait(machine, action)) else 1
    header.mistakes += header.illegal
    if waits:
        begin_round(spec, state, lane)
    else:
        allocate(spec, state, lane, max(candidate, 0))


@kernel
def begin(spec, state, lane, seed, split):
    """Start the episode of `seed` and `split` without jobs; schedule the first arrival."""
    header = state.lanes[lane]
    begin_episode(header, seed, split)
    header.asked, header.candidates, header.shown = -1, 0, 0
    header.active, header.due, header.planning, header.placed, header.free_gpus = 0, 0, 0, 0, 0
    header.rounds, header.job_time, header.restarted = 0, 0, 0
    begin_stream(spec, header)
    clear(state.heap, lane)
    schedule(state.heap, lane, arrival_slot(state), next_arrival(spec, header))
