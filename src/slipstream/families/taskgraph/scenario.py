"""Scenario model of the taskgraph family: graphs of tasks on tiles, processors with memories and links."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from slipstream.families.shared.schema import (
    Name,
    NonNegativeMs,
    PositiveHz,
    PositiveMs,
    ScenarioModel,
    StrictModel,
    gap_or_rate,
)

MOST_JOBS = 10_000
MOST_PROCESSORS = 256
MOST_KINDS = 16
MOST_TASKS = 1_000_000
MOST_TASKS_IN_ALL = 2_200_000
"""Limit over all graphs of a scenario; the largest tiled product is just below it."""
LARGEST_TILE = 2**40

Access = Literal["r", "w", "rw"]


class GraphBatch(StrictModel):
    """All jobs arrive at time 0."""

    kind: Literal["batch"]
    jobs: int = Field(default=1, ge=1, le=MOST_JOBS)
    """Jobs of an episode."""


class GraphStream(StrictModel):
    """Jobs arrive as a Poisson process: independent exponential gaps."""

    kind: Literal["poisson"]
    jobs: int = Field(ge=1, le=MOST_JOBS)
    """Jobs of an episode, including those at time 0."""
    mean_gap_ms: PositiveMs | None = None
    """Mean time between two arrivals."""
    rate_hz: PositiveHz | None = None
    """In place of the mean gap: mean arrivals per second."""
    initial_jobs: int = Field(default=1, ge=0, le=MOST_JOBS)
    """Jobs that arrive at time 0."""

    @property
    def gap_ms(self) -> float:
        """Mean time between two arrivals, from whichever key was given."""
        return self.mean_gap_ms if self.mean_gap_ms is not None else 1000.0 / (self.rate_hz or 1.0)

    @model_validator(mode="after")
    def _initial_jobs_are_among_the_jobs(self) -> GraphStream:
        gap_or_rate("mean_gap_ms", self.mean_gap_ms is not None, self.rate_hz is not None)
        if self.initial_jobs > self.jobs:
            text = "initial_jobs is {initial} but jobs is {jobs}: expected at most as many"
            raise PydanticCustomError("initial", text, {"initial": self.initial_jobs, "jobs": self.jobs})
        return self


class GraphTrace(StrictModel):
    """Jobs arrive at listed times."""

    kind: Literal["trace"]
    times_ms: Annotated[list[NonNegativeMs], Field(min_length=1, max_length=MOST_JOBS)]
    """Arrival times, in ascending order."""
    names: Annotated[list[Name], Field(min_length=1, max_length=MOST_JOBS)] | None = None
    """Which graph arrives, by name, one for each time; drawn at random if absent."""

    @model_validator(mode="after")
    def _times_in_order(self) -> GraphTrace:
        if self.names is not None and len(self.names) != len(self.times_ms):
            text = "names lists {found} but times_ms {stated}: expected one for each time"
            raise PydanticCustomError("names", text, {"found": len(self.names), "stated": len(self.times_ms)})
        for index in range(1, len(self.times_ms)):
            if self.times_ms[index] < self.times_ms[index - 1]:
                text = "times_ms[{index}] is {value}, earlier than the time before it: expected ascending times"
                raise PydanticCustomError("order", text, {"index": index, "value": self.times_ms[index]})
        return self


Arrivals = Annotated[GraphBatch | GraphStream | GraphTrace, Field(discriminator="kind")]


class Tiled(StrictModel):
    """A factorisation or product of a matrix of n × n tiles."""

    kind: Literal["cholesky", "lu", "qr", "gemm"]
    """Algorithm; `qr` uses a flat reduction tree."""
    n: int = Field(ge=1, le=128)
    """Tiles in a row of the matrix."""
    tile_bytes: int = Field(default=3_686_400, ge=1, le=LARGEST_TILE)
    """Size of a tile; the default is that of 960 by 960 floats."""


class SpGemm(StrictModel):
    """A product of two sparse matrices of n × n tiles: a task where both factors have a tile."""

    kind: Literal["spgemm"]
    n: int = Field(ge=1, le=128)
    """Tiles in a row of the matrices."""
    density: float = Field(default=0.15, gt=0.0, le=1.0)
    """Probability of each tile to be nonzero."""
    seed: int = Field(default=0, ge=0, le=2**62 - 1)
    """Seed of the sparsity pattern."""
    tile_bytes: int = Field(default=3_686_400, ge=1, le=LARGEST_TILE)
    """Size of a tile."""


class Layered(StrictModel):
    """Random graphs in layers: each task reads what some tasks of the layer before have written."""

    kind: Literal["layered"]
    layers: int = Field(ge=1, le=10_000)
    """Layers of tasks."""
    width: int = Field(ge=1, le=10_000)
    """Most tasks in a layer; the number is uniform from 1 to `width`."""
    most_parents: int = Field(default=3, ge=1, le=64)
    """Most tasks of the layer before that a task reads from."""
    kernels: Annotated[list[Name], Field(min_length=1, max_length=64)] = Field(
        default=["POTRF", "TRSM", "SYRK", "GEMM"]
    )
    """Kernels of the tasks, equally likely."""
    seed: int = Field(default=0, ge=0, le=2**62 - 1)
    """Seed of the graph."""
    tile_bytes: int = Field(default=3_686_400, ge=1, le=LARGEST_TILE)
    """Size of what a task writes."""

    @model_validator(mode="after")
    def _few_enough(self) -> Layered:
        if self.layers * self.width > MOST_TASKS:
            text = "layers x width is {tasks}: expected at most {most} tasks"
            raise PydanticCustomError("layered", text, {"tasks": self.layers * self.width, "most": MOST_TASKS})
        return self


class Stg(StrictModel):
    """A graph of the Standard Task Graph Set; a task's processing time is in units, its output one tile."""

    kind: Literal["stg"]
    path: str
    """An .stg file, relative to the scenario file."""
    unit_ms: PositiveMs = 1.0
    """Time of one unit on a processor of speed 1."""
    tile_bytes: int = Field(default=1_000_000, ge=1, le=LARGEST_TILE)
    """Size of what a task writes."""


