"""Edge: several DNNs share one device with streams; periodic and random jobs have deadlines and model variants."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slipstream.core.family import Family

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
    default_policy = "edf"
    headline = ("reward", "miss_rate", "effective_accuracy", "response_p99_ms", "utilisation")

    def still_to_earn(self, scenario: EdgeScenario, seed: int, namespace: str) -> Callable[[Any], float]:
        from slipstream.edge.oracle import still_to_earn

        return still_to_earn(scenario, seed, namespace)

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


FAMILY = EdgeFamily()
