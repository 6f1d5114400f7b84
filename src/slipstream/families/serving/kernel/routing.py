"""Routing of requests to the replicas of their model, compiled."""

from __future__ import annotations

from slipstream.families.serving.kernel.demand import listed_row
from slipstream.families.serving.kernel.state import EFT, INFAAS, LFT, RANDOM, ROUND_ROBIN, TRACE
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER
from slipstream.sim.kernel.rng import uniform


@inlined
def expected_finish(spec, own, now):
    """Return the expected finish time of one more request at the accelerator `own`."""
    ready = max(now, own.ready)
    if own.queued < own.largest:
        return ready + spec.service[own.kind, own.variant, own.queued + 1]
    full = own.queued // own.largest
    whole = spec.service[own.kind, own.variant, own.largest]
    return ready + full * whole + spec.service[own.kind, own.variant, own.queued - full * own.largest + 1]


@kernel
def by_finish(spec, state, lane, model, deadline, latest):
    """Return the replica that would finish first or, with `latest`, last among those that make the deadline."""
    replicas = state.models[lane, model].replicas
    now = state.lanes[lane].now
    soonest, least = -1, NEVER
    last, most = -1, -1
    for index in range(replicas):
        accelerator = state.replicas[lane, model, index]
        finish = expected_finish(spec, state.accelerators[lane, accelerator], now)
        if finish < least:
            soonest, least = accelerator, finish
        if latest and finish <= deadline and finish > most:
            last, most = accelerator, finish
    return last if last >= 0 else soonest


@kernel
def floor_of(spec, state, lane, model, number):
    """Return the accuracy floor of a request."""
    if spec.models[model].law == TRACE:
        row = listed_row(spec, model, state.models[lane, model], number)
        if row >= 0:
            return spec.requests[row].floor
    return spec.models[model].floor


@kernel
def by_load(spec, state, lane, model, number):
    """Return the least loaded replica that meets the accuracy floor, else the most accurate."""
    floor = floor_of(spec, state, lane, model, number)
    best, best_load, best_accuracy = -1, 0.0, 0.0
    for index in range(state.models[lane, model].replicas):
        accelerator = state.replicas[lane, model, index]
        own = state.accelerators[lane, accelerator]
        # All replicas above the floor count as equally accurate.
        accuracy = min(spec.variants[own.variant].accuracy, floor)
        load = (own.queued + 1) / spec.columns[own.column].peak
        if best < 0 or accuracy > best_accuracy or (accuracy == best_accuracy and load < best_load):
            best, best_load, best_accuracy = accelerator, load, accuracy
    return best


@kernel
def by_weight(spec, state, lane, model, draw):
    """Return the replica that the uniform number `draw` selects, weighted by peak throughput."""
    replicas = state.models[lane, model].replicas
    total = 0.0
    for index in range(replicas):
        total += spec.columns[state.accelerators[lane, state.replicas[lane, model, index]].column].peak
    target, total = draw * total, 0.0
    for index in range(replicas):
        accelerator = state.replicas[lane, model, index]
        total += spec.columns[state.accelerators[lane, accelerator].column].peak
        if total > target:
            return accelerator
    return state.replicas[lane, model, replicas - 1]


@kernel
def choose_replica(spec, state, lane, model, deadline, number):
    """Return the accelerator that a request is routed to, -1 if none hosts its model."""
    own = state.models[lane, model]
    if own.replicas == 0:
        return -1
    routing = spec.machine[0].routing
    own.routed += 1
    if routing == EFT:
        return by_finish(spec, state, lane, model, deadline, False)
    if routing == LFT:
        return by_finish(spec, state, lane, model, deadline, True)
    if routing == ROUND_ROBIN:
        return state.replicas[lane, model, (own.routed - 1) % own.replicas]
    if routing == INFAAS:
        return by_load(spec, state, lane, model, number)
    draw = uniform(own.route_key, number)
    if routing == RANDOM:
        return state.replicas[lane, model, int(draw * own.replicas)]
    return by_weight(spec, state, lane, model, draw)
