"""Seeded random cluster scenarios: a cluster, and a workload at a given load."""

from __future__ import annotations

import shlex
from typing import Any, Literal

import numpy as np
from pydantic import Field

from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.shared.generator import Generator, log_uniform, one_of, options
from slipstream.families.shared.schema import StrictModel
from slipstream.files.tables import table_bytes

LARGE = (1, 2, 4, 8)
"""Sizes of synthetic jobs, as far as the cluster has as many GPUs."""


class Settings(StrictModel):
    """Settings of a generated scenario; the options have the names of the fields."""

    nodes: int = Field(default=8, ge=1, le=10_000)
    """Nodes of the cluster."""
    gpus: int = Field(default=8, ge=1, le=1000)
    """GPUs of each node."""
    workload: Literal["lublin", "diurnal", "heavy-tailed", "bursty"] = "diurnal"
    """Rigid jobs after Lublin and Feitelson, or training jobs by day and night, with a heavy tail, or in bursts."""
    jobs: int = Field(default=5000, ge=1, le=1_000_000)
    """Jobs of the workload."""
    episode_jobs: int = Field(default=256, ge=1, le=1_000_000)
    """Jobs of an episode."""
    load: float = Field(default=0.8, ge=0.01, le=10.0)
    """Work that arrives per second, as a share of what the GPUs can do."""
    placement: Literal["flat", "first-fit", "best-fit", "consolidate"] = "flat"
    """Placement of a job's GPUs."""
    backfill: Literal["strict", "greedy", "easy", "conservative"] = "easy"
    """Which jobs may pass a chosen job that does not fit."""


def generate(settings: Settings, seed: int) -> ClusterScenario:
    """Return the scenario of `settings` and `seed`."""
    total = settings.nodes * settings.gpus
    words = shlex.join(["slipstream", "generate", "cluster", "--seed", str(seed), *options(settings)])
    return ClusterScenario.model_validate(
        {
            "family": "cluster",
            "name": f"generated-{seed}",
            "description": f"Made by: {words}",
            "nodes": [{"name": "node", "count": settings.nodes, "gpus": settings.gpus}],
            "placement": settings.placement,
            "backfill": settings.backfill,
            "jobs": _jobs(settings, seed, total),
            "episode": {"jobs": min(settings.episode_jobs, settings.jobs)},
        }
    )


def _jobs(settings: Settings, seed: int, total: int) -> dict[str, Any]:
    common = {"jobs": settings.jobs, "seed": seed}
    if settings.workload == "lublin":
        return {"kind": "lublin", **common, "largest": total, "load": settings.load}
    run_s, sizes = 6000.0, [size for size in LARGE if size <= total]
    gap_s = run_s * sum(sizes) / len(sizes) / (total * settings.load)
    shape = {"arrivals": "poisson", "run_times": "lognormal"}
    if settings.workload == "heavy-tailed":
        shape["run_times"] = "heavy-tailed"
    else:
        shape["arrivals"] = settings.workload
    return {"kind": "synthetic", **common, **shape, "mean_gap_s": round(gap_s, 6), "mean_run_s": run_s, "sizes": sizes}


def traced(scenario: ClusterScenario, seed: int, folder: str, kind: Any) -> tuple[ClusterScenario, dict[str, bytes]]:
    """Return the scenario with its workload in a file, and the content of that file by its path relative to it."""
    from slipstream.families.cluster.build import compiled_scenario

    workload = compiled_scenario(scenario).workload
    path = f"{folder}/jobs.{kind}"
    data = scenario.model_dump(mode="json", exclude_unset=True)
    data["jobs"] = {"kind": "helios", "path": path}
    moved = ClusterScenario.model_validate(data)
    moved._folder = scenario._folder
    columns = {
        "job_id": [f"job {number}" for number in range(len(workload))],
        "submit_time": (workload.submit / 1e9).tolist(),
        "gpu_num": workload.gpus.tolist(),
        "duration": (workload.run / 1e9).tolist(),
        "vc": [workload.users[user] for user in workload.user.tolist()],
    }
    return moved, {path: table_bytes(columns, kind)}


def draw(draws: np.random.Generator) -> Settings:
    """Return random settings: 8 to 256 GPUs, from moderately loaded to overloaded, all workloads and rules."""
    backfill = one_of(draws, "easy", "easy", "easy", "strict", "greedy", "conservative")
    placement = one_of(draws, "flat", "flat", "first-fit", "best-fit", "consolidate")
    return Settings(
        nodes=round(log_uniform(draws, 2, 32)),
        gpus=one_of(draws, 4, 8),
        workload=one_of(draws, "lublin", "diurnal", "heavy-tailed", "bursty"),
        jobs=2000,
        episode_jobs=round(log_uniform(draws, 64, 256)),
        load=log_uniform(draws, 0.5, 1.3),
        placement="flat" if backfill == "conservative" else placement,
        backfill=backfill,
    )


GENERATOR = Generator(Settings, generate, traced, draw)
