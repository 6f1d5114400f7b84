"""Taskgraph: tasks on tiles of data run on processors with memories of their own; moving tiles takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream.core.bracket import Bracket
from slipstream.core.cast import Cast
from slipstream.core.family import Family
from slipstream.core.features import FeatureTable, GraphShape
from slipstream.core.timeline import Timeline
from slipstream.taskgraph import features

if TYPE_CHECKING:
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

    @property
    def candidate_features(self) -> FeatureTable:
        return features.CANDIDATE

    @property
    def global_features(self) -> FeatureTable:
        return features.GLOBAL

    def candidate_rows(self, scenario: TaskgraphScenario) -> int:
        from slipstream.taskgraph import build

        return build.candidate_rows(scenario)

    def all_rows(self, scenario: TaskgraphScenario) -> int:
        from slipstream.taskgraph import build

        return build.all_rows(scenario)

    def graph(self, scenario: TaskgraphScenario) -> GraphShape:
        from slipstream.taskgraph import build

        return build.graph(scenario)

    def spec_arrays(self, scenario: TaskgraphScenario) -> dict[str, np.ndarray]:
        from slipstream.taskgraph import build

        return build.spec_arrays(scenario)

    def make_spec(self, arrays: dict[str, np.ndarray]) -> Any:
        from slipstream.taskgraph import build

        return build.make_spec(arrays)

    def state_arrays(self, scenario: TaskgraphScenario, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
        from slipstream.taskgraph import build

        return build.state_arrays(scenario, lanes, log_rows)

    def make_state(self, arrays: dict[str, np.ndarray]) -> Any:
        from slipstream.taskgraph import build

        return build.make_state(arrays)

    def log_margin(self, scenario: TaskgraphScenario) -> int:
        from slipstream.taskgraph import build

        return build.log_margin(scenario)

    def register_policies(self) -> None:
        from slipstream.taskgraph import policies  # noqa: F401  importing registers them

    def metrics(self, scenario: TaskgraphScenario, events: np.ndarray) -> dict[str, float]:
        from slipstream.taskgraph.metrics import metrics

        return metrics(scenario, events)

    def oracle(self, scenario: TaskgraphScenario, seed: int, namespace: str, seconds: float) -> Bracket:
        from slipstream.taskgraph.oracle import bracket

        return bracket(scenario, seed, namespace, seconds)

    def timeline(self, scenario: TaskgraphScenario, events: np.ndarray) -> Timeline:
        from slipstream.taskgraph.timeline import timeline

        return timeline(scenario, events)

    def timescale(self, scenario: TaskgraphScenario) -> int:
        from slipstream.taskgraph import build

        return build.timescale(scenario)

    def cast(self, scenario: TaskgraphScenario) -> Cast:
        from slipstream.taskgraph.cast import cast

        return cast(scenario)


FAMILY = TaskgraphFamily()
