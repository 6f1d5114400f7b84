"""Weights in device memory, compiled: residency, capacity check, loading and least-recently-used eviction."""

from __future__ import annotations

from slipstream.jit.decorators import kernel
from slipstream.sim.eventlog import EVICT
from slipstream.sim.kernel.heap import NEVER
from slipstream.sim.kernel.lanes import record


@kernel
def weights_fit(spec, state, lane, task, variant, victim):
    """Return whether the variant's weights fit beside those in use, not counting the job on stream `victim` (or -1)."""
    limit = spec.device[0].memory
    if limit == NEVER or state.weights[lane, task, spec.variants[task, variant].rank].resident:
        return True
    in_use = state.lanes[lane].memory_in_use
    if victim >= 0:
        leaving = state.streams[lane, victim]
        if state.weights[lane, leaving.task, spec.variants[leaving.task, leaving.variant].rank].users == 1:
            in_use -= spec.variants[leaving.task, leaving.variant].memory
    return in_use + spec.variants[task, variant].memory <= limit


@kernel
def loading_time(spec, state, lane, task, variant):
    """Return the time until the variant's weights are loaded."""
    weights = state.weights[lane, task, spec.variants[task, variant].rank]
    if weights.resident:
        return max(0, weights.ready - state.lanes[lane].now)
    return spec.variants[task, variant].load


@kernel
def acquire_weights(spec, state, lane, task, variant, ready):
    """Count a job as a user of the weights; load them, to be ready at `ready`, if they are not resident."""
    header = state.lanes[lane]
    weights = state.weights[lane, task, spec.variants[task, variant].rank]
    size = spec.variants[task, variant].memory
    if not weights.resident:
        while header.memory_resident + size > spec.device[0].memory:
            evict(spec, state, lane)
        weights.resident = 1
        weights.ready = ready
        header.memory_resident += size
    if weights.users == 0:
        header.memory_in_use += size
    weights.users += 1
    mark_used(header, weights)


@kernel
def release_weights(spec, state, lane, task, variant):
    """Remove a job that leaves its stream from the users of the weights."""
    header = state.lanes[lane]
    weights = state.weights[lane, task, spec.variants[task, variant].rank]
    weights.users -= 1
    if weights.users == 0:
        header.memory_in_use -= spec.variants[task, variant].memory
    mark_used(header, weights)


@kernel
def mark_used(header, weights):
    """Update the order in which weights were used, for eviction."""
    header.use_count += 1
    weights.last_use = header.use_count


@kernel
def evict(spec, state, lane):
    """Evict the least recently used weights that no job uses."""
    oldest_task, oldest_variant = -1, -1
    for task in range(spec.tasks.shape[0]):
        for variant in range(state.weights.shape[2]):
            weights = state.weights[lane, task, variant]
            older = oldest_task < 0 or weights.last_use < state.weights[lane, oldest_task, oldest_variant].last_use
            if weights.resident and weights.users == 0 and older:
                oldest_task, oldest_variant = task, variant
    state.weights[lane, oldest_task, oldest_variant].resident = 0
    state.lanes[lane].memory_resident -= spec.variants[oldest_task, oldest_variant].memory
    record(state, lane, EVICT, oldest_task, -1, oldest_variant, -1)
