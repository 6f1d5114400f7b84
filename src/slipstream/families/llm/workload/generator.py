"""Seeded random scenarios of LLM engines: an engine, requests of one of several kinds, and a load that suits both."""

from __future__ import annotations

import io
import json
import shlex
from typing import Any, Literal

import numpy as np
from pydantic import Field

from slipstream.families.llm.metrics import requests_of
from slipstream.families.llm.scenario import LlmScenario
from slipstream.families.shared.generator import Generator, log_uniform, one_of, options
from slipstream.families.shared.schema import StrictModel

MIXES = {"chat": (300.0, 1.2, 220.0, 0.9), "code": (2000.0, 1.0, 25.0, 0.8), "long": (6000.0, 0.8, 350.0, 0.7)}
"""Medians and spreads of the lengths of prompts and outputs, of the sizes of public traces."""


class Settings(StrictModel):
    """Settings of a generated scenario; the options have the names of the fields."""

    requests: int = Field(default=300, ge=1, le=100_000)
    """Requests of an episode."""
    engines: int = Field(default=1, ge=1, le=16)
    """Engines behind the router."""
    mix: Literal["chat", "code", "long"] = "chat"
    """Lengths of prompts and outputs."""
    load: float = Field(default=0.8, ge=0.01, le=10.0)
    """Work per second, as a share of what the engines can do with full batches."""
    burstiness: float = Field(default=1.0, ge=0.05, le=10.0)
    """Coefficient of variation of the gaps."""
    blocks: int = Field(default=4096, ge=1024, le=1_000_000)
    """Blocks of an engine."""
    seats: int = Field(default=64, ge=1, le=1024)
    """Seats of an engine."""
    classes: int = Field(default=1, ge=1, le=16)
    """Classes of requests, with limits that differ."""
    prefixes: int = Field(default=0, ge=0, le=10_000)
    """System prompts of 256 tokens that requests share; 0 for none."""
    prediction_cv: float = Field(default=-1.0, ge=-1.0, le=10.0)
    """Error of predicted output lengths; below 0 nothing is predicted."""


def generate(settings: Settings, seed: int) -> LlmScenario:
    """Return the scenario of `settings` and `seed`."""
    rng = np.random.default_rng(seed)
    median, sigma, output, spread = MIXES[settings.mix]
    median, output = float(round(median * rng.uniform(0.8, 1.25))), float(round(output * rng.uniform(0.8, 1.25)))
    most = settings.blocks * 16 // 4
    step = float(rng.uniform(8_000.0, 20_000.0))
    per_token = float(rng.uniform(40.0, 160.0))
    mean_prompt, mean_output = min(most, median * np.exp(sigma**2 / 2)), min(most, output * np.exp(spread**2 / 2))
    batch = min(settings.seats, settings.blocks * 16 / (mean_prompt + mean_output / 2))
    work_us = per_token * mean_prompt + mean_output * (step / batch + per_token)
    words = shlex.join(["slipstream", "generate", "llm", "--seed", str(seed), *options(settings)])
    data: dict[str, Any] = {
        "family": "llm",
        "name": f"generated-{seed}",
        "description": f"Made by: {words}",
        "engines": settings.engines,
        "engine": {"blocks": settings.blocks, "seats": settings.seats, "prefix_cache": settings.prefixes > 0},
        "step_time": {
            "kind": "closed",
            "dense": [{"at": 0, "us": round(step, 1)}, {"at": 1000, "us": round(step + 1000.0 * per_token, 1)}],
            "context_us": 0.15,
            "mixed_context_us": 0.3,
            "prefill_us": 0.01,
        },
        "requests": {
            "kind": "drawn",
            "requests": settings.requests,
            "rate_hz": round(settings.load * settings.engines * 1e6 / float(work_us), 6),
            "burstiness": settings.burstiness,
            "lengths": {
                "kind": "independent",
                "prompt": {"kind": "lognormal", "median": median, "sigma": sigma, "most": most},
                "output": {"kind": "lognormal", "median": output, "sigma": spread, "most": most},
            },
        },
        "classes": [
            {"name": f"class-{index}", "ttft_s": 2.0 * 2**index, "tpot_ms": 100.0 * 2**index}
            for index in range(settings.classes)
        ],
    }
    if settings.prefixes:
        data["requests"]["prefix"] = {"groups": settings.prefixes, "tokens": 256}
    if settings.prediction_cv >= 0.0:
        data["prediction"] = {"cv": settings.prediction_cv}
    return LlmScenario.model_validate(data)


def traced(scenario: LlmScenario, seed: int, folder: str, kind: Any) -> tuple[LlmScenario, dict[str, bytes]]:
    """Return the scenario with the requests of a test episode in a file, and its content by path.

    The file has JSON lines, whatever `kind` says.
    """
    from slipstream.policies.base import find
    from slipstream.sim.simulator import Simulator

    requests = requests_of(Simulator(scenario).play(find("fcfs", "llm"), seed))
    text = io.StringIO()
    for index in range(len(requests.group)):
        line = {
            "arrival_s": int(requests.arrival[index]) / 1e9,
            "prompt": int(requests.prompt[index]),
            "output": max(1, int(requests.output[index])),
            "client": scenario.classes[int(requests.group[index])].name,
        }
        text.write(json.dumps(line) + "\n")
    path = f"{folder}/requests.jsonl"
    data = scenario.model_dump(mode="json", exclude_unset=True)
    data["requests"] = {"kind": "trace", "path": path}
    moved = LlmScenario.model_validate(data)
    moved._folder = scenario._folder
    return moved, {path: text.getvalue().encode()}


def draw(draws: np.random.Generator) -> Settings:
    """Return random settings: one to four engines, all lengths, loads from 0.4 to 1.3."""
    return Settings(
        requests=200,
        engines=one_of(draws, 1, 1, 2, 4),
        mix=one_of(draws, "chat", "code", "long"),
        load=log_uniform(draws, 0.4, 1.3),
        burstiness=log_uniform(draws, 0.7, 4.0),
        blocks=round(log_uniform(draws, 1500, 12000)),
        seats=round(log_uniform(draws, 16, 256)),
        classes=one_of(draws, 1, 1, 2, 3),
        prefixes=one_of(draws, 0, 0, 8),
        prediction_cv=one_of(draws, -1.0, 0.0, 0.5),
    )


GENERATOR = Generator(Settings, generate, traced, draw)
