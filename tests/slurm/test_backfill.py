"""The simulation of Slurm's own scheduler: cases worked out by hand, and a real Slurm that does the same."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.families.cluster.slurm.backfill import QueuedJob, simulate_backfill
from slipstream.families.cluster.slurm.controller import read_snapshot
from tests.slurm.conftest import wait_for
from tests.slurm.test_driver import all_ended

LIMIT_S = 60.0
# Four jobs fill four nodes and end one by one; then one wants two nodes, and one after it wants one.
LENGTHS = ((3.0, 4), (7.0, 4), (11.0, 4), (15.0, 4), (3.0, 8), (3.0, 4))


def started(gpus, jobs, interval_s=1.0):
    runs = simulate_backfill(gpus, [QueuedJob(*job) for job in jobs], interval_s)
    return [(run.start_s, run.held) for run in runs]


def test_a_reservation_keeps_whole_nodes_free_for_the_job_that_waits_first():
    # Under EASY the last job would start on node 0 at 3: beside the job of 8 GPUs, 8 are left when the others end.
    found = started([4] * 4, [(0.0, gpus, LIMIT_S, run) for run, gpus in LENGTHS])
    assert found[4:] == [(7.0, {0: 4, 1: 4}), (10.0, {0: 4})]


def test_a_job_passes_on_nodes_that_no_other_waits_for():
    # The job of 8 GPUs is planned for nodes 0 and 1, when both are expected to be free; node 2 is left.
    jobs = [(0.0, 4, 300.0, 100.0), (0.0, 4, 300.0, 100.0), (1.0, 8, LIMIT_S, 5.0)]
    found = started([4, 4, 4], [*jobs, (2.5, 4, 400.0, 5.0)])
    assert found[2:] == [(100.0, {0: 4, 1: 4}), (3.0, {2: 4})]


def test_a_job_that_ends_before_the_reservation_may_use_its_nodes():
    jobs = [(0.0, 4, 300.0, 100.0), (1.0, 8, LIMIT_S, 5.0)]
    assert started([4, 4], [*jobs, (2.5, 4, 200.0, 9.0)])[2] == (3.0, {1: 4})
    assert started([4, 4], [*jobs, (2.5, 4, 400.0, 9.0)])[2] == (105.0, {0: 4})


def test_every_waiting_job_gets_a_reservation():
    # The second of the waiting jobs is planned behind the first; EASY would let the third delay it.
    jobs = [(0.0, 2, 100.0, 100.0), (1.0, 4, LIMIT_S, 10.0), (2.0, 4, LIMIT_S, 10.0)]
    assert [start for start, _ in started([4], [*jobs, (3.0, 2, 97.0, 50.0)])] == [0.0, 100.0, 110.0, 120.0]
    assert [start for start, _ in started([4], [*jobs, (3.0, 2, 90.0, 50.0)])] == [0.0, 100.0, 110.0, 3.0]


def test_jobs_start_at_whole_seconds_after_what_lets_them_start():
    jobs = [(0.2, 4, LIMIT_S, 5.5), (1.0, 4, LIMIT_S, 5.0), (2.7, 2, LIMIT_S, 1.0)]
    assert [start for start, _ in started([4], jobs)] == [1.0, 7.0, 12.0]


def test_passes_come_once_per_interval_and_a_free_queue_does_not_wait_for_them():
    jobs = [(0.0, 4, 300.0, 100.0), (1.0, 8, LIMIT_S, 5.0), (2.0, 2, 50.0, 9.0)]
    assert started([4, 4], jobs, interval_s=30.0)[2][0] == 30.0
    assert started([4, 4], [jobs[0], jobs[2]], interval_s=30.0)[1][0] == 2.0


def test_nodes_are_those_that_slurm_takes():
    # The fullest that suffices; neighbours in their order; a larger set that does not suffice before one that does.
    assert started([4, 4], [(0.0, 1, 9.0, 9.0), (0.0, 3, 9.0, 9.0), (0.0, 4, 9.0, 9.0)])[1:] == [
        (0.0, {0: 3}),
        (0.0, {1: 4}),
    ]
    assert started([4, 4, 4], [(0.0, 2, 9.0, 9.0), (0.0, 9, 9.0, 9.0)])[1] == (0.0, {0: 2, 1: 4, 2: 3})
    full = [(0.0, 4, 9.0, 9.0), (0.0, 4, 9.0, 9.0), (0.0, 3, 99.0, 99.0), (0.0, 3, 99.0, 99.0), (0.0, 4, 99.0, 99.0)]
    assert started([4, 4, 4, 4, 4], [*full, (1.0, 4, 9.0, 9.0)])[5] == (9.0, {0: 4})
    holes = [(0.0, 4, 9.0, 9.0), (0.0, 4, 99.0, 99.0), (0.0, 2, 99.0, 99.0), (0.0, 4, 99.0, 99.0)]
    found = started([4, 4, 2, 4, 1, 1], [*holes, (1.0, 6, 9.0, 9.0)])
    assert found[4] == (9.0, {0: 4, 4: 1, 5: 1})


def test_no_job_is_lost_and_no_node_holds_more_than_it_has_on_random_queues():
    rng = np.random.Generator(np.random.Philox(3))
    for _ in range(60):
        gpus = [int(count) for count in rng.integers(1, 5, rng.integers(1, 6))]
        jobs = [
            QueuedJob(
                float(rng.integers(0, 60)),
                int(rng.integers(1, sum(gpus) + 1)),
                60.0 * float(rng.integers(1, 4)),
                float(rng.integers(1, 90)),
            )
            for _ in range(25)
        ]
        runs = simulate_backfill(gpus, jobs, 1.0)
        for run in runs:
            assert run.start_s >= run.job.submit_s
            assert sum(run.held.values()) == run.job.gpus
            beside = [one for one in runs if one.start_s <= run.start_s < one.end_s]
            assert all(sum(one.held.get(node, 0) for one in beside) <= gpus[node] for node in range(len(gpus)))


@pytest.mark.thorough
def test_a_real_slurm_starts_the_same_jobs_in_the_same_order_on_the_same_nodes(slurm):
    words = ("--output=/dev/null", "--chdir=/", "--time=1")
    jobs = [str(slurm.slurm.submit(f"#!/bin/sh\nsleep {run:g}\n", f"--gpus={gpus}", *words)) for run, gpus in LENGTHS]
    nodes = {}

    def over():
        snapshot = read_snapshot(slurm.slurm)
        nodes.update({job.id: dict(job.held) for job in snapshot.jobs if job.held and job.id in jobs})
        return all_ended(jobs)(snapshot)

    wait_for(over, 90.0)
    simulated = started([4] * 4, [(0.0, gpus, LIMIT_S, run) for run, gpus in LENGTHS])
    assert [nodes[job] for job in jobs] == [
        {f"n{node + 1}": count for node, count in held.items()} for _, held in simulated
    ]
    starts = {job.id: job.start for job in read_snapshot(slurm.slurm).jobs}
    assert starts[jobs[4]] < starts[jobs[5]]
