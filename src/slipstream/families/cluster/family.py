"""Cluster: jobs of users wait for GPUs; who starts when, where, at what power cap, and who is interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slipstream.families.contract import Family

if TYPE_CHECKING:
    import numpy as np

    from slipstream.families.shared.charts import Chart, Picture
    from slipstream.families.shared.generator import Generator
    from slipstream.families.shared.timeline import Timeline


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

    tradeoffs = (("slowdown_mean", "energy_kwh"), ("slowdown_mean", "jain_users"))

    def charts(self, scenario: Any, events: np.ndarray) -> list[Chart | Picture]:
        """Return demand, allocation, power, distributions and shares of users."""
        found: list[Chart | Picture] = self._room("charts").charts(scenario, events)
        return found

    def row_name(self, scenario: Any, timeline: Timeline, row: np.ndarray) -> str:
        """Return which job a raw row starts, reserves for or interrupts."""
        name: str = self._room("timeline").row_name(scenario, timeline, row)
        return name

    @property
    def generator(self) -> Generator:
        from slipstream.families.cluster.workload.generator import GENERATOR

        return GENERATOR


FAMILY = ClusterFamily()
