"""Times of the batches and loads of a serving scenario from what was measured."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slipstream.families.serving.build import compiled_scenario
from slipstream.families.serving.scenario import ServingScenario
from slipstream.files.validation import validated
from slipstream.sim.eventlog import FINISH, START

Times = Mapping[tuple[str, str, int], float]
"""Milliseconds of a batch, by variant, kind of accelerator and size."""


def with_times(scenario: ServingScenario, batches: Times, loads: Mapping[str, float]) -> ServingScenario:
    """Return the scenario with measured `batches`, in ms, and `loads`, in seconds by variant; others keep theirs.

    A batch takes no less than a smaller one.
    """
    data = scenario.model_dump(mode="json", exclude_unset=True)
    for model in data["models"]:
        for variant in model["variants"]:
            name = variant["name"]
            variant["load_s"] = loads.get(name, variant.get("load_s", 1.0))
            for kind, times in variant["latency_ms"].items():
                found = [
                    batches.get((name, kind, size), time)
                    for size, time in zip(scenario.batch_sizes, times, strict=False)
                ]
                variant["latency_ms"][kind] = np.maximum.accumulate(found).tolist()
    result = validated(data, ServingScenario, "the measured times")
    result._folder = scenario._folder
    return result


def fitted(scenario: ServingScenario, events: np.ndarray) -> ServingScenario:
    """Return the scenario with the mean times that batches of the profile's sizes had in `events`."""
    parts = compiled_scenario(scenario)
    kinds = [scenario.kinds[kind].name for kind in parts.spec["kinds"].tolist()]
    rows = events[np.isin(events["kind"], (START, FINISH))]
    found: dict[tuple[str, str, int], list[float]] = {}
    for accelerator, kind in enumerate(kinds):
        own = rows[rows["resource"] == accelerator]
        starts, ends = own[own["kind"] == START], own[own["kind"] == FINISH]
        # The requests of a batch start and finish at the same time.
        begun, first, size = np.unique(starts["time"][: len(ends)], return_index=True, return_counts=True)
        for start, index, count in zip(begun.tolist(), first.tolist(), size.tolist(), strict=True):
            name = parts.variants[int(starts["variant"][index])].name
            found.setdefault((name, kind, count), []).append((int(ends["time"][index]) - start) / 1e6)
    batches = {key: max(1e-6, float(np.mean(times))) for key, times in found.items()}
    return with_times(scenario, batches, {})
