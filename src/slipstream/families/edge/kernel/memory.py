"""Weights on the device, compiled: which are there, which fit, and who makes room."""

from __future__ import annotations

from slipstream.jit.decorators import kernel
from slipstream.sim.eventlog import EVICT
from slipstream.sim.kernel.heap import NEVER
from slipstream.sim.kernel.lanes import record


@kernel
def fit(spec, state, lane, task, variant, victim):
    """Return whether the variant's weights fit beside those in use; a victim's stream (or -1) counts as free."""
    limit = spec.device[0].memory
    if limit == NEVER or state.weights[lane, task, variant].resident:
        return True
    in_use = state.lanes[lane].memory_in_use
    if victim >= 0:
        leaving = state.streams[lane, victim]
        if state.weights[lane, leaving.task, leaving.variant].users == 1:
            in_use -= spec.variants[leaving.task, leaving.variant].memory
    return in_use + spec.variants[task, variant].memory <= limit


@kernel
def loading_time(spec, state, lane, task, variant):
    """Return how long the variant's weights would still take to be on the device."""
    weights = state.weights[lane, task, variant]
    if weights.resident:
        return max(0, weights.ready - state.lanes[lane].now)
    return spec.variants[task, variant].load


@kernel
def take_weights(spec, state, lane, task, variant, ready):
    """Let a job use the weights; if they are not there, they come, and will be ready then."""
    header = state.lanes[lane]
    weights = state.weights[lane, task, variant]
    size = spec.variants[task, variant].memory
    if not weights.resident:
        while header.memory_taken + size > spec.device[0].memory:
            evict(spec, state, lane)
        weights.resident = 1
        weights.ready = ready
        header.memory_taken += size
    if weights.users == 0:
        header.memory_in_use += size
    weights.users += 1
    note_use(header, weights)


@kernel
def leave_weights(spec, state, lane, task, variant):
    """Let a job that leaves its stream no longer use the weights."""
    header = state.lanes[lane]
    weights = state.weights[lane, task, variant]
    weights.users -= 1
    if weights.users == 0:
        header.memory_in_use -= spec.variants[task, variant].memory
    note_use(header, weights)


@kernel
def note_use(header, weights):
    """Remember the order in which weights were used."""
    header.uses += 1
    weights.last_use = header.uses


@kernel
def evict(spec, state, lane):
    """Take the weights used least recently, of those not in use, off the device."""
    oldest_task, oldest_variant = -1, -1
    for task in range(spec.tasks.shape[0]):
        for variant in range(spec.tasks[task].variants):
            weights = state.weights[lane, task, variant]
            older = oldest_task < 0 or weights.last_use < state.weights[lane, oldest_task, oldest_variant].last_use
            if weights.resident and weights.users == 0 and older:
                oldest_task, oldest_variant = task, variant
    state.weights[lane, oldest_task, oldest_variant].resident = 0
    state.lanes[lane].memory_taken -= spec.variants[oldest_task, oldest_variant].memory
    record(state, lane, EVICT, oldest_task, -1, oldest_variant, -1)
