"""Known theory: queues with many servers, and what bounds say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slipstream.families.cluster.metrics import end_of, jobs_of, reward_of, terms_of
from slipstream.families.cluster.oracle.optimum import optimum_bounds
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.policies.base import find, names
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator


def erlang_c(servers: int, offered: float) -> float:
    """Return the chance of a job to wait in an M/M/c queue."""
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return last / (sum(terms) + last)


@pytest.mark.parametrize(("servers", "load_per_server"), [(1, 0.6), (4, 0.7), (16, 0.85)])
def test_waiting_times_are_those_of_an_mmc_queue(servers: int, load_per_server: float) -> None:
    run_s = 100.0
    source = {
        "kind": "synthetic",
        "jobs": 400_000,
        "seed": 5,
        "mean_gap_s": run_s / servers / load_per_server,
        "mean_run_s": run_s,
        "run_times": "exponential",
        "sizes": [1],
    }
    nodes = [{"name": "node", "count": 1, "gpus": servers}]
    made = ClusterScenario.model_validate({"family": "cluster", "nodes": nodes, "jobs": source})
    jobs = jobs_of(made, Simulator(made).play(find("fifo", "cluster"), 0))
    found = float((jobs.first_start - jobs.submit).mean()) / 1e9
    offered = servers * load_per_server
    expected = erlang_c(servers, offered) * run_s / (servers - offered)
    assert found == pytest.approx(expected, rel=0.05)


def test_jobs_in_the_system_are_arrivals_times_their_time_there() -> None:
    scenario = load("cluster/light")
    events = Simulator(scenario).play(find("saf", "cluster"), 1)
    jobs, end = jobs_of(scenario, events), end_of(events)
    times = np.concatenate((jobs.submit, jobs.finish))
    order = np.argsort(times, kind="stable")
    counts = np.cumsum(np.concatenate((np.ones(len(jobs.submit)), -np.ones(len(jobs.submit))))[order])
    mean = float((counts[:-1] * np.diff(times[order])).sum()) / end
    assert mean == pytest.approx(len(jobs.submit) / end * float((jobs.finish - jobs.submit).mean()))


@pytest.mark.parametrize("name", ["cluster/light", "cluster/heavy", "cluster/bursty"])
def test_no_policy_exceeds_the_bound(name: str) -> None:
    scenario = load(name)
    found = optimum_bounds(scenario, 3, seconds=1.0)
    assert found.method == "relaxation"
    assert found.best_known <= found.bound
    for policy in names("cluster"):
        events = Simulator(scenario).play(find(policy, "cluster"), 3)
        assert reward_of(scenario, terms_of(scenario, events)) <= found.best_known


def test_a_small_episode_is_solved_exactly() -> None:
    found = optimum_bounds(load("cluster/tiny"), 0, seconds=20.0)
    assert found.exact
    # Found by trying all schedules: 2.4222 slowdowns on average.
    assert found.best_known == pytest.approx(found.bound, rel=1e-6)
