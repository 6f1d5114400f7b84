"""Each heuristic chooses what its name says, in situations made so that no two of them agree."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from slipstream.families.edge import features as f
from slipstream.families.edge.features import CORUN_LATENCY, SLACK
from slipstream.policies import find, names
from slipstream.policies.base import Heuristic
from slipstream.policies.columns_read import columns_read
from slipstream.scenario import load
from slipstream.sim.kernel import lanes
from slipstream.sim.simulator import Simulator


def task(name, release, deadline, ladder, gap=100.0, **more):
    """Return a task that releases at `release` and a gap later; the ladder is (latency, accuracy) pairs."""
    return {
        "name": name,
        "model": "m",
        "dataset": "d",
        "num_variants": len(ladder),
        "deadline_ms": deadline,
        "arrival": {"kind": "trace", "times_ms": [release, release + gap]},
        "variants": [{"latency_ms": latency, "accuracy": accuracy} for latency, accuracy in ladder],
        **more,
    }


def at_second_choice(tasks, streams=1, interference=None):
    """Start the first task's job, and return the simulator at the next choice."""
    device = {"streams": streams, "latency": {"kind": "fixed"}, "interference": interference or {"kind": "none"}}
    simulator = Simulator(load({"family": "edge", "horizon_ms": 500, "device": device, "tasks": tasks}))
    simulator.reset(0)
    simulator.step(0)
    return simulator


def choice_of(policy, simulator):
    return find(policy, "edge").choose(*simulator.observe())


CROWD = [
    task("blocker", 0, 400, [(10, 0.1)]),
    task("first", 1, 30, [(4, 0.5), (12, 0.9)], gap=150),
    task("earliest", 2, 15, [(5, 0.4)], gap=160),
    task("tightest", 9, 10, [(2, 0.3)], gap=170),
    task("shortest", 4, 40, [(1, 0.2)], gap=180),
    task("quickest", 5, 35, [(6, 0.45)], gap=120),
    task("laxless", 6, 24, [(19, 0.6)], gap=190),
    task("critical", 7, 50, [(3, 0.35)], gap=200, criticality=3),
    task("urgent", 8, 45, [(3.5, 0.35)], gap=210, criticality=3),
]
"""All wait at 10 ms. Slacks there: 21, 7, 9, 34, 30, 20, 47, 43."""

EXPECTED = {
    "fifo": ("first", 0),
    "edf": ("earliest", 0),
    "dm": ("tightest", 0),
    "rm": ("quickest", 0),
    "llf": ("laxless", 0),
    "stf": ("shortest", 0),
    "accuracy-first": ("first", 1),
    "criticality": ("urgent", 0),
    "edf-fit": ("earliest", 0),
    "edf-degrade": ("earliest", 0),
}


@pytest.mark.parametrize("policy", EXPECTED)
def test_the_heuristic_picks_by_its_name(policy):
    simulator = at_second_choice(CROWD)
    assert simulator.header["now"] == 10_000_000
    name, variant = EXPECTED[policy]
    order = [one["name"] for one in CROWD]
    assert choice_of(policy, simulator) == 2 * order.index(name) + variant


def ladder(release, deadline, count):
    rungs = [(2, 0.5), (4, 0.7), (8, 0.9)]
    times = {"kind": "trace", "times_ms": [release] * count}
    return {**task("ladder", release, deadline, rungs), "arrival": times}


@pytest.mark.parametrize(("deadline", "rung"), [(101, 2), (9, 2), (8.9, 1), (5, 1), (4.9, 0), (3, 0)])
def test_edf_fit_takes_the_largest_variant_that_meets_the_deadline(deadline, rung):
    simulator = at_second_choice([task("blocker", 0, 400, [(1, 0.1)]), ladder(0, deadline, 1)])
    assert choice_of("edf-fit", simulator) == 3 + rung


def test_edf_fit_passes_over_a_deadline_that_cannot_be_met():
    tasks = [task("blocker", 0, 400, [(10, 0.1)]), task("lost", 1, 10, [(5, 0.9)]), task("saved", 2, 20, [(5, 0.2)])]
    assert choice_of("edf-fit", at_second_choice(tasks)) == 2
    hopeless = [task("blocker", 0, 400, [(10, 0.1)]), task("lost", 1, 10, [(5, 0.9)]), task("too", 2, 11, [(5, 0.2)])]
    assert choice_of("edf-fit", at_second_choice(hopeless)) == 1


@pytest.mark.parametrize(("waiting", "rung"), [(1, 2), (2, 1), (3, 0), (4, 0)])
def test_edf_degrade_steps_down_with_every_job_that_waits(waiting, rung):
    simulator = at_second_choice([task("blocker", 0, 400, [(1, 0.1)]), ladder(0, 300, waiting)])
    assert choice_of("edf-degrade", simulator) == 3 + rung


