"""Scenario schema of elastic jobs: kinds of GPUs, models with their measured throughputs, jobs, and rounds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from slipstream.families.shared.schema import (
    Name,
    NonNegative,
    NonNegativeSeconds,
    PositiveSeconds,
    ScenarioModel,
    StrictModel,
)

MOST_GPUS = 4096
MOST_JOBS = 20_000
MOST_CONFIGURATIONS = 256
MOST_ROWS = 4096

Gpus = Annotated[int, Field(ge=1, le=MOST_GPUS)]
PerSecond = Annotated[float, Field(ge=1e-6, le=1e9)]
Work = Annotated[float, Field(ge=1e-6, le=1e15)]
Weight = Annotated[float, Field(ge=1e-3, le=1e3)]


class Kind(StrictModel):
    """GPUs of one kind."""

    name: Name
    """Name of the kind, such as 'v100'."""
    gpus: Gpus
    """How many there are."""


class Configuration(StrictModel):
    """GPUs that a model can run on, and how fast it runs there."""

    kind: Name
    """Name of the kind of GPU."""
    gpus: Gpus
    """Number of GPUs, all at the same time."""
    per_s: PerSecond
    """Work done per second, as measured; for a changed batch size, useful work."""


class Model(StrictModel):
    """What a job trains, with its measured throughputs."""

    name: Name
    """Name of the model."""
    configurations: Annotated[list[Configuration], Field(min_length=1, max_length=MOST_CONFIGURATIONS)]
    """Where it can run; each kind and number once."""
    start_s: NonNegativeSeconds = 0.0
    """Time that a job holds its GPUs before it runs for the first time."""
    restart_s: NonNegativeSeconds = 0.0
    """The same whenever it continues after a pause or with other GPUs."""

    @model_validator(mode="after")
    def _configurations_differ(self) -> Model:
        found = [(one.kind, one.gpus) for one in self.configurations]
        if len(set(found)) < len(found):
            text = "configurations: expected each kind and number of GPUs once"
            raise PydanticCustomError("configurations", text)
        return self


class Job(StrictModel):
    """A job, or a template of jobs."""

    model: Name
    """Name of the model."""
    work: Work
    """Work of the job, in the unit of the model's throughput, such as steps."""
    gpus: Annotated[list[Gpus], Field(min_length=1)] | None = None
    """Numbers of GPUs that it accepts; any that its model was measured on if absent."""
    weight: Weight = 1.0
    """Its weight in fair shares."""


class ElasticListedJob(Job):
    """One job of a list."""

    arrival_s: NonNegativeSeconds
    """Arrival time, in ascending order."""


class DrawnJobs(StrictModel):
    """Jobs drawn from templates, each as likely, with exponential gaps."""

    kind: Literal["drawn"]
    jobs: Annotated[int, Field(ge=1, le=MOST_JOBS)]
    """Jobs of an episode."""
    mean_gap_s: PositiveSeconds
    """Mean time between two arrivals."""
    initial_jobs: Annotated[int, Field(ge=0, le=MOST_JOBS)] = 0
    """Jobs that arrive at time 0."""
    templates: Annotated[list[Job], Field(min_length=1, max_length=10_000)]
    """What jobs are drawn from."""


class ListedJobs(StrictModel):
    """Jobs listed one by one."""

    kind: Literal["list"]
    jobs: Annotated[list[ElasticListedJob], Field(min_length=1, max_length=MOST_JOBS)]
    """The jobs."""

    @model_validator(mode="after")
    def _ascending(self) -> ListedJobs:
        for index in range(1, len(self.jobs)):
            if self.jobs[index].arrival_s < self.jobs[index - 1].arrival_s:
                text = "jobs[{index}].arrival_s is earlier than the one before it: expected ascending times"
                raise PydanticCustomError("order", text, {"index": index})
        return self


class ThroughputTable(StrictModel):
    """Throughputs of models, measured by Gavel."""

    path: str
    """The table, relative to the scenario file: JSON with the steps per second by kind, model and number of GPUs."""


