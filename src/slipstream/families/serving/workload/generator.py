"""Seeded random serving scenarios: a fleet, models with variants of rising accuracy, and a load that suits both."""

from __future__ import annotations

import io
import shlex
from typing import Any, Literal

import numpy as np
from pydantic import Field

from slipstream.families.serving.scenario import ServingScenario
from slipstream.families.shared.generator import Generator, log_uniform, one_of, options
from slipstream.families.shared.schema import StrictModel
from slipstream.sim.eventlog import ARRIVAL

BATCH_SIZES = (1, 2, 4, 8)
ZIPF = 1.001
"""Exponent of the request shares of models, as in Proteus's traces."""
SLO_PER_LATENCY = 5.0
"""SLO of a model, as a multiple of the latency of its most accurate variant on the fastest accelerator."""


class Settings(StrictModel):
    """Settings of a generated scenario; the options have the names of the fields."""

    models: int = Field(default=6, ge=1, le=10_000)
    """Models of the scenario."""
    active: int = Field(default=0, ge=0, le=10_000)
    """Models that get requests, the first ones; 0 for all."""
    variants: int = Field(default=4, ge=1, le=100)
    """Variants of each model."""
    kinds: int = Field(default=3, ge=1, le=16)
    """Kinds of accelerators, each faster than the one before."""
    accelerators: int = Field(default=12, ge=1, le=10_000)
    """Accelerators in total, equally many of each kind."""
    load: float = Field(default=0.6, ge=0.001, le=100.0)
    """Requests per second, as a share of what the fleet could answer with the most accurate variants."""
    split: Literal["zipf", "equal"] = "zipf"
    """Division of the requests among the models."""
    arrivals: Literal["poisson", "gamma", "even", "diurnal", "bursty", "blis"] = "bursty"
    """Arrival process; `blis` has exponential gaps of a mean of 10 ms, 20 ms, and so on, whatever the load."""
    duration_s: float = Field(default=120.0, ge=0.001, le=1e6)
    """Time for which requests arrive."""
    load_s: float = Field(default=1.0, ge=0.0, le=1e4)
    """Time to load a variant."""
    random_runtimes: bool = False
    """Every variant takes a random whole number of milliseconds from 20 to 100 on each kind, alone; as in BLIS."""


def generate(settings: Settings, seed: int) -> ServingScenario:
    """Return the scenario of `settings` and `seed`."""
    rng = np.random.default_rng(seed)
    kinds = [f"kind-{number}" for number in range(settings.kinds)]
    counts = [
        settings.accelerators // settings.kinds + (n < settings.accelerators % settings.kinds)
        for n in range(settings.kinds)
    ]
    fleet = {kind: count for kind, count in zip(kinds, counts, strict=True) if count}
    models = [_model(settings, rng, number, list(fleet)) for number in range(settings.models)]
    active = min(settings.active or settings.models, settings.models)
    shares = 1.0 / np.arange(1, active + 1) ** ZIPF if settings.split == "zipf" else np.ones(active)
    shares /= shares.sum()
    total = settings.load * _most(models[:active], shares, fleet)
    for number, (model, share) in enumerate(zip(models, shares.tolist(), strict=False)):
        model["arrivals"] = _arrivals(settings, round(total * share, 6), number)
    words = shlex.join(["slipstream", "generate", "serving", "--seed", str(seed), *_words(settings)])
    return ServingScenario.model_validate(
        {
            "family": "serving",
            "name": f"generated-{seed}",
            "description": f"Made by: {words}",
            "accelerators": [{"name": kind, "count": count} for kind, count in fleet.items()],
            "batch_sizes": list(BATCH_SIZES),
            "models": models,
            "duration_s": settings.duration_s,
        }
    )


def _words(settings: Settings) -> list[str]:
    """Return the command-line options; a flag that is on has no value."""
    words = options(settings)
    if settings.random_runtimes:
        words.remove("True")
    return words


