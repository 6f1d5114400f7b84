"""Names and expectations of a serving scenario, for rendering a run in progress."""

from __future__ import annotations

from slipstream.families.serving.build import compiled_scenario
from slipstream.families.serving.scenario import ServingScenario
from slipstream.families.shared.labels import Nouns, RunLabels
from slipstream.families.shared.schema import nanoseconds, nanoseconds_of


def accelerator_names(scenario: ServingScenario) -> tuple[str, ...]:
    """Return a name for each accelerator."""
    return tuple(f"{kind.name} {number}" for kind in scenario.kinds for number in range(kind.count))


def run_labels(scenario: ServingScenario) -> RunLabels:
    """Return the labels of a run: accelerators as resources, models as tasks, and every variant of all of them."""
    parts = compiled_scenario(scenario)
    models, variants = parts.models, parts.variants
    fastest = [min(times[0] for times in variant.latency_ms.values()) for variant in variants]
    listed = parts.spec["requests"]["time"]
    last = int(listed.max()) if len(listed) else 0
    return RunLabels(
        nouns=Nouns(resource="accelerator", job="request", task="model", bar="batch"),
        resources=accelerator_names(scenario),
        tasks=tuple(model.name for model in models),
        variants=(tuple(variant.name for variant in variants),) * len(models),
        expected=(tuple(nanoseconds(time) for time in fastest),) * len(models),
        deadline=tuple(nanoseconds(model.slo_ms) for model in models),
        accuracy=(tuple(variant.accuracy / 100.0 for variant in variants),) * len(models),
        end=max(last, nanoseconds_of(scenario.duration_s or 0.0)) + nanoseconds(max(model.slo_ms for model in models)),
        batches=True,
    )
