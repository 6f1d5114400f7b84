"""The edge family's part of the scenario file: tasks with deadlines and model variants on one device with streams."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from slipstream.families.edge.workload.profiles import PROFILES, BatchRun, Variant
from slipstream.families.shared.schema import (
    LONGEST_MS,
    Name,
    NonNegativeMs,
    PositiveHz,
    PositiveMs,
    ScenarioModel,
    StrictModel,
    gap_or_rate,
)


class Periodic(StrictModel):
    """Releases at phase, phase + period, ...; each delayed by a uniform jitter of its own."""

    kind: Literal["periodic"]
    period_ms: PositiveMs
    """Time between nominal releases."""
    phase_ms: NonNegativeMs = 0.0
    """Nominal time of the first release."""
    jitter_ms: NonNegativeMs = 0.0
    """Largest delay of a release after its nominal time; at most the period, so releases stay in order."""

    @model_validator(mode="after")
    def _jitter_keeps_the_order(self) -> Periodic:
        if self.jitter_ms > self.period_ms:
            raise PydanticCustomError("jitter", "jitter_ms must not exceed period_ms")
        return self


class RandomGaps(StrictModel):
    """Releases with a mean gap, given as such or as a rate."""

    kind: str
    mean_gap_ms: PositiveMs | None = None
    """Mean time between releases."""
    rate_hz: PositiveHz | None = None
    """In place of the mean gap: mean releases per second."""

    @model_validator(mode="after")
    def _one_of_gap_and_rate(self) -> Self:
        gap_or_rate("mean_gap_ms", self.mean_gap_ms is not None, self.rate_hz is not None)
        return self

    @property
    def gap_ms(self) -> float:
        """Mean time between releases, from whichever key was given."""
        return self.mean_gap_ms if self.mean_gap_ms is not None else 1000.0 / (self.rate_hz or 1.0)


class Poisson(RandomGaps):
    """A Poisson process: independent exponential gaps."""

    kind: Literal["poisson"]


class Bursty(StrictModel):
    """A Poisson process whose rate switches between calm and burst (two-state MMPP), started in equilibrium."""

    kind: Literal["bursty"]
    calm_gap_ms: PositiveMs
    """Mean time between releases in the calm state."""
    burst_gap_ms: PositiveMs
    """Mean time between releases in the burst state."""
    calm_ms: PositiveMs
    """Mean length of a calm spell."""
    burst_ms: PositiveMs
    """Mean length of a burst."""


class Trace(StrictModel):
    """Releases at listed times: inline, or from a CSV or Parquet file named relative to the scenario file."""

    kind: Literal["trace"]
    times_ms: Annotated[list[NonNegativeMs], Field(max_length=1_000_000)] | None = None
    """Release times, in ascending order."""
    path: str | None = None
    """A .csv or .parquet file with one release per row."""
    column: str = "arrival_ms"
    """The file's column of release times in milliseconds."""

    @model_validator(mode="after")
    def _one_source(self) -> Trace:
        if (self.times_ms is None) == (self.path is None):
            raise PydanticCustomError("trace_source", "expected either 'times_ms' or 'path'")
        if self.times_ms is not None:
            for index in range(1, len(self.times_ms)):
                if self.times_ms[index] < self.times_ms[index - 1]:
                    text = "times_ms[{index}] is {value}, earlier than the time before it: expected ascending times"
                    raise PydanticCustomError("order", text, {"index": index, "value": self.times_ms[index]})
        return self


class Closed(StrictModel):
    """A closed loop: the next release follows the end of the last job."""

    kind: Literal["closed"]
    phase_ms: NonNegativeMs = 0.0
    """Time of the first release."""
    think_ms: NonNegativeMs = 0.0
    """Time from the end of a job to the next release."""
    retry_ms: PositiveMs = 1.0
    """Least time to the next release after a job was dropped, so that dropping cannot stop the clock."""


