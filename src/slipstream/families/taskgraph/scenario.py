"""The taskgraph family's part of the scenario file: graphs of tasks on tiles, and a machine with memories and links."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from slipstream.families.shared.schema import Name, NonNegativeMs, PositiveMs, ScenarioModel, StrictModel

MOST_JOBS = 10_000
MOST_PROCESSORS = 256
MOST_KINDS = 16
MOST_TASKS = 1_000_000
MOST_TASKS_IN_ALL = 2_200_000
"""Of all graphs of a scenario: the largest product of tiles has nearly as many."""
LARGEST_TILE = 2**40

Access = Literal["r", "w", "rw"]


class GraphBatch(StrictModel):
    """All jobs arrive at time 0."""

    kind: Literal["batch"]
    jobs: int = Field(default=1, ge=1, le=MOST_JOBS)
    """Jobs of an episode."""


class GraphStream(StrictModel):
    """Jobs arrive one after the other, with independent exponential gaps."""

    kind: Literal["poisson"]
    jobs: int = Field(ge=1, le=MOST_JOBS)
    """Jobs of an episode, those at time 0 included."""
    mean_gap_ms: PositiveMs
    """Mean time between two arrivals."""
    initial_jobs: int = Field(default=1, ge=0, le=MOST_JOBS)
    """Jobs that are there at time 0."""

    @model_validator(mode="after")
    def _initial_jobs_are_among_the_jobs(self) -> GraphStream:
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
    """Which one; `qr` has a flat tree."""
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
    """Chance of each tile to be there."""
    seed: int = Field(default=0, ge=0, le=2**62 - 1)
    """Decides which are."""
    tile_bytes: int = Field(default=3_686_400, ge=1, le=LARGEST_TILE)
    """Size of a tile."""


class Layered(StrictModel):
    """Random graphs in layers: each task reads what some tasks of the layer before have written."""

    kind: Literal["layered"]
    layers: int = Field(ge=1, le=10_000)
    """Layers of tasks."""
    width: int = Field(ge=1, le=10_000)
    """Most tasks in a layer; each has from 1 to so many."""
    most_parents: int = Field(default=3, ge=1, le=64)
    """Most tasks of the layer before that a task reads from."""
    kernels: Annotated[list[Name], Field(min_length=1, max_length=64)] = Field(
        default=["POTRF", "TRSM", "SYRK", "GEMM"]
    )
    """What the tasks are, each as likely."""
    seed: int = Field(default=0, ge=0, le=2**62 - 1)
    """Decides the graph."""
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
    """Time that one unit stands for, on a processor of speed 1."""
    tile_bytes: int = Field(default=1_000_000, ge=1, le=LARGEST_TILE)
    """Size of what a task writes."""


class WfCommons(StrictModel):
    """A workflow instance of WfCommons, format 1.5: run times and files with their sizes."""

    kind: Literal["wfcommons"]
    path: str
    """A .json file, relative to the scenario file."""
    scale: float = Field(default=1.0, gt=0.0, le=1e6)
    """Run times are multiplied by this."""


class TaskDescription(StrictModel):
    """A task of a graph that is written out."""

    name: Name
    """Unique in the graph."""
    kernel: Name | None = None
    """What it does, as the table of durations calls it."""
    duration_ms: PositiveMs | dict[Name, PositiveMs] | None = None
    """In place of a kernel: its time on a processor of speed 1, or on each kind of processor."""
    accesses: dict[Name, Access] = Field(default={})
    """What it does with which tiles: reads, writes or both."""
    after: list[Name] = Field(default=[])
    """Tasks before it that it waits for besides."""

    @model_validator(mode="after")
    def _one_duration(self) -> TaskDescription:
        if (self.kernel is None) == (self.duration_ms is None):
            raise PydanticCustomError("duration", "expected either 'kernel' or 'duration_ms'")
        return self


class GraphDescription(StrictModel):
    """Tasks in the order of their submission."""

    tasks: Annotated[list[TaskDescription], Field(min_length=1, max_length=MOST_TASKS)]
    """Each waits for earlier ones only: what these write of its tiles, what they read of those that it writes."""
    tiles: dict[Name, Annotated[int, Field(ge=1, le=LARGEST_TILE)]] = Field(default={})
    """Sizes in bytes of tiles that are not of the common size."""
    tile_bytes: int = Field(default=3_686_400, ge=1, le=LARGEST_TILE)
    """The common size."""

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
    """Durations that READYS gives to the kernels of Cholesky, LU and QR on kinds `cpu` and `gpu`; 1 unit is 1 ms."""

    kind: Literal["readys"]


class Table(StrictModel):
    """Durations written out."""

    kind: Literal["table"]
    kernels_ms: dict[Name, dict[Name, PositiveMs]] = Field(default={})
    """By kernel and kind of processor."""


class Profile(StrictModel):
    """Durations that StarPU measured, from a file that you have."""

    kind: Literal["profile"]
    path: str
    """A file in the format of starpu_perfmodels.json, relative to the scenario file."""
    machine: Name
    """Which of its machines."""
    kernels: dict[Name, Name]
    """The file's name of the model for each kernel."""
    tile_bytes: int = Field(default=3_686_400, ge=1, le=LARGEST_TILE)
    """Size of the tiles whose rows are taken."""
    kinds: dict[Name, Literal["cpu", "cuda"]] = Field(default={"cpu": "cpu", "gpu": "cuda"})
    """What the file calls each kind of processor."""


