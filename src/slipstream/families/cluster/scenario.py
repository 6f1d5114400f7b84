"""Scenario schema of the cluster family: nodes with GPUs, rules of the queue, and the source of jobs."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from slipstream.families.shared.schema import Name, PositiveHz, ScenarioModel, StrictModel, gap_or_rate

MOST_JOBS = 2_000_000
MOST_GPUS = 1_000_000
MOST_NODES = 20_000
LONGEST_S = 1e9
"""Some thirty years: archives hold traces of several."""

Seconds = Annotated[float, Field(ge=0.0, le=LONGEST_S)]
PositiveTime = Annotated[float, Field(ge=1e-9, le=LONGEST_S)]
Watts = Annotated[float, Field(ge=0.0, le=1e6)]
Gpus = Annotated[int, Field(ge=1, le=MOST_GPUS)]
PartOfGpu = Annotated[float, Field(gt=0.0, lt=1.0)]


# Where jobs come from


class Cut(StrictModel):
    """A contiguous part of a file of jobs."""

    skip_jobs: int = Field(default=0, ge=0, le=MOST_JOBS)
    """Jobs to skip at the beginning, after sorting by submit time."""
    most_jobs: int | None = Field(default=None, ge=1, le=MOST_JOBS)
    """Jobs to keep after these; all if absent."""


class Swf(Cut):
    """A log in the Standard Workload Format, plain or gzip; a processor counts as a GPU."""

    kind: Literal["swf"]
    path: Name
    """The file, relative to the scenario's."""


class Philly(Cut):
    """Jobs of Microsoft's Philly cluster as CSV with timestamp, duration, num_gpus and cluster, which is the user."""

    kind: Literal["philly"]
    path: Name
    """The file, relative to the scenario's."""


class Helios(Cut):
    """Jobs as CSV with job_id, submit_time, gpu_num, duration and vc, as Helios and Lucid have them."""

    kind: Literal["helios"]
    path: Name
    """The file, relative to the scenario's; times are seconds or dates."""


class Openb(Cut):
    """Pods of Alibaba's 2023 GPU cluster (openb) as CSV; the class of service is the user.

    Pods that share a GPU need nodes with `slices`.
    """

    kind: Literal["openb"]
    path: Name
    """The file, relative to the scenario's."""


class HeldGpus(StrictModel):
    """GPUs of one node that a job holds."""

    kind: Name
    """Kind of the node, by its name."""
    node: int = Field(default=0, ge=0, le=MOST_NODES - 1)
    """Number of the node among those of its kind, from 0."""
    gpus: Gpus
    """GPUs held there."""


class ListedJob(StrictModel):
    """One job."""

    submit_s: Seconds
    """Submit time."""
    gpus: Gpus | PartOfGpu = 1
    """GPUs that it wants, all at once, or a fraction of one; fractions need nodes with `slices`."""
    run_s: PositiveTime
    """Run time at speed 1."""
    requested_s: PositiveTime | None = None
    """Run time that its user requested; the run time if absent."""
    user: Name = "user"
    """User who submits it."""
    started_s: Seconds | None = None
    """When it started, if it runs at the beginning (`begins_s`), on the same clock as the submit time."""
    held: Annotated[list[HeldGpus], Field(max_length=MOST_NODES)] = Field(default=[])
    """The GPUs that it holds if it runs at the beginning; none if flat."""

    newer_keys: ClassVar[tuple[str, ...]] = ("started_s", "held")


class Listed(StrictModel):
    """Jobs listed in the scenario."""

    kind: Literal["list"]
    jobs: Annotated[list[ListedJob], Field(min_length=1, max_length=100_000)]
    """In any order; jobs with equal submit times keep theirs."""


class Generated(StrictModel):
    """Common settings of generated workloads."""

    jobs: int = Field(default=10_000, ge=1, le=MOST_JOBS)
    """Jobs of the workload; an episode is a part of it."""
    seed: int = Field(default=0, ge=0, le=2**62 - 1)
    """Seed of the workload."""
    users: int = Field(default=16, ge=1, le=10_000)
    """Number of users; the first are the busiest (Zipf)."""
    most_overestimate: float = Field(default=1.0, ge=1.0, le=100.0)
    """Requested times are run times multiplied by a uniform number from 1 to this."""


class Lublin(Generated):
    """Rigid jobs after Lublin and Feitelson (JPDC 2003): sizes, run times and gaps by day and night."""

    kind: Literal["lublin"]
    largest: Gpus = 256
    """GPUs of the largest job."""
    load: float = Field(default=0.8, ge=0.01, le=10.0)
    """Work that arrives per second, as a share of `largest` GPUs; scales the gaps."""
    as_published: bool = False
    """Whether sizes, long run times and the hours of the day are drawn as the authors' program draws them."""


