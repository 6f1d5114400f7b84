"""Seeded random edge scenarios: task sets of given utilisation, periods, deadlines and ladders.

Utilisations are drawn by UUniFast (Bini and Buttazzo, Measuring the performance of schedulability tests, 2005) with
discarding (Davis and Burns, 2009), periods log-uniformly (Emberson, Stafford and Davis, 2010).
"""

from __future__ import annotations

import math
import shlex
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from slipstream.errors import InputError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.edge.workload.arrivals import TraceKind
from slipstream.families.edge.workload.profiles import PROFILES
from slipstream.families.edge.workload.replay import recorded_releases, replay_from_files
from slipstream.families.shared.generator import Generator, log_uniform, one_of, options
from slipstream.families.shared.schema import StrictModel

MOST_TRIES = 100_000
"""Draws of utilisations before giving up; about two seconds."""
SHORTEST_GAP_MS, LONGEST_GAP_MS = 1e-2, 1e6
"""Between these, no setting can lead to a time that a scenario does not allow."""


class Settings(StrictModel):
    """What a generated scenario looks like; names of options are those of the fields."""

    periodic_tasks: int = Field(default=4, ge=0, le=1000)
    """Tasks with a fixed period."""
    poisson_tasks: int = Field(default=4, ge=0, le=1000)
    """Tasks with exponential gaps."""
    bursty_tasks: int = Field(default=0, ge=0, le=1000)
    """Tasks whose rate switches between calm and burst."""
    utilisation: float = Field(default=0.5, ge=1e-3, le=1000.0)
    """Work of all tasks, in streams kept busy by jobs that run alone; at most one per task."""
    utilisation_of: Literal["fastest", "mean", "slowest"] = "fastest"
    """The variants that make the utilisation: a task's share is their latency over its mean gap."""
    period_low_ms: float = Field(default=10.0, ge=SHORTEST_GAP_MS, le=LONGEST_GAP_MS)
    """Shortest period or mean gap; between the two ends the logarithm is uniform."""
    period_high_ms: float = Field(default=100.0, ge=SHORTEST_GAP_MS, le=LONGEST_GAP_MS)
    """Longest period or mean gap."""
    rate_hz: float | None = Field(default=None, ge=1e-3, le=1e8)
    """Jobs per second of all tasks together; periods are stretched alike to give it."""
    phases: Literal["zero", "random"] = "zero"
    """First release of periodic tasks: all at 0, or each at random within its period."""
    jitter: float = Field(default=0.0, ge=0.0, le=1.0)
    """Largest delay of a periodic release, as a share of the period."""
    burst_ratio: float = Field(default=10.0, ge=1.0, le=1000.0)
    """Rate of bursty tasks in a burst over their rate in a calm spell."""
    burst_share: float = Field(default=0.1, ge=1e-3, le=0.999)
    """Share of the time that bursty tasks spend in bursts."""
    burst_ms: float = Field(default=500.0, ge=1e-2, le=1e6)
    """Mean length of a burst."""
    deadline_low: float = Field(default=1.0, ge=1e-3, le=1000.0)
    """Tightest deadline, as a multiple of the period or mean gap; uniform between the two ends."""
    deadline_high: float = Field(default=1.0, ge=1e-3, le=1000.0)
    """Loosest deadline."""
    ladder: str = "profiles"
    """'profiles' (a random one for each task), the name of one, or 'geometric'; latencies are scaled to the work."""
    variants: int = Field(default=5, ge=1, le=64)
    """Variants of a geometric ladder."""
    slowdown: float = Field(default=5.0, ge=1.0, le=1000.0)
    """Latency of the slowest variant of a geometric ladder over that of the fastest."""
    accuracy_low: float = Field(default=0.6, ge=0.0, le=1.0)
    """Accuracy of the fastest variant of a geometric ladder; each next one adds the same."""
    accuracy_high: float = Field(default=0.8, ge=0.0, le=1.0)
    """Accuracy of the slowest variant of a geometric ladder."""
    largest_batch: int = Field(default=1, ge=1, le=1024)
    """Most jobs of a run: batches of 2, 4, 8 and so on up to it; 1 for none."""
    batch_cost: float = Field(default=0.5, ge=0.0, le=1.0)
    """What each further job adds to the latency of a batch, as a share of the latency of one."""
    fill: float | None = Field(default=None, ge=0.0, le=1.0)
    """Wait for a fuller batch, as a share of the deadline; none if absent."""
    criticalities: int = Field(default=1, ge=1, le=11)
    """Classes of tasks, drawn uniformly: 0 up to one less than this."""
    horizon_ms: float = Field(default=10_000.0, ge=1e-6, le=8.64e9)
    """Length of an episode."""
    streams: int = Field(default=2, ge=1, le=64)
    """Jobs that may run at once."""
    interference: Literal["share", "none"] = "share"
    """How co-running jobs slow each other down."""
    total_throughput: float = Field(default=1.25, ge=1e-3, le=64.0)
    """Of co-running jobs that share the device, in units of one job alone."""
    latency_cv: float = Field(default=0.05, ge=0.0, le=10.0)
    """Coefficient of variation of run times; 0 makes them exact."""
    late: Literal["drop", "run"] = "drop"
    """What happens to a job still queued at its deadline."""
    queue_limit: int = Field(default=16, ge=1, le=1_000_000)
    """Most waiting jobs per task."""

    @model_validator(mode="after")
    def _can_be_met(self) -> Settings:
        for low, high in (
            ("period_low_ms", "period_high_ms"),
            ("deadline_low", "deadline_high"),
            ("accuracy_low", "accuracy_high"),
        ):
            if getattr(self, low) > getattr(self, high):
                raise PydanticCustomError(
                    "range", "{low} is above {high}: expected a range", {"low": low, "high": high}
                )
        if self.fill is not None and self.largest_batch == 1:
            raise PydanticCustomError("fill", "fill is set but largest_batch is 1: expected batches to fill")
        if not 1 <= self.tasks <= 1000:
            raise PydanticCustomError("tasks", "{tasks} tasks: expected 1 to 1000", {"tasks": self.tasks})
        if self.utilisation > self.tasks:
            text = "utilisation {asked} of {tasks} tasks: expected at most one stream for each task"
            raise PydanticCustomError("utilisation", text, {"asked": self.utilisation, "tasks": self.tasks})
        if self.ladder not in ("profiles", "geometric", *PROFILES):
            known = ", ".join(("profiles", "geometric", *PROFILES))
            text = "unknown ladder '{ladder}': expected one of {known}"
            raise PydanticCustomError("ladder", text, {"ladder": self.ladder, "known": known})
        return self

    @property
    def tasks(self) -> int:
        """Number of all tasks."""
        return self.periodic_tasks + self.poisson_tasks + self.bursty_tasks


