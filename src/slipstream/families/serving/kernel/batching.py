"""When an accelerator starts how many of the requests that wait, compiled."""

from __future__ import annotations

from slipstream.families.serving.kernel.queues import drop_head, fill, start, waiting_request
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
def drop_from_head(spec, state, lane, accelerator):
    """Give up requests at the head of the queue that the scenario's rule gives up."""
    rule = spec.machine[0].drop
    if rule == NEVER_DROP:
        return
    now = state.lanes[lane].now
    own = state.accelerators[lane, accelerator]
    while own.queued > 0:
        head = waiting_request(state, lane, accelerator, 0)
        if rule == HOPELESS:
            given_up = now + spec.service[own.kind, own.variant, 1] > head.deadline
        elif rule == CROWDED:
            # Small batches for the sake of the head would leave ever more behind: it goes, if others fill a whole one.
            size = own.largest if own.queued > own.largest else 1
            given_up = now + spec.service[own.kind, own.variant, size] > head.deadline
        elif rule == EXPIRED:
            given_up = now > head.deadline
        elif rule == BATCH:
            given_up = now + spec.service[own.kind, own.variant, fill(spec, own, own.queued)] > head.deadline
        else:
            given_up = now > head.arrival + 2 * (head.deadline - head.arrival)
        if not given_up:
            return
        drop_head(state, lane, accelerator)


@kernel
def best_batch(spec, state, lane, accelerator):
    """Return how many requests to start so that all are on time and most are answered per time."""
    now = state.lanes[lane].now
    own = state.accelerators[lane, accelerator]
    most = min(own.queued, own.largest)
    best, best_time = 0, 1
    earliest = NEVER
    looked = 0
    for place in range(spec.machine[0].sizes):
        size = min(spec.sizes[place], most)
        while looked < size:
            earliest = min(earliest, waiting_request(state, lane, accelerator, looked).deadline)
            looked += 1
        time = spec.service[own.kind, own.variant, size]
        # Cross-multiplied, so that whole numbers decide.
        if now + time <= earliest and size * best_time >= best * time:
            best, best_time = size, time
        if size == most:
            break
    return best if best > 0 else most


@inlined
def wait_until(spec, state, lane, accelerator, time):
    """Let an accelerator consider its queue again at some time."""
    schedule(state.heap, lane, timer_slot(spec, accelerator), time)


@kernel
def consider(spec, state, lane, accelerator):
    """Let an accelerator that can start a batch do so, or wait for more requests."""
    machine = spec.machine[0]
    if pending(state.heap, lane, timer_slot(spec, accelerator)) != NEVER:
        wait_until(spec, state, lane, accelerator, NEVER)
    drop_from_head(spec, state, lane, accelerator)
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
        size = fill(spec, own, own.queued)
        planned = size if machine.batching == ACCSCALE else own.largest
        head = waiting_request(state, lane, accelerator, 0)
        latest = head.deadline - spec.service[own.kind, own.variant, planned]
        if state.lanes[lane].now < latest:
            wait_until(spec, state, lane, accelerator, latest)
            return
    start(spec, state, lane, accelerator, size, size)


@kernel
def move_limit(spec, own, late):
    """Move the limit of `aimd` at the end of a batch: down if some request was late, up if it was all used."""
    if late:
        if own.limit > 0:
            own.limit -= 1
    elif own.running == spec.sizes[own.limit] and spec.sizes[own.limit] < own.largest:
        own.limit += 1