class External(RandomGaps):
    """Releases on request: `slipstream execute --listen` takes the requests.

    Everywhere else jobs are released by a Poisson process of this mean gap, so that the task can be simulated, compared
    and trained for before it is executed.
    """

    kind: Literal["external"]


Arrival = Annotated[Periodic | Poisson | Bursty | Trace | Closed | External, Field(discriminator="kind")]


class NoInterference(StrictModel):
    """Streams do not slow each other down."""

    kind: Literal["none"]


class Share(StrictModel):
    """Co-running jobs share the device in proportion to their demand (facts and fit: docs/edge.md)."""

    kind: Literal["share"]
    total_throughput: float = Field(default=1.25, ge=1e-3, le=64.0)
    """Sum of the rates of all co-runners before capping, in units of one job running alone."""


class Roofline(StrictModel):
    """Co-running jobs slow down together once their shares of arithmetic or of bandwidth add up to more than 1."""

    kind: Literal["roofline"]


class Matrix(StrictModel):
    """Measured slowdowns: each co-runner multiplies a job's time by the entry for the two."""

    kind: Literal["matrix"]
    slowdowns: Annotated[list[list[Annotated[float, Field(ge=0.01, le=100.0)]]], Field(min_length=1, max_length=4096)]
    """Row: the job that is slowed; column: its co-runner. One of each per task, or per variant: those of the first
    task, then those of the second, and so on. 1 is no slowdown; below 1, the co-runner helps."""


Interference = Annotated[NoInterference | Share | Roofline | Matrix, Field(discriminator="kind")]


class Preemption(StrictModel):
    """Whether a running job can be interrupted for another, and what is kept of its run."""

    kind: Literal["none", "stage", "restart", "resume"] = "none"
    """Never; only between stages, which are kept; at any time, nothing kept; at any time, everything kept."""
    cost_ms: NonNegativeMs = 0.0
    """Time for which the job that takes the stream waits before it runs."""

    @model_validator(mode="after")
    def _cost_of_something(self) -> Preemption:
        if self.kind == "none" and self.cost_ms > 0.0:
            raise PydanticCustomError(
                "cost", "cost_ms is {cost} but kind is 'none': expected 0", {"cost": self.cost_ms}
            )
        return self


class FixedLatency(StrictModel):
    """Every run takes exactly the latency of its variant."""

    kind: Literal["fixed"]


class LognormalLatency(StrictModel):
    """Every job's latency is that of its variant times a lognormal factor of mean 1."""

    kind: Literal["lognormal"]
    cv: float = Field(default=0.05, gt=0.0, le=10.0)
    """Coefficient of variation of the factor."""


class ExponentialLatency(StrictModel):
    """Every job's latency is exponential with the mean of its variant: for queueing theory."""

    kind: Literal["exponential"]


Latency = Annotated[FixedLatency | LognormalLatency | ExponentialLatency, Field(discriminator="kind")]


