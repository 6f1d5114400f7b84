"""What only the cluster kernel promises: a walk along the queue makes the choices that its rows do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstream.families.cluster import features
from slipstream.families.cluster.policies import Ordered
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.policies.base import Heuristic, find, names
from slipstream.scenario import builtin_names, load
from slipstream.sim.eventlog import digest
from slipstream.sim.simulator import NO_LIMIT, Simulator
from tests.cluster.cases import FOUR, scenario
from tests.cluster.strategies import cluster_scenarios
from tests.cluster.subject import compare_walks
from tests.kernels import KernelLane, log_rows, smallest_log
from tests.strategies import episode_seeds

ORDERED = [policy for name in names("cluster") if isinstance(policy := find(name, "cluster"), Ordered)]
S = 10**9


@settings(max_examples=120, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(cluster_scenarios(), episode_seeds(), st.sampled_from(ORDERED), st.integers(0, 31))
def test_a_walk_along_the_queue_makes_the_choices_of_the_rows(
    drawn: ClusterScenario, seed: int, policy: Heuristic, more_rows: int
) -> None:
    by_rows, flushed = Simulator(drawn), list[np.ndarray]()
    by_rows.reset(seed)
    policy.run(by_rows, NO_LIMIT - 1)
    Simulator(drawn, smallest_log(drawn) + more_rows).play(policy, seed, sink=flushed.append)
    assert log_rows(np.concatenate(flushed)) == log_rows(by_rows.log())


@pytest.mark.parametrize("name", [name for name in builtin_names() if name.startswith("cluster/")])
@pytest.mark.parametrize("policy", ["saf", "wfp3"])
def test_walks_and_rows_agree_in_the_built_ins(name: str, policy: str) -> None:
    built_in, player = load(name), find(policy, "cluster")
    assert isinstance(player, Heuristic)
    by_rows = Simulator(built_in)
    by_rows.reset(3)
    player.run(by_rows, NO_LIMIT - 1)
    assert digest(Simulator(built_in).play(player, 3)) == digest(by_rows.log())


def test_a_walk_plays_the_cases_that_were_worked_out_by_hand() -> None:
    compare_walks()


def test_choosing_a_job_that_does_not_fit_leaves_only_safe_rows() -> None:
    lane = KernelLane(load(scenario(FOUR, backfill="easy")), 0)
    lane.step(0)
    assert lane.now == S
    lane.step(0)  # B is reserved at 1 s; C comes at 2 s and is safe
    assert lane.now == 2 * S
    assert [row["job"] for row, legal in zip(lane.rows(), lane.mask(), strict=True) if legal and row["start"]] == [2.0]
    assert lane.globals()["shadow_in"] == 8 * S


def test_training_never_sees_the_jobs_that_are_held_out() -> None:
    built_in = load("cluster/lublin-256")
    simulator = Simulator(built_in)
    cut = 10_000 - 3_000
    for seed in range(40):
        simulator.reset(seed, "train")
        assert simulator.header["first"] + 256 <= cut
        simulator.reset(seed, "test")
        assert simulator.header["first"] >= cut


def test_power_aware_takes_the_most_frugal_cap_that_is_bearable() -> None:
    lane = KernelLane(load("cluster/heavy"), 1)
    policy = find("power-aware(1.1)", "cluster")
    rows = lane.rows()
    chosen = rows[policy.choose(*lane.simulator.observe())]
    same = [row for row, legal in zip(rows, lane.mask(), strict=True) if legal and row["job"] == chosen["job"]]
    bearable = [row for row in same if row["start"] and row["time_factor"] <= 1.1]
    assert chosen["added_power"] == min(row["added_power"] for row in bearable)
    assert features.CANDIDATE.names[features.ADDED_POWER] == "added_power"
