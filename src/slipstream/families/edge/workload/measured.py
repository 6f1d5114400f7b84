"""Measured profiles, written by `slipstream profile`: run times of variants on a device, alone and co-running.

A scenario names such a file under `profile`; its latencies, slowdowns, spread and power then replace those of the
scenario's own ladders.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from slipstream.errors import ScenarioError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared.schema import PositiveMs, StrictModel
from slipstream.files.validation import read_model

LEAST_CV = 1e-3
"""Coefficient of variation below which run times count as fixed."""
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Noise(StrictModel):
    """Load and jitter of the machine during a measurement."""

    others: Share
    """Mean share of the machine's processor time that other programs took while nothing was measured."""
    others_worst: Share
    """The same, in the worst sample."""
    spread: float = Field(ge=0.0)
    """Median over the variants of (90th less 10th percentile) / median of their latencies."""
    machine_spread: float | None = Field(default=None, ge=0.0)
    """The same of a fixed reference computation, timed in between on every core: the machine's own jitter."""
    quiet: bool
    """Whether both are below the fixed limits."""


class MeasuredVariant(StrictModel):
    """One variant, alone on the device."""

    model: str
    """Address of the model, as the scenario spells it."""
    dataset: str
    variant: int = Field(ge=0)
    """Its rank in the ladder."""
    latency_ms: PositiveMs
    """Mean time of a run, from its dispatch to its end, without the slowest hundredth."""
    p50_ms: PositiveMs
    p95_ms: PositiveMs
    p99_ms: PositiveMs
    cv: float = Field(ge=0.0, le=10.0)
    """Coefficient of variation of the same runs as the mean."""
    runs: int = Field(ge=1)
    memory_mb: float = Field(default=0.0, ge=0.0)
    power_w: float | None = Field(default=None, ge=0.0)
    """Power that a run adds to the idle device, where it could be read."""
    accuracy: Share | None = None
    """Share of right answers, where labels were given; else the scenario's own stays."""


class MeasuredProfile(StrictModel):
    """Measured profile of a device: its variants, their slowdowns, and the noise of the machine."""

    format: Literal[1] = 1
    device: str
    """Description of the device."""
    backend: str
    streams: int = Field(ge=1, le=64)
    noise: Noise
    idle_w: float | None = Field(default=None, ge=0.0)
    variants: Annotated[list[MeasuredVariant], Field(min_length=1, max_length=4096)]
    slowdowns: list[list[Annotated[float, Field(ge=0.01, le=100.0)]]]
    """Row: the variant that is slowed; column: its co-runner; both in the order of `variants`."""
    fitted_from: str = ""
    """The command of the run that corrected the profile, if any."""

    @model_validator(mode="after")
    def _square(self) -> MeasuredProfile:
        count = len(self.variants)
        if len(self.slowdowns) != count or any(len(row) != count for row in self.slowdowns):
            text = "slowdowns: expected {count} rows of {count} numbers, one for each of the variants"
            raise PydanticCustomError("slowdowns", text, {"count": count})
        return self

    def index_of(self, model: str, dataset: str, variant: int) -> int | None:
        """Return the index of a variant, None if it was not measured."""
        for index, found in enumerate(self.variants):
            if (found.model, found.dataset, found.variant) == (model, dataset, variant):
                return index
        return None


def read_profile(path: Path) -> MeasuredProfile:
    """Return the profile of a file."""
    return read_model(path, MeasuredProfile)


def variant_indices(scenario: EdgeScenario, profile: MeasuredProfile) -> list[list[int]]:
    """Return the index in `profile` of each variant, by task; a variant that was not measured is a ScenarioError."""
    found = []
    for task in scenario.tasks:
        row = [profile.index_of(task.model, task.dataset, rank) for rank in range(task.num_variants)]
        known = [index for index in row if index is not None]
        if len(known) < len(row):
            missing = row.index(None)
            raise ScenarioError(
                f"profile of {profile.device}: variant {missing} of '{task.model}' on '{task.dataset}' (task "
                f"'{task.name}') was not measured: expected a profile of this scenario"
            )
        found.append(known)
    return found


def with_profile(scenario: EdgeScenario, profile: MeasuredProfile) -> EdgeScenario:
    """Return the scenario with the measurements of `profile` in place of its own latencies, interference and spread."""
    rows = variant_indices(scenario, profile)
    if scenario.most_jobs > 1:
        raise ScenarioError("the scenario has batches, which a profile does not measure: expected no batches")
    data = scenario.model_dump(mode="json", exclude_unset=True)
    data.pop("profile", None)
    for row, task, indices in zip(data["tasks"], scenario.tasks, rows, strict=True):
        row.pop("profile", None)
        measured = [profile.variants[index] for index in indices]
        row["variants"] = [
            {**variant.model_dump(mode="json", exclude_unset=True), **_replaced(found)}
            for variant, found in zip(task.ladder, measured, strict=True)
        ]
        # Variants are ordered by latency: one measured faster than its predecessor by chance counts as equally fast.
        for before, after in pairwise(row["variants"]):
            after["latency_ms"] = max(before["latency_ms"], after["latency_ms"])
    order = [index for indices in rows for index in indices]
    device = data.setdefault("device", {})
    device["name"] = profile.device
    device["interference"] = {
        "kind": "matrix",
        "slowdowns": [[profile.slowdowns[one][other] for other in order] for one in order],
    }
    device.pop("stream_priorities", None)  # a matrix replaces the priorities
    device["latency"] = _spread([profile.variants[index] for index in order])
    if profile.idle_w is not None:
        device["idle_w"] = profile.idle_w
    profiled = EdgeScenario.model_validate(data)
    profiled._folder = scenario._folder
    return profiled


def _replaced(found: MeasuredVariant) -> dict[str, Any]:
    """Return the keys of a variant that the measurement replaces."""
    keys: dict[str, Any] = {"latency_ms": found.latency_ms, "memory_mb": found.memory_mb, "actual_ms": None}
    if found.accuracy is not None:
        keys["accuracy"] = found.accuracy
    if found.power_w is not None:
        keys["power_w"] = found.power_w
    return keys


def _spread(variants: list[MeasuredVariant]) -> dict[str, Any]:
    """Return one latency distribution for all variants, of their total variance.

    Long runs weigh more: small delays are a large share of short runs.
    """
    variance = sum((variant.latency_ms * variant.cv) ** 2 for variant in variants)
    cv = math.sqrt(variance / sum(variant.latency_ms**2 for variant in variants))
    return {"kind": "lognormal", "cv": cv} if cv > LEAST_CV else {"kind": "fixed"}
