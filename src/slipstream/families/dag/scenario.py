"""Scenario model of the dag family: jobs as graphs of stages, on a pool of executors."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from slipstream.families.shared.schema import (
    Name,
    NonNegativeSeconds,
    PositiveHz,
    PositiveSeconds,
    ScenarioModel,
    StrictModel,
    gap_or_rate,
)

MOST_JOBS = 100_000
MOST_EXECUTORS = 1000
MOST_STAGES = 1000
MOST_TASKS = 1_000_000

Size = Literal["2g", "5g", "10g", "20g", "50g", "80g", "100g"]
Query = Annotated[int, Field(ge=1, le=22)]
Samples = Annotated[list[PositiveSeconds], Field(max_length=100_000)]


class Batch(StrictModel):
    """All jobs arrive at time 0."""

    kind: Literal["batch"]
    jobs: int = Field(ge=1, le=MOST_JOBS)
    """Jobs of an episode."""


class PoissonStream(StrictModel):
    """Jobs arrive as a Poisson process: independent exponential gaps."""

    kind: Literal["poisson"]
    jobs: int = Field(ge=1, le=MOST_JOBS)
    """Jobs of an episode, including those at time 0."""
    mean_gap_s: PositiveSeconds = 25.0
    """Mean time between two arrivals."""
    rate_hz: PositiveHz | None = None
    """In place of the mean gap: mean arrivals per second."""
    initial_jobs: int = Field(default=1, ge=0, le=MOST_JOBS)
    """Jobs that arrive at time 0."""

    @property
    def gap_s(self) -> float:
        """Mean time between two arrivals, from whichever key was given."""
        return self.mean_gap_s if self.rate_hz is None else 1.0 / self.rate_hz

    @model_validator(mode="after")
    def _initial_jobs_are_among_the_jobs(self) -> PoissonStream:
        if self.rate_hz is not None:
            gap_or_rate("mean_gap_s", "mean_gap_s" in self.model_fields_set, True)
        if self.initial_jobs > self.jobs:
            text = "initial_jobs is {initial} but jobs is {jobs}: expected at most as many"
            raise PydanticCustomError("initial", text, {"initial": self.initial_jobs, "jobs": self.jobs})
        return self


class JobTrace(StrictModel):
    """Jobs arrive at listed times: inline, or from a CSV or Parquet file named relative to the scenario file."""

    kind: Literal["trace"]
    times_s: Annotated[list[NonNegativeSeconds], Field(min_length=1, max_length=MOST_JOBS)] | None = None
    """Arrival times, in ascending order."""
    names: Annotated[list[Name], Field(min_length=1, max_length=MOST_JOBS)] | None = None
    """Which job of the source arrives, by name, one for each time; drawn at random if absent."""
    path: str | None = None
    """A .csv or .parquet file with one arrival per row."""
    column: str = "arrival_s"
    """The file's column of arrival times in seconds."""
    name_column: str | None = None
    """The file's column of names of jobs; drawn at random if absent."""

    @model_validator(mode="after")
    def _one_source(self) -> JobTrace:
        if (self.times_s is None) == (self.path is None):
            raise PydanticCustomError("trace_source", "expected either 'times_s' or 'path'")
        if self.times_s is None:
            if self.names is not None:
                raise PydanticCustomError("names", "names belong to 'times_s': expected 'name_column' with a file")
            return self
        if self.names is not None and len(self.names) != len(self.times_s):
            text = "names lists {found} but times_s {stated}: expected one for each time"
            raise PydanticCustomError("names", text, {"found": len(self.names), "stated": len(self.times_s)})
        for index in range(1, len(self.times_s)):
            if self.times_s[index] < self.times_s[index - 1]:
                text = "times_s[{index}] is {value}, earlier than the time before it: expected ascending times"
                raise PydanticCustomError("order", text, {"index": index, "value": self.times_s[index]})
        return self


Arrivals = Annotated[Batch | PoissonStream | JobTrace, Field(discriminator="kind")]


class Synthetic(StrictModel):
    """Random jobs that resemble profiled database queries, from a seed; needs no data."""

    kind: Literal["synthetic"]
    templates: int = Field(default=154, ge=1, le=10_000)
    """Different jobs; each arrival is one of them, all equally likely."""
    seed: int = Field(default=0, ge=0, le=2**62 - 1)
    """Decides them; episodes have seeds of their own."""


class Tpch(StrictModel):
    """Profiled TPC-H queries: a folder for each size of the data, as published with Decima."""

    kind: Literal["tpch"]
    path: str
    """The folder that holds the folders 2g, 5g and so on, relative to the scenario file."""
    sizes: Annotated[list[Size], Field(min_length=1)] = Field(default=["2g", "5g", "10g", "20g", "50g", "80g", "100g"])
    """Sizes of the data to take, equally likely."""
    queries: Annotated[list[Query], Field(min_length=1)] = Field(default=list(range(1, 23)))
    """Queries to take, equally likely."""


