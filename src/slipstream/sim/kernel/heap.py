"""The event heap: one slot per event source, ordered by (time, slot).

Every source (a stream about to finish, a task about to release a job, ...) has at most one pending event, so the heap
is a fixed array of times in blocks with their minima: changing or cancelling an event is one store and at times a scan
of its block. It holds no stale events, cannot overflow, and breaks ties by the lowest slot. Families number their slots
by kind, so events are ordered by (time, kind, id).
"""

from __future__ import annotations

import numpy as np

from slipstream.jit.decorators import inlined, kernel

NEVER = 2**62
"""The time of an event that is not pending."""

BLOCK = 8
"""Slots per block: a block is one cache line."""


def empty_heap(lanes: int, slots: int) -> np.ndarray:
    """Return a heap for `slots` event sources in each of `lanes`: the minimum of each block, then all times."""
    blocks = -(-slots // BLOCK)
    return np.full((lanes, blocks * (1 + BLOCK)), NEVER, np.int64)


def next_time(heap: np.ndarray) -> int:
    """Return the time of the next event in the heap of one lane; called from Python."""
    return int(heap[: len(heap) // (1 + BLOCK)].min())


def times_of(heap: np.ndarray) -> np.ndarray:
    """Return a view of the times of all events in the heap of one lane, by slot; called from Python."""
    return heap[len(heap) // (1 + BLOCK) :]


def set_time(heap: np.ndarray, slot: int, time: int) -> None:
    """Set the time of the event of `slot` in the heap of one lane, as `schedule` does; called from Python."""
    blocks, block = len(heap) // (1 + BLOCK), slot // BLOCK
    heap[blocks + slot] = time
    heap[block] = heap[blocks + block * BLOCK : blocks + (block + 1) * BLOCK].min()


@kernel
def clear(heap, lane):
    """Cancel every event of the lane."""
    for index in range(heap.shape[1]):
        heap[lane, index] = NEVER


@inlined
def schedule(heap, lane, slot, time):
    """Set the time of the event of `slot`; NEVER cancels it."""
    blocks = heap.shape[1] // (1 + BLOCK)
    block = slot // BLOCK
    before = heap[lane, blocks + slot]
    heap[lane, blocks + slot] = time
    if time <= heap[lane, block]:
        heap[lane, block] = time
    elif before == heap[lane, block]:
        members = heap[lane, blocks + block * BLOCK : blocks + (block + 1) * BLOCK]
        least = members[0]
        for offset in range(1, BLOCK):
            least = min(least, members[offset])
        heap[lane, block] = least


@kernel
def pending(heap, lane, slot):
    """Return the time of the event of `slot`, NEVER if it has none."""
    return heap[lane, heap.shape[1] // (1 + BLOCK) + slot]


@inlined
def earliest_time(heap, lane):
    """Return the time of the next event, NEVER if there is none."""
    least = heap[lane, 0]
    for block in range(1, heap.shape[1] // (1 + BLOCK)):
        least = min(least, heap[lane, block])
    return least


@inlined
def earliest_slot(heap, lane, time):
    """Return the slot of the next event, which is at `time`; the lowest one on ties."""
    blocks = heap.shape[1] // (1 + BLOCK)
    block = 0
    while heap[lane, block] != time:
        block += 1
    members = heap[lane, blocks + block * BLOCK : blocks + (block + 1) * BLOCK]
    first = BLOCK - 1
    # A scan of the whole block costs no more than one branch misprediction of an early exit.
    for offset in range(BLOCK - 2, -1, -1):
        if members[offset] == time:
            first = offset
    return block * BLOCK + first
