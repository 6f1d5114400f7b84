"""Serving: requests for models are answered, in batches and by a deadline, by variants that a fleet hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.contract import Family, Members, RolloutDefaults

if TYPE_CHECKING:
    from slipstream.families.serving.scenario import ServingScenario


class ServingFamily(Family):
    """Names and units of the serving family."""

    name = "serving"
    default_scenario = "serving/small"
    reward_terms = ("accuracy", "violations", "switches")
    default_policy = "milp-thorough"
    rollout = RolloutDefaults(candidates=32, all_rows=True, arrivals=None, spans=4.0)
    headline = ("on_time_accuracy", "violation_ratio", "effective_accuracy", "throughput_hz", "p99_ms")
    summary = (
        *("reward", "on_time_accuracy", "violation_ratio", "effective_accuracy", "throughput_hz", "p99_ms"),
        *("utilisation", "switches", "requests"),
    )
    counts = ("open_requests", "switches", "requests")

    @property
    def scenario_type(self) -> type[ServingScenario]:
        from slipstream.families.serving.scenario import ServingScenario

        return ServingScenario

    def load_members(self) -> Members[ServingScenario]:
        from slipstream.families.serving.members import MEMBERS

        return MEMBERS


FAMILY = ServingFamily()