class Device(StrictModel):
    """One accelerator with streams that run one job each at a time."""

    name: str = "device"
    """What the latencies were measured on; for people only."""
    streams: int = Field(default=2, ge=1, le=64)
    """How many jobs may run at once."""
    interference: Interference = Share(kind="share")
    """How co-running jobs slow each other down."""
    latency: Latency = LognormalLatency(kind="lognormal")
    """How the time of a run varies."""
    late: Literal["drop", "run"] = "drop"
    """What happens to a job still queued at its deadline: dropped there, or kept and run late."""
    queue_limit: int = Field(default=16, ge=1, le=1_000_000)
    """Most waiting jobs per task; a release that finds the queue full is rejected."""
    decision_time_ms: NonNegativeMs = 0.0
    """Time the policy needs for one decision, charged to the clock."""
    stream_priorities: Annotated[list[Annotated[int, Field(ge=0, le=10)]], Field(max_length=64)] | None = None
    """One number per stream: under interference, streams with a higher one are served first."""
    memory_mb: float | None = Field(default=None, gt=0.0, le=1e9)
    """Memory for weights; where it is full, those used least recently are evicted. No limit if absent."""
    preemption: Preemption = Preemption()
    """Whether and how a running job can be interrupted."""
    idle_w: float = Field(default=0.0, ge=0.0, le=1e6)
    """Power that the device draws all the time."""
    busy_w: float = Field(default=0.0, ge=0.0, le=1e6)
    """Power that each running job adds, where its variant does not say."""

    newer_keys: ClassVar[tuple[str, ...]] = ("stream_priorities", "memory_mb", "preemption", "idle_w", "busy_w")

    def power_of(self, variant: Variant, run: BatchRun | Variant | None = None) -> float:
        """Return the watts that a run of the variant adds: one of its `runs`, by default that of one job."""
        if run is not None and run.power_w is not None:
            return run.power_w
        return variant.power_w if variant.power_w is not None else self.busy_w

    @model_validator(mode="after")
    def _parts_agree(self) -> Device:
        if self.stream_priorities is not None:
            if len(self.stream_priorities) != self.streams:
                text = "stream_priorities lists {found} but streams is {stated}: expected one for each stream"
                raise PydanticCustomError(
                    "priorities", text, {"found": len(self.stream_priorities), "stated": self.streams}
                )
            if not isinstance(self.interference, Share | Roofline):
                text = (
                    "stream_priorities say how interference is shared out: expected interference 'share' or 'roofline'"
                )
                raise PydanticCustomError("priorities", text)
        if self.preemption.kind == "stage" and self.decision_time_ms > 0.0:
            text = "decision_time_ms is {time} but a run does not wait at the end of a stage: expected 0 with 'stage'"
            raise PydanticCustomError("stage", text, {"time": self.decision_time_ms})
        return self


class Reward(StrictModel):
    """Weights of the reward terms; the reward is gain terms minus cost terms, each times its weight."""

    on_time_accuracy: float = Field(default=1.0, ge=0.0, le=1e6)
    """Gain: task weight times accuracy, for each job finished by its deadline."""
    lateness: float = Field(default=0.5, ge=0.0, le=1e6)
    """Cost: task weight times min(1, tardiness / relative deadline), for each job finished late."""
    drops: float = Field(default=0.5, ge=0.0, le=1e6)
    """Cost: task weight, for each job dropped, expired or rejected."""
    utilisation: float = Field(default=0.0, ge=0.0, le=1e6)
    """Gain: busy streams as a share of all streams, integrated over seconds."""
    energy: float = Field(default=0.0, ge=0.0, le=1e6)
    """Cost: energy that the device takes, in joules."""

    newer_keys: ClassVar[tuple[str, ...]] = ("energy",)


