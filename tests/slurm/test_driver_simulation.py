"""A driven cluster is simulated as its driver sees it: from cycle to cycle, and without what is still to come."""

from __future__ import annotations

import pytest

from slipstream.device.slurm import driver_simulation
from slipstream.device.slurm.decisions import InterruptionOf, StartOf, decide
from slipstream.device.slurm.driver_simulation import LONGEST_S, HeldJob, simulate_driver
from slipstream.errors import InputError
from slipstream.families.cluster.slurm.snapshot import SlurmNode
from slipstream.policies import find
from slipstream.scenario import load

NODES = [SlurmNode(f"n{number}", "a100", 4, True) for number in range(2)]
RULES = {
    "family": "cluster",
    "placement": "best-fit",
    "backfill": "greedy",
    "nodes": [{"name": "a100", "count": 2, "gpus": 4}],
    "jobs": {"kind": "list", "jobs": [{"submit_s": 0.0, "gpus": 1, "run_s": 1.0}]},
}


def simulated(jobs, policy="sjf", interval_s=0.25, **rules):
    """Return (start, end) of each run of each job; jobs are (submit, GPUs, run time)."""
    held = [HeldJob(submit, gpus, 60.0, run, run) for submit, gpus, run in jobs]
    runs = simulate_driver(load({**RULES, **rules}), NODES, held, find(policy, "cluster"), interval_s)
    return [[(run.start, run.end) for run in its] for its in runs]


def test_jobs_start_in_the_second_after_the_cycle_that_sees_the_end_of_others():
    # The end at 5.2 is seen at 5.25, the arrival at 0.6 at 0.75, both starts are a second's.
    assert simulated([(0.0, 8, 4.2), (0.6, 4, 3.0)]) == [[(1.0, 5.2)], [(6.0, 9.0)]]
    assert simulated([(0.0, 4, 4.2), (0.6, 4, 3.0)]) == [[(1.0, 5.2)], [(1.0, 4.0)]]
    # An end just before the second is seen too late for it.
    assert simulated([(0.0, 8, 3.9), (0.6, 4, 3.0)], interval_s=0.3) == [[(1.0, 4.9)], [(6.0, 9.0)]]


def test_starts_are_sent_one_after_the_other():
    # In the cycle at 0.9, each takes 0.03 s: the fourth is too late for the next second.
    runs = simulated([(0.7, 1, 4.0)] * 8, interval_s=0.3)
    assert [start for ((start, _),) in runs] == [1.0] * 3 + [2.0] * 5


def test_the_policy_is_given_what_is_there_and_nothing_to_come(monkeypatch):
    seen = []

    def spy(live, policy):
        seen.append([(job.id, job.state) for job in live.jobs])
        return decide(live, policy)

    monkeypatch.setattr(driver_simulation, "decide", spy)
    simulated([(0.0, 8, 3.0), (1.6, 8, 5.0), (2.1, 8, 3.0), (9.0, 1, 3.0)])
    assert seen == [
        [("0", "PENDING")],
        [("0", "RUNNING"), ("1", "PENDING")],
        [("0", "RUNNING"), ("1", "PENDING"), ("2", "PENDING")],
        [("1", "PENDING"), ("2", "PENDING")],
        [("1", "PENDING"), ("2", "RUNNING")],
        [("1", "PENDING")],
        [("1", "RUNNING"), ("3", "PENDING")],
        [("3", "PENDING")],
    ]


def test_the_driver_is_told_starts_in_whole_seconds(monkeypatch):
    told = []

    def spy(live, policy):
        told.append([job.start for job in live.jobs])
        return decide(live, policy)

    monkeypatch.setattr(driver_simulation, "decide", spy)
    held = [HeldJob(submit, 8, 60.0, 3.0, 3.0) for submit in (0.0, 0.1, 2.1)]
    simulate_driver(load(RULES), NODES, held, find("sjf", "cluster"), 0.25, 0.4)
    # Waiting; released at 0.03 and not started at 0.25; running since 1.0, of which 0.6 is told.
    assert told[:3] == [[0.0], [0.25, 0.0], [0.6, 0.0, 0.0]]


def test_a_job_that_is_requeued_loses_its_work_and_runs_anew(monkeypatch):
    requeued = []

    def requeue_once(live, policy):
        if not requeued:
            requeued.extend(job.id for job in live.jobs if job.runs)
            if requeued:
                return [InterruptionOf(job) for job in live.jobs if job.runs]
        return decide(live, policy)

    monkeypatch.setattr(driver_simulation, "decide", requeue_once)
    first, second = simulated([(0.0, 8, 10.0), (3.1, 8, 4.0)], "fifo")
    assert first == [(1.0, 3.28), (4.0, 14.0)]
    assert second == [(15.0, 19.0)]


def test_a_job_released_and_requeued_before_it_ran_leaves_no_run(monkeypatch):
    turns = []

    def start_and_requeue(live, policy):
        turns.append(live.scenario.begins_s)
        if len(turns) == 2:
            return [InterruptionOf(job) for job in live.jobs if job.runs]
        return [start for start in decide(live, policy) if isinstance(start, StartOf)]

    monkeypatch.setattr(driver_simulation, "decide", start_and_requeue)
    assert simulated([(0.0, 4, 3.0), (0.1, 8, 3.0)], "fifo") == [[(1.0, 4.0)], [(5.0, 8.0)]]
    assert len(turns) > 2


def test_jobs_that_do_not_end_within_an_hour_are_refused_in_one_line():
    with pytest.raises(InputError, match=f"longer than {LONGEST_S:g} s: expected fewer or shorter jobs"):
        simulated([(0.0, 8, 3000.0), (0.1, 8, 3000.0)])


def test_where_placement_is_flat_slurm_chooses_the_nodes():
    assert simulated([(0.0, 6, 4.0), (0.1, 4, 3.0)], placement="flat") == [[(1.0, 5.0)], [(6.0, 9.0)]]
