"""Taskgraph: tasks on tiles of data run on processors with memories of their own; moving tiles takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.core.family import Family
from slipstream.core.features import GraphShape

if TYPE_CHECKING:
    from slipstream.core.regret import Hindsight
    from slipstream.taskgraph.scenario import TaskgraphScenario


class TaskgraphFamily(Family):
    """The taskgraph house."""

    name = "taskgraph"
    env_id = "slipstream/Taskgraph-v0"
    default_scenario = "taskgraph/cholesky-4-2g2c"
    time_unit = "ms"
    nanoseconds_per_unit = 1_000_000
    reward_terms = ("makespan",)
    scenario_package = "slipstream.taskgraph.scenarios"
    default_policy = "mct"
    headline = ("makespan_ms", "ratio_to_bound", "moved_mb", "evictions", "idle_share")

    @property
    def scenario_type(self) -> type[TaskgraphScenario]:
        from slipstream.taskgraph.scenario import TaskgraphScenario

        return TaskgraphScenario

    def all_rows(self, scenario: TaskgraphScenario) -> int:
        from slipstream.taskgraph import build

        return build.all_rows(scenario)

    def graph(self, scenario: TaskgraphScenario) -> GraphShape:
        from slipstream.taskgraph import build

        return build.graph(scenario)

    def hindsight(self, scenario: TaskgraphScenario, seed: int, namespace: str, seconds: float) -> Hindsight:
        from slipstream.taskgraph.oracle import Oracle

        return Oracle(scenario, seed, namespace, seconds)


FAMILY = TaskgraphFamily()