class Task(StrictModel):
    """A stream of inference jobs of one model."""

    name: Name
    """Unique in the scenario."""
    model: str = Field(min_length=1, max_length=500)
    """Address of the model, such as 'builtin:resnet'; a code in the observation."""
    dataset: str = Field(min_length=1, max_length=200)
    """Type of the inputs, such as 'cifar10'."""
    num_variants: int = Field(ge=1, le=64)
    """Length of the ladder; must agree with the variants or the profile."""
    arrival: Arrival
    """When jobs are released."""
    deadline_ms: PositiveMs | None = None
    """Time from release to deadline; the period if absent and the task is periodic."""
    weight: float = Field(default=1.0, ge=0.0, le=1e6)
    """Importance in the reward and in weighted metrics."""
    criticality: int = Field(default=0, ge=0, le=10)
    """Class of the task; higher is more critical."""
    profile: str | None = None
    """Name of a built-in ladder, such as 'resnet@xavier-trt'."""
    variants: Annotated[list[Variant], Field(min_length=1, max_length=64)] | None = None
    """The ladder, from fastest to slowest."""
    fill_ms: NonNegativeMs | None = None
    """Wait of the task's oldest job at which a policy that waits for a fuller batch is asked again; none if absent."""

    @model_validator(mode="after")
    def _ladder_and_deadline(self) -> Task:
        if (self.profile is None) == (self.variants is None):
            raise PydanticCustomError("ladder", "expected either 'profile' or 'variants'")
        if self.profile is not None and self.profile not in PROFILES:
            known = ", ".join(PROFILES)
            raise PydanticCustomError(
                "profile", "unknown profile '{name}': expected one of {known}", {"name": self.profile, "known": known}
            )
        if len(self.ladder) != self.num_variants:
            text = "num_variants is {stated} but the ladder has {found} variants: expected the same number"
            raise PydanticCustomError("count", text, {"stated": self.num_variants, "found": len(self.ladder)})
        for rank in range(1, len(self.ladder)):
            if self.ladder[rank].latency_ms < self.ladder[rank - 1].latency_ms:
                text = "variant {rank} is faster than variant {before}: expected the fastest first"
                raise PydanticCustomError("ladder_order", text, {"rank": rank, "before": rank - 1})
            self._check_batches(rank)
        if self.fill_ms is not None and len(self.batch_sizes) == 1:
            raise PydanticCustomError("fill", "fill_ms is set but no variant has batches: expected batches to fill")
        if self.deadline_ms is None and not isinstance(self.arrival, Periodic):
            raise PydanticCustomError(
                "deadline", "deadline_ms is missing: only periodic tasks have a default (their period)"
            )
        return self

    def _check_batches(self, rank: int) -> None:
        """Raise an error unless the batches of the variant are those of the one before it, and no faster."""
        before, after = self.ladder[rank - 1].runs, self.ladder[rank].runs
        if len(before) != len(after) or any(
            isinstance(one, BatchRun) and isinstance(other, BatchRun) and one.size != other.size
            for one, other in zip(before, after, strict=True)
        ):
            text = "variant {rank} has other batch sizes than variant {before}: expected the same sizes in all variants"
            raise PydanticCustomError("batches", text, {"rank": rank, "before": rank - 1})
        if any(one.latency_ms > other.latency_ms for one, other in zip(before, after, strict=True)):
            text = "a batch of variant {rank} is faster than that of variant {before}: expected the fastest first"
            raise PydanticCustomError("batches", text, {"rank": rank, "before": rank - 1})

    @property
    def batch_sizes(self) -> list[int]:
        """How many jobs a run may take, in ascending order, 1 included."""
        return [1, *(batch.size for batch in self.ladder[0].batches or [])]

    @property
    def ladder(self) -> list[Variant]:
        """The variants, from the scenario or from the named profile."""
        return self.variants if self.variants is not None else list(PROFILES[self.profile or ""].variants)

    @property
    def relative_deadline_ms(self) -> float:
        """Time from release to deadline, with the default filled in."""
        if self.deadline_ms is not None:
            return self.deadline_ms
        assert isinstance(self.arrival, Periodic)
        return self.arrival.period_ms


