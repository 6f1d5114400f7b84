"""Scenario schema of the serving family: models with variants, a fleet of accelerators, and how it serves."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from slipstream.errors import TraceError
from slipstream.families.shared.schema import (
    Name,
    NonNegativeMs,
    NonNegativeSeconds,
    PositiveMs,
    PositiveSeconds,
    ScenarioModel,
    StrictModel,
    gap_or_rate,
)
from slipstream.files.inputs import read_bytes, reading_key

MOST_MODELS = 100_000
MOST_ACCELERATORS = 10_000
MOST_KINDS = 32
LARGEST_BATCH = 64
MOST_SEGMENTS = 1_000_000

Rate = Annotated[float, Field(ge=0.0, le=1e7)]
"""Requests per second."""
Gaps = Literal["poisson", "gamma", "even"]


class SteadyRate(StrictModel):
    """Requests at a constant rate."""

    kind: Literal["poisson", "gamma", "even"]
    """Distribution of the gaps: exponential, gamma, or constant."""
    rate_hz: Rate | None = None
    """Mean requests per second."""
    mean_gap_ms: PositiveMs | None = None
    """In place of the rate: mean time between two requests."""
    shape: float = Field(default=0.1, ge=0.01, le=100.0)
    """Shape of gamma gaps; the smaller, the burstier."""

    @model_validator(mode="after")
    def _one_of_gap_and_rate(self) -> SteadyRate:
        gap_or_rate("mean_gap_ms", self.mean_gap_ms is not None, self.rate_hz is not None)
        return self

    @property
    def rate(self) -> float:
        """Mean requests per second, from whichever key was given."""
        return self.rate_hz if self.rate_hz is not None else 1000.0 / (self.mean_gap_ms or 1000.0)


class DiurnalRate(StrictModel):
    """A rate that swings between a low and a peak, once every period."""

    kind: Literal["diurnal"]
    low_hz: Rate
    """Least rate, at the beginning if there is no phase."""
    peak_hz: Rate
    """Greatest rate."""
    period_s: PositiveSeconds = 86400.0
    """Length of a day."""
    phase_s: NonNegativeSeconds = 0.0
    """Time of day at which the episode begins."""
    gaps: Gaps = "poisson"
    """Distribution of the gaps."""
    shape: float = Field(default=0.1, ge=0.01, le=100.0)
    """Shape of gamma gaps."""


class BurstyRate(StrictModel):
    """A rate that jumps between two values."""

    kind: Literal["bursty"]
    low_hz: Rate
    """Rate at the beginning."""
    high_hz: Rate
    """Rate in a burst."""
    switch_s: PositiveSeconds = 47.0
    """Time between two jumps."""
    gaps: Gaps = "poisson"
    """Distribution of the gaps."""
    shape: float = Field(default=0.1, ge=0.01, le=100.0)
    """Shape of gamma gaps."""


class ListedRates(StrictModel):
    """Rates listed one after the other, as per-second traces have them."""

    kind: Literal["rates"]
    rates_hz: Annotated[list[Rate], Field(min_length=1, max_length=MOST_SEGMENTS)] | None = None
    """Mean requests per second of each step; the list repeats where it is shorter than the episode."""
    path: str | None = None
    """In place of the list: a text file with one number a line, relative to the scenario file."""
    step_s: PositiveSeconds = 1.0
    """Length of a step."""
    scale: float = Field(default=1.0, gt=0.0, le=1e6)
    """Factor on the rates."""
    gaps: Gaps = "poisson"
    """Distribution of the gaps."""
    shape: float = Field(default=0.1, ge=0.01, le=100.0)
    """Shape of gamma gaps."""

    @model_validator(mode="after")
    def _one_source(self) -> ListedRates:
        if (self.rates_hz is None) == (self.path is None):
            raise PydanticCustomError("rates", "expected either 'rates_hz' or 'path'")
        return self


class RequestTrace(StrictModel):
    """Requests listed one by one."""

    kind: Literal["trace"]
    times_ms: Annotated[list[NonNegativeMs], Field(min_length=1)] | None = None
    """Arrival times, in ascending order."""
    path: str | None = None
    """In place of the list: a file, relative to the scenario file."""
    format: Literal["requests", "azure-llm"] = "requests"
    """Format of the file: lines `arrival_ms,accuracy_floor,deadline_ms`, or a CSV with a column TIMESTAMP."""
    stretch: float = Field(default=1.0, gt=0.0, le=1e6)
    """Factor on the arrival times."""

    @model_validator(mode="after")
    def _one_source(self) -> RequestTrace:
        if (self.times_ms is None) == (self.path is None):
            raise PydanticCustomError("trace", "expected either 'times_ms' or 'path'")
        for index in range(1, len(self.times_ms or ())):
            assert self.times_ms is not None
            if self.times_ms[index] < self.times_ms[index - 1]:
                text = "times_ms[{index}] is {value}, earlier than the time before it: expected ascending times"
                raise PydanticCustomError("order", text, {"index": index, "value": self.times_ms[index]})
        return self


Arrivals = Annotated[SteadyRate | DiurnalRate | BurstyRate | ListedRates | RequestTrace, Field(discriminator="kind")]


class ModelVariant(StrictModel):
    """A network that can answer a model's requests."""

    name: Name
    """Unique in the scenario."""
    accuracy: float = Field(ge=0.0, le=100.0)
    """In percent, as a share of the model's best or as measured."""
    latency_ms: dict[Name, Annotated[list[PositiveMs], Field(min_length=1, max_length=LARGEST_BATCH)]]
    """By kind of accelerator: the time of a batch, for the first of the scenario's batch sizes."""
    memory_mb: float = Field(default=0.0, ge=0.0, le=1e9)
    """Memory that it needs, in 10^6 bytes."""
    load_s: NonNegativeSeconds = 1.0
    """Time that an accelerator needs to load it."""
    model: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """Address of the network that `slipstream execute` runs, as in edge; a stand-in of these times if absent."""

    @model_validator(mode="after")
    def _larger_batches_take_longer(self) -> ModelVariant:
        for kind, times in self.latency_ms.items():
            for index in range(1, len(times)):
                if times[index] < times[index - 1]:
                    text = "latency_ms.{kind}[{index}] is {value}, less than that of a smaller batch: expected no less"
                    raise PydanticCustomError("latency", text, {"kind": kind, "index": index, "value": times[index]})
        return self


