"""Domain randomisation: random variations of a scenario's latencies, interference and arrival rates."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.families.edge.scenario import (
    Bursty,
    Closed,
    EdgeScenario,
    Matrix,
    Periodic,
    RandomGaps,
    Roofline,
    Share,
    Task,
)
from slipstream.families.shared.schema import LONGEST_MS
from slipstream.families.shared.variation import WIDTHS, Variation
from slipstream.sim.simulator import check_seed

_LEAST_MS = 1e-6
_STRETCHED: dict[type, tuple[str, ...]] = {
    Periodic: ("period_ms", "phase_ms", "jitter_ms"),
    Bursty: ("calm_gap_ms", "burst_gap_ms"),
    Closed: ("think_ms",),
}
"""The keys that a change of rate scales, by kind of arrival; random gaps have one, a trace has none."""


def vary(scenario: EdgeScenario, variation: Variation, seed: int) -> EdgeScenario:
    """Return a random variation of `scenario` by `seed`, everything written out; the scenario itself if nothing varies.

    Times stay between 1 ns and 100 days, other numbers in the ranges of their keys.
    """
    check_seed(seed)
    if variation.is_identity:
        return scenario
    variation.require_only("edge", *WIDTHS, "load")
    data = scenario.model_dump(mode="json")
    count = len(scenario.tasks)
    latency = variation.factors(seed, "latency", count)
    rate = variation.load * variation.factors(seed, "rate", count)
    error = variation.factors(seed, "profile_error", sum(task.num_variants for task in scenario.tasks))
    errors = np.split(error, np.cumsum([task.num_variants for task in scenario.tasks])[:-1])
    for index, (row, task) in enumerate(zip(data["tasks"], scenario.tasks, strict=True)):
        row["profile"] = None
        row["variants"] = _ladder(task, latency[index], errors[index], variation.profile_error > 0.0)
        # A default deadline keeps its value when the period changes.
        row["deadline_ms"] = task.relative_deadline_ms
        for key in _STRETCHED.get(type(task.arrival), ()):
            row["arrival"][key] = _scaled(row["arrival"][key], 1.0 / rate[index])
        if isinstance(task.arrival, RandomGaps):
            gap = _scaled(task.arrival.gap_ms, 1.0 / rate[index])
            row["arrival"] = {"kind": task.arrival.kind, "mean_gap_ms": gap}
    if variation.interference > 0.0:
        _interfere(scenario, data, variation, seed)
    data["description"] = " ".join(filter(None, [scenario.description, variation.description(seed)]))
    varied = EdgeScenario.model_validate(data)
    varied._folder = scenario._folder
    return varied


def _scaled(value_ms: float, factor: float) -> float:
    """Return `value_ms` times `factor`, rounded to whole nanoseconds; unchanged if it is 0 or the factor 1."""
    if value_ms == 0.0 or factor == 1.0:
        return value_ms
    return float(min(LONGEST_MS, max(_LEAST_MS, round(value_ms * factor, 6))))


def _ladder(task: Task, latency: float, errors: np.ndarray, wrong: bool) -> list[dict[str, Any]]:
    """Return the variants with all latencies times `latency`; one factor per variant could break their order."""
    rows = []
    for variant, error in zip(task.ladder, errors.tolist(), strict=True):
        row = variant.model_dump(mode="json") | {"latency_ms": _scaled(variant.latency_ms, latency)}
        if wrong or variant.actual_ms is not None:
            row["actual_ms"] = _scaled(variant.solo_ms, latency * error)
        for batch in row["batches"] or []:
            batch["latency_ms"] = _scaled(batch["latency_ms"], latency)
        rows.append(row)
    return rows


def _interfere(scenario: EdgeScenario, data: dict[str, Any], variation: Variation, seed: int) -> None:
    """Vary the parameters of the scenario's interference model."""
    interference = scenario.device.interference
    if isinstance(interference, Share):
        factor = float(variation.factors(seed, "interference", 1)[0])
        data["device"]["interference"]["total_throughput"] = min(
            64.0, max(1e-3, interference.total_throughput * factor)
        )
    elif isinstance(interference, Roofline):
        # One factor for arithmetic and one for bandwidth per task; its variants share them.
        factors = variation.factors(seed, "interference", 2 * len(scenario.tasks)).tolist()
        for index, row in enumerate(data["tasks"]):
            for variant in row["variants"]:
                variant["compute_share"] = min(1.0, variant["compute_share"] * factors[2 * index])
                variant["bandwidth_share"] = min(1.0, variant["bandwidth_share"] * factors[2 * index + 1])
    elif isinstance(interference, Matrix):
        # Only the excess over 1 varies: pairs without interference stay so.
        slowdowns = np.array(interference.slowdowns)
        factors = variation.factors(seed, "interference", slowdowns.size).reshape(slowdowns.shape)
        varied = np.clip(1.0 + (slowdowns - 1.0) * factors, 0.01, 100.0)
        data["device"]["interference"]["slowdowns"] = varied.tolist()