class WfCommons(StrictModel):
    """A workflow instance of WfCommons, format 1.5: run times and files with their sizes."""

    kind: Literal["wfcommons"]
    path: str
    """A .json file, relative to the scenario file."""
    scale: float = Field(default=1.0, gt=0.0, le=1e6)
    """Factor of the run times."""


class TaskDescription(StrictModel):
    """A task of a graph that is written out."""

    name: Name
    """Unique in the graph."""
    kernel: Name | None = None
    """Kernel name in the table of durations."""
    duration_ms: PositiveMs | dict[Name, PositiveMs] | None = None
    """Instead of a kernel: its time on a processor of speed 1, or by kind of processor."""
    accesses: dict[Name, Access] = Field(default={})
    """Access mode by tile: read, write or both."""
    after: list[Name] = Field(default=[])
    """Further earlier tasks that it waits for."""

    @model_validator(mode="after")
    def _one_duration(self) -> TaskDescription:
        if (self.kernel is None) == (self.duration_ms is None):
            raise PydanticCustomError("duration", "expected either 'kernel' or 'duration_ms'")
        return self


class GraphDescription(StrictModel):
    """Tasks in the order of their submission."""

    tasks: Annotated[list[TaskDescription], Field(min_length=1, max_length=MOST_TASKS)]
    """Each depends on earlier tasks only, by read-after-write, write-after-read and write-after-write on its tiles."""
    tiles: dict[Name, Annotated[int, Field(ge=1, le=LARGEST_TILE)]] = Field(default={})
    """Sizes in bytes of tiles that differ from `tile_bytes`."""
    tile_bytes: int = Field(default=3_686_400, ge=1, le=LARGEST_TILE)
    """Default size of a tile."""

    @model_validator(mode="after")
    def _names_are_known(self) -> GraphDescription:
        seen: set[str] = set()
        for index, task in enumerate(self.tasks):
            for other in task.after:
                if other not in seen:
                    text = "tasks[{index}] waits for '{other}': expected the name of an earlier task"
                    raise PydanticCustomError("after", text, {"index": index, "other": other})
            if task.name in seen:
                text = "tasks[{index}].name '{name}' is taken: expected unique names"
                raise PydanticCustomError("name", text, {"index": index, "name": task.name})
            seen.add(task.name)
        used = {tile for task in self.tasks for tile in task.accesses}
        for tile in self.tiles:
            if tile not in used:
                raise PydanticCustomError("tile", "tiles: no task uses '{tile}'", {"tile": tile})
        return self