class SyntheticJobs(Generated):
    """Jobs with random gaps, run times and sizes."""

    kind: Literal["synthetic"]
    mean_gap_s: PositiveTime = 60.0
    """Mean time between two jobs."""
    rate_hz: PositiveHz | None = None
    """In place of the mean gap: mean jobs per second."""
    arrivals: Literal["poisson", "diurnal", "bursty"] = "poisson"
    """Poisson; with a daily wave of four to one; or in bursts of twenty at a tenth of the gap, and lulls between."""
    mean_run_s: PositiveTime = 1200.0
    """Mean run time."""
    run_times: Literal["exponential", "lognormal", "heavy-tailed"] = "lognormal"
    """Exponential; lognormal with sigma 1.5; or Pareto with exponent 1.5, cut at a thousand means."""
    sizes: Annotated[list[Gpus], Field(min_length=1, max_length=64)] = Field(default=[1, 2, 4, 8])
    """GPUs that a job may want."""
    size_weights: Annotated[list[Annotated[float, Field(gt=0.0, le=1e6)]], Field(min_length=1)] | None = None
    """Relative probability of each size; uniform if absent."""

    @property
    def gap_s(self) -> float:
        """Mean time between two jobs, from whichever key was given."""
        return self.mean_gap_s if self.rate_hz is None else 1.0 / self.rate_hz

    @model_validator(mode="after")
    def _a_weight_for_each_size(self) -> SyntheticJobs:
        if self.rate_hz is not None:
            gap_or_rate("mean_gap_s", "mean_gap_s" in self.model_fields_set, True)
        if self.size_weights is not None and len(self.size_weights) != len(self.sizes):
            text = "size_weights lists {found} but sizes {stated}: expected one for each size"
            raise PydanticCustomError("weights", text, {"found": len(self.size_weights), "stated": len(self.sizes)})
        return self


JobSource = Annotated[
    Swf | Philly | Helios | Openb | Listed | Lublin | SyntheticJobs,
    Field(discriminator="kind"),
]


# The machine


class Cap(StrictModel):
    """A power cap of a kind of GPU."""

    watts: Watts
    """Power limit; only a label."""
    time: float = Field(ge=0.1, le=100.0)
    """Run times, in multiples of those without a cap."""
    power: float = Field(gt=0.0, le=10.0)
    """Power at work, as a share of that without a cap."""


class NodeKind(StrictModel):
    """Nodes of one kind."""

    name: Name
    """Name in charts and timelines."""
    count: int = Field(ge=1, le=MOST_NODES)
    """Number of nodes."""
    gpus: Gpus = 8
    """GPUs of each node."""
    slices: int = Field(default=1, ge=1, le=1000)
    """Slices that each GPU can be divided into; the same for all kinds."""
    speed: float = Field(default=1.0, ge=0.001, le=1000.0)
    """Work per second; run times are those at speed 1."""
    rack_size: int | None = Field(default=None, ge=1, le=MOST_NODES)
    """Nodes in a rack; all of this kind in one if absent."""
    idle_w: Watts = 50.0
    """Power of an idle GPU."""
    busy_w: Watts = 250.0
    """Power of a busy GPU without a cap."""
    node_w: Watts = 0.0
    """Power of the rest of a node, always."""
    caps: Annotated[list[Cap], Field(max_length=15)] | Literal["v100", "a40", "rtx6000", "p100"] = Field(default=[])
    """Power caps to choose from besides none, in the order of the rows, or the name of a GPU for its measured caps."""

    newer_keys: ClassVar[tuple[str, ...]] = ("slices",)


class Locality(StrictModel):
    """Slow-down of a job that is spread over nodes."""

    nodes: float = Field(default=1.0, ge=1.0, le=100.0)
    """Run time on more than one node, in multiples of that on one."""
    racks: float = Field(default=1.0, ge=1.0, le=100.0)
    """The same, instead, on more than one rack."""


class ClusterPreemption(StrictModel):
    """Running jobs can be interrupted and resumed later, on any nodes."""

    cost_s: Seconds = 30.0
    """Time that a resumed job needs before it makes progress."""
    least_run_s: Seconds = 0.0
    """Least time that a job runs before it can be interrupted."""
    round_s: PositiveTime | None = None
    """Longest time between two scheduling points while jobs wait; only after events if absent."""


