"""Labels of a run: names and expected times of an edge scenario, for rendering."""

from __future__ import annotations

from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared.labels import Nouns, RunLabels
from slipstream.families.shared.schema import nanoseconds


def run_labels(scenario: EdgeScenario) -> RunLabels:
    """Return the labels of a run of the scenario: resources, tasks, variants, and their expected times."""
    ladders = [task.ladder for task in scenario.tasks]
    return RunLabels(
        nouns=Nouns(resource="stream"),
        resources=tuple(f"stream {stream}" for stream in range(scenario.device.streams)),
        tasks=tuple(task.name for task in scenario.tasks),
        variants=tuple(tuple(v.name or f"variant {rank}" for rank, v in enumerate(ladder)) for ladder in ladders),
        expected=tuple(tuple(nanoseconds(variant.latency_ms) for variant in ladder) for ladder in ladders),
        deadline=tuple(nanoseconds(task.relative_deadline_ms) for task in scenario.tasks),
        accuracy=tuple(tuple(variant.accuracy for variant in ladder) for ladder in ladders),
        end=nanoseconds(scenario.horizon_ms),
    )
