"""Who the policies of the cluster family serve first."""

from __future__ import annotations

from typing import Any

import pytest

from slipstream.families.cluster.metrics import jobs_of, metrics
from slipstream.policies.base import find, names
from slipstream.scenario import builtin_names, load
from slipstream.sim.simulator import Simulator

S = 10**9


def first_starts(policy: str, jobs: list[dict[str, Any]], gpus: int = 4, **rules: Any) -> list[float]:
    """Return when each job first starts, in seconds."""
    nodes = [{"name": "node", "count": 1, "gpus": gpus}]
    source = {"kind": "list", "jobs": [{"submit_s": 0.0, "run_s": 10.0, **job} for job in jobs]}
    made = load({"family": "cluster", "nodes": nodes, "jobs": source, **rules})
    return list(jobs_of(made, Simulator(made).play(find(policy, "cluster"), 0)).first_start / S)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fifo", [0.0, 10.0, 40.0, 57.0]),
        ("sjf", [0.0, 27.0, 10.0, 57.0]),
        ("saf", [0.0, 27.0, 10.0, 57.0]),
    ],
)
def test_orders_decide_who_is_next(policy: str, expected: list[float]) -> None:
    # The first job keeps all GPUs until 10 s; then the order decides.
    jobs = [
        {"gpus": 4},
        {"gpus": 4, "run_s": 30.0},
        {"gpus": 4, "run_s": 17.0, "submit_s": 1.0},
        {"gpus": 4, "run_s": 40.0, "submit_s": 2.0},
    ]
    assert first_starts(policy, jobs, backfill="strict", hold=False) == expected


def test_the_user_who_holds_least_is_next() -> None:
    jobs = [
        {"gpus": 2, "user": "ann", "run_s": 100.0},
        {"gpus": 2, "user": "bob", "run_s": 10.0},
        {"gpus": 2, "user": "ann", "submit_s": 1.0},
        {"gpus": 2, "user": "bob", "submit_s": 2.0},
    ]
    # At 10 s ann holds two GPUs and bob none.
    assert first_starts("drf", jobs, backfill="strict", hold=False) == [0.0, 0.0, 20.0, 10.0]
    assert first_starts("fifo", jobs, backfill="strict", hold=False) == [0.0, 0.0, 10.0, 20.0]


def test_max_min_gives_users_equal_shares() -> None:
    jobs = [{"gpus": 1, "user": "ann", "run_s": 100.0} for _ in range(4)]
    jobs += [{"gpus": 1, "user": "bob", "run_s": 100.0, "submit_s": 5.0} for _ in range(3)]
    starts = first_starts("max-min", jobs, preemption={"cost_s": 0.0})
    # At 5 s two jobs of ann make room for two of bob; his third one waits.
    assert starts[:4] == [0.0] * 4
    assert starts[4:6] == [5.0, 5.0]
    assert starts[6] > 5.0


def test_least_attained_service_lets_a_new_job_run_at_once() -> None:
    jobs = [{"gpus": 4, "run_s": 100.0}, {"gpus": 4, "run_s": 5.0, "submit_s": 20.0}]
    assert first_starts("las", jobs, preemption={"cost_s": 0.0, "round_s": 10.0}) == [0.0, 20.0]
    assert first_starts("tiresias-2q(60)", jobs, preemption={"cost_s": 0.0, "round_s": 10.0}) == [0.0, 20.0]
    # 80 GPU-seconds are below the limit: who runs goes on.
    assert first_starts("tiresias-2q(3250)", jobs, preemption={"cost_s": 0.0, "round_s": 10.0}) == [0.0, 100.0]


@pytest.mark.parametrize("policy", names("cluster"))
def test_every_policy_serves_every_job_of_every_built_in(policy: str) -> None:
    for name in builtin_names():
        if name.startswith("cluster/"):
            made = load(name)
            figures = metrics(made, Simulator(made).play(find(policy, "cluster"), 1))
            assert figures["jobs"] == (6.0 if name == "cluster/tiny" else 256.0)


def test_preemption_pays_where_it_is_allowed() -> None:
    made = load("cluster/bursty")
    slowdowns = {
        policy: metrics(made, Simulator(made).play(find(policy, "cluster"), 1))["slowdown_mean"]
        for policy in ("fifo", "saf", "srsf")
    }
    assert slowdowns["srsf"] < slowdowns["saf"] < slowdowns["fifo"]