def generate(settings: Settings, seed: int) -> EdgeScenario:
    """Return the random scenario of `settings` and `seed`.

    Every property has its own random stream: scenarios that differ in one setting differ in that property alone.
    """
    draws = {
        name: np.random.Generator(np.random.PCG64(source))
        for name, source in zip(_PROPERTIES, np.random.SeedSequence(seed).spawn(len(_PROPERTIES)), strict=True)
    }
    kinds = (
        ["periodic"] * settings.periodic_tasks
        + ["poisson"] * settings.poisson_tasks
        + ["bursty"] * settings.bursty_tasks
    )
    shares = uunifast_discard(draws["shares"], settings.tasks, settings.utilisation)
    gaps = _gaps(settings, draws["gaps"])
    tasks = []
    for index, (kind, share, gap) in enumerate(zip(kinds, shares.tolist(), gaps, strict=True)):
        model, variants = _ladder(settings, draws["ladders"], share * gap)
        low, high = settings.deadline_low, settings.deadline_high
        deadline = _ms(gap * (low + (high - low) * draws["deadlines"].random()))
        waits = {} if settings.fill is None else {"fill_ms": round(settings.fill * deadline, 6)}
        tasks.append(
            {
                "name": f"{kind}-{index + 1 - kinds.index(kind)}",
                "model": model,
                "dataset": "synthetic",
                "num_variants": len(variants),
                "arrival": _arrival(settings, kind, gap, draws["phases"].random()),
                "deadline_ms": deadline,
                "criticality": int(settings.criticalities * draws["criticalities"].random()),
                "variants": variants,
                **waits,
            }
        )
    command = shlex.join(["slipstream", "generate", "edge", "--seed", str(seed), *options(settings)])
    return EdgeScenario.model_validate(
        {
            "family": "edge",
            "name": f"edge-{seed}",
            "description": f"Generated: {command}",
            "horizon_ms": settings.horizon_ms,
            "periodic_tasks": settings.periodic_tasks,
            "poisson_tasks": settings.poisson_tasks,
            "device": _device(settings),
            "tasks": tasks,
        }
    )


