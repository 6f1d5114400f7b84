"""The names and expectations of a dag scenario, for pictures of a run that is under way."""

from __future__ import annotations

from slipstream.families.dag.build import compiled_scenario
from slipstream.families.dag.scenario import DagScenario, FixedHorizon, MemorylessHorizon, PoissonStream
from slipstream.families.shared.labels import RunLabels
from slipstream.families.shared.schema import NANOSECONDS_PER_S

WAVES = ("fresh", "first", "rest")


def run_labels(scenario: DagScenario) -> RunLabels:
    """Return who takes part in a run: executors as resources, and as tasks the jobs by their number in the episode."""
    parts = compiled_scenario(scenario)
    count = parts.sizes.jobs
    expected = max(1, round(float(parts.spec["templates"]["work"].mean()) / scenario.executors))
    return RunLabels(
        scenario=f"{scenario.family}/{scenario.name}",
        unit="s",
        nanoseconds_per_unit=NANOSECONDS_PER_S,
        resources=tuple(f"executor {number}" for number in range(scenario.executors)),
        tasks=tuple(f"job {number}" for number in range(count)),
        variants=(WAVES,) * count,
        expected=((expected,) * len(WAVES),) * count,
        deadline=(None,) * count,
        accuracy=None,
        end=_about_the_end(scenario, expected * count),
        graphs=True,
    )


def _about_the_end(scenario: DagScenario, work: int) -> int:
    """Return about when an episode ends: its horizon, or the last arrival and all the work on all executors."""
    if isinstance(scenario.horizon, FixedHorizon):
        return round(scenario.horizon.time_s * NANOSECONDS_PER_S)
    if isinstance(scenario.horizon, MemorylessHorizon):
        return round(scenario.horizon.mean_s * NANOSECONDS_PER_S)
    last = 0
    if isinstance(scenario.arrivals, PoissonStream):
        waits = scenario.arrivals.jobs - scenario.arrivals.initial_jobs
        last = round(scenario.arrivals.mean_gap_s * waits * NANOSECONDS_PER_S)
    return max(last, work)