class Power(StrictModel):
    """Power budget, price and carbon intensity."""

    budget_w: Annotated[float, Field(gt=0.0, le=1e9)] | None = None
    """No job starts that would make the cluster draw more; no limit if absent."""
    price_per_kwh: Annotated[list[Annotated[float, Field(ge=0.0, le=1e4)]], Field(min_length=1, max_length=8784)] = (
        Field(default=[0.2])
    )
    """By the hour, repeated; one number holds always."""
    co2_g_per_kwh: Annotated[list[Annotated[float, Field(ge=0.0, le=1e5)]], Field(min_length=1, max_length=8784)] = (
        Field(default=[400.0])
    )
    """By the hour, repeated; one number holds always."""


class Sleep(StrictModel):
    """Nodes without jobs are put to sleep."""

    after_s: Seconds = 300.0
    """Idle time after which a node sleeps."""
    watts: Watts = 10.0
    """Power of a sleeping node, GPUs included."""
    wake_s: Seconds = 60.0
    """Wake-up time that a job on a sleeping node spends before it makes progress."""


class Episode(StrictModel):
    """An episode is a sequence of consecutive jobs of the workload, drawn by its seed."""

    jobs: int = Field(ge=1, le=MOST_JOBS)
    """Number of jobs."""
    held_out: float = Field(default=0.3, ge=0.0, le=0.9)
    """Last share of the workload, kept for evaluation and test; 0 gives all splits all jobs."""


class ClusterReward(StrictModel):
    """Weights of the reward terms; throughput and utilisation are gains, the others costs."""

    slowdown: float = Field(default=1.0, ge=0.0, le=1e6)
    """Cost: bounded slowdown of each job, while it waits and the rest when it ends."""
    waiting: float = Field(default=0.0, ge=0.0, le=1e6)
    """Cost: waiting jobs, integrated over hours."""
    throughput: float = Field(default=0.0, ge=0.0, le=1e6)
    """Gain: jobs that end."""
    utilisation: float = Field(default=0.0, ge=0.0, le=1e6)
    """Gain: share of the GPUs at work, integrated over hours."""
    energy: float = Field(default=0.0, ge=0.0, le=1e6)
    """Cost: kilowatt-hours."""
    unfairness: float = Field(default=0.0, ge=0.0, le=1e6)
    """Cost: 1 - Jain's index of the GPUs that users with jobs in the system hold, integrated over hours."""


class ClusterWindow(StrictModel):
    """Size of the observation window on a long queue; compiled policies see all of it."""

    jobs: int = Field(default=32, ge=2, le=10_000)
    """Waiting jobs: all if they fit, else the oldest and the smallest by requested GPU-time, half each."""
    running: int = Field(default=16, ge=1, le=10_000)
    """Running jobs that can be interrupted, the last to end first; only with preemption."""


Backfill = Literal["strict", "greedy", "easy", "conservative"]


