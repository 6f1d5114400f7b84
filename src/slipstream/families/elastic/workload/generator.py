"""Seeded random scenarios of elastic jobs: kinds of GPUs, models that use them differently, and a load."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np
from pydantic import Field

from slipstream.families.elastic.metrics import jobs_of
from slipstream.families.elastic.scenario import ElasticScenario
from slipstream.families.shared.generator import Generator, log_uniform, one_of, options
from slipstream.families.shared.schema import StrictModel

KINDS = (("v100", 1.0), ("p100", 0.55), ("k80", 0.2), ("t4", 0.4))
"""Kinds of GPUs, and about how fast they are."""


class Settings(StrictModel):
    """Settings of a generated scenario; the options have the names of the fields."""

    jobs: int = Field(default=60, ge=1, le=10_000)
    """Jobs of an episode."""
    kinds: int = Field(default=3, ge=1, le=4)
    """Kinds of GPUs."""
    gpus: int = Field(default=16, ge=1, le=512)
    """GPUs of each kind."""
    models: int = Field(default=6, ge=1, le=50)
    """Models; they differ in how well they use fast kinds and many GPUs."""
    elastic: float = Field(default=0.5, ge=0.0, le=1.0)
    """Share of the jobs that accept any number of GPUs; the others have one number."""
    load: float = Field(default=0.8, ge=0.01, le=10.0)
    """Work per second, as a share of what the cluster can do with jobs on one GPU each."""
    round_s: float = Field(default=360.0, ge=0.0, le=86_400.0)
    """Length of a round; 0 for allocations at every arrival and end instead."""
    restart_s: float = Field(default=30.0, ge=0.0, le=3600.0)
    """Time that a restart takes."""


def generate(settings: Settings, seed: int) -> ElasticScenario:
    """Return the scenario of `settings` and `seed`."""
    rng = np.random.default_rng(seed)
    kinds = KINDS[: settings.kinds]
    sizes = [one for one in (1, 2, 4, 8) if one <= settings.gpus]
    models, templates, single = [], [], []
    for index in range(settings.models):
        # A model that gains little from fast GPUs, or from many, is no worse on others.
        gains, scales = rng.uniform(0.5, 1.3), rng.uniform(0.6, 0.98)
        rates = [speed**gains for _, speed in kinds]
        configurations = [
            {"kind": name, "gpus": size, "per_s": round(float(rate * size**scales), 6)}
            for (name, _), rate in zip(kinds, rates, strict=True)
            for size in sizes
        ]
        setup = min(settings.restart_s, settings.round_s / 2.0) if settings.round_s > 0.0 else settings.restart_s
        times = {"start_s": setup, "restart_s": setup}
        models.append({"name": f"model-{index}", "configurations": configurations, **times})
        for _ in range(4):
            work = log_uniform(rng, 600.0, 30_000.0)
            job: dict[str, Any] = {"model": f"model-{index}", "work": round(work, 3)}
            if rng.uniform() >= settings.elastic:
                job["gpus"] = [int(rng.choice(sizes, p=_weights(len(sizes))))]
            templates.append(job)
            single.append(work / float(np.mean(rates)))
    gap = float(np.mean(single)) / (settings.kinds * settings.gpus) / settings.load
    words = shlex.join(["slipstream", "generate", "elastic", "--seed", str(seed), *options(settings)])
    data: dict[str, Any] = {
        "family": "elastic",
        "name": f"generated-{seed}",
        "description": f"Made by: {words}",
        "kinds": [{"name": name, "gpus": settings.gpus} for name, _ in kinds],
        "models": models,
        "jobs": {"kind": "drawn", "jobs": settings.jobs, "mean_gap_s": round(gap, 6), "templates": templates},
    }
    if settings.round_s > 0.0:
        data["round_s"] = settings.round_s
    return ElasticScenario.model_validate(data)


def _weights(count: int) -> list[float]:
    """Return how often jobs have one GPU, two, four and eight: as often as in Gavel's traces, about."""
    found = (0.7, 0.1, 0.15, 0.05)[:count]
    return [one / sum(found) for one in found]


def traced(scenario: ElasticScenario, seed: int, _folder: str, _kind: Any) -> tuple[ElasticScenario, dict[str, bytes]]:
    """Return the scenario with the jobs of a test episode as a list; it needs no file."""
    from slipstream.policies.base import find
    from slipstream.sim.simulator import Simulator

    jobs = jobs_of(Simulator(scenario).play(find("fifo", "elastic"), seed))
    data = scenario.model_dump(mode="json", exclude_unset=True)
    templates = data["jobs"]["templates"]
    data["jobs"] = {
        "kind": "list",
        "jobs": [
            {"arrival_s": time / 1e9, **templates[template]}
            for time, template in zip(jobs.arrival.tolist(), jobs.template.tolist(), strict=True)
        ],
    }
    listed = ElasticScenario.model_validate(data)
    listed._folder = scenario._folder
    return listed, {}


def draw(draws: np.random.Generator) -> Settings:
    """Return random settings: two to four kinds, rigid and elastic jobs, loads from 0.4 to 1.3."""
    return Settings(
        jobs=60,
        kinds=one_of(draws, 1, 2, 3, 4),
        gpus=one_of(draws, 4, 8, 16),
        models=one_of(draws, 4, 6, 10),
        elastic=one_of(draws, 0.0, 0.5, 1.0),
        load=log_uniform(draws, 0.4, 1.3),
        round_s=one_of(draws, 0.0, 60.0, 360.0, 360.0),
        restart_s=one_of(draws, 0.0, 10.0, 30.0),
    )


GENERATOR = Generator(Settings, generate, traced, draw)
