"""What pictures are told about an episode: when jobs waited, and when and where they ran."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.errors import InvariantError
from slipstream.families.edge.family import FAMILY
from slipstream.families.edge.invariants import check
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared.runs import timeline_of
from slipstream.families.shared.timeline import DROPPED, LATE, ON_TIME, OPEN, Timeline
from slipstream.policies.base import find
from slipstream.sim.eventlog import ARRIVAL, DROP, END, EVENT, FINISH, PREEMPT, READY, START
from slipstream.sim.simulator import Simulator
from tests.edge.cases import scenario, task, trace
from tests.strategies import edge_scenarios, episode_seeds, in_short_runs

DEVICE = EdgeScenario.model_validate(
    scenario(40, [task(trace(), [8, 9], 20), task(trace(), [2], 5)], streams=2, preemption={"kind": "resume"})
)

ROWS = [
    # ms, job, task, stream, variant, kind
    (0, 0, 0, -1, -1, ARRIVAL),
    (1, 0, 0, 0, 1, START),
    (2, 0, 0, 0, 1, READY),
    (3, 0, 1, -1, -1, ARRIVAL),
    (3, 0, 0, 0, 1, PREEMPT),
    (3, 0, 1, 0, 0, START),
    (4, 1, 0, -1, -1, ARRIVAL),
    (6, 0, 0, 1, 0, START),
    (7, 0, 1, 0, 0, FINISH),
    (9, 0, 0, 1, 0, PREEMPT),
    (9, 1, 0, 1, 0, START),
    (10, 1, 0, 1, 0, PREEMPT),
    (12, 0, 0, 0, 0, START),
    (15, 1, 0, -1, -1, DROP),
    (30, 0, 0, 0, 0, FINISH),
    (31, 2, 0, -1, -1, ARRIVAL),
    (32, 2, 0, 0, 0, START),
    (33, 2, 0, 0, 0, PREEMPT),
    (40, -1, -1, -1, -1, END),
]
"""The first job of task 0 is interrupted twice; the second is dropped after it was; the third waits at the end."""


def by_hand() -> Timeline:
    events = np.array(ROWS, EVENT)
    events["time"] *= 1_000_000
    return FAMILY.timeline(DEVICE, events)


def ms(*columns: np.ndarray) -> list[tuple[float, ...]]:
    return list(zip(*((column / 1e6).tolist() for column in columns), strict=True))


def test_an_interrupted_job_waits_from_its_release_and_from_each_interruption() -> None:
    shown = by_hand()
    waits = list(zip(shown.wait_job.tolist(), ms(shown.wait_start, shown.wait_end), strict=True))
    first = [(0, (0, 1)), (0, (3, 6)), (0, (9, 12))]
    second, third, other = [(1, (4, 9)), (1, (10, 15))], [(2, (31, 32)), (2, (33, 40))], [(3, (3, 3))]
    assert waits == first + second + third + other


def test_an_interrupted_job_has_a_slice_for_each_time_it_held_a_stream() -> None:
    shown = by_hand()
    places = zip(shown.slice_job.tolist(), shown.slice_resource.tolist(), shown.slice_variant.tolist(), strict=True)
    assert list(zip(places, ms(shown.slice_start, shown.slice_end), strict=True)) == [
        ((0, 0, 1), (1, 3)),
        ((3, 0, 0), (3, 7)),
        ((0, 1, 0), (6, 9)),
        ((1, 1, 0), (9, 10)),
        ((0, 0, 0), (12, 30)),
        ((2, 0, 0), (32, 33)),
    ]
    assert shown.fate.tolist() == [LATE, DROPPED, OPEN, ON_TIME]
    assert (shown.task.tolist(), shown.number.tolist()) == ([0, 0, 0, 1], [0, 1, 2, 0])


def test_the_number_of_waiting_jobs_counts_interrupted_ones() -> None:
    shown = by_hand()
    moments, counts = shown.waiting(np.arange(3))
    assert list(zip((moments / 1e6).tolist(), counts.tolist(), strict=True)) == [
        (0, 1),
        (1, 0),
        (3, 1),
        (4, 2),
        (6, 1),
        # At 9 the two change places, at 10 the other one comes back, and at 12 the first goes on.
        (10, 2),
        (12, 1),
        (15, 0),
        (31, 1),
        (32, 0),
        (33, 1),
        (40, 0),
    ]
    # A job that starts where it is released never waits.
    assert [column.tolist() for column in shown.waiting(np.array([3]))] == [[0], [0]]
    assert [column.tolist() for column in shown.waiting(np.zeros(0, np.int64))] == [[0], [0]]


def test_a_log_that_breaks_a_law_or_is_of_another_scenario_is_refused() -> None:
    rows = np.array(ROWS, EVENT)
    check(rows, DEVICE)
    with pytest.raises(InvariantError, match=r"^row 5: preempt of job 0 of task 0 after its preempt in row 4"):
        check(np.insert(rows, 5, rows[4]), DEVICE)
    alone = DEVICE.model_copy(update={"tasks": DEVICE.tasks[:1]})
    with pytest.raises(InvariantError, match=r"^task 1: expected numbers below 1, as in the scenario"):
        check(rows, alone)


def test_waits_and_slices_of_any_episode_are_the_whole_life_of_each_job() -> None:
    interruptions = 0

    def fill_their_lives(device: EdgeScenario, seed: int) -> None:
        nonlocal interruptions
        events = Simulator(device).play(find("random", "edge"), seed)
        interruptions += int((events["kind"] == PREEMPT).sum())
        # Before a batch becomes one slice, every job of it has its own.
        shown = timeline_of(FAMILY.run_labels(device), events)
        for job in range(len(shown.task)):
            waits = shown.wait_job == job
            runs = shown.slice_job == job
            # Wait, run, wait, run: each begins where the one before it ends.
            begins = np.concatenate((shown.wait_start[waits], shown.slice_start[runs]))
            ends = np.concatenate((shown.wait_end[waits], shown.slice_end[runs]))
            assert begins.min() == shown.release[job]
            assert np.array_equal(np.sort(begins)[1:], np.sort(ends)[:-1])
            if shown.finish[job] >= 0:
                assert ends.max() == shown.finish[job]
        drawn = FAMILY.timeline(device, events)
        taken = np.unique(np.stack([shown.slice_resource, shown.slice_start, shown.slice_end]), axis=1)
        spells = np.stack([drawn.slice_resource, drawn.slice_start, drawn.slice_end])
        assert np.array_equal(taken, np.unique(spells, axis=1))
        assert len(drawn.slice_job) == taken.shape[1]

    in_short_runs(fill_their_lives, 100, edge_scenarios(), episode_seeds())
    assert interruptions > 100