class ClusterScenario(ScenarioModel):
    """Jobs of users wait for GPUs of a cluster; each takes all that it wants at once, and frees them together."""

    family: Literal["cluster"]
    nodes: Annotated[list[NodeKind], Field(min_length=1, max_length=64)]
    """Kinds of nodes."""
    placement: Literal["flat", "first-fit", "best-fit", "consolidate", "fgd"] = "flat"
    """Placement of a job's GPUs: none in particular, on the lowest nodes, on the fullest, together or not at all, or,
    together too, where the fewest GPUs become unusable to the jobs of this workload (fragmentation gradient descent).
    """
    locality: Locality = Locality()
    """Cost of spreading a job; none if flat."""
    backfill: Backfill = "easy"
    """Which jobs may pass a chosen job that does not fit: none, all, those that do not delay it, or that delay no
    other."""
    hold: bool = True
    """Whether a chosen job that does not fit stays reserved until it starts; else the decision is made anew."""
    quotas: dict[Name, Gpus] = Field(default={})
    """Most GPUs that a user may hold at once, by name; no limit for others."""
    preemption: ClusterPreemption | None = None
    """No preemption if absent."""
    power: Power = Power()
    """Budget, price and CO2."""
    sleep: Sleep | None = None
    """Nodes never sleep if absent."""
    jobs: JobSource
    """Source of the jobs."""
    episode: Episode | None = None
    """Part of the workload that an episode plays; all of it if absent."""
    begins_s: Seconds | None = None
    """Time 0, on the clock of the submit times: jobs submitted before it wait then, or run if they have `started_s`;
    the first submission if absent."""
    compat: Literal["rlscheduler"] | None = None
    """'rlscheduler' keeps the rules of that published simulator: one event at a time, and its own backfilling."""
    reward: ClusterReward = ClusterReward()
    window: ClusterWindow = ClusterWindow()

    newer_keys: ClassVar[tuple[str, ...]] = ("sleep", "begins_s")

    @property
    def slices(self) -> int:
        """Slices of each GPU."""
        return self.nodes[0].slices

    @property
    def kinds(self) -> list[NodeKind]:
        """Kinds of nodes of the machine: where GPUs are sliced, each GPU is a node and its slices are GPUs."""
        return self.by_speed if self.slices == 1 else [_sliced(kind) for kind in self.by_speed]

    @property
    def by_speed(self) -> list[NodeKind]:
        """Kinds of nodes in the order of their numbers: the fastest first, then by name."""
        return sorted(self.nodes, key=lambda kind: (-kind.speed, kind.name))

    @property
    def gpus(self) -> int:
        """GPUs of the cluster, or their slices."""
        return sum(kind.count * kind.gpus * kind.slices for kind in self.nodes)

    @property
    def limits(self) -> dict[str, int]:
        """Quotas, in GPUs or slices."""
        return {user: quota * self.slices for user, quota in self.quotas.items()}

    @property
    def spread(self) -> Locality:
        """Cost of spreading on the nodes of the machine: the slices of one real node are one rack."""
        return self.locality if self.slices == 1 else Locality(racks=self.locality.nodes)

    def resolved(self) -> dict[str, Any]:
        """Return what determines the results: defaults and caps filled in, and jobs by the digest of their content."""
        from slipstream.families.cluster.caps import caps_of
        from slipstream.families.cluster.workload.arrivals import digest_of_jobs

        data = self.digest_data()
        caps = [[cap.model_dump(mode="json") for cap in caps_of(kind)] for kind in self.by_speed]
        data["nodes"] = [{**kind.digest_data(), "caps": own} for kind, own in zip(self.by_speed, caps, strict=True)]
        data["jobs"] = digest_of_jobs(self)
        return data

    @model_validator(mode="after")
    def _parts_agree(self) -> ClusterScenario:
        if len({kind.slices for kind in self.nodes}) > 1:
            _refuse("nodes have GPUs in different numbers of slices: expected the same for each kind")
        if self.gpus > MOST_GPUS or sum(kind.count for kind in self.kinds) > MOST_NODES:
            _refuse("nodes: {found} GPUs: expected at most {most}", found=self.gpus, most=MOST_GPUS)
        if self.placement == "flat" and (self.slices > 1 or self.sleep is not None):
            _refuse("placement 'flat' with slices or sleep: expected one that knows nodes")
        if self.slices > 1 and self.sleep is not None:
            _refuse("sleep with slices: expected one of them")
        if self.placement == "flat" and len(self.nodes) > 1:
            _refuse("placement 'flat' with {found} kinds of nodes: expected one kind", found=len(self.nodes))
        if len({_levels(kind) for kind in self.nodes}) > 1:
            _refuse("nodes have different numbers of caps: expected as many for each kind")
        if self.backfill == "conservative" and (self.placement != "flat" or self.power.budget_w is not None):
            _refuse("backfill 'conservative': expected placement 'flat' and no power budget")
        if self.preemption is not None and self.backfill in ("greedy", "conservative"):
            _refuse("preemption with backfill '{found}': expected 'strict' or 'easy'", found=self.backfill)
        if self.power.budget_w is not None and any(map(_saves_at_work, self.nodes)):
            _refuse("power.budget_w with GPUs that draw less at work than idle: expected busy_w of at least idle_w")
        if self.compat is not None:
            self._check_compat()
        from slipstream.families.cluster.beginning import check_beginning

        check_beginning(self)
        return self

    def _check_compat(self) -> None:
        plain = self.placement == "flat" and self.preemption is None and self.power.budget_w is None
        if not plain or self.quotas or _levels(self.nodes[0]) > 1:
            _refuse("compat: expected placement 'flat', no preemption, no power budget, no quotas and no caps")
        if self.backfill not in ("strict", "easy") or not self.hold:
            _refuse("compat: expected backfill 'strict' or 'easy', and hold")


def _sliced(kind: NodeKind) -> NodeKind:
    """Return nodes of one GPU each, with its slices as GPUs; real nodes become racks."""
    watts = {name: getattr(kind, name) / kind.slices for name in ("idle_w", "busy_w")}
    sizes = {"count": kind.count * kind.gpus, "gpus": kind.slices, "rack_size": kind.gpus, "slices": 1}
    return kind.model_copy(update={**sizes, **watts, "node_w": kind.node_w / kind.gpus})


def _levels(kind: NodeKind) -> int:
    from slipstream.families.cluster.caps import caps_of

    return 1 + len(caps_of(kind))


def _saves_at_work(kind: NodeKind) -> bool:
    """Return whether a busy GPU draws less than an idle one at some cap: the end of a job could break a budget."""
    from slipstream.families.cluster.caps import caps_of

    return kind.busy_w * min((cap.power for cap in caps_of(kind)), default=1.0) < kind.idle_w


def _refuse(text: str, **values: Any) -> None:
    raise PydanticCustomError("cluster", text, values)