def test_lookahead_drops_what_cannot_be_saved():
    tasks = [task("blocker", 0, 400, [(10, 0.1)]), task("lost", 1, 10, [(5, 0.9)]), task("saved", 2, 20, [(5, 0.2)])]
    assert choice_of("lookahead", at_second_choice(tasks)) == len(tasks) + 1


def test_lookahead_takes_the_accurate_variant_when_there_is_time_and_a_lesser_one_when_there_is_not():
    relaxed = at_second_choice([task("blocker", 0, 400, [(1, 0.1)]), ladder(0, 300, 1)])
    assert choice_of("lookahead", relaxed) == 3 + 2
    periodic = {"arrival": {"kind": "periodic", "period_ms": 12}}
    others = [{**ladder(0, 12, 1), **periodic, "name": f"ladder-{number}"} for number in range(4)]
    assert choice_of("lookahead", at_second_choice([task("blocker", 0, 400, [(1, 0.1)]), *others])) % 3 == 0


def test_lookahead_spares_a_running_job_that_would_become_late():
    # Beside the newcomer the running job, which has 8 of 10 left and 9 to its deadline, would run at half speed.
    tasks = [task("blocker", 0, 11, [(10, 0.9)]), task("patient", 2, 200, [(4, 0.9)])]
    share = {"kind": "share", "total_throughput": 1.0}
    assert choice_of("lookahead", at_second_choice(tasks, 2, share)) != 1
    relaxed = [task("blocker", 0, 100, [(10, 0.9)]), task("patient", 2, 200, [(4, 0.9)])]
    assert choice_of("lookahead", at_second_choice(relaxed, 2, share)) == 1


def test_lookahead_decides_also_while_a_job_runs_that_outlasts_its_window():
    hurried = {**task("hurried", 1, 1, [(0.5, 0.9)]), "arrival": {"kind": "periodic", "period_ms": 2, "phase_ms": 1}}
    simulator = at_second_choice([task("blocker", 0, 400, [(200, 0.9)]), hurried], 2)
    assert choice_of("lookahead", simulator) == 1


def test_random_takes_every_legal_row_alike():
    simulator = at_second_choice(CROWD)
    global_row, rows, mask = (array.copy() for array in simulator.observe())
    legal = np.flatnonzero(mask)
    policy = find("random", "edge")
    picks = []
    for step in range(len(legal)):
        global_row[f.COIN] = (step + 0.5) / len(legal)
        picks.append(policy.choose(global_row, rows, mask))
    assert picks == legal.tolist()


def test_every_policy_has_a_description():
    for name in names("edge"):
        assert find(name, "edge").description.endswith(".")


def test_heuristics_wait_when_nothing_can_be_dispatched():
    rows, mask = np.zeros((4, len(f.CANDIDATE))), np.array([0, 0, 0, 1], np.int8)
    rows[:, f.PERIOD] = 1.0
    rows[2, f.DROP] = rows[3, f.WAIT] = 1.0
    for name in names("edge"):
        assert find(name, "edge").choose(np.zeros(len(f.GLOBAL)), rows, mask) == 3, name


def reads_two(row):
    return row[SLACK] - row[2]


def hands_the_row_on(row):
    return reads_two(row) + row[SLACK]


def computes_the_column(row):
    return row[SLACK + len(row)]


def returns_the_row(row):
    return row


def wants_two_rows(row, other):
    return row[SLACK] - other[SLACK]


def gives_the_row_another_name(row):
    other = row
    return other[CORUN_LATENCY]


@pytest.mark.parametrize(
    ("rule", "columns"),
    [
        (find("edf-preempt", "edge").function, {f.SLACK, f.VICTIM_SLACK, f.DISPATCH, f.PREEMPT}),
        (find("dm", "edge").function, {f.DEADLINE}),
        (reads_two, {f.SLACK, 2}),
        (hands_the_row_on, None),
        (computes_the_column, None),
        (gives_the_row_another_name, None),
        (returns_the_row, None),
        (wants_two_rows, None),
        (partial(reads_two), None),
    ],
)
def test_what_a_rule_reads_is_known_only_where_it_is_plain_to_see(rule, columns):
    assert columns_read(rule) == columns


@pytest.mark.parametrize(
    ("rule", "form"),
    [
        (lambda row: -row[SLACK], lanes.PLAIN_RULE),
        (lambda row: -row[CORUN_LATENCY], lanes.RULE_ON_DISPATCH),
        (hands_the_row_on, lanes.RULE_ON_DISPATCH),
    ],
)
def test_only_rules_that_read_no_column_on_demand_go_without(rule, form):
    assert Heuristic("mine", "edge", rule, is_rule=True).form == form
