"""Dag: jobs arrive as graphs of stages; executors serve their tasks and take time to move from job to job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream.core.bracket import Bracket
from slipstream.core.cast import Cast
from slipstream.core.family import Family
from slipstream.core.features import FeatureTable, GraphShape
from slipstream.core.timeline import Timeline
from slipstream.dag import features

if TYPE_CHECKING:
    from slipstream.core.generator import Generator
    from slipstream.core.variation import Variation
    from slipstream.dag.scenario import DagScenario


class DagFamily(Family):
    """The dag house."""

    name = "dag"
    env_id = "slipstream/Dag-v0"
    default_scenario = "dag/stream-10x50"
    time_unit = "s"
    nanoseconds_per_unit = 1_000_000_000
    reward_terms = ("job_seconds", "makespan")
    scenario_package = "slipstream.dag.scenarios"
    default_policy = "fair"
    headline = ("avg_jct_s", "jct_p95_s", "makespan_s", "utilisation", "moving_share")

    @property
    def scenario_type(self) -> type[DagScenario]:
        from slipstream.dag.scenario import DagScenario

        return DagScenario

    @property
    def candidate_features(self) -> FeatureTable:
        return features.CANDIDATE

    @property
    def global_features(self) -> FeatureTable:
        return features.GLOBAL

    @property
    def node_features(self) -> FeatureTable:
        return features.NODE

    def candidate_rows(self, scenario: DagScenario) -> int:
        from slipstream.dag import build

        return build.candidate_rows(scenario)

    def all_rows(self, scenario: DagScenario) -> int:
        from slipstream.dag import build

        return build.all_rows(scenario)

    def graph(self, scenario: DagScenario) -> GraphShape:
        from slipstream.dag import build

        return build.graph(scenario)

    def spec_arrays(self, scenario: DagScenario) -> dict[str, np.ndarray]:
        from slipstream.dag import build

        return build.spec_arrays(scenario)

    def make_spec(self, arrays: dict[str, np.ndarray]) -> Any:
        from slipstream.dag import build

        return build.make_spec(arrays)

    def state_arrays(self, scenario: DagScenario, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
        from slipstream.dag import build

        return build.state_arrays(scenario, lanes, log_rows)

    def make_state(self, arrays: dict[str, np.ndarray]) -> Any:
        from slipstream.dag import build

        return build.make_state(arrays)

    def log_margin(self, scenario: DagScenario) -> int:
        from slipstream.dag import build

        return build.log_margin(scenario)

    def register_policies(self) -> None:
        from slipstream.dag import policies  # noqa: F401  importing registers them

    def metrics(self, scenario: DagScenario, events: np.ndarray) -> dict[str, float]:
        from slipstream.dag.metrics import metrics

        return metrics(scenario, events)

    def oracle(self, scenario: DagScenario, seed: int, namespace: str, seconds: float) -> Bracket:
        from slipstream.dag.oracle import bracket

        return bracket(scenario, seed, namespace, seconds)

    def timeline(self, scenario: DagScenario, events: np.ndarray) -> Timeline:
        from slipstream.dag.timeline import timeline

        return timeline(scenario, events)

    @property
    def generator(self) -> Generator:
        from slipstream.dag.generate import GENERATOR

        return GENERATOR

    def vary(self, scenario: DagScenario, variation: Variation, seed: int) -> DagScenario:
        from slipstream.dag.vary import vary

        return vary(scenario, variation, seed)

    def timescale(self, scenario: DagScenario) -> int:
        from slipstream.dag import build

        return build.timescale(scenario)

    def cast(self, scenario: DagScenario) -> Cast:
        from slipstream.dag.cast import cast

        return cast(scenario)


FAMILY = DagFamily()
