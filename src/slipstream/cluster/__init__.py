"""Cluster: jobs of users wait for GPUs; who starts when, where, at what power cap, and who is interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.core.family import Family

if TYPE_CHECKING:
    from slipstream.core.generator import Generator


class ClusterFamily(Family):
    """The cluster house."""

    name = "cluster"
    env_id = "slipstream/Cluster-v0"
    default_scenario = "cluster/lublin-256"
    time_unit = "s"
    nanoseconds_per_unit = 1_000_000_000
    reward_terms = ("slowdown", "waiting", "throughput", "utilisation", "energy", "unfairness")
    default_policy = "saf"
    headline = ("slowdown_mean", "slowdown_p99", "wait_max_s", "jct_mean_s", "allocation", "energy_kwh", "jain_users")

    @property
    def generator(self) -> Generator:
        from slipstream.cluster.generate import GENERATOR

        return GENERATOR


FAMILY = ClusterFamily()
