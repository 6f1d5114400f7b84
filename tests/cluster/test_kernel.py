"""What only the cluster kernel promises: safe rows beside a reserved job, held-out jobs, and frugal caps."""

from __future__ import annotations

from slipstream.families.cluster import features
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator
from tests.cluster.cases import FOUR, scenario
from tests.kernels import KernelLane

S = 10**9


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