class GavelTrace(StrictModel):
    """Jobs of a trace of Gavel, with its table of measured throughputs in place of models."""

    kind: Literal["gavel"]
    path: str
    """The trace, relative to the scenario file: ten columns, separated by tabs."""
    throughputs: ThroughputTable
    """Throughputs of its models, in place of `models`."""


Jobs = Annotated[DrawnJobs | ListedJobs | GavelTrace, Field(discriminator="kind")]


class ElasticReward(StrictModel):
    """Weights of the reward, which is minus the weighted sum."""

    time: NonNegative = 1.0
    """Seconds that jobs spend in the system."""
    restarts: NonNegative = 0.0
    """Restarts: a job continues after a pause or with other GPUs."""


class ElasticScenario(ScenarioModel):
    """Jobs that may change the kind and the number of their GPUs, on a cluster of unlike GPUs."""

    family: Literal["elastic"]
    kinds: Annotated[list[Kind], Field(min_length=1, max_length=16)]
    """The GPUs of the cluster."""
    models: Annotated[list[Model], Field(max_length=1000)] = Field(default=[])
    """Models of the jobs; absent where the source of jobs brings them."""
    jobs: Jobs
    """The jobs."""
    round_s: PositiveSeconds | None = None
    """Length of a round: all GPUs are allocated anew after it. Without rounds they are at events."""
    at_events: bool = False
    """Whether a new round also begins when a job arrives or ends; always so without `round_s`."""
    compat: Literal["gavel"] | None = None
    """Rules of a published simulator in place of ours: whole steps, and rounds that end with their last job."""
    rows: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 64
    """Candidate rows of an observation."""
    reward: ElasticReward = ElasticReward()
    """Weights of the reward."""

    @model_validator(mode="after")
    def _names_are_known(self) -> ElasticScenario:
        kinds = {one.name: one.gpus for one in self.kinds}
        for key, names in (("kinds", [one.name for one in self.kinds]), ("models", [one.name for one in self.models])):
            if len(set(names)) < len(names):
                raise PydanticCustomError("names", "{key}: expected names that differ", {"key": key})
        if isinstance(self.jobs, GavelTrace):
            if self.models:
                raise PydanticCustomError("models", "models: a trace of Gavel brings its own: expected none")
            return self
        models = {one.name: one for one in self.models}
        for one in self.models:
            for index, found in enumerate(one.configurations):
                if found.gpus > kinds.get(found.kind, 0):
                    text = "model '{name}', configurations[{index}]: {gpus} of kind '{kind}': expected at most {most}"
                    about = {"gpus": found.gpus, "kind": found.kind, "most": kinds.get(found.kind, 0)}
                    raise PydanticCustomError("kind", text, {"name": one.name, "index": index, **about})
        listed = self.jobs.templates if isinstance(self.jobs, DrawnJobs) else self.jobs.jobs
        for index, job in enumerate(listed):
            about = {"index": index, "name": job.model}
            if job.model not in models:
                text = "job {index}: unknown model '{name}': expected one of {known}"
                raise PydanticCustomError("model", text, {**about, "known": ", ".join(models) or "models"})
            if job.gpus is not None and not {one.gpus for one in models[job.model].configurations} & set(job.gpus):
                text = "job {index}: gpus: model '{name}' was measured on none of these numbers"
                raise PydanticCustomError("gpus", text, about)
        return self

    @model_validator(mode="after")
    def _rounds_make_progress(self) -> ElasticScenario:
        if self.round_s is not None:
            for one in self.models:
                if max(one.start_s, one.restart_s) >= self.round_s:
                    text = "model '{name}': start_s and restart_s: expected less than round_s"
                    raise PydanticCustomError("restart", text, {"name": one.name})
        if self.compat is None:
            return self
        if self.round_s is None or self.at_events:
            raise PydanticCustomError("compat", "compat: expected round_s, and no at_events")
        if any(one.start_s > 0.0 or one.restart_s > 0.0 for one in self.models):
            raise PydanticCustomError("compat", "compat: starts take no time there: expected no start_s and restart_s")
        if any(found.per_s * self.round_s < 1.0 for one in self.models for found in one.configurations):
            raise PydanticCustomError("compat", "compat: expected at least one step of every model in a round")
        return self