_PROPERTIES = ("shares", "gaps", "ladders", "phases", "deadlines", "criticalities")


def uunifast_discard(draws: np.random.Generator, count: int, total: float) -> np.ndarray:
    """Return `count` shares between 0 and 1 of sum `total`, uniform among all such vectors."""
    # 1 - share of a uniform vector is uniform too: draw whichever sum is discarded less often.
    mirrored = total > count / 2
    drawn = count - total if mirrored else total
    exponents = 1.0 / np.arange(count - 1, 0, -1)
    for _ in range(MOST_TRIES):
        left = drawn * np.cumprod(np.append(1.0, draws.random(count - 1) ** exponents))
        shares: np.ndarray = left - np.append(left[1:], 0.0)
        if shares.max() <= 1.0:
            return 1.0 - shares if mirrored else shares
    raise InputError(
        f"utilisation {total:g} of {count} tasks: found no shares up to one stream each in {MOST_TRIES:,} draws; "
        "expected a utilisation farther from half the number of tasks"
    )


def traced(scenario: EdgeScenario, seed: int, folder: str, kind: TraceKind) -> tuple[EdgeScenario, dict[str, bytes]]:
    """Return the scenario with the arrivals of `seed` as traces, and the trace files by their relative paths."""
    from slipstream.policies.base import find
    from slipstream.sim.simulator import Simulator

    # No generated arrival depends on the policy, so any policy gives the same releases.
    events = Simulator(scenario).play(find("edf", "edge"), seed)
    return replay_from_files(scenario, recorded_releases(events, len(scenario.tasks)), folder, kind)


def _ms(value: float) -> float:
    """Return a duration in ms, rounded to whole nanoseconds."""
    return max(1e-6, round(value, 6))


def _gaps(settings: Settings, draws: np.random.Generator) -> list[float]:
    low, high = math.log(settings.period_low_ms), math.log(settings.period_high_ms)
    gaps = np.exp(low + (high - low) * draws.random(settings.tasks))
    if settings.rate_hz is not None:
        gaps *= (1000.0 / gaps).sum() / settings.rate_hz
        if gaps.min() < SHORTEST_GAP_MS or gaps.max() > LONGEST_GAP_MS:
            raise InputError(
                f"rate_hz {settings.rate_hz:g}: stretches periods to {gaps.min():g} to {gaps.max():g} ms: "
                f"expected them between {SHORTEST_GAP_MS:g} and {LONGEST_GAP_MS:g} ms"
            )
    return [_ms(gap) for gap in gaps.tolist()]


def _arrival(settings: Settings, kind: str, gap: float, phase: float) -> dict[str, Any]:
    if kind == "periodic":
        shifted = round(phase * gap, 6) if settings.phases == "random" else 0.0
        return {"kind": kind, "period_ms": gap, "phase_ms": shifted, "jitter_ms": round(settings.jitter * gap, 6)}
    if kind == "poisson":
        return {"kind": kind, "mean_gap_ms": gap}
    ratio, share = settings.burst_ratio, settings.burst_share
    calm_gap = gap * (1.0 - share + share * ratio)  # the mean rate over both states is 1 / gap
    return {
        "kind": kind,
        "calm_gap_ms": _ms(calm_gap),
        "burst_gap_ms": _ms(calm_gap / ratio),
        "calm_ms": _ms(settings.burst_ms * (1.0 - share) / share),
        "burst_ms": settings.burst_ms,
    }


