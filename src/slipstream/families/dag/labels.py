"""Names and expected times of a dag scenario for live views of a run."""

from __future__ import annotations

from slipstream.families.dag.build import compiled_scenario
from slipstream.families.dag.scenario import DagScenario, FixedHorizon, MemorylessHorizon, PoissonStream
from slipstream.families.shared.labels import Nouns, RunLabels
from slipstream.families.shared.schema import NANOSECONDS_PER_S

WAVES = ("fresh", "first", "rest")


def run_labels(scenario: DagScenario) -> RunLabels:
    """Return the labels of a run: executors as resources, jobs by number as tasks."""
    parts = compiled_scenario(scenario)
    count = parts.sizes.jobs
    expected = max(1, round(float(parts.spec["templates"]["work"].mean()) / scenario.executors))
    return RunLabels(
        nouns=Nouns(resource="executor", task="job", bar="run of one stage's tasks"),
        resources=tuple(f"executor {number}" for number in range(scenario.executors)),
        tasks=tuple(f"job {number}" for number in range(count)),
        variants=(WAVES,) * count,
        expected=((expected,) * len(WAVES),) * count,
        end=_expected_end(scenario, expected * count),
        graphs=True,
    )


def _expected_end(scenario: DagScenario, work: int) -> int:
    """Return the approximate end of an episode in ns: its horizon, or the later of the last arrival and `work`."""
    if isinstance(scenario.horizon, FixedHorizon):
        return round(scenario.horizon.time_s * NANOSECONDS_PER_S)
    if isinstance(scenario.horizon, MemorylessHorizon):
        return round(scenario.horizon.mean_s * NANOSECONDS_PER_S)
    last = 0
    if isinstance(scenario.arrivals, PoissonStream):
        waits = scenario.arrivals.jobs - scenario.arrivals.initial_jobs
        last = round(scenario.arrivals.mean_gap_s * waits * NANOSECONDS_PER_S)
    return max(last, work)
