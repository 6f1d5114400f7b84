"""Prefetch hints, compiled: memory that the next step of a lane reads or writes."""

from __future__ import annotations

from slipstream.jit.decorators import kernel
from slipstream.jit.prefetch import prefetch, prefetch_record


@kernel
def lanes_at_once(spec, state):
    """Return the number of lanes to step before they are observed; 8 lanes of eight tasks fit the first-level cache."""
    return 8


@kernel
def prefetch_state(spec, state, lane):
    """Prefetch the lane's records and the first positions of its queues, where most jobs wait."""
    prefetch_record(state.lanes, lane, state.lanes.strides[0])
    prefetch_record(state.tasks, lane, state.tasks.strides[0])
    prefetch_record(state.streams, lane, state.streams.strides[0])
    prefetch_record(state.heap, lane, state.heap.strides[0])
    prefetch_record(state.queue, lane, state.queue.strides[1])
    prefetch_record(state.terms, lane, state.terms.strides[0])


@kernel
def prefetch_rows(spec, state, lane, buffer, index):
    """Prefetch the rows that the next observation writes: globals, wait row, and tasks that changed or wait."""
    rows = buffer.rows[index]
    prefetch(buffer.globals, index, 0)
    prefetch(buffer.mask, index, 0)
    prefetch(rows, rows.shape[0] - 1, 0)
    variants = spec.variants.shape[1]
    for task in range(spec.tasks.shape[0]):
        counts = state.tasks[lane, task]
        # One comparison of a sum costs one branch prediction instead of two.
        if counts.stale + counts.length > 0:
            prefetch(rows, spec.device[0].first_drop + task, 0)
            for row_index in range(task * variants, task * variants + spec.tasks[task].variants):
                prefetch(rows, row_index, 0)