Durations = Annotated[ReadysTable | Table | Profile, Field(discriminator="kind")]


class Processors(StrictModel):
    """Processors of one kind."""

    name: Name
    """The kind, as the table of durations calls it."""
    count: int = Field(ge=1, le=MOST_PROCESSORS)
    """How many there are."""
    device: bool = False
    """Whether each has a memory of its own, behind links."""
    memory_mb: float | None = Field(default=None, gt=0.0, le=1e9)
    """Size of that memory, in 10^6 bytes; without limit if absent."""
    speed: float = Field(default=1.0, ge=1e-3, le=1e6)
    """By which a duration that is given for a processor of speed 1 is divided."""

    @model_validator(mode="after")
    def _memory_belongs_to_devices(self) -> Processors:
        if self.memory_mb is not None and not self.device:
            raise PydanticCustomError("memory", "memory_mb is given but device is false: expected a device")
        return self


class Link(StrictModel):
    """A way for tiles, one at a time."""

    latency_us: float = Field(default=0.0, ge=0.0, le=1e9)
    """Before the first byte."""
    bandwidth_mb_s: float = Field(gt=0.0, le=1e9)
    """In 10^6 bytes per second."""


class Links(StrictModel):
    """What each device is connected by."""

    to_device: Link
    """From the host."""
    to_host: Link
    """From the device."""
    peer: Link | None = None
    """From another device; by way of the host if absent."""


class NoNoise(StrictModel):
    """Every task takes what is expected."""

    kind: Literal["none"]


class Additive(StrictModel):
    """A normal number is added to durations."""

    kind: Literal["additive"]
    sd_ms: NonNegativeMs
    """Its standard deviation."""
    floor_ms: float = Field(default=-2.0, ge=-1e9, le=0.0)
    """The least that is added."""
    kinds: list[Name] | None = None
    """On which kinds of processors; all if absent."""


class Lognormal(StrictModel):
    """Durations are multiplied by a lognormal number of mean 1."""

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
    """A task comes into view when its parents have ended."""

    kind: Literal["parents"]


class WindowVisible(StrictModel):
    """Tasks come into view in the order of their submission."""

    kind: Literal["window"]
    tasks: int = Field(ge=1, le=MOST_TASKS)
    """How many visible ones may be unfinished before the next comes into view."""


Visibility = Annotated[AllVisible | ParentsVisible | WindowVisible, Field(discriminator="kind")]


class TaskgraphReward(StrictModel):
    """Weight of the reward term, a cost."""

    makespan: float = Field(default=1.0, ge=0.0, le=1e6)
    """Cost: milliseconds that pass."""


class GraphWindow(StrictModel):
    """How much of a large graph an observation holds; what does not fit is counted, not shown."""

    candidates: int = Field(default=32, ge=2, le=100_000)
    """Most tasks to choose from; compiled policies see every one."""
    nodes: int = Field(default=64, ge=2, le=100_000)
    """Most nodes of the graph."""
    edges: int = Field(default=128, ge=2, le=1_000_000)
    """Most edges of the graph."""
    depth: int = Field(default=2, ge=0, le=1000)
    """How many edges beyond the tasks that are held, queued or ready."""


class TaskgraphScenario(ScenarioModel):
    """A runtime unrolls graphs of tasks on tiles; processors take them, and tiles have to be where they run."""

    family: Literal["taskgraph"]
    processors: Annotated[list[Processors], Field(min_length=1, max_length=MOST_KINDS)]
    """Kinds of processors, in any order: they are numbered from the fastest kind on."""
    links: Links | None = None
    """How tiles come to devices; every tile is everywhere if absent."""
    durations: Durations = ReadysTable(kind="readys")
    """How long kernels take."""
    noise: Noise = NoNoise(kind="none")
    """How far tasks deviate from it."""
    graphs: Annotated[list[Graph], Field(min_length=1, max_length=1000)]
    """What arrives; each arrival is one of them, all equally likely unless a trace names them."""
    arrivals: Arrivals = GraphBatch(kind="batch")
    """When jobs arrive, and how many."""
    mode: Literal["pull", "push"] = "pull"
    """Whether processors choose tasks, or tasks processors."""
    pipeline: int = Field(default=1, ge=1, le=2)
    """Tasks that a processor takes: with 2, tiles of the next one are loaded while one runs."""
    prefetch: int = Field(default=0, ge=0, le=64)
    """Tasks of its queue whose tiles a device loads beforehand, in mode push."""
    eviction: Literal["lru", "luf", "belady"] = "lru"
    """What leaves a full memory first."""
    visibility: Visibility = AllVisible(kind="all")
    """What of a graph is known."""
    reward: TaskgraphReward = TaskgraphReward()
    window: GraphWindow = GraphWindow()

    newer_keys: ClassVar[tuple[str, ...]] = ()

    def resolved(self) -> dict[str, Any]:
        """Return what decides the results: defaults filled in, graphs and tables replaced by what is in them."""
        from slipstream.families.taskgraph.workload.templates import digest_of_graphs, library_of

        library = library_of(self)
        data = self.model_dump(mode="json")
        data["processors"] = [kind.model_dump(mode="json") for kind in library.kinds]
        data["graphs"] = digest_of_graphs(library)
        data.pop("durations")
        return data

    @property
    def processor_count(self) -> int:
        """How many processors there are."""
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
