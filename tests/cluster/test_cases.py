"""Cases worked out by hand: who starts when, under each rule of the queue, placement, cap and interruption."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slipstream.cluster.metrics import jobs_of, power_w, spans_of
from slipstream.cluster.scenario import ClusterScenario
from slipstream.core.eventlog import TAKE
from slipstream.core.simulator import Simulator
from slipstream.policies.base import find
from tests.cluster.adapter import KernelCluster

S = 10**9


def scenario(jobs: list[tuple[float, ...]], nodes: Any = 1, gpus: int = 4, **rules: Any) -> ClusterScenario:
    """Return a cluster with jobs (submit, GPUs, run, requested)."""
    listed = [
        {"submit_s": job[0], "gpus": int(job[1]), "run_s": job[2], "requested_s": job[3] if len(job) > 3 else job[2]}
        for job in jobs
    ]
    kinds = nodes if isinstance(nodes, list) else [{"name": "node", "count": nodes, "gpus": gpus}]
    source = {"kind": "list", "jobs": listed}
    return ClusterScenario.model_validate({"family": "cluster", "nodes": kinds, "jobs": source, **rules})


def starts(made: ClusterScenario, policy: str = "fifo") -> list[float]:
    """Return when each job first starts, in seconds."""
    return list(jobs_of(made, Simulator(made).play(find(policy, "cluster"), 0)).first_start / S)


# A wants three of four GPUs for 10 s, B all four, C one for 5 s, D one for 20 s.
FOUR = [(0.0, 3, 10.0), (1.0, 4, 10.0), (2.0, 1, 5.0), (3.0, 1, 20.0)]


@pytest.mark.parametrize(
    ("backfill", "expected"),
    [
        ("strict", [0.0, 10.0, 20.0, 20.0]),  # nobody passes B
        ("greedy", [0.0, 27.0, 2.0, 7.0]),  # C and, after it, D pass B, which waits for D
        ("easy", [0.0, 10.0, 2.0, 20.0]),  # C ends at 7, in time for B; D would not
        ("conservative", [0.0, 10.0, 2.0, 20.0]),
    ],
)
def test_who_passes_a_job_that_does_not_fit(backfill: str, expected: list[float]) -> None:
    assert starts(scenario(FOUR, backfill=backfill)) == expected


def test_a_job_that_leaves_enough_for_the_reserved_one_may_end_after_it_starts() -> None:
    # B wants three at 10 s: one of four GPUs is over then, so D may have it.
    jobs = [(0.0, 3, 10.0), (1.0, 3, 10.0), (3.0, 1, 20.0), (4.0, 1, 20.0)]
    assert starts(scenario(jobs, backfill="easy")) == [0.0, 10.0, 3.0, 23.0 - 3.0]


def test_conservative_backfilling_delays_no_slot_where_easy_does() -> None:
    # B waits for A; C waits for B; D would delay C, though not B.
    jobs = [(0.0, 2, 10.0), (1.0, 4, 10.0), (2.0, 3, 10.0), (3.0, 2, 7.0), (3.0, 2, 18.0)]
    assert starts(scenario(jobs, backfill="conservative", gpus=4)) == [0.0, 10.0, 20.0, 3.0, 30.0]
    assert starts(scenario(jobs, backfill="easy", gpus=4)) == [0.0, 10.0, 20.0, 3.0, 30.0]


def test_an_early_end_lets_the_reserved_job_start_at_once() -> None:
    assert starts(scenario([(0.0, 4, 5.0, 100.0), (1.0, 4, 5.0)])) == [0.0, 5.0]


def test_a_held_job_starts_before_one_that_comes_first_in_the_order() -> None:
    # Alone in the queue at 1 s, the long job is chosen; the short one comes at 2 s.
    jobs = [(0.0, 4, 10.0), (1.0, 4, 100.0), (2.0, 4, 1.0)]
    assert starts(scenario(jobs, hold=True), "sjf") == [0.0, 10.0, 110.0]
    assert starts(scenario(jobs, hold=False), "sjf") == [0.0, 11.0, 10.0]


def test_jobs_of_a_user_wait_for_the_quota() -> None:
    assert starts(scenario([(0.0, 1, 10.0), (0.0, 1, 10.0)], quotas={"user": 1})) == [0.0, 10.0]


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        ("first-fit", [(0, 0, 3), (1, 0, 1), (1, 1, 1), (2, 1, 2)]),
        ("best-fit", [(0, 0, 3), (1, 1, 2), (2, 1, 2)]),
        ("consolidate", [(0, 0, 3), (1, 1, 2), (2, 1, 2)]),
    ],
)
def test_where_jobs_go(placement: str, expected: list[tuple[int, ...]]) -> None:
    made = scenario([(0.0, 3, 10.0), (1.0, 2, 10.0), (2.0, 2, 10.0)], nodes=2, placement=placement)
    events = Simulator(made).play(find("fifo", "cluster"), 0)
    takes = events[events["kind"] == TAKE]
    assert list(zip(takes["job"].tolist(), takes["resource"].tolist(), takes["task"].tolist(), strict=True)) == expected


def test_a_consolidated_job_waits_for_a_node_and_a_large_one_for_whole_nodes() -> None:
    jobs = [(0.0, 2, 10.0), (0.0, 3, 10.0), (1.0, 3, 10.0), (2.0, 5, 10.0)]
    made = scenario(jobs, nodes=2, placement="consolidate", backfill="strict")
    # Three GPUs are free at 1 s, but on two nodes; at 10 s one node is left for the third, and half of the other.
    assert starts(made) == [0.0, 0.0, 10.0, 20.0]


def test_a_spread_job_takes_longer() -> None:
    kinds = [{"name": "node", "count": 2, "gpus": 2, "rack_size": 1}]
    made = scenario([(0.0, 3, 10.0)], kinds, placement="best-fit", locality={"nodes": 1.5, "racks": 2.0})
    assert spans_of(Simulator(made).play(find("fifo", "cluster"), 0)).end.tolist() == [20 * S]


def test_a_job_goes_at_the_pace_of_its_slowest_gpus() -> None:
    kinds = [{"name": "new", "count": 1, "gpus": 1, "speed": 2.0}, {"name": "old", "count": 1, "gpus": 1, "speed": 0.5}]
    made = scenario([(0.0, 2, 10.0), (0.0, 1, 10.0)], kinds, placement="first-fit")
    assert spans_of(Simulator(made).play(find("fifo", "cluster"), 0)).end.tolist() == [20 * S, 25 * S]


CAPPED = [{"name": "gpu", "count": 1, "gpus": 2, "idle_w": 50.0, "busy_w": 250.0}]


def test_a_cap_slows_a_job_down_and_saves_power() -> None:
    kinds = [{**CAPPED[0], "caps": [{"watts": 150.0, "time": 1.1, "power": 0.8}]}]
    made = scenario([(0.0, 2, 10.0)], kinds)
    events = Simulator(made).play(find("power-aware(1.2)", "cluster"), 0)
    spans = spans_of(events)
    assert spans.level.tolist() == [1]
    assert spans.end.tolist() == [11 * S]
    assert power_w(made, events, spans)[1].tolist() == [400.0, 100.0]
    assert spans_of(Simulator(made).play(find("power-aware(1.05)", "cluster"), 0)).level.tolist() == [0]


def test_no_job_starts_beyond_the_power_budget() -> None:
    made = scenario([(0.0, 1, 10.0), (0.0, 1, 10.0)], CAPPED, power={"budget_w": 499.0})
    assert starts(made) == [0.0, 10.0]
    assert starts(scenario([(0.0, 1, 10.0), (0.0, 1, 10.0)], CAPPED, power={"budget_w": 500.0})) == [0.0, 0.0]


def test_an_interrupted_job_pays_and_goes_on() -> None:
    # The short job comes at 4 s; the long one has 6 s left, and needs 3 s to go on when the short one ends at 6 s.
    made = scenario([(0.0, 4, 10.0), (4.0, 4, 2.0)], preemption={"cost_s": 3.0})
    spans = spans_of(Simulator(made).play(find("srtf", "cluster"), 0))
    assert (spans.start // S).tolist() == [0, 4, 6]
    assert (spans.end // S).tolist() == [4, 6, 15]


def test_a_job_is_not_interrupted_before_its_time() -> None:
    made = scenario([(0.0, 4, 10.0), (4.0, 4, 2.0)], preemption={"cost_s": 0.0, "least_run_s": 5.0, "round_s": 7.0})
    spans = spans_of(Simulator(made).play(find("srtf", "cluster"), 0))
    # Asked again at the end of the round, it has less left than the other one needs... but 3 s are more than 2.
    assert (spans.start // S).tolist() == [0, 7, 9]


def test_choosing_a_job_that_does_not_fit_leaves_only_safe_rows() -> None:
    lane = KernelCluster(scenario(FOUR, backfill="easy"), 0)
    lane.step(0)
    assert lane.now == S
    lane.step(0)  # B is reserved at 1 s; C comes at 2 s and is safe
    assert lane.now == 2 * S
    assert [row["job"] for row, legal in zip(lane.rows(), lane.mask(), strict=True) if legal and row["start"]] == [2.0]
    assert lane.globals()["shadow_in"] == 8 * S


def test_the_slowdown_term_sums_up_to_bounded_slowdowns() -> None:
    made = scenario([(0.0, 4, 2.0), (0.0, 4, 100.0), (0.0, 4, 20.0)])
    lane = KernelCluster(made, 0)
    total = 0.0
    while not lane.over:
        lane.step(0)
        total += lane.terms["slowdown"]
    # The first takes 2 s, the second ends at 102 s, the third at 122 s.
    assert np.isclose(total, 1.0 + 1.02 + 6.1)
