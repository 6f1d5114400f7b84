"""Generator of taskgraph scenarios: a set of graphs on a machine of CPUs and GPUs."""

from __future__ import annotations

import shlex
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from slipstream.families.shared.generator import Generator, log_uniform, one_of, options
from slipstream.families.shared.schema import StrictModel
from slipstream.families.taskgraph.scenario import LARGEST_TILE, MOST_JOBS, TaskgraphScenario
from slipstream.sim.eventlog import ARRIVAL

TILED = ("cholesky", "lu", "qr", "gemm")
RANDOM = ("spgemm", "layered")


class Settings(StrictModel):
    """Settings of a generated scenario; options have the names of the fields."""

    graphs: str = "cholesky,lu,qr,spgemm"
    """Kinds of graphs, with commas between them: cholesky, lu, qr, gemm, spgemm, layered."""
    sizes: str = "4,6,8"
    """Tiles in a row, with commas between them; each kind is generated in each size."""
    density: float = Field(default=0.3, ge=0.01, le=1.0)
    """Probability of a tile of a sparse matrix to be nonzero."""
    gpus: int = Field(default=2, ge=0, le=64)
    """Number of GPUs."""
    cpus: int = Field(default=2, ge=0, le=64)
    """Number of CPUs."""
    bandwidth_mb_s: float = Field(default=0.0, ge=0.0, le=1e9)
    """Bandwidth of a link in 10^6 bytes per second; 0: no links, tiles are available everywhere."""
    memory_tiles: int = Field(default=0, ge=0, le=1_000_000)
    """Memory of a GPU in tiles; 0: unlimited."""
    tile_bytes: int = Field(default=3_686_400, ge=1, le=LARGEST_TILE)
    """Size of a tile."""
    noise_cv: float = Field(default=0.0, ge=0.0, le=10.0)
    """Standard deviation of a lognormal factor of durations; 0: no noise."""
    visible: int = Field(default=0, ge=0, le=1_000_000)
    """Most visible unfinished tasks of a job; 0: all are visible."""
    jobs: int = Field(default=1, ge=1, le=MOST_JOBS)
    """Jobs of an episode; more than one arrive as a Poisson process."""
    mean_gap_ms: float = Field(default=100.0, ge=1e-3, le=1e6)
    """Mean time between two arrivals."""
    pipeline: int = Field(default=1, ge=1, le=2)
    """Tasks that a processor holds."""
    mode: Literal["pull", "push"] = "pull"
    """pull: processors choose tasks; push: tasks choose processors."""

    @model_validator(mode="after")
    def _lists_can_be_read(self) -> Settings:
        for kind in self.graphs.split(","):
            if kind not in (*TILED, *RANDOM):
                text = "graphs: unknown kind '{kind}': expected some of {known}"
                raise PydanticCustomError("graphs", text, {"kind": kind, "known": ", ".join((*TILED, *RANDOM))})
        for size in self.sizes.split(","):
            if not (size.isascii() and size.isdigit() and 1 <= int(size) <= 128):
                text = "sizes: '{size}' among them: expected whole numbers from 1 to 128"
                raise PydanticCustomError("sizes", text, {"size": size})
        if self.gpus + self.cpus == 0:
            raise PydanticCustomError("processors", "gpus and cpus are 0: expected a processor")
        if self.memory_tiles and not (self.bandwidth_mb_s and self.gpus):
            raise PydanticCustomError("memory", "memory_tiles without bandwidth_mb_s, or without gpus: expected both")
        return self