class InlineGraph(GraphDescription):
    """A graph written out in the scenario."""

    kind: Literal["inline"]


class GraphFile(StrictModel):
    """A graph written out in a file of its own, with the keys `tasks`, `tiles` and `tile_bytes`."""

    kind: Literal["file"]
    path: str
    """A .json file, relative to the scenario file."""


Graph = Annotated[Tiled | SpGemm | Layered | Stg | WfCommons | InlineGraph | GraphFile, Field(discriminator="kind")]


class ReadysTable(StrictModel):
    """Durations of READYS for the kernels of Cholesky, LU and QR on kinds `cpu` and `gpu`; 1 unit is 1 ms."""

    kind: Literal["readys"]


class Table(StrictModel):
    """Durations written out."""

    kind: Literal["table"]
    kernels_ms: dict[Name, dict[Name, PositiveMs]] = Field(default={})
    """By kernel and kind of processor."""


class Profile(StrictModel):
    """Durations measured by StarPU, from a local file."""

    kind: Literal["profile"]
    path: str
    """A file in the format of starpu_perfmodels.json, relative to the scenario file."""
    machine: Name
    """Machine in the file."""
    kernels: dict[Name, Name]
    """Name of the performance model in the file, by kernel."""
    tile_bytes: int = Field(default=3_686_400, ge=1, le=LARGEST_TILE)
    """Size of the tiles whose measurements are used."""
    kinds: dict[Name, Literal["cpu", "cuda"]] = Field(default={"cpu": "cpu", "gpu": "cuda"})
    """Architecture in the file, by kind of processor."""


Durations = Annotated[ReadysTable | Table | Profile, Field(discriminator="kind")]


class Processors(StrictModel):
    """Processors of one kind."""

    name: Name
    """Name of the kind in the table of durations."""
    count: int = Field(ge=1, le=MOST_PROCESSORS)
    """Number of processors of the kind."""
    device: bool = False
    """Whether each has its own memory, connected by links."""
    memory_mb: float | None = Field(default=None, gt=0.0, le=1e9)
    """Size of that memory, in 10^6 bytes; unlimited if absent."""
    speed: float = Field(default=1.0, ge=1e-3, le=1e6)
    """Divisor of durations given for a processor of speed 1."""

    @model_validator(mode="after")
    def _memory_belongs_to_devices(self) -> Processors:
        if self.memory_mb is not None and not self.device:
            raise PydanticCustomError("memory", "memory_mb is given but device is false: expected a device")
        return self


class Link(StrictModel):
    """A link that transfers one tile at a time."""

    latency_us: float = Field(default=0.0, ge=0.0, le=1e9)
    """Latency of a transfer."""
    bandwidth_mb_s: float = Field(gt=0.0, le=1e9)
    """In 10^6 bytes per second."""


class Links(StrictModel):
    """Links of each device."""

    to_device: Link
    """From the host."""
    to_host: Link
    """From the device."""
    peer: Link | None = None
    """From another device; transfers go through the host if absent."""


class NoNoise(StrictModel):
    """Every task takes its expected duration."""

    kind: Literal["none"]


class Additive(StrictModel):
    """A normal deviate is added to durations."""

    kind: Literal["additive"]
    sd_ms: NonNegativeMs
    """Its standard deviation."""
    floor_ms: float = Field(default=-2.0, ge=-1e9, le=0.0)
    """Lower limit of what is added."""
    kinds: list[Name] | None = None
    """On which kinds of processors; all if absent."""


class Lognormal(StrictModel):
    """Durations are multiplied by a lognormal deviate of mean 1."""

    kind: Literal["lognormal"]
    cv: float = Field(ge=0.0, le=10.0)
    """Its standard deviation."""
    kinds: list[Name] | None = None
    """On which kinds of processors; all if absent."""


Noise = Annotated[NoNoise | Additive | Lognormal, Field(discriminator="kind")]


class AllVisible(StrictModel):
    """The whole graph is known when a job arrives."""

    kind: Literal["all"]


class ParentsVisible(StrictModel):
    """A task becomes visible when its parents have finished."""

    kind: Literal["parents"]