class ServedModel(StrictModel):
    """A model family: the SLO of its requests, and the variants that can answer them."""

    name: Name
    """Unique in the scenario."""
    slo_ms: PositiveMs
    """Time from the arrival of a request to its deadline, unless a trace states another."""
    accuracy_floor: float = Field(default=0.0, ge=0.0, le=100.0)
    """Accuracy that requests ask for; only the routing `infaas` heeds it."""
    dataset: Name = "cifar10"
    """Shape and type of the inputs of its networks, as in edge."""
    expected_rate_hz: Rate | None = None
    """Expected rate before the first sample; the mean rate of the arrivals if absent."""
    variants: Annotated[list[ModelVariant], Field(min_length=1, max_length=1000)]
    arrivals: Arrivals | None = None
    """Arrival process; no requests if absent."""


class Accelerators(StrictModel):
    """Accelerators of one kind."""

    name: Name
    """Name of the kind, as latencies refer to it."""
    count: int = Field(ge=1, le=MOST_ACCELERATORS)
    """Number of accelerators."""
    memory_mb: float | None = Field(default=None, gt=0.0, le=1e9)
    """Memory of each, in 10^6 bytes; unlimited if absent."""


class Hosted(StrictModel):
    """Variants hosted from the beginning."""

    variant: Name
    """Name of the variant."""
    accelerator: Name
    """Kind of accelerator."""
    count: int = Field(default=1, ge=1, le=MOST_ACCELERATORS)
    """Number of accelerators."""


class Planning(StrictModel):
    """When and how variants are moved."""

    interval_s: PositiveSeconds = 10.0
    """Time between two plans."""
    moves: int = Field(default=1000, ge=1, le=1_000_000)
    """Most moves of a plan."""
    headroom: float = Field(default=2.0, ge=1.0, le=10.0)
    """Capacity that planners ask for, as a multiple of the forecast."""
    shortage: float = Field(default=0.4, ge=0.0, le=1000.0)
    """Accuracy, from 0 to 1, that a plan gives up for a unit of headroom; all it can above some 10."""
    accuracy_weight: float = Field(default=1.0, ge=0.0, le=1.0)
    """Objective of planners: accuracy of what is served (1), the amount (0), or a mixture."""
    served_share: float = Field(default=1.0, ge=0.0, le=1.0)
    """Least share of the forecast that a plan serves; the rest may be given up for accuracy."""
    gap: float = Field(default=0.001, ge=0.0, le=1.0)
    """Relative gap at which a solver may stop."""
    seconds: float = Field(default=1.0, gt=0.0, le=3600.0)
    """Time limit of a solver."""


