"""Edge: several DNNs share one device with streams; periodic and random jobs have deadlines and model variants."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream.core.bracket import Bracket
from slipstream.core.cast import Cast
from slipstream.core.family import Family
from slipstream.core.features import FeatureTable
from slipstream.core.timeline import Timeline
from slipstream.edge import features

if TYPE_CHECKING:
    from slipstream.core.generator import Generator
    from slipstream.core.variation import Variation
    from slipstream.edge.scenario import EdgeScenario


class EdgeFamily(Family):
    """The edge house."""

    name = "edge"
    env_id = "slipstream/Edge-v0"
    default_scenario = "edge/heavy"
    time_unit = "ms"
    nanoseconds_per_unit = 1_000_000
    reward_terms = ("on_time_accuracy", "lateness", "drops", "utilisation", "energy")
    scenario_package = "slipstream.edge.scenarios"
    default_policy = "edf"
    headline = ("reward", "miss_rate", "effective_accuracy", "response_p99_ms", "utilisation")

    @property
    def scenario_type(self) -> type[EdgeScenario]:
        from slipstream.edge.scenario import EdgeScenario

        return EdgeScenario

    @property
    def candidate_features(self) -> FeatureTable:
        return features.CANDIDATE

    @property
    def global_features(self) -> FeatureTable:
        return features.GLOBAL

    def candidate_rows(self, scenario: EdgeScenario) -> int:
        from slipstream.edge import build

        return build.candidate_rows(scenario)

    def spec_arrays(self, scenario: EdgeScenario) -> dict[str, np.ndarray]:
        from slipstream.edge import build

        return build.spec_arrays(scenario)

    def make_spec(self, arrays: dict[str, np.ndarray]) -> Any:
        from slipstream.edge import build

        return build.make_spec(arrays)

    def state_arrays(self, scenario: EdgeScenario, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
        from slipstream.edge import build

        return build.state_arrays(scenario, lanes, log_rows)

    def make_state(self, arrays: dict[str, np.ndarray]) -> Any:
        from slipstream.edge import build

        return build.make_state(arrays)

    def log_margin(self, scenario: EdgeScenario) -> int:
        from slipstream.edge import build

        return build.log_margin(scenario)

    def register_policies(self) -> None:
        from slipstream.edge import policies  # noqa: F401  importing registers them

    def metrics(self, scenario: EdgeScenario, events: np.ndarray) -> dict[str, float]:
        from slipstream.edge.metrics import metrics

        return metrics(scenario, events)

    def oracle(self, scenario: EdgeScenario, seed: int, namespace: str, seconds: float) -> Bracket:
        from slipstream.edge.oracle import bracket

        return bracket(scenario, seed, namespace, seconds)

    def still_to_earn(self, scenario: EdgeScenario, seed: int, namespace: str) -> Callable[[Any], float]:
        from slipstream.edge.oracle import still_to_earn

        return still_to_earn(scenario, seed, namespace)

    def timeline(self, scenario: EdgeScenario, events: np.ndarray) -> Timeline:
        from slipstream.edge.timeline import timeline

        return timeline(scenario, events)

    @property
    def generator(self) -> Generator:
        from slipstream.edge.generate import GENERATOR

        return GENERATOR

    def complete(self, scenario: EdgeScenario) -> EdgeScenario:
        if scenario.profile is None:
            return scenario
        from slipstream.edge.measured import read_profile, with_profile

        return with_profile(scenario, read_profile(scenario._folder / scenario.profile))

    def vary(self, scenario: EdgeScenario, variation: Variation, seed: int) -> EdgeScenario:
        from slipstream.edge.vary import vary

        return vary(scenario, variation, seed)

    def timescale(self, scenario: EdgeScenario) -> int:
        from slipstream.edge import build

        return build.timescale(scenario)

    def cast(self, scenario: EdgeScenario) -> Cast:
        from slipstream.edge.cast import cast

        return cast(scenario)


FAMILY = EdgeFamily()
