"""Every log obeys the conservation laws, and no kind of corruption gets past them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstream.core.eventlog import ARRIVAL, DROP, END, EVENT, EXPIRE, FINISH, KINDS, REJECT, START
from slipstream.core.laws import check
from slipstream.core.simulator import Simulator
from slipstream.edge.scenario import EdgeScenario
from slipstream.errors import LawError
from slipstream.policies.base import find, names
from tests.edge.cases import scenario, task, trace
from tests.strategies import edge_scenarios, episode_seeds

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
"""A log with everything in it, by hand: one job is running and one waiting at the end."""


def good() -> np.ndarray:
    return np.array(ROWS, EVENT)


def broken_row(events: np.ndarray) -> str:
    """Return what is said about a log that breaks a law."""
    with pytest.raises(LawError, match=r"^row \d+: ") as caught:
        check(events, STREAMS, QUEUE_LIMIT)
    return str(caught.value)


@pytest.mark.parametrize("policy", names("edge"))
def test_every_log_obeys_the_laws(policy: str) -> None:
    # Drawing a scenario takes a few milliseconds, which is no mistake of ours.
    @settings(
        max_examples=50, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(edge_scenarios(), episode_seeds())
    def obeys(device: EdgeScenario, seed: int) -> None:
        events = Simulator(device).play(find(policy, "edge"), seed)
        check(events, device.device.streams, device.device.queue_limit)

    obeys()


def test_a_log_by_hand_obeys() -> None:
    check(good(), STREAMS, QUEUE_LIMIT)
    check(good(), STREAMS)


def test_an_episode_in_which_nothing_happens_obeys() -> None:
    check(good()[-1:], 1, 1)


def test_an_empty_log_has_lost_its_end() -> None:
    with pytest.raises(LawError, match="empty"):
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


def test_the_queue_limit_is_only_checked_where_there_is_one() -> None:
    crowded = without(8)(good())
    assert "the queue was full" in broken_row(crowded)
    check(crowded, STREAMS)


# Drawing a scenario takes a few milliseconds, which is no mistake of ours.
@settings(
    max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(edge_scenarios(), episode_seeds(), st.data())
def test_a_row_told_twice_is_always_caught(device: EdgeScenario, seed: int, data: st.DataObject) -> None:
    events = Simulator(device).play(find("random", "edge"), seed)
    row = data.draw(st.integers(0, len(events) - 1))
    with pytest.raises(LawError, match=rf"^row {row if row == len(events) - 1 else row + 1}: "):
        check(repeated(row)(events), device.device.streams)


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
    with pytest.raises(LawError, match=r"^row 1: finish of job 0 of task 0 after its arrival in row 0$"):
        check(np.delete(events, 1), 1)