class Ewma(StrictModel):
    """Exponentially weighted mean of the observed rates."""

    kind: Literal["ewma"]
    com: float = Field(default=1.6, ge=0.0, le=1000.0)
    """Centre of mass, in samples."""
    sample_s: PositiveSeconds = 1.0
    """Length of a sample."""


class Holt(StrictModel):
    """Level and trend, extrapolated by half a plan, with a margin for uncertainty."""

    kind: Literal["holt"]
    level: float = Field(default=0.4, gt=0.0, le=1.0)
    """Weight of the last sample in the level."""
    trend: float = Field(default=0.1, ge=0.0, le=1.0)
    """Weight of the last change in the trend."""
    margin: float = Field(default=0.5, ge=0.0, le=10.0)
    """Margin that is added, in mean errors."""
    sample_s: PositiveSeconds = 1.0
    """Length of a sample."""


Forecast = Annotated[Ewma | Holt, Field(discriminator="kind")]


class FixedService(StrictModel):
    """Batches take the time of the profile."""

    kind: Literal["fixed"]


class ExponentialService(StrictModel):
    """Batches take an exponential time with the mean of the profile."""

    kind: Literal["exponential"]


class LognormalService(StrictModel):
    """Batches take a lognormal time with the mean of the profile."""

    kind: Literal["lognormal"]
    cv: float = Field(ge=0.0, le=10.0)
    """Standard deviation, as a share of the mean."""


Service = Annotated[FixedService | ExponentialService | LognormalService, Field(discriminator="kind")]


class ServingReward(StrictModel):
    """Weights of the reward terms."""

    accuracy: float = Field(default=1.0, ge=0.0, le=1e6)
    """Gain: accuracy of requests that finish on time, each from 0 to 1."""
    violations: float = Field(default=1.0, ge=0.0, le=1e6)
    """Cost: requests that are late, dropped, rejected or never answered."""
    switches: float = Field(default=0.1, ge=0.0, le=1e6)
    """Cost: loads of another variant on an accelerator."""