def _ladder(settings: Settings, draws: np.random.Generator, latency_ms: float) -> tuple[str, list[dict[str, Any]]]:
    """Return the model's address and its variants, scaled so that the reference variant takes `latency_ms`."""
    pick = draws.random()  # always drawn, so that the ladders of the other tasks do not change
    if settings.ladder == "geometric":
        model, shape = "synthetic:geometric", _geometric(settings)
    else:
        name = settings.ladder if settings.ladder != "profiles" else list(PROFILES)[int(pick * len(PROFILES))]
        model = f"builtin:{name.partition('@')[0]}"
        shape = [
            variant.model_dump(include={"name", "latency_ms", "accuracy", "demand"})
            for variant in PROFILES[name].variants
        ]
    latencies = [row["latency_ms"] for row in shape]
    reference = {"fastest": latencies[0], "mean": sum(latencies) / len(latencies), "slowest": latencies[-1]}
    scale = latency_ms / reference[settings.utilisation_of]
    ladder = [{**row, "latency_ms": _ms(row["latency_ms"] * scale)} for row in shape]
    return model, [row | _batches(settings, row["latency_ms"]) for row in ladder]


def _batches(settings: Settings, latency_ms: float) -> dict[str, Any]:
    """Return the batches of a variant: their latency is linear in their size (Inoue, arXiv 1912.06322)."""
    if settings.largest_batch == 1:
        return {}
    sizes = [2**power for power in range(1, settings.largest_batch.bit_length())]
    rows = [{"size": size, "latency_ms": _ms(latency_ms * (1.0 + settings.batch_cost * (size - 1)))} for size in sizes]
    return {"batches": rows}


def _geometric(settings: Settings) -> list[dict[str, Any]]:
    rows = []
    for rank in range(settings.variants):
        fraction = rank / max(1, settings.variants - 1)
        accuracy = settings.accuracy_low + (settings.accuracy_high - settings.accuracy_low) * fraction
        rows.append({"latency_ms": settings.slowdown**fraction, "accuracy": round(accuracy, 6)})
    return rows


def _device(settings: Settings) -> dict[str, Any]:
    interference: dict[str, Any] = {"kind": settings.interference}
    if settings.interference == "share":
        interference["total_throughput"] = settings.total_throughput
    noise = {"kind": "lognormal", "cv": settings.latency_cv} if settings.latency_cv else {"kind": "fixed"}
    return {
        "streams": settings.streams,
        "interference": interference,
        "latency": noise,
        "late": settings.late,
        "queue_limit": settings.queue_limit,
    }


def draw(draws: np.random.Generator) -> Settings:
    """Return random settings: 2 to 24 tasks on 1 to 4 streams, from half idle to overloaded."""
    tasks, streams = round(log_uniform(draws, 2, 24)), one_of(draws, 1, 2, 2, 3, 4)
    bursty, poisson = draws.multinomial(tasks, [0.2, 0.4, 0.4])[:2].tolist()
    throughput = draws.uniform(1.0, 1.0 + 0.5 * (streams - 1))
    low, tightest, fastest = log_uniform(draws, 5.0, 100.0), draws.uniform(0.4, 1.0), draws.uniform(0.4, 0.7)
    return Settings(
        periodic_tasks=tasks - bursty - poisson,
        poisson_tasks=poisson,
        bursty_tasks=bursty,
        utilisation=min(0.6 * tasks, throughput * log_uniform(draws, 0.1, 1.2)),
        period_low_ms=low,
        period_high_ms=low * log_uniform(draws, 1.5, 10.0),
        phases=one_of(draws, "zero", "random"),
        jitter=one_of(draws, 0.0, draws.uniform(0.0, 0.5)),
        burst_ratio=log_uniform(draws, 2.0, 20.0),
        burst_share=draws.uniform(0.05, 0.4),
        burst_ms=log_uniform(draws, 200.0, 2000.0),
        deadline_low=tightest,
        deadline_high=tightest + draws.uniform(0.0, 1.0),
        ladder=one_of(draws, "profiles", "profiles", "profiles", "geometric"),
        variants=int(draws.integers(2, 9)),
        slowdown=draws.uniform(2.0, 10.0),
        accuracy_low=fastest,
        accuracy_high=fastest + draws.uniform(0.05, 0.3),
        horizon_ms=5000.0,
        streams=streams,
        interference=one_of(draws, "share", "share", "share", "none"),
        total_throughput=throughput,
        latency_cv=one_of(draws, 0.0, 0.05, 0.05, 0.2),
        late=one_of(draws, "drop", "drop", "drop", "run"),
    )


GENERATOR = Generator(Settings, generate, traced, draw)
