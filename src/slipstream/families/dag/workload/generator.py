"""Generator of random dag scenarios: executors, arrivals at a given load, and a random job source."""

from __future__ import annotations

import shlex
from typing import Any, Literal

import numpy as np
from pydantic import Field

from slipstream.families.dag.scenario import DagScenario, MlWorkflow, Synthetic
from slipstream.families.dag.workload.sources import synthetic, workflow
from slipstream.families.shared.generator import Generator, log_uniform, one_of, options
from slipstream.families.shared.schema import StrictModel
from slipstream.files.tables import table_bytes
from slipstream.sim.eventlog import ARRIVAL


class Settings(StrictModel):
    """Settings of a generated scenario; options have the names of the fields."""

    executors: int = Field(default=10, ge=1, le=1000)
    """Number of executors."""
    jobs: int = Field(default=50, ge=1, le=100_000)
    """Jobs of an episode."""
    arrivals: Literal["poisson", "batch"] = "poisson"
    """Poisson arrivals, or all jobs at time 0."""
    load: float = Field(default=0.8, ge=0.01, le=100.0)
    """Arriving work per second divided by the number of executors; sets the mean gap of Poisson arrivals."""
    source: Literal["synthetic", "ml-workflow"] = "synthetic"
    """Source of the jobs."""
    templates: int = Field(default=100, ge=1, le=10_000)
    """Different jobs."""
    moving_delay_s: float = Field(default=2.0, ge=0.0, le=1e6)
    """Time an executor needs to move to a job."""
    warmup_delay_s: float = Field(default=1.0, ge=0.0, le=1e6)
    """Added to the first task of a fresh executor."""


def generate(settings: Settings, seed: int) -> DagScenario:
    """Return the scenario of `settings` and `seed`."""
    source: Any
    if settings.source == "synthetic":
        source = Synthetic(kind="synthetic", templates=settings.templates, seed=seed)
        templates = synthetic.library(source).templates
    else:
        source = MlWorkflow(kind="ml-workflow", templates=settings.templates, seed=seed)
        templates = workflow.library(source).templates
    work_s = float(np.mean([sum(s.tasks * s.mean for s in template.stages) for template in templates])) / 1e9
    arrivals: dict[str, Any] = {"kind": settings.arrivals, "jobs": settings.jobs}
    if settings.arrivals == "poisson":
        arrivals["mean_gap_s"] = max(1e-6, round(work_s / (settings.executors * settings.load), 6))
    words = shlex.join(["slipstream", "generate", "dag", "--seed", str(seed), *options(settings)])
    return DagScenario.model_validate(
        {
            "family": "dag",
            "name": f"generated-{seed}",
            "description": f"Made by: {words}",
            "executors": settings.executors,
            "moving_delay_s": settings.moving_delay_s,
            "warmup_delay_s": settings.warmup_delay_s,
            "arrivals": arrivals,
            "jobs": source.model_dump(mode="json"),
        }
    )


def traced(scenario: DagScenario, seed: int, folder: str, kind: Any) -> tuple[DagScenario, dict[str, bytes]]:
    """Return the scenario with the arrivals of test episode `seed` as a trace, and the file by relative path."""
    from slipstream.families.dag.build import compiled_scenario
    from slipstream.policies.base import find
    from slipstream.sim.simulator import Simulator

    events = Simulator(scenario).play(find("fifo", "dag"), seed)
    arrivals = events[events["kind"] == ARRIVAL]
    names = [compiled_scenario(scenario).library.templates[template].name for template in arrivals["task"]]
    path = f"{folder}/arrivals.{kind}"
    data = scenario.model_dump(mode="json", exclude_unset=True)
    data["arrivals"] = {"kind": "trace", "path": path, "name_column": "job"}
    moved = DagScenario.model_validate(data)
    moved._folder = scenario._folder
    return moved, {path: table_bytes({"arrival_s": (arrivals["time"] / 1e9).tolist(), "job": names}, kind)}


def draw(draws: np.random.Generator) -> Settings:
    """Return random settings: 4 to 60 executors, from half idle to overloaded, jobs of both sources."""
    return Settings(
        executors=round(log_uniform(draws, 4, 60)),
        jobs=round(log_uniform(draws, 8, 60)),
        arrivals=one_of(draws, "poisson", "poisson", "poisson", "batch"),
        load=log_uniform(draws, 0.3, 1.5),
        source=one_of(draws, "synthetic", "synthetic", "ml-workflow"),
        templates=round(log_uniform(draws, 8, 150)),
        moving_delay_s=one_of(draws, 2.0, draws.uniform(0.0, 5.0)),
        warmup_delay_s=one_of(draws, 1.0, draws.uniform(0.0, 3.0)),
    )


GENERATOR = Generator(Settings, generate, traced, draw)