class ServingScenario(ScenarioModel):
    """Requests for several models arrive at a fleet of heterogeneous accelerators, each of which hosts one variant."""

    family: Literal["serving"]
    accelerators: Annotated[list[Accelerators], Field(min_length=1, max_length=MOST_KINDS)]
    """Kinds of accelerators, in any order: they are numbered by the names of the kinds."""
    batch_sizes: Annotated[list[Annotated[int, Field(ge=1, le=LARGEST_BATCH)]], Field(min_length=1)] = Field(
        default=[1, 2, 4, 8]
    )
    """Batch sizes of the profile, ascending from 1."""
    slo_share: float = Field(default=0.5, gt=0.0, le=1.0)
    """Batches take less than this share of the SLO, so that a request can wait for one batch and be in the next."""
    models: Annotated[list[ServedModel], Field(min_length=1, max_length=MOST_MODELS)]
    initial: list[Hosted] = Field(default=[])
    """Deployment at the beginning."""
    duration_s: PositiveSeconds | None = None
    """Time for which requests arrive, where they are drawn at a rate."""
    mode: Literal["plan", "route"] = "plan"
    """Whether a decision is a move of a plan, or the routing of a request."""
    batching: Literal["none", "accscale", "aimd", "nexus", "deadline-aware"] = "deadline-aware"
    """When an accelerator starts a batch, and of which size."""
    routing: Literal["random", "round-robin", "eft", "lft", "infaas", "weighted"] = "eft"
    """Rule that routes a request to one of its model's accelerators, in mode plan."""
    drop: Literal["never", "expired", "hopeless", "crowded", "batch", "twice-deadline"] = "crowded"
    """Which requests are dropped before a batch."""
    compat: Literal["strict", "proteus"] = "strict"
    """Whether batching follows the rules of this machine or those of Proteus's simulator."""
    queue: int = Field(default=128, ge=1, le=65536)
    """Most requests at an accelerator, those in its batch included."""
    rows: int = Field(default=32, ge=1, le=MOST_ACCELERATORS)
    """Most accelerators to choose from, in mode route."""
    service: Service = FixedService(kind="fixed")
    """Distribution of batch times."""
    planning: Planning = Planning()
    forecast: Forecast = Ewma(kind="ewma")
    """How planners forecast the rates."""
    reward: ServingReward = ServingReward()

    def resolved(self) -> dict[str, Any]:
        """Return what determines the results: defaults filled in, files replaced by a digest of their content."""
        data = self.model_dump(mode="json")
        data["accelerators"] = [kind.model_dump(mode="json") for kind in self.kinds]
        for index, model in enumerate(data["models"]):
            # What is executed does not change what is simulated.
            del model["dataset"]
            for variant in model["variants"]:
                del variant["model"]
            arrivals, given = model["arrivals"], self.models[index].arrivals
            if isinstance(given, SteadyRate):
                del arrivals["mean_gap_ms"]
                arrivals["rate_hz"] = given.rate
            if arrivals is not None and arrivals.get("path") is not None:
                with reading_key(f"models[{index}].arrivals.path"):
                    content = read_bytes(self._folder / arrivals["path"], "a trace of requests", TraceError)
                arrivals["path"] = hashlib.sha256(content).hexdigest()
        return data

    @property
    def kinds(self) -> list[Accelerators]:
        """Kinds of accelerators in the order of their numbers: by name, under published rules as listed."""
        if self.compat == "proteus":
            return self.accelerators
        return sorted(self.accelerators, key=lambda kind: kind.name)

    @model_validator(mode="after")
    def _parts_fit_together(self) -> ServingScenario:
        _unique("accelerators", [kind.name for kind in self.accelerators])
        _unique("models", [model.name for model in self.models])
        _unique("variants", [variant.name for model in self.models for variant in model.variants])
        if self.batch_sizes[0] != 1 or sorted(set(self.batch_sizes)) != self.batch_sizes:
            raise PydanticCustomError("batches", "batch_sizes: expected ascending sizes, the first of them 1")
        kinds = {kind.name for kind in self.accelerators}
        for model in self.models:
            self._check_model(model, kinds)
        self._check_initial(kinds)
        if self.queue < self.batch_sizes[-1]:
            text = "queue is {queue} but batches have up to {most} requests: expected at least as many"
            raise PydanticCustomError("queue", text, {"queue": self.queue, "most": self.batch_sizes[-1]})
        if self.compat == "proteus" and (
            self.batching not in ("accscale", "aimd", "nexus") or self.drop != "twice-deadline"
        ):
            text = "compat 'proteus': expected batching 'accscale', 'aimd' or 'nexus', and drop 'twice-deadline'"
            raise PydanticCustomError("compat", text)
        if self.mode == "route" and not self.initial:
            raise PydanticCustomError("initial", "mode 'route': expected 'initial' to host something")
        return self

    def _check_model(self, model: ServedModel, kinds: set[str]) -> None:
        arrivals = model.arrivals
        if arrivals is not None and not isinstance(arrivals, RequestTrace) and self.duration_s is None:
            text = "model '{model}' has arrivals at a rate: expected 'duration_s'"
            raise PydanticCustomError("duration", text, {"model": model.name})
        for variant in model.variants:
            for kind, times in variant.latency_ms.items():
                if kind not in kinds:
                    text = "variant '{variant}': unknown accelerator '{kind}': expected one of {known}"
                    known = ", ".join(sorted(kinds))
                    raise PydanticCustomError("kind", text, {"variant": variant.name, "kind": kind, "known": known})
                if len(times) > len(self.batch_sizes):
                    text = (
                        "variant '{variant}': {count} latencies on '{kind}': expected at most {most}, one a batch size"
                    )
                    about = {"variant": variant.name, "kind": kind, "count": len(times), "most": len(self.batch_sizes)}
                    raise PydanticCustomError("latencies", text, about)

    def _check_initial(self, kinds: set[str]) -> None:
        variants = {variant.name for model in self.models for variant in model.variants}
        used = dict.fromkeys(kinds, 0)
        for index, hosted in enumerate(self.initial):
            for what, name, known in (
                ("variant", hosted.variant, variants),
                ("accelerator", hosted.accelerator, kinds),
            ):
                if name not in known:
                    text = "initial[{index}].{what}: unknown {what} '{name}'"
                    raise PydanticCustomError("initial", text, {"index": index, "what": what, "name": name})
            used[hosted.accelerator] += hosted.count
        for kind in self.accelerators:
            if used[kind.name] > kind.count:
                text = "initial hosts {used} variants on '{kind}': expected at most {count}"
                raise PydanticCustomError(
                    "initial", text, {"used": used[kind.name], "kind": kind.name, "count": kind.count}
                )


def _unique(what: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        seen: set[str] = set()
        name = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        text = "two {what} are called '{name}': expected unique names"
        raise PydanticCustomError("name", text, {"what": what, "name": name})