def generate(settings: Settings, seed: int) -> TaskgraphScenario:
    """Return the scenario of `settings`; `seed` determines the random graphs; durations are READYS's."""
    words = shlex.join(["slipstream", "generate", "taskgraph", "--seed", str(seed), *options(settings)])
    gpu: dict[str, Any] = {"name": "gpu", "count": settings.gpus, "device": settings.bandwidth_mb_s > 0.0}
    if settings.memory_tiles:
        gpu["memory_mb"] = settings.memory_tiles * settings.tile_bytes / 1e6
    cpu = {"name": "cpu", "count": settings.cpus}
    data: dict[str, Any] = {
        "family": "taskgraph",
        "name": f"generated-{seed}",
        "description": f"Made by: {words}",
        "processors": [kind for kind in (gpu, cpu) if kind["count"]],
        "graphs": _graphs(settings, seed),
        "pipeline": settings.pipeline,
        "mode": settings.mode,
    }
    if settings.bandwidth_mb_s:
        link = {"latency_us": 10.0, "bandwidth_mb_s": settings.bandwidth_mb_s}
        data["links"] = {"to_device": link, "to_host": link}
    if settings.noise_cv:
        data["noise"] = {"kind": "lognormal", "cv": settings.noise_cv}
    if settings.visible:
        data["visibility"] = {"kind": "window", "tasks": settings.visible}
    if settings.jobs > 1:
        data["arrivals"] = {"kind": "poisson", "jobs": settings.jobs, "mean_gap_ms": settings.mean_gap_ms}
    return TaskgraphScenario.model_validate(data)


def _graphs(settings: Settings, seed: int) -> list[dict[str, Any]]:
    """Return a graph of each kind in each size; random graphs have seeds drawn by `seed`."""
    draws = np.random.Generator(np.random.PCG64(seed))
    graphs: list[dict[str, Any]] = []
    for kind in settings.graphs.split(","):
        for size in map(int, settings.sizes.split(",")):
            graph: dict[str, Any] = {"kind": kind, "n": size, "tile_bytes": settings.tile_bytes}
            if kind in RANDOM:
                graph["seed"] = int(draws.integers(2**32))
            if kind == "spgemm":
                graph["density"] = settings.density
            if kind == "layered":
                graph["layers"] = graph["width"] = graph.pop("n")
            graphs.append(graph)
    return graphs


def traced(
    scenario: TaskgraphScenario, seed: int, folder: str, kind: Any
) -> tuple[TaskgraphScenario, dict[str, bytes]]:
    """Return the scenario with the arrivals of test episode `seed` as an inline trace, and no files."""
    from slipstream.families.taskgraph.build import compiled_scenario
    from slipstream.policies.base import find
    from slipstream.sim.simulator import Simulator

    events = Simulator(scenario).play(find("fifo", "taskgraph"), seed)
    arrivals = events[events["kind"] == ARRIVAL]
    names = [compiled_scenario(scenario).library.templates[template].name for template in arrivals["task"]]
    data = scenario.model_dump(mode="json", exclude_unset=True)
    data["arrivals"] = {"kind": "trace", "times_ms": (arrivals["time"] / 1e6).tolist(), "names": names}
    return TaskgraphScenario.model_validate(data), {}


def draw(draws: np.random.Generator) -> Settings:
    """Return random settings: up to 4 CPUs and 4 GPUs, with and without links, memory, noise and arrivals."""
    gpus = int(draws.integers(0, 5))
    cpus = int(draws.integers(0 if gpus else 1, 5))
    kinds = sorted(draws.choice([*TILED, *RANDOM], int(draws.integers(1, 4)), replace=False).tolist())
    sizes = sorted(draws.choice(np.arange(3, 10), int(draws.integers(1, 3)), replace=False).tolist())
    bandwidth = one_of(draws, 0.0, log_uniform(draws, 500.0, 12_000.0))
    tiles = one_of(draws, 0, round(log_uniform(draws, 8, 40))) if bandwidth and gpus else 0
    return Settings(
        graphs=",".join(kinds),
        sizes=",".join(map(str, sizes)),
        density=draws.uniform(0.15, 0.6),
        gpus=gpus,
        cpus=cpus,
        bandwidth_mb_s=bandwidth,
        memory_tiles=tiles,
        noise_cv=one_of(draws, 0.0, draws.uniform(0.05, 0.4)),
        visible=one_of(draws, 0, 0, round(log_uniform(draws, 10, 40))),
        jobs=one_of(draws, 1, 1, int(draws.integers(2, 7))),
        mean_gap_ms=log_uniform(draws, 50.0, 500.0),
        pipeline=one_of(draws, 1, 1, 2),
        mode=one_of(draws, "pull", "pull", "pull", "push"),
    )


GENERATOR = Generator(Settings, generate, traced, draw)