class EdgeScenario(ScenarioModel):
    """Several DNNs share one device: tasks with deadlines and variant ladders, streams, and what counts as good."""

    family: Literal["edge"]
    horizon_ms: PositiveMs
    """Length of an episode; no job is released at or after it."""
    periodic_tasks: int | None = Field(default=None, ge=0)
    """Number of periodic tasks; checked against the list where given."""
    poisson_tasks: int | None = Field(default=None, ge=0)
    """Number of Poisson tasks; checked against the list where given."""
    profile: str | None = None
    """A file written by `slipstream profile`, named relative to the scenario file: its measurements replace the
    latencies, the interference and the spread of the scenario."""
    device: Device = Device()
    reward: Reward = Reward()
    tasks: Annotated[list[Task], Field(min_length=1, max_length=1000)]

    @property
    def has_load_times(self) -> bool:
        """Whether some variant has a load time."""
        return any(variant.load_ms > 0.0 for task in self.tasks for variant in task.ladder)

    @property
    def most_jobs(self) -> int:
        """Most jobs of a run; above 1 if there are batches."""
        return max(task.batch_sizes[-1] for task in self.tasks)

    def resolved(self) -> dict[str, Any]:
        """Return everything that determines results: defaults filled in, ladders and traces written out."""
        from slipstream.families.edge.workload.arrivals import task_trace_times

        data = self.model_dump(mode="json")
        del data["profile"]  # its content is already in the variants
        data["device"], data["reward"] = self.device.digest_data(), self.reward.digest_data()
        for index, (row, task) in enumerate(zip(data["tasks"], self.tasks, strict=True)):
            del row["profile"]
            row["variants"] = [variant.digest_data() for variant in task.ladder]
            row["deadline_ms"] = task.relative_deadline_ms
            if task.fill_ms is None:
                del row["fill_ms"]
            if isinstance(task.arrival, RandomGaps):
                row["arrival"] = {"kind": task.arrival.kind, "mean_gap_ms": task.arrival.gap_ms}
            if isinstance(task.arrival, Trace):
                row["arrival"] = {"kind": "trace", "times_ns": task_trace_times(self, index).tolist()}
        return data

    @model_validator(mode="after")
    def _counts_and_names(self) -> EdgeScenario:
        for key, kind in (("periodic_tasks", Periodic), ("poisson_tasks", Poisson)):
            stated: Any = getattr(self, key)
            found = sum(isinstance(task.arrival, kind) for task in self.tasks)
            if stated is not None and stated != found:
                text = "{key} is {stated} but 'tasks' lists {found}: expected the same number"
                raise PydanticCustomError("count", text, {"key": key, "stated": stated, "found": found})
        names: dict[str, int] = {}
        for index, task in enumerate(self.tasks):
            if task.name in names:
                text = "tasks[{index}].name '{name}' is taken by tasks[{first}]: expected unique names"
                raise PydanticCustomError("name", text, {"index": index, "name": task.name, "first": names[task.name]})
            names[task.name] = index
        return self

    @model_validator(mode="after")
    def _matrix_fits(self) -> EdgeScenario:
        if isinstance(self.device.interference, Matrix):
            rows = self.device.interference.slowdowns
            sizes = (len(self.tasks), sum(task.num_variants for task in self.tasks))
            odd = next((len(row) for row in rows if len(row) != len(rows)), len(rows))
            if len(rows) not in sizes or odd != len(rows):
                text = "slowdowns is {rows} x {columns}: expected {tasks} x {tasks} (tasks) or {all} x {all} (variants)"
                shape = {"rows": len(rows), "columns": odd, "tasks": sizes[0], "all": sizes[1]}
                raise PydanticCustomError("matrix", text, shape)
        return self

    @model_validator(mode="after")
    def _every_variant_fits_the_memory(self) -> EdgeScenario:
        limit = self.device.memory_mb
        for index, task in enumerate(self.tasks):
            for rank, variant in enumerate(task.ladder):
                if limit is not None and variant.memory_mb > limit:
                    text = (
                        "variant {rank} of tasks[{index}] needs {found} MB: expected at most device.memory_mb, {limit}"
                    )
                    context = {"rank": rank, "index": index, "found": variant.memory_mb, "limit": limit}
                    raise PydanticCustomError("memory", text, context)
        return self


__all__ = [
    "LONGEST_MS",
    "Arrival",
    "BatchRun",
    "Bursty",
    "Closed",
    "Device",
    "EdgeScenario",
    "ExponentialLatency",
    "External",
    "FixedLatency",
    "LognormalLatency",
    "Matrix",
    "NoInterference",
    "Periodic",
    "Poisson",
    "Preemption",
    "RandomGaps",
    "Reward",
    "Roofline",
    "Share",
    "Task",
    "Trace",
    "Variant",
]
