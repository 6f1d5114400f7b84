"""Batching, compiled: when an accelerator starts a batch, and of which size."""

from __future__ import annotations

from slipstream.families.serving.kernel.queues import drop_head, largest_filled, start, waiting_request
from slipstream.families.serving.kernel.slots import timer_slot
from slipstream.families.serving.kernel.state import (
    ACCSCALE,
    AIMD,
    BATCH,
    CROWDED,
    DEADLINE_AWARE,
    EXPIRED,
    HOPELESS,
    NEVER_DROP,
    NONE,
)
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.kernel.heap import NEVER, pending, schedule


@kernel
def drop_by_rule(spec, state, lane, accelerator):
    """Drop requests at the head of the queue by the scenario's drop rule."""
    rule = spec.machine[0].drop
    if rule == NEVER_DROP:
        return
    now = state.lanes[lane].now
    own = state.accelerators[lane, accelerator]
    while own.queued > 0:
        head = waiting_request(state, lane, accelerator, 0)
        if rule == HOPELESS:
            dropped = now + spec.service[own.kind, own.variant, 1] > head.deadline
        elif rule == CROWDED:
            # Small batches to save the head would let the queue grow: it is dropped if others fill a whole batch.
            size = own.largest if own.queued > own.largest else 1
            dropped = now + spec.service[own.kind, own.variant, size] > head.deadline
        elif rule == EXPIRED:
            dropped = now > head.deadline
        elif rule == BATCH:
            dropped = now + spec.service[own.kind, own.variant, largest_filled(spec, own, own.queued)] > head.deadline
        else:
            dropped = now > head.arrival + 2 * (head.deadline - head.arrival)
        if not dropped:
            return
        drop_head(state, lane, accelerator)


@kernel
def best_batch(spec, state, lane, accelerator):
    """Return the batch size with the highest throughput that meets all its deadlines; the largest if none does."""
    now = state.lanes[lane].now
    own = state.accelerators[lane, accelerator]
    most = min(own.queued, own.largest)
    best, best_time = 0, 1
    earliest = NEVER
    checked = 0
    for index in range(spec.machine[0].sizes):
        size = min(spec.sizes[index], most)
        while checked < size:
            earliest = min(earliest, waiting_request(state, lane, accelerator, checked).deadline)
            checked += 1
        time = spec.service[own.kind, own.variant, size]
        # Cross-multiplied, so that the comparison is exact in integers.
        if now + time <= earliest and size * best_time >= best * time:
            best, best_time = size, time
        if size == most:
            break
    return best if best > 0 else most


@inlined
def set_timer(spec, state, lane, accelerator, time):
    """Set the timer of an accelerator to `time`."""
    schedule(state.heap, lane, timer_slot(spec, accelerator), time)


@kernel
def try_start(spec, state, lane, accelerator):
    """Start a batch on an idle accelerator, or set its timer to wait for more requests."""
    machine = spec.machine[0]
    if pending(state.heap, lane, timer_slot(spec, accelerator)) != NEVER:
        set_timer(spec, state, lane, accelerator, NEVER)
    drop_by_rule(spec, state, lane, accelerator)
    own = state.accelerators[lane, accelerator]
    if own.queued == 0:
        return
    if machine.batching == DEADLINE_AWARE:
        size = best_batch(spec, state, lane, accelerator)
    elif machine.batching == NONE:
        size = 1
    elif machine.batching == AIMD:
        size = min(own.queued, spec.sizes[own.limit], own.largest)
    elif own.queued >= own.largest:
        size = own.largest
    else:
        size = largest_filled(spec, own, own.queued)
        planned = size if machine.batching == ACCSCALE else own.largest
        head = waiting_request(state, lane, accelerator, 0)
        latest = head.deadline - spec.service[own.kind, own.variant, planned]
        if state.lanes[lane].now < latest:
            set_timer(spec, state, lane, accelerator, latest)
            return
    start(spec, state, lane, accelerator, size, size)


@kernel
def adapt_limit(spec, own, late):
    """Adapt the limit of `aimd` at the end of a batch: down if a request was late, up if the limit was reached."""
    if late:
        if own.limit > 0:
            own.limit -= 1
    elif own.running == spec.sizes[own.limit] and spec.sizes[own.limit] < own.largest:
        own.limit += 1