class Alibaba(StrictModel):
    """Production jobs of a packed trace: stages with a number of instances and one duration each."""

    kind: Literal["alibaba"]
    path: str
    """An .npz file with stage_ptr, edge_ptr, edges, num_tasks and duration, relative to the scenario file."""
    unit_s: PositiveSeconds = 1.0
    """Seconds that one unit of the durations stands for."""
    most_stages: int = Field(default=100, ge=1, le=MOST_STAGES)
    """Jobs with more stages are left out."""
    most_tasks: int = Field(default=1000, ge=1, le=MOST_TASKS)
    """Jobs with more instances in a stage are left out."""
    first_jobs: int | None = Field(default=None, ge=1, le=MOST_JOBS)
    """Number of jobs to take of those that remain, in the order of the file; all if absent."""


class MlWorkflow(StrictModel):
    """Machine learning as a graph: data preparation in shards, training, validation, hyper-parameter search, test."""

    kind: Literal["ml-workflow"]
    templates: int = Field(default=32, ge=1, le=10_000)
    """Different workflows; each arrival is one of them, all equally likely."""
    seed: int = Field(default=0, ge=0, le=2**62 - 1)
    """Decides them; episodes have seeds of their own."""
    most_trials: int = Field(default=8, ge=1, le=64)
    """Most trials of a hyper-parameter search; they are trained and validated in parallel."""


class WaveSamples(StrictModel):
    """Durations of tasks, measured with a given number of executors at the job."""

    executors: int = Field(ge=1, le=100_000)
    """Number of executors at the job."""
    fresh_s: Samples = Field(default=[])
    """Tasks on executors that just arrived or were idle; if empty, `first_s` plus the warm-up delay."""
    first_s: Samples = Field(default=[])
    """First task of the stage on an executor that ran another stage of the job before; if empty, `fresh_s`."""
    rest_s: Samples = Field(default=[])
    """Further tasks of the stage on the same executor; if empty, `first_s`."""

    @model_validator(mode="after")
    def _something_to_draw_from(self) -> WaveSamples:
        if not self.first_s and not self.fresh_s:
            raise PydanticCustomError("waves", "no durations: expected 'first_s' or 'fresh_s' with at least one")
        return self


class StageDescription(StrictModel):
    """A batch of parallel tasks."""

    name: Name
    """Unique in the job."""
    tasks: int = Field(default=1, ge=1, le=MOST_TASKS)
    """Number of tasks."""
    duration_s: PositiveSeconds | None = None
    """Time of every task; a fresh executor needs the warm-up delay in addition."""
    waves: Annotated[list[WaveSamples], Field(min_length=1, max_length=64)] | None = None
    """Measured durations to draw from, by number of executors."""
    parents: list[Name] = Field(default=[])
    """Stages that must be complete before it can begin."""
    program: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """What each task runs under `slipstream execute`: python:MODULE:CALLABLE or command:WORDS; a stand-in if absent."""

    @model_validator(mode="after")
    def _one_source(self) -> StageDescription:
        if (self.duration_s is None) == (self.waves is None):
            raise PydanticCustomError("durations", "expected either 'duration_s' or 'waves'")
        return self


class JobDescription(StrictModel):
    """A graph of stages."""

    name: Name
    """Unique in the source."""
    stages: Annotated[list[StageDescription], Field(min_length=1, max_length=MOST_STAGES)]
    """In any order."""

    @model_validator(mode="after")
    def _a_graph_without_cycles(self) -> JobDescription:
        known = {stage.name: index for index, stage in enumerate(self.stages)}
        if len(known) < len(self.stages):
            raise PydanticCustomError("name", "two stages have the same name: expected unique names")
        for index, stage in enumerate(self.stages):
            for parent in stage.parents:
                if parent not in known:
                    text = "stages[{index}]: no stage '{parent}': expected names of stages of this job as parents"
                    raise PydanticCustomError("parent", text, {"index": index, "parent": parent})
        done: set[str] = set()
        while len(done) < len(self.stages):
            ready = [s.name for s in self.stages if s.name not in done and done.issuperset(s.parents)]
            if not ready:
                stuck = next(stage.name for stage in self.stages if stage.name not in done)
                text = "stage '{stuck}' waits for itself: expected a graph without cycles"
                raise PydanticCustomError("cycle", text, {"stuck": stuck})
            done.update(ready)
        return self


class Inline(StrictModel):
    """Jobs written out in the scenario."""

    kind: Literal["inline"]
    jobs: Annotated[list[JobDescription], Field(min_length=1, max_length=10_000)]
    """Different jobs; each arrival is one of them, all equally likely unless a trace names them."""

    @model_validator(mode="after")
    def _unique_names(self) -> Inline:
        names: set[str] = set()
        for index, job in enumerate(self.jobs):
            if job.name in names:
                text = "jobs[{index}].name '{name}' is taken: expected unique names"
                raise PydanticCustomError("name", text, {"index": index, "name": job.name})
            names.add(job.name)
        return self


JobSource = Annotated[Synthetic | Tpch | Alibaba | MlWorkflow | Inline, Field(discriminator="kind")]


