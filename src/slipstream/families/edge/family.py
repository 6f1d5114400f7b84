"""Edge: several DNNs share one device with streams; periodic and random jobs have deadlines and model variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.contract import Family, Members, RolloutDefaults, Scenario

if TYPE_CHECKING:
    from slipstream.families.edge.scenario import EdgeScenario


class EdgeFamily(Family):
    """Names and units of the edge family."""

    name = "edge"
    default_scenario = "edge/heavy"
    time_unit = "ms"
    nanoseconds_per_unit = 1_000_000
    reward_terms = ("on_time_accuracy", "lateness", "drops", "utilisation", "energy")
    rollout = RolloutDefaults(candidates=24, all_rows=True, arrivals=None, spans=4.0)
    default_policy = "edf"
    headline = ("reward", "miss_rate", "effective_accuracy", "response_p99_ms", "utilisation")
    summary = (
        *("reward", "miss_rate", "effective_accuracy", "response_p50_ms", "response_p99_ms", "utilisation"),
        *("energy_j", "jobs_per_run", "preemptions", "released"),
    )
    counts = ("preemptions", "worst_window_misses", "released", "judged")

    @property
    def scenario_type(self) -> type[EdgeScenario]:
        from slipstream.families.edge.scenario import EdgeScenario

        return EdgeScenario

    def load_members(self) -> Members[EdgeScenario]:
        from slipstream.families.edge.members import MEMBERS

        return MEMBERS

    def complete(self, scenario: Scenario) -> Scenario:
        assert isinstance(scenario, self.scenario_type)
        if scenario.profile is None:
            return scenario
        from slipstream.families.edge.workload.measured import read_profile, with_profile
        from slipstream.files.inputs import reading_key

        with reading_key("profile"):
            return with_profile(scenario, read_profile(scenario._folder / scenario.profile))


FAMILY = EdgeFamily()