class WindowVisible(StrictModel):
    """Tasks become visible in the order of submission, within a submission window."""

    kind: Literal["window"]
    tasks: int = Field(ge=1, le=MOST_TASKS)
    """Most visible unfinished tasks of a job."""


Visibility = Annotated[AllVisible | ParentsVisible | WindowVisible, Field(discriminator="kind")]


class TaskgraphReward(StrictModel):
    """Weight of the reward term, a cost."""

    makespan: float = Field(default=1.0, ge=0.0, le=1e6)
    """Cost: elapsed milliseconds."""


class GraphWindow(StrictModel):
    """Size of the observation window; what does not fit is counted, not shown."""

    candidates: int = Field(default=32, ge=2, le=100_000)
    """Most tasks to choose from; compiled policies see all."""
    nodes: int = Field(default=64, ge=2, le=100_000)
    """Most nodes of the graph."""
    edges: int = Field(default=128, ge=2, le=1_000_000)
    """Most edges of the graph."""
    depth: int = Field(default=2, ge=0, le=1000)
    """Depth of the graph below the held, queued and ready tasks, in edges."""


class TaskgraphScenario(ScenarioModel):
    """Task graphs on data tiles; processors run the tasks where their tiles have been transferred."""

    family: Literal["taskgraph"]
    processors: Annotated[list[Processors], Field(min_length=1, max_length=MOST_KINDS)]
    """Kinds of processors, in any order: they are numbered from the fastest kind on."""
    links: Links | None = None
    """Links of the devices; tiles are available at every node if absent."""
    durations: Durations = ReadysTable(kind="readys")
    """Expected durations of kernels."""
    noise: Noise = NoNoise(kind="none")
    """Random deviation from the expected durations."""
    graphs: Annotated[list[Graph], Field(min_length=1, max_length=1000)]
    """Graphs of the jobs; each arrival is one of them, all equally likely unless a trace names them."""
    arrivals: Arrivals = GraphBatch(kind="batch")
    """Number of jobs and their arrival times."""
    mode: Literal["pull", "push"] = "pull"
    """pull: processors choose tasks; push: tasks choose processors."""
    pipeline: int = Field(default=1, ge=1, le=2)
    """Tasks that a processor holds: with 2, the tiles of the next one are loaded while one runs."""
    prefetch: int = Field(default=0, ge=0, le=64)
    """Queued tasks whose tiles a device prefetches, in mode push."""
    eviction: Literal["lru", "luf", "belady"] = "lru"
    """Eviction policy of full memories."""
    visibility: Visibility = AllVisible(kind="all")
    """Visible part of a graph."""
    reward: TaskgraphReward = TaskgraphReward()
    window: GraphWindow = GraphWindow()

    newer_keys: ClassVar[tuple[str, ...]] = ()

    def resolved(self) -> dict[str, Any]:
        """Return what determines results: defaults filled in, graphs and tables replaced by their content."""
        from slipstream.families.taskgraph.workload.templates import digest_of_graphs, library_of

        library = library_of(self)
        data = self.model_dump(mode="json")
        data["processors"] = [kind.model_dump(mode="json") for kind in library.kinds]
        data["graphs"] = digest_of_graphs(library)
        data.pop("durations")
        if isinstance(self.arrivals, GraphStream):
            del data["arrivals"]["rate_hz"]
            data["arrivals"]["mean_gap_ms"] = self.arrivals.gap_ms
        return data

    @property
    def processor_count(self) -> int:
        """Number of processors."""
        return sum(kind.count for kind in self.processors)

    @model_validator(mode="after")
    def _kinds_are_known(self) -> TaskgraphScenario:
        kinds = [kind.name for kind in self.processors]
        if len(set(kinds)) < len(kinds):
            raise PydanticCustomError("processors", "two kinds of processors have the same name: expected unique names")
        if self.processor_count > MOST_PROCESSORS:
            text = "processors: {count} in all: expected at most {most}"
            raise PydanticCustomError("processors", text, {"count": self.processor_count, "most": MOST_PROCESSORS})
        if not isinstance(self.noise, NoNoise):
            for name in self.noise.kinds or []:
                if name not in kinds:
                    text = "noise.kinds: no kind '{name}' among the processors: expected one of {kinds}"
                    raise PydanticCustomError("noise", text, {"name": name, "kinds": ", ".join(kinds)})
        return self
