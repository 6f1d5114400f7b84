"""What heuristics choose where it can be told by hand."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.families.taskgraph import features as f
from slipstream.families.taskgraph.kernel.state import CHOOSE_PROCESSOR, CHOOSE_QUEUED, CHOOSE_TASK
from slipstream.families.taskgraph.metrics import tasks_of
from slipstream.policies.base import find, names
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator

ROWS = 5


def choose(name, phase, *rows, wait=True):
    """Return what a policy chooses among rows, each given by some of its columns; the last row waits."""
    table = np.zeros((ROWS, len(f.CANDIDATE)))
    mask = np.zeros(ROWS, np.int8)
    for place, row in enumerate(rows):
        table[place, [f.DISPATCH, f.HEFT, f.PEFT, f.CPOP]] = [1.0, -1.0, -1.0, -1.0]
        table[place, f.PLACE] = place
        for column, value in row.items():
            table[place, column] = value
        mask[place] = 1
    table[-1, f.WAIT], mask[-1] = 1.0, wait
    whole = np.zeros(len(f.GLOBAL))
    whole[f.PHASE], whole[f.ROWS], whole[f.COIN] = phase, len(rows), 0.5
    return find(name, "taskgraph").choose(whole, table, mask)


WAITS = ROWS - 1


def test_all_policies_of_the_issue_are_there():
    expected = "random fifo mct heft peft cpop dm dmda dmdar dmdas darts critical-path"
    assert set(names("taskgraph")) == set(expected.split())


def test_fifo_goes_by_place_and_by_work_ahead():
    assert choose("fifo", CHOOSE_TASK, {f.PLACE: 3}, {f.PLACE: 1}, {f.PLACE: 2}) == 1
    assert choose("fifo", CHOOSE_PROCESSOR, {f.WORK_AHEAD: 5}, {f.WORK_AHEAD: 2}, {f.WORK_AHEAD: 3}) == 1


def test_mct_takes_what_ends_first_here_and_waits_for_what_ends_sooner_elsewhere():
    here, elsewhere = {f.EXPECTED_END: 5, f.BEST_END: 5}, {f.EXPECTED_END: 3, f.BEST_END: 2}
    assert choose("mct", CHOOSE_TASK, here, elsewhere) == 0
    assert choose("mct", CHOOSE_TASK, elsewhere) == WAITS
    assert choose("mct", CHOOSE_TASK, {**elsewhere, f.EXPECTED_END: 9}, elsewhere, wait=False) == 1
    assert choose("mct", CHOOSE_PROCESSOR, {f.EXPECTED_END: 5, f.BEST_END: 3}, {f.EXPECTED_END: 3, f.BEST_END: 3}) == 1


def test_dm_leaves_transfers_out_and_dmda_counts_them_twice():
    near = {f.WORK_AHEAD: 6, f.DURATION: 1, f.TRANSFER: 0, f.EXPECTED_END: 7}
    far = {f.WORK_AHEAD: 1, f.DURATION: 1, f.TRANSFER: 4, f.EXPECTED_END: 5}
    assert choose("dm", CHOOSE_PROCESSOR, near, far) == 1
    assert choose("dmda", CHOOSE_PROCESSOR, near, far) == 0
    assert choose("dmda", CHOOSE_PROCESSOR, near, {**far, f.TRANSFER: 1, f.EXPECTED_END: 2}) == 1


@pytest.mark.parametrize(("name", "row"), [("dm", 0), ("dmda", 0), ("dmdar", 2), ("dmdas", 1)])
def test_the_dm_family_differs_in_what_it_takes_from_a_queue(name, row):
    queue = [{f.MISSING: 3, f.RANK: 1}, {f.MISSING: 2, f.RANK: 9}, {f.MISSING: 1, f.RANK: 1}]
    assert choose(name, CHOOSE_QUEUED, *queue) == row


def test_dmdas_goes_by_missing_bytes_among_equal_ranks():
    assert choose("dmdas", CHOOSE_QUEUED, {f.MISSING: 3, f.RANK: 9}, {f.MISSING: 2, f.RANK: 9}) == 1


def test_darts_takes_what_is_there_or_frees_most_work_for_its_load():
    load_one = {f.MISSING: 4, f.TRANSFER: 2, f.FREED: 6}
    load_more = {f.MISSING: 4, f.TRANSFER: 2, f.FREED: 10}
    load_two = {f.MISSING: 8, f.TRANSFER: 4}
    assert choose("darts", CHOOSE_TASK, load_two, load_one, load_more) == 2
    assert choose("darts", CHOOSE_TASK, load_more, {f.MISSING: 0}) == 1
    assert choose("darts", CHOOSE_TASK, load_two, {**load_two, f.MISSING: 7}) == 1


def test_a_plan_is_waited_for():
    assert choose("heft", CHOOSE_TASK, {f.HEFT: 2}, {f.HEFT: 0}) == 1
    assert choose("heft", CHOOSE_TASK, {f.HEFT: 2}, {f.HEFT: 1}) == WAITS
    assert choose("heft", CHOOSE_TASK, {f.HEFT: 2}, {f.HEFT: 1}, wait=False) == 1
    assert choose("heft", CHOOSE_TASK, {}, {}, wait=False) == 0
    assert choose("peft", CHOOSE_PROCESSOR, {}, {f.PEFT: 7}) == 1


def test_random_takes_any_row_but_waiting():
    scenario = load("taskgraph/cholesky-4-2g2c")
    orders = {tuple(tasks_of(Simulator(scenario).play(find("random", "taskgraph"), seed)).task) for seed in range(8)}
    assert len(orders) > 1


def test_on_the_plain_cholesky_waiting_beats_taking_whatever_is_there():
    scenario = load("taskgraph/cholesky-4-2g2c")
    ends = {
        name: int(Simulator(scenario).play(find(name, "taskgraph"), 0)["time"][-1]) / 1e6 for name in ("mct", "fifo")
    }
    assert ends == {"mct": 77.0, "fifo": 135.0}
