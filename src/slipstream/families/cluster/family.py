"""Cluster: jobs of users wait for GPUs; who starts when, where, at what power cap, and who is interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.contract import Constraint, Family, Members, RolloutDefaults

if TYPE_CHECKING:
    from slipstream.families.cluster.scenario import ClusterScenario


class ClusterFamily(Family):
    """Names and units of the cluster family."""

    name = "cluster"
    default_scenario = "cluster/lublin-256"
    reward_terms = ("slowdown", "waiting", "throughput", "utilisation", "energy", "unfairness")
    rollout = RolloutDefaults(futures=32, candidates=16, all_rows=True, arrivals=16)
    default_policy = "saf"
    headline = ("slowdown_mean", "slowdown_p99", "wait_max_s", "jct_mean_s", "allocation", "energy_kwh", "jain_users")
    summary = (
        *("slowdown_mean", "slowdown_p99", "wait_mean_s", "wait_max_s", "jct_mean_s", "allocation"),
        *("energy_kwh", "jain_users", "interruptions", "jobs"),
    )
    counts = ("interruptions", "jobs")
    # The reward is a mean over jobs: a few long jobs that wait for days would hardly lower it.
    constraints = (Constraint("wait_mean_s", 0.1, 10.0), Constraint("wait_max_s", 0.25, 10.0))
    tradeoffs = (("slowdown_mean", "energy_kwh"), ("slowdown_mean", "jain_users"))

    @property
    def scenario_type(self) -> type[ClusterScenario]:
        from slipstream.families.cluster.scenario import ClusterScenario

        return ClusterScenario

    def load_members(self) -> Members[ClusterScenario]:
        from slipstream.families.cluster.members import MEMBERS

        return MEMBERS


FAMILY = ClusterFamily()
