"""Serving: requests for models are answered, in batches and by a deadline, by variants that a fleet hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.contract import Family

if TYPE_CHECKING:
    import numpy as np

    from slipstream.families.serving.scenario import ServingScenario
    from slipstream.families.shared.charts import Chart, Picture
    from slipstream.families.shared.generator import Generator


class ServingFamily(Family):
    """The serving house."""

    name = "serving"
    env_id = "slipstream/Serving-v0"
    default_scenario = "serving/small"
    time_unit = "s"
    nanoseconds_per_unit = 1_000_000_000
    reward_terms = ("accuracy", "violations", "switches")
    default_policy = "milp-thorough"
    headline = ("on_time_accuracy", "violation_ratio", "effective_accuracy", "throughput_hz", "p99_ms")

    def charts(self, scenario: ServingScenario, events: np.ndarray) -> list[Chart | Picture]:
        """Return capacity next to demand, and what was hosted when."""
        found: list[Chart | Picture] = self._room("charts").charts(scenario, events)
        return found

    @property
    def generator(self) -> Generator:
        from slipstream.families.serving.workload.generator import GENERATOR

        return GENERATOR


FAMILY = ServingFamily()