def _model(settings: Settings, rng: np.random.Generator, number: int, kinds: list[str]) -> dict[str, Any]:
    """Return a model whose variants become slower and more accurate one after another."""
    least = float(rng.uniform(65.0, 90.0))
    slowest = float(rng.uniform(40.0, 160.0))
    growth = float(rng.uniform(0.1, 0.4))
    qualities = np.linspace(0.0, 1.0, settings.variants) if settings.variants > 1 else np.ones(1)
    variants = []
    for index, quality in enumerate(qualities.tolist()):
        latency = {}
        for order, kind in enumerate(kinds):
            alone = slowest * 8.0 ** (quality - 1.0) / 1.8**order
            if settings.random_runtimes:
                alone = float(rng.integers(20, 101))
            latency[kind] = [round(alone * (1.0 + growth * (size - 1)), 3) for size in BATCH_SIZES]
        accuracy = round(100.0 - (100.0 - least) * (1.0 - quality) ** 1.5, 2)
        variants.append(
            {"name": f"model-{number}-{index}", "accuracy": accuracy, "latency_ms": latency, "load_s": settings.load_s}
        )
    fastest = min(times[0] for times in variants[-1]["latency_ms"].values())
    return {"name": f"model-{number}", "slo_ms": round(SLO_PER_LATENCY * fastest, 3), "variants": variants}


def _most(models: list[dict[str, Any]], shares: np.ndarray, fleet: dict[str, int]) -> float:
    """Return the requests per second that the fleet answers with the most accurate variants, by `shares`."""
    most = 0.0
    for kind, count in fleet.items():
        rates = []
        for model in models:
            times = model["variants"][-1]["latency_ms"][kind]
            fits = [
                size * 1e3 / time for size, time in zip(BATCH_SIZES, times, strict=True) if 2 * time < model["slo_ms"]
            ]
            rates.append(max(fits, default=0.0))
        most += count * float(np.dot(shares, rates))
    return most


def _arrivals(settings: Settings, rate: float, number: int) -> dict[str, Any]:
    kind = settings.arrivals
    if kind == "blis":
        return {"kind": "poisson", "rate_hz": round(100.0 / (number + 1), 6)}
    if kind == "diurnal":
        low, peak = round(0.4 * rate, 6), round(1.6 * rate, 6)
        return {"kind": kind, "low_hz": low, "peak_hz": peak, "period_s": settings.duration_s}
    if kind == "bursty":
        return {"kind": kind, "low_hz": round(0.5 * rate, 6), "high_hz": round(1.5 * rate, 6), "switch_s": 20.0}
    return {"kind": kind, "rate_hz": rate}


def traced(scenario: ServingScenario, seed: int, folder: str, kind: Any) -> tuple[ServingScenario, dict[str, bytes]]:
    """Return the scenario with the requests of a test episode in files, one per model, and their content by path.

    A trace has the lines `arrival_ms,accuracy_floor,deadline_ms` of the serving simulators, whatever `kind` says.
    """
    from slipstream.families.serving.build import compiled_scenario
    from slipstream.policies.base import find
    from slipstream.sim.simulator import Simulator

    events = Simulator(scenario).play(find("eft", "serving"), seed)
    arrivals = events[events["kind"] == ARRIVAL]
    data = scenario.model_dump(mode="json", exclude_unset=True)
    indices = {model.name: index for index, model in enumerate(compiled_scenario(scenario).models)}
    files = {}
    for model in data["models"]:
        own = arrivals[arrivals["task"] == indices.get(model["name"], -1)]
        if not len(own):
            model.pop("arrivals", None)
            continue
        path = f"{folder}/{model['name']}.txt"
        text = io.StringIO()
        for time in (own["time"] / 1e6).tolist():
            text.write(f"{time!r},{model.get('accuracy_floor', 0.0):g},{model['slo_ms']!r}\n")
        model["arrivals"] = {"kind": "trace", "path": path}
        files[path] = text.getvalue().encode()
    moved = ServingScenario.model_validate(data)
    moved._folder = scenario._folder
    return moved, files


def draw(draws: np.random.Generator) -> Settings:
    """Return random settings: 4 to 24 accelerators of up to 4 kinds, 2 to 8 models, most arrival processes."""
    kinds = int(draws.integers(1, 5))
    return Settings(
        models=int(draws.integers(2, 9)),
        variants=int(draws.integers(2, 6)),
        kinds=kinds,
        accelerators=max(kinds, round(log_uniform(draws, 4, 24))),
        load=log_uniform(draws, 0.3, 1.5),
        split=one_of(draws, "zipf", "equal"),
        arrivals=one_of(draws, "poisson", "gamma", "even", "diurnal", "bursty"),
        duration_s=60.0,
        load_s=log_uniform(draws, 0.2, 5.0),
    )


GENERATOR = Generator(Settings, generate, traced, draw)
