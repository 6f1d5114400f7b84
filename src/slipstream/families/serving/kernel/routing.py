"""To which accelerator a request goes, compiled."""

from __future__ import annotations

from slipstream.families.serving.kernel.state import EFT, INFAAS, LFT, RANDOM, ROUND_ROBIN, TRACE
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER
from slipstream.sim.kernel.rng import uniform


@inlined
def expected_finish(spec, own, now):
    """Return when another request at this accelerator would finish, as far as can be known."""
    ready = max(now, own.ready)
    if own.queued < own.largest:
        return ready + spec.service[own.kind, own.variant, own.queued + 1]
    full = own.queued // own.largest
    whole = spec.service[own.kind, own.variant, own.largest]
    return ready + full * whole + spec.service[own.kind, own.variant, own.queued - full * own.largest + 1]


@kernel
def by_finish(spec, state, lane, model, deadline, latest):
    """Return the member that would finish first or, with `latest`, last among those that make the deadline."""
    members = state.models[lane, model].members
    now = state.lanes[lane].now
    soonest, least = -1, NEVER
    last, most = -1, -1
    for place in range(members):
        accelerator = state.members[lane, model, place]
        finish = expected_finish(spec, state.accelerators[lane, accelerator], now)
        if finish < least:
            soonest, least = accelerator, finish
        if latest and finish <= deadline and finish > most:
            last, most = accelerator, finish
    return last if last >= 0 else soonest


@kernel
def floor_of(spec, model, number):
    """Return the accuracy that a request asks for."""
    source = spec.models[model]
    if source.law == TRACE:
        return spec.requests[source.first_request + number].floor
    return source.floor


@kernel
def by_load(spec, state, lane, model, number):
    """Return the least loaded member that is accurate enough, else the most accurate."""
    floor = floor_of(spec, model, number)
    best, best_load, best_accuracy = -1, 0.0, 0.0
    for place in range(state.models[lane, model].members):
        accelerator = state.members[lane, model, place]
        own = state.accelerators[lane, accelerator]
        # All that are accurate enough are alike.
        accuracy = min(spec.variants[own.variant].accuracy, floor)
        load = (own.queued + 1) / spec.columns[own.column].peak
        if best < 0 or accuracy > best_accuracy or (accuracy == best_accuracy and load < best_load):
            best, best_load, best_accuracy = accelerator, load, accuracy
    return best


@kernel
def by_weight(spec, state, lane, model, luck):
    """Return a member drawn with the weight of its peak."""
    members = state.models[lane, model].members
    total = 0.0
    for place in range(members):
        total += spec.columns[state.accelerators[lane, state.members[lane, model, place]].column].peak
    target, total = luck * total, 0.0
    for place in range(members):
        accelerator = state.members[lane, model, place]
        total += spec.columns[state.accelerators[lane, accelerator].column].peak
        if total > target:
            return accelerator
    return state.members[lane, model, members - 1]


@kernel
def choose_member(spec, state, lane, model, deadline, number):
    """Return the accelerator of a request, -1 if nobody hosts its model."""
    own = state.models[lane, model]
    if own.members == 0:
        return -1
    routing = spec.machine[0].routing
    own.routed += 1
    if routing == EFT:
        return by_finish(spec, state, lane, model, deadline, False)
    if routing == LFT:
        return by_finish(spec, state, lane, model, deadline, True)
    if routing == ROUND_ROBIN:
        return state.members[lane, model, (own.routed - 1) % own.members]
    if routing == INFAAS:
        return by_load(spec, state, lane, model, number)
    luck = uniform(own.route_key, number)
    if routing == RANDOM:
        return state.members[lane, model, int(luck * own.members)]
    return by_weight(spec, state, lane, model, luck)
