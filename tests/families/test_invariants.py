"""Every log obeys the conservation laws, and no kind of corruption gets past them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import strategies as st

from slipstream.errors import InvariantError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared.invariants import Memory, check
from slipstream.policies.base import find, names
from slipstream.sim.eventlog import (
    ARRIVAL,
    DROP,
    END,
    EVENT,
    EVICT,
    EXPIRE,
    FAIL,
    FINISH,
    KINDS,
    MOVE,
    PREEMPT,
    READY,
    REJECT,
    START,
)
from slipstream.sim.simulator import Simulator
from tests.edge.cases import scenario, task, trace
from tests.strategies import edge_scenarios, episode_seeds, in_short_runs

STREAMS, QUEUE_LIMIT = 2, 3

ROWS = [
    # time, job, task, resource, variant, kind
    (0, 0, 0, -1, -1, ARRIVAL),
    (0, 0, 1, -1, -1, ARRIVAL),
    (0, 0, 0, 0, 1, START),
    (1, 1, 0, -1, -1, ARRIVAL),
    (1, 0, 1, 1, 0, START),
    (2, 2, 0, -1, -1, ARRIVAL),
    (2, 3, 0, -1, -1, ARRIVAL),
    (3, 4, 0, -1, -1, ARRIVAL),
    (3, 4, 0, -1, -1, REJECT),
    (5, 0, 0, 0, 1, FINISH),
    (5, 1, 0, -1, -1, EXPIRE),
    (5, 2, 0, 0, 0, START),
    (6, 0, 1, 1, 0, FINISH),
    (6, 3, 0, -1, -1, DROP),
    (7, 5, 0, -1, -1, ARRIVAL),
    (9, 2, 0, 0, 0, FINISH),
    (9, 5, 0, 0, 2, START),
    (9, 6, 0, -1, -1, ARRIVAL),
    (9, -1, -1, -1, -1, END),
]
"""A log with everything in it but interruptions, by hand: one job is running and one waiting at the end."""

INTERRUPTED_ROWS = [
    (0, 0, 0, -1, -1, ARRIVAL),
    (0, 0, 0, 0, 0, START),
    (1, 0, 0, 0, 0, READY),
    (2, 0, 1, -1, -1, ARRIVAL),
    (3, 0, 0, 0, 0, PREEMPT),
    (3, 0, 1, 0, 0, START),
    (4, 1, 0, -1, -1, ARRIVAL),
    (4, 0, 0, 1, 0, START),
    (5, 0, 1, 0, 0, FINISH),
    (6, -1, 1, -1, 0, EVICT),
    (6, 1, 0, 0, 1, START),
    (7, 0, 0, 1, 0, FINISH),
    (8, 1, 1, -1, -1, ARRIVAL),
    (8, 1, 0, 0, 1, PREEMPT),
    (8, -1, 0, -1, 0, EVICT),
    (8, 1, 1, 0, 0, START),
    (9, 1, 0, -1, -1, EXPIRE),
    (10, 1, 1, 0, 0, FINISH),
    (10, -1, -1, -1, -1, END),
]
"""One job is interrupted and goes on elsewhere, another is interrupted and expires; weights come and go."""

MEMORY = Memory(sizes=np.array([[2, 3], [1, 9]]), limit=5)
"""The weights of the interrupted log take 2, 3 with row 5, 2, 5 with row 10, 3, and 4 with row 15."""


def good() -> np.ndarray:
    return np.array(ROWS, EVENT)


def interrupted() -> np.ndarray:
    return np.array(INTERRUPTED_ROWS, EVENT)


def broken_row(events: np.ndarray, memory: Memory | None = None) -> str:
    """Return what is said about a log that breaks a law."""
    with pytest.raises(InvariantError, match=r"^row \d+: ") as caught:
        check(events, STREAMS, QUEUE_LIMIT, memory)
    return str(caught.value)


def memory_of(device: EdgeScenario) -> Memory:
    """Return what the scenario's weights take and may take, in the kernel's whole kilobytes."""
    sizes = np.zeros((len(device.tasks), max(task.num_variants for task in device.tasks)))
    for row, each in zip(sizes, device.tasks, strict=True):
        row[: each.num_variants] = [round(variant.memory_mb * 1000) for variant in each.ladder]
    limit = device.device.memory_mb
    return Memory(sizes, math.inf if limit is None else round(limit * 1000))


@pytest.mark.parametrize("policy", names("edge"))
def test_every_log_obeys_the_laws(policy: str) -> None:
    told: set[int] = set()

    def obeys(device: EdgeScenario, seed: int) -> None:
        events = Simulator(device).play(find(policy, "edge"), seed)
        check(events, device.device.streams, device.device.queue_limit, memory_of(device), device.most_jobs > 1)
        told.update(events["kind"].tolist())

    in_short_runs(obeys, 100, edge_scenarios(), episode_seeds())
    # Some policies never drop, and most never interrupt; what the device does by itself is in every one of these sets.
    assert told >= {ARRIVAL, START, FINISH, EXPIRE, REJECT, END, READY, EVICT}
    assert (DROP in told) or policy not in ("random", "lookahead")
    assert (PREEMPT in told) == (policy in ("random", "edf-preempt"))


def test_a_log_by_hand_obeys() -> None:
    check(good(), STREAMS, QUEUE_LIMIT)
    check(good(), STREAMS)


def test_a_log_by_hand_with_interruptions_obeys() -> None:
    check(interrupted(), STREAMS, QUEUE_LIMIT, MEMORY)
    # Without sizes nothing is said about weights.
    check(np.delete(interrupted(), 9), STREAMS, QUEUE_LIMIT)


def test_an_episode_in_which_nothing_happens_obeys() -> None:
    check(good()[-1:], 1, 1)


def test_an_empty_log_has_lost_its_end() -> None:
    with pytest.raises(InvariantError, match="empty"):
        check(good()[:0], STREAMS)


def changed(row: int, **cells: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(events: np.ndarray) -> np.ndarray:
        for column, value in cells.items():
            events[column][row] = value
        return events

    return change


def without(row: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda events: np.delete(events, row)


def repeated(row: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda events: np.insert(events, row + 1, events[row])


def moved(row: int, to: int) -> Callable[[np.ndarray], np.ndarray]:
    def move(events: np.ndarray) -> np.ndarray:
        events = np.insert(np.delete(events, row), to, events[row])
        events["time"] = np.sort(events["time"])
        return events

    return move


CORRUPTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int, str]] = {
    "the clock runs backwards": (changed(5, time=0), 5, "backwards"),
    "the clock begins before 0": (changed(0, time=-1), 0, "begins at 0"),
    "an unknown kind": (changed(3, kind=len(KINDS)), 3, f"kind {len(KINDS)}"),
    "a negative kind": (changed(3, kind=-1), 3, "kind -1"),
    "a job without a task": (changed(3, task=-1), 3, "numbers from 0"),
    "a job without a number": (changed(3, job=-1), 3, "numbers from 0"),
    "a start on a resource that does not exist": (changed(2, resource=2), 2, "0 to 1"),
    "a finish on no resource": (changed(9, resource=-1), 9, "0 to 1"),
    "no end": (without(18), 17, "expected its end"),
    "an end in the middle": (changed(8, kind=END), 8, "not the last"),
    "two ends": (repeated(18), 18, "not the last"),
    "a lost arrival": (without(3), 4, "expected job 1"),
    "a lost last arrival of a task": (without(1), 3, "never arrived"),
    "an arrival told twice": (repeated(3), 4, "expected job 2"),
    "a job number skipped": (changed(17, job=7), 17, "expected job 6"),
    "a start of a job that never arrived": (changed(11, job=9), 11, "never arrived"),
    "a finish without a start": (without(4), 11, "after its arrival in row 1"),
    "a start told twice": (repeated(2), 3, "after its start in row 2"),
    "a finish told twice": (repeated(9), 10, "after its finish in row 9"),
    "an expiry told twice": (repeated(10), 11, "after its expire in row 10"),
    "a drop told twice": (repeated(13), 14, "after its drop in row 13"),
    "a rejection told twice": (repeated(8), 9, "after its reject in row 8"),
    "a rejected job starts": (changed(11, job=4), 11, "after its reject in row 8"),
    "a running job is dropped": (changed(13, job=2), 13, "after its start in row 11"),
    "a finished job expires": (changed(10, job=0), 10, "after its finish in row 9"),
    "a start before the arrival": (moved(4, 1), 1, "never arrived"),
    "a finish before the start": (moved(9, 2), 2, "after its arrival in row 0"),
    "a finish elsewhere": (changed(9, resource=1), 9, "started with 0 in row 2"),
    "a finish of another variant": (changed(9, variant=0), 9, "started with 1 in row 2"),
    "two jobs on one resource": (
        lambda events: changed(12, resource=0)(changed(4, resource=0)(events)),
        4,
        "since row 2",
    ),
    "a lost finish": (without(9), 10, "since row 2"),
    "a job too many in the queue": (without(8), 7, "the queue was full"),
    "a rejection though there was room": (moved(8, 12), 12, "1 of 3 places"),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corruption_is_caught_at_its_row(name: str) -> None:
    corrupt, row, words = CORRUPTIONS[name]
    said = broken_row(corrupt(good()))
    assert said.startswith(f"row {row}: ")
    assert words in said


INTERRUPTED_CORRUPTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int, str]] = {
    "a waiting job is interrupted": (changed(13, task=1, job=1), 13, "after its arrival in row 12"),
    "an interruption told twice": (repeated(4), 5, "after its preempt in row 4"),
    "an interruption elsewhere": (changed(4, resource=1), 4, "with resource 1, but it started with 0"),
    "an interruption on no resource": (changed(4, resource=-1), 4, "0 to 1"),
    "an interruption of another variant": (changed(4, variant=1), 4, "with variant 1, but it started with 0"),
    "a lost interruption": (without(4), 6, "after its ready in row 2"),
    "an interrupted job goes on twice": (repeated(7), 8, "after its start in row 7"),
    "an interrupted job goes on where another runs": (
        lambda events: changed(11, resource=0)(changed(7, resource=0)(events)),
        7,
        "since row 5",
    ),
    "a finish where the job began, not where it went on": (changed(11, resource=0), 11, "started with 1 in row 7"),
    "an interrupted job finishes": (changed(16, kind=FINISH, resource=1, variant=1), 16, "after its preempt in row 13"),
    "an interrupted job is rejected": (changed(16, kind=REJECT), 16, "after its preempt in row 13"),
    "an interrupted job is ready": (moved(2, 4), 4, "after its preempt in row 3"),
    "a set-up ends twice": (repeated(2), 3, "after its ready in row 2"),
    "a set-up ends elsewhere": (changed(2, resource=1), 2, "started with 0 in row 1"),
    "a set-up ends before the start": (moved(2, 1), 1, "after its arrival in row 0"),
    "an eviction of no variant": (changed(9, variant=-1), 9, "numbers from 0"),
    "an eviction of weights in use": (changed(9, task=0), 9, "which a job still uses"),
    "an eviction of weights that are gone": (changed(14, task=1), 14, "which was not there"),
    "an eviction of weights that never came": (changed(14, task=1, variant=1), 14, "which was not there"),
    "an eviction told twice": (repeated(9), 10, "which was not there"),
    "a lost eviction": (without(9), 9, "start of job 1 of task 0: the weights take more memory than there is"),
    "a start of larger weights": (
        lambda events: changed(17, variant=1)(changed(15, variant=1)(events)),
        15,
        "more memory than there is",
    ),
}


@pytest.mark.parametrize("name", INTERRUPTED_CORRUPTIONS)
def test_corruption_of_interruptions_and_weights_is_caught_at_its_row(name: str) -> None:
    corrupt, row, words = INTERRUPTED_CORRUPTIONS[name]
    said = broken_row(corrupt(interrupted()), MEMORY)
    assert said.startswith(f"row {row}: ")
    assert words in said


def test_the_memory_limit_itself_may_be_taken_but_no_more() -> None:
    check(interrupted(), STREAMS, memory=Memory(MEMORY.sizes, 5))
    with pytest.raises(InvariantError, match=r"^row 10: "):
        check(interrupted(), STREAMS, memory=Memory(MEMORY.sizes, 4.999))


def test_an_interrupted_job_comes_back_to_a_full_queue_but_no_other_joins_it() -> None:
    rows = [
        (0, 0, 0, -1, -1, ARRIVAL),
        (0, 0, 0, 0, 0, START),
        (1, 1, 0, -1, -1, ARRIVAL),
        (2, 0, 1, -1, -1, ARRIVAL),
        (2, 0, 0, 0, 0, PREEMPT),
        (2, 0, 1, 0, 0, START),
        (3, 2, 0, -1, -1, ARRIVAL),
        (3, 2, 0, -1, -1, REJECT),
        (4, -1, -1, -1, -1, END),
    ]
    check(np.array(rows, EVENT), 1, queue_limit=1)
    with pytest.raises(InvariantError, match=r"^row 6: arrival of job 2 of task 0 joins 1 others"):
        check(np.delete(np.array(rows, EVENT), 7), 1, queue_limit=1)
    # The interrupted job takes a place: with three places the rejection is wrong, as two are taken.
    with pytest.raises(InvariantError, match=r"^row 7: reject of job 2 of task 0, though 2 of 3 places"):
        check(np.array(rows, EVENT), 1, queue_limit=3)


def test_the_queue_limit_is_only_checked_where_there_is_one() -> None:
    crowded = without(8)(good())
    assert "the queue was full" in broken_row(crowded)
    check(crowded, STREAMS)


def test_a_job_fails_where_it_runs_once_and_for_good() -> None:
    check(changed(9, kind=FAIL)(good()), STREAMS, QUEUE_LIMIT)
    assert "after its fail in row 9" in broken_row(repeated(9)(changed(9, kind=FAIL)(good())))
    assert "with resource 1, but it started with 0" in broken_row(changed(9, kind=FAIL, resource=1)(good()))
    assert "after its arrival" in broken_row(changed(10, kind=FAIL, resource=1, variant=0)(good()))


def test_a_row_told_twice_is_always_caught() -> None:
    doubled: set[int] = set()

    def is_caught(device: EdgeScenario, seed: int, data: st.DataObject) -> None:
        events = Simulator(device).play(find("random", "edge"), seed)
        row = data.draw(st.integers(0, len(events) - 1))
        with pytest.raises(InvariantError, match=rf"^row {row if row == len(events) - 1 else row + 1}: "):
            check(repeated(row)(events), device.device.streams, None, memory_of(device), device.most_jobs > 1)
        doubled.add(int(events["kind"][row]))

    in_short_runs(is_caught, 300, edge_scenarios(), episode_seeds(), st.data())
    assert doubled == set(range(MOVE))  # the kinds from there on belong to jobs that are graphs


def test_a_million_rows_are_checked() -> None:
    device = EdgeScenario.model_validate(
        scenario(
            1_000_000,
            [task({"kind": "poisson", "mean_gap_ms": 10.0 + index}, [3], 40) for index in range(4)],
            streams=2,
        )
    )
    events = Simulator(device).play(find("edf", "edge"), seed=1)
    assert len(events) > 900_000
    check(events, device.device.streams, device.device.queue_limit)


def test_messages_name_job_and_task() -> None:
    device = EdgeScenario.model_validate(scenario(100, [task(trace(0), [4])]))
    events = Simulator(device).play(find("edf", "edge"), seed=1)
    assert [KINDS[kind] for kind in events["kind"]] == ["arrival", "start", "finish", "end"]
    with pytest.raises(InvariantError, match=r"^row 1: finish of job 0 of task 0 after its arrival in row 0$"):
        check(np.delete(events, 1), 1)
