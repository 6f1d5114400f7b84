"""What a step of many lanes will touch, compiled: asked for early, so that it is in the caches when it is needed."""

from __future__ import annotations

from slipstream.jit.decorators import kernel
from slipstream.jit.prefetch import prefetch, prefetch_record


@kernel
def lanes_at_once(spec, state):
    """Return how many lanes to step before they are observed: with eight tasks, so many fit the first cache."""
    return 8


@kernel
def prefetch_state(spec, state, lane):
    """Ask for the lane's records, and for the first places of its queues, where most jobs wait."""
    prefetch_record(state.lanes, lane, state.lanes.strides[0])
    prefetch_record(state.tasks, lane, state.tasks.strides[0])
    prefetch_record(state.streams, lane, state.streams.strides[0])
    prefetch_record(state.heap, lane, state.heap.strides[0])
    prefetch_record(state.queue, lane, state.queue.strides[1])
    prefetch_record(state.terms, lane, state.terms.strides[0])


@kernel
def prefetch_rows(spec, state, lane, buffer, slot):
    """Ask for the changing columns of what shows another picture now: the device, the wait row, and some tasks."""
    rows = buffer.rows[slot]
    prefetch(buffer.globals, slot, 0)
    prefetch(buffer.mask, slot, 0)
    prefetch(rows, rows.shape[0] - 1, 0)
    variants = spec.variants.shape[1]
    for task in range(spec.tasks.shape[0]):
        counts = state.tasks[lane, task]
        # One sum, one guess of the processor.
        if counts.stale + counts.length > 0:
            prefetch(rows, spec.device[0].first_drop + task, 0)
            for place in range(task * variants, task * variants + spec.tasks[task].variants):
                prefetch(rows, place, 0)
