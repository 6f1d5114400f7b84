"""Heuristics choose what their one line says, never what is not allowed, and the tuner finds the better number."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from benchmarks.dag_tuning import POWERS, tune, usual_values

from slipstream.errors import PolicyError
from slipstream.evaluation import compare
from slipstream.families.dag import features as f
from slipstream.families.dag.metrics import metrics
from slipstream.policies.base import find, names
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator

EXECUTORS = 8


def buffer(stages, phase=0, **whole):
    """Return globals, rows and mask of a choice among some stages."""
    rows = np.zeros((12, len(f.CANDIDATE)))
    for row, columns in zip(rows, stages, strict=False):
        row[f.DISPATCH] = 1.0
        for name, value in columns.items():
            row[f.CANDIDATE.index(name)] = value
    rows[-1, f.WAIT] = 1.0
    mask = np.zeros(12, np.int8)
    mask[: len(stages)] = 1
    mask[-1] = phase == 0
    global_row = np.zeros(len(f.GLOBAL))
    named = {"executors": EXECUTORS, "active_jobs": 2, "rows": len(stages), "phase": phase, **whole}
    for name, value in named.items():
        global_row[f.GLOBAL.index(name)] = value
    return global_row, rows, mask


def stage(rank, job_work=1e9, supply=0, **more):
    return {"job_rank": rank, "job_work": job_work, "job_supply": supply, **more}


def counts(most, **columns):
    return [{"count": count, **columns} for count in range(1, most + 1)]


def chosen(name, *choice):
    return find(name, "dag").choose(*choice)


LAST = 11


def test_fifo_takes_the_oldest_job_and_gives_it_all():
    assert chosen("fifo", *buffer([stage(1), stage(0)])) == 1
    assert chosen("fifo", *buffer(counts(6, job_supply=1), phase=1, most=6)) == 5
    assert chosen("fifo", *buffer(counts(6, job_supply=5), phase=1, most=6)) == 2  # eight executors and no more


def test_executors_stay_at_their_job_first():
    assert chosen("fifo", *buffer([stage(0), stage(1, source=1.0)])) == 1
    assert chosen("fair", *buffer([stage(0), stage(1, source=1.0)])) == 1
    assert chosen("fair", *buffer(counts(6, source=1.0, job_supply=7), phase=1, most=6)) == 5


def test_within_a_job_a_stage_that_can_begin_goes_first():
    assert chosen("fifo", *buffer([stage(0), stage(0, can_begin=1.0), stage(1, can_begin=1.0)])) == 1
    assert chosen("fifo", *buffer([stage(0, source=1.0), stage(0, source=1.0, can_begin=1.0)])) == 1


def test_fair_gives_each_job_its_share():
    # Eight executors, two jobs: four each.
    assert chosen("fair", *buffer([stage(0, supply=4), stage(1, supply=3)])) == 1
    assert chosen("fair", *buffer(counts(6, job_supply=3), phase=1, most=6)) == 0
    assert chosen("fair", *buffer([stage(0, supply=4), stage(1, supply=4)])) == LAST
    assert chosen("fair", *buffer([stage(0, supply=3)], active_jobs=3)) == LAST  # three each, rounded up


def test_where_nobody_may_stop_the_first_stage_is_taken():
    global_row, rows, mask = buffer([stage(0, supply=4)])
    mask[-1] = 0
    assert chosen("fair", global_row, rows, mask) == 0


def test_weighted_fair_goes_by_work_to_a_power():
    choice = [stage(0, 4e9, supply=2), stage(1, 1e9, supply=2)]
    # Weights 1/4 and 1: shares 2 and 7 of 8 executors, rounded up.
    assert chosen("weighted-fair(-1)", *buffer(choice)) == 1
    # Weights 4 and 1: shares 7 and 2.
    assert chosen("weighted-fair(1)", *buffer(choice)) == 0
    assert chosen("weighted-fair(0)", *buffer([stage(0, 4e9, supply=4), stage(1, 1e9, supply=3)])) == 1


def test_weighted_fair_knows_the_others_when_it_gives():
    rows = [*counts(6, job_work=1e9, job_supply=2), stage(0, 4e9), stage(1, 1e9)]
    global_row, table, mask = buffer(rows, phase=1, most=6)
    mask[6:] = 0
    assert chosen("weighted-fair(-1)", global_row, table, mask) == 4  # seven less the two it has


def test_srpt_takes_the_least_work_up_to_its_cap():
    choice = [stage(0, 9e9), stage(1, 2e9, supply=3), stage(2, 5e9)]
    assert chosen("srpt(5)", *buffer(choice)) == 1
    assert chosen("srpt(3)", *buffer(choice)) == 2
    assert chosen("srpt", *buffer(choice)) == 2  # a third of eight is three
    assert chosen("srpt(5)", *buffer(counts(6, job_supply=3), phase=1, most=6)) == 1


def test_sjf_cp_takes_the_critical_stage_of_the_shortest_job():
    choice = [stage(0, 9e9, path=9e9), stage(1, 2e9, path=1e9), stage(1, 2e9, path=3e9)]
    assert chosen("sjf-cp", *buffer(choice)) == 2
    assert chosen("sjf-cp", *buffer(counts(6), phase=1, most=6)) == 5


def test_critical_path_takes_the_longest_chain_of_all():
    choice = [stage(0, path=3e9), stage(1, path=9e9, work=1e9), stage(2, path=9e9, work=2e9)]
    assert chosen("critical-path", *buffer(choice)) == 2


def test_random_is_as_likely_to_take_each_row():
    tosses = [chosen("random", *buffer([stage(0)] * 4, coin=coin)) for coin in (0.1, 0.3, 0.6, 0.9)]
    assert tosses == [0, 1, 2, 3]


@pytest.mark.parametrize("name", names("dag"))
@pytest.mark.parametrize("scenario", ["dag/tiny", "dag/small", "dag/ml-workflow"])
def test_no_heuristic_ever_chooses_what_is_not_allowed(name, scenario):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        events = Simulator(load(scenario)).play(find(name, "dag"), 1)
    figures = metrics(load(scenario), events)
    assert figures["jobs_done"] == figures["jobs_arrived"]


def test_compiled_and_plain_form_play_the_same():
    simulator = Simulator(load("dag/small"))
    policy = find("weighted-fair(-0.5)", "dag")
    compiled = simulator.play(policy, 2)
    simulator.reset(2)
    while simulator.asking:
        simulator.step(policy.choose(*simulator.observe()))
    assert np.array_equal(compiled, simulator.log())


def test_a_number_belongs_only_to_policies_that_have_one():
    assert find("srpt(5)", "dag").name == "srpt(5)"
    assert find("weighted-fair(-1e-1)", "dag").parameter == -0.1
    with pytest.raises(PolicyError, match=r"unknown policy 'fair\(2\)'"):
        find("fair(2)", "dag")
    with pytest.raises(PolicyError, match="unknown policy"):
        find("srpt(x)", "dag")


def test_the_tuner_finds_the_better_number_on_training_seeds():
    best = tune("dag/stream-10x50", "srpt", [1, 5], episodes=2)
    assert best.name == "srpt(5)"
    found = compare("dag/stream-10x50", ["srpt(1)", best], episodes=2)
    assert found.of("srpt(5)").mean("avg_jct_s") < found.of("srpt(1)").mean("avg_jct_s")


def test_the_tuner_has_values_of_its_own_and_refuses_what_has_no_number():
    assert usual_values(load("dag/batch-50x20"), "weighted-fair") == POWERS
    assert list(usual_values(load("dag/batch-50x20"), "srpt"))[:3] == [2, 5, 8]
    with pytest.raises(PolicyError, match="has no number to tune"):
        tune("dag/tiny", "fair")


def test_srpt_beats_fifo_where_jobs_queue_up():
    found = compare("dag/stream-10x50", "fifo,fair,srpt(5)", episodes=4)
    means = {policy: found.of(policy).mean("avg_jct_s") for policy in ("fifo", "fair", "srpt(5)")}
    assert means["srpt(5)"] < means["fair"] < means["fifo"]


@pytest.mark.parametrize("number", ["1.2.3", "...", "1e999", "-1e999"])
def test_a_parameter_that_is_no_finite_number_is_refused_in_one_line(number):
    with pytest.raises(PolicyError, match=r"weighted-fair\(.*\)': '.*' is not a finite number: expected one"):
        find(f"weighted-fair({number})", "dag")
