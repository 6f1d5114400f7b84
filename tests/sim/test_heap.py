"""The event heap is a sorted list of (time, slot) with at most one entry per slot."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.sim.kernel.heap import NEVER, clear, earliest_slot, earliest_time, empty_heap, schedule

# The first call compiles, which takes its time.
UNHURRIED = settings(deadline=None)
TIMES = st.one_of(st.integers(0, 5), st.just(NEVER), st.integers(0, NEVER))


def next_slot(heap, lane):
    return earliest_slot(heap, lane, earliest_time(heap, lane))


@st.composite
def plans(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    """Draw a number of slots and what is scheduled in them, one after the other; NEVER cancels."""
    slots = draw(st.integers(1, 40))
    return slots, draw(st.lists(st.tuples(st.integers(0, slots - 1), TIMES), max_size=60))


@UNHURRIED
@given(plans())
def test_the_heap_equals_a_sorted_list(plan: tuple[int, list[tuple[int, int]]]) -> None:
    slots, changes = plan
    heap = empty_heap(1, slots)
    pending: dict[int, int] = {}
    for slot, time in changes:
        schedule(heap, 0, slot, time)
        pending.pop(slot, None)
        if time < NEVER:
            pending[slot] = time
        expected = sorted((time, slot) for slot, time in pending.items())
        assert earliest_time(heap, 0) == (expected[0][0] if expected else NEVER)
        if expected:
            assert next_slot(heap, 0) == expected[0][1]


@UNHURRIED
@given(st.lists(TIMES.filter(lambda time: time < NEVER), min_size=1, max_size=40))
def test_events_come_out_in_order_of_time_then_slot(times: list[int]) -> None:
    heap = empty_heap(1, len(times))
    for slot, time in enumerate(times):
        schedule(heap, 0, slot, time)
    taken = []
    while earliest_time(heap, 0) < NEVER:
        slot = int(next_slot(heap, 0))
        taken.append((int(earliest_time(heap, 0)), slot))
        schedule(heap, 0, slot, NEVER)
    assert taken == sorted((time, slot) for slot, time in enumerate(times))


def test_ties_go_to_the_lowest_slot_whatever_the_order_of_scheduling() -> None:
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 0, 3, 1]):
        heap = empty_heap(1, 5)
        for slot in order:
            schedule(heap, 0, slot, 7)
        for slot in range(5):
            assert next_slot(heap, 0) == slot
            schedule(heap, 0, slot, NEVER)


def test_an_event_can_be_moved_later_and_cancelled() -> None:
    heap = empty_heap(1, 3)
    schedule(heap, 0, 0, 5)
    schedule(heap, 0, 1, 6)
    schedule(heap, 0, 0, 8)
    assert (earliest_time(heap, 0), next_slot(heap, 0)) == (6, 1)
    schedule(heap, 0, 1, NEVER)
    assert (earliest_time(heap, 0), next_slot(heap, 0)) == (8, 0)
    schedule(heap, 0, 0, NEVER)
    assert earliest_time(heap, 0) == NEVER


def test_lanes_have_heaps_of_their_own() -> None:
    heap = empty_heap(3, 4)
    for lane in range(3):
        schedule(heap, lane, lane, 10 - lane)
    clear(heap, 1)
    assert [int(earliest_time(heap, lane)) for lane in range(3)] == [10, NEVER, 8]
    assert (heap[1] == NEVER).all()
    assert [int(next_slot(heap, lane)) for lane in (0, 2)] == [0, 2]


def test_the_last_slot_is_as_good_as_the_first() -> None:
    for slots in range(1, 200):
        heap = empty_heap(2, slots)
        schedule(heap, 0, slots - 1, 5)
        assert (earliest_time(heap, 0), next_slot(heap, 0)) == (5, slots - 1)
        assert (heap[1] == NEVER).all()
