"""Taskgraph: tasks on tiles of data run on processors with memories of their own; moving tiles takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.contract import Family

if TYPE_CHECKING:
    from slipstream.families.shared.generator import Generator
    from slipstream.families.shared.variation import Variation
    from slipstream.families.taskgraph.scenario import TaskgraphScenario


class TaskgraphFamily(Family):
    """The taskgraph house."""

    name = "taskgraph"
    env_id = "slipstream/Taskgraph-v0"
    default_scenario = "taskgraph/cholesky-4-2g2c"
    time_unit = "ms"
    nanoseconds_per_unit = 1_000_000
    reward_terms = ("makespan",)
    default_policy = "mct"
    headline = ("makespan_ms", "ratio_to_bound", "moved_mb", "evictions", "idle_share")

    @property
    def generator(self) -> Generator:
        from slipstream.families.taskgraph.workload.generator import GENERATOR

        return GENERATOR

    def vary(self, scenario: TaskgraphScenario, variation: Variation, seed: int) -> TaskgraphScenario:
        from slipstream.families.taskgraph.workload.randomisation import vary

        return vary(scenario, variation, seed)


FAMILY = TaskgraphFamily()
