"""Dag: jobs arrive as graphs of stages; executors serve their tasks and take time to move from job to job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.contract import Family

if TYPE_CHECKING:
    from slipstream.families.dag.scenario import DagScenario
    from slipstream.families.shared.generator import Generator
    from slipstream.families.shared.variation import Variation


class DagFamily(Family):
    """The dag house."""

    name = "dag"
    env_id = "slipstream/Dag-v0"
    default_scenario = "dag/stream-10x50"
    time_unit = "s"
    nanoseconds_per_unit = 1_000_000_000
    reward_terms = ("job_seconds", "makespan")
    default_policy = "fair"
    headline = ("avg_jct_s", "jct_p95_s", "makespan_s", "utilisation", "moving_share")

    @property
    def generator(self) -> Generator:
        from slipstream.families.dag.workload.generator import GENERATOR

        return GENERATOR

    def vary(self, scenario: DagScenario, variation: Variation, seed: int) -> DagScenario:
        from slipstream.families.dag.workload.randomisation import vary

        return vary(scenario, variation, seed)


FAMILY = DagFamily()