class ExecutorClass(StrictModel):
    """Executors of one kind."""

    name: Name
    count: int = Field(ge=1, le=MOST_EXECUTORS)
    """Number of executors of the class."""
    speed: float = Field(ge=1e-3, le=1e3)
    """A task takes its duration divided by this."""


class Stragglers(StrictModel):
    """Tasks that take a multiple of their drawn duration."""

    probability: float = Field(ge=0.0, le=1.0)
    """Of each task, independently."""
    factor: float = Field(default=5.0, ge=1.0, le=1e3)
    """Multiple of the duration that a straggler takes."""


class Failures(StrictModel):
    """Stages that fail when their last task ends, and are repeated from the beginning."""

    probability: float = Field(ge=0.0, le=1.0)
    """Of each stage, each time that it would be complete."""
    most: int = Field(default=3, ge=1, le=100)
    """Most failures of one stage."""


class NoHorizon(StrictModel):
    """An episode ends when all its jobs are done."""

    kind: Literal["none"]


class FixedHorizon(StrictModel):
    """An episode is truncated at a fixed time if its jobs are not done before."""

    kind: Literal["fixed"]
    time_s: PositiveSeconds
    """Time of truncation."""


class MemorylessHorizon(StrictModel):
    """An episode is truncated at an exponentially distributed time, so its end is unpredictable."""

    kind: Literal["memoryless"]
    mean_s: PositiveSeconds
    """Mean of that time."""


Horizon = Annotated[NoHorizon | FixedHorizon | MemorylessHorizon, Field(discriminator="kind")]


class DagReward(StrictModel):
    """Weights of the reward terms; both are costs."""

    job_seconds: float = Field(default=1.0, ge=0.0, le=1e6)
    """Cost: number of jobs in the system, integrated over seconds; its sum is jobs times average completion time."""
    makespan: float = Field(default=0.0, ge=0.0, le=1e6)
    """Cost: elapsed seconds."""
    discount_per_s: float = Field(default=0.0, ge=0.0, le=10.0)
    """Rate at which job-seconds are discounted within a step, from its decision on; 0: no discount."""


class Window(StrictModel):
    """Size of the observation window; jobs that do not fit are counted, not shown."""

    candidates: int = Field(default=128, ge=8, le=100_000)
    """Most stages to choose from; compiled policies see all."""
    nodes: int = Field(default=320, ge=8, le=100_000)
    """Most nodes of the graph; at least as many as the largest job has stages."""
    edges: int = Field(default=400, ge=8, le=1_000_000)
    """Most edges of the graph; at least as many as the largest job has."""


class DagScenario(ScenarioModel):
    """Jobs arrive as graphs of stages; executors run their tasks and need time to move between jobs."""

    family: Literal["dag"]
    executors: int = Field(ge=1, le=MOST_EXECUTORS)
    """Number of executors: tasks that can run at once."""
    classes: Annotated[list[ExecutorClass], Field(min_length=1, max_length=64)] | None = None
    """Executors of different speed, in any order: numbered from the fastest class on. All of speed 1 if absent."""
    moving_delay_s: NonNegativeSeconds = 2.0
    """Time an executor needs to move to a job, from another one or from the common pool."""
    warmup_delay_s: NonNegativeSeconds = 1.0
    """Added to the first task of a fresh executor where no fresh durations were measured."""
    arrivals: Arrivals
    """Number of jobs and their arrival times."""
    jobs: JobSource = Synthetic(kind="synthetic")
    """Source of the jobs."""
    compat: Literal["decima"] | None = None
    """'decima' keeps the inverted interpolation and the rules of the published simulators."""
    stragglers: Stragglers | None = None
    """None if absent."""
    failures: Failures | None = None
    """None if absent."""
    horizon: Horizon = NoHorizon(kind="none")
    """When an episode is truncated."""
    reward: DagReward = DagReward()
    window: Window = Window()

    newer_keys: ClassVar[tuple[str, ...]] = ()

    def resolved(self) -> dict[str, Any]:
        """Return what determines results: defaults filled in, data files and traces replaced by their content."""
        from slipstream.families.dag.workload.arrivals import resolved_arrivals
        from slipstream.families.dag.workload.templates import digest_of_source

        data = self.model_dump(mode="json")
        if self.classes is not None:
            data["classes"] = [one.model_dump(mode="json") for one in self._classes_by_speed()]
        data["jobs"] = digest_of_source(self)
        data["arrivals"] = resolved_arrivals(self)
        return data

    def _classes_by_speed(self) -> list[ExecutorClass]:
        return sorted(self.classes or [], key=lambda one: (-one.speed, one.name))

    @property
    def speeds(self) -> list[float]:
        """Speed of each executor by number, independent of the order in which classes are listed."""
        if self.classes is None:
            return [1.0] * self.executors
        return [one.speed for one in self._classes_by_speed() for _ in range(one.count)]

    @model_validator(mode="after")
    def _classes_add_up(self) -> DagScenario:
        if self.classes is not None:
            found = sum(one.count for one in self.classes)
            if found != self.executors:
                text = "classes have {found} executors but executors is {stated}: expected the same number"
                raise PydanticCustomError("classes", text, {"found": found, "stated": self.executors})
        return self
