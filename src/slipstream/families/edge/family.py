"""Edge: several DNNs share one device with streams; periodic and random jobs have deadlines and model variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.contract import Family

if TYPE_CHECKING:
    from slipstream.families.edge.scenario import EdgeScenario
    from slipstream.families.shared.generator import Generator
    from slipstream.families.shared.variation import Variation


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

    @property
    def generator(self) -> Generator:
        from slipstream.families.edge.workload.generator import GENERATOR

        return GENERATOR

    def complete(self, scenario: EdgeScenario) -> EdgeScenario:
        if scenario.profile is None:
            return scenario
        from slipstream.families.edge.workload.measured import read_profile, with_profile

        return with_profile(scenario, read_profile(scenario._folder / scenario.profile))

    def vary(self, scenario: EdgeScenario, variation: Variation, seed: int) -> EdgeScenario:
        from slipstream.families.edge.workload.randomisation import vary

        return vary(scenario, variation, seed)


FAMILY = EdgeFamily()
