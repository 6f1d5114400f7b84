"""Random jobs whose shape follows that of profiled TPC-H queries: stages, tasks, waves and the cost of parallelism.

The numbers below are quantiles of the 154 query profiles that were published with Decima (Mao et al. 2019), measured
on them; nothing of the profiles themselves is here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from slipstream.families.dag.scenario import Synthetic
from slipstream.families.dag.workload.templates import JobTemplate, Library, StageTemplate, Waves

LEVELS = (2, 5, 10, 20, 40, 50, 60, 80, 100)
USUAL_LEVEL = 10
"""The number of executors for which durations are given below."""
NS_PER_MS = 1_000_000

Quantiles = tuple[float, ...]
PLACES = (0.0, 0.1, 0.5, 0.9, 1.0)
STAGES_PER_JOB = (1.5, 4.0, 8.0, 16.0, 18.49)


@dataclass(frozen=True)
class StageKind:
    """Stages of one kind: how often they occur, and quantiles of what is known of them."""

    share: float
    tasks: Quantiles
    first_s: Quantiles
    """Mean of the first wave."""
    rest_s: Quantiles
    """Mean of the rest wave, which goes with that of the first."""
    first_growth: float
    rest_growth: float
    """Exponents with which durations grow with the number of executors."""
    spread: float
    """Coefficient of variation within a wave."""


KINDS = (
    # Shuffles have the default number of partitions and little to do in each.
    StageKind(0.48, (200,) * 5, (0.036, 0.059, 0.213, 0.685, 2.0), (0.007, 0.010, 0.031, 0.256, 1.2), 0.22, 0.34, 0.3),
    # Scans read the tables: as many tasks as there are blocks.
    StageKind(0.26, (3, 6, 40, 350, 593), (1.0, 1.7, 2.7, 4.1, 5.1), (0.9, 1.35, 1.8, 2.25, 3.5), 0.15, 0.12, 0.15),
    # What is left at the end fits one or two tasks.
    StageKind(0.26, (1, 1, 2, 2, 2), (0.036, 0.06, 0.3, 2.0, 4.0), (0.007, 0.015, 0.03, 0.06, 0.1), 0.1, 0.2, 0.15),
)
FRESH_RATIO = (1.0, 1.0, 1.065, 1.52, 2.0)
"""Fresh durations over those of the first wave."""
SHARE_WITH_FRESH = 0.3
"""Stages whose fresh durations were measured; others warm up by the scenario's delay."""
REACH = 3
"""A stage feeds one of so many stages after it."""
SHARE_OF_SECOND_EDGES = 0.04
KINSHIP = 0.5
"""Correlation of the durations of the stages of a job: all of them read data of the same size."""
FRESH_SAMPLES, FIRST_SAMPLES, REST_SAMPLES = 4, 8, 16


def library(source: Synthetic) -> Library:
    """Return the random jobs of a source."""
    draws = np.random.Generator(np.random.PCG64(np.random.SeedSequence(source.seed, spawn_key=(1,))))
    templates = tuple(_job(f"job-{number}", draws) for number in range(source.templates))
    return Library(templates, LEVELS)


def _quantile(values: Quantiles, place: float) -> float:
    """Return the value at a place between 0 and 1; between the given quantiles its logarithm is linear."""
    return float(np.exp(np.interp(place, PLACES, np.log(values))))


def _job(name: str, draws: np.random.Generator) -> JobTemplate:
    count = round(float(np.interp(draws.random(), PLACES, STAGES_PER_JOB)))
    size = float(ndtri(draws.random()))
    stages = tuple(_stage(f"stage-{index}", size, draws) for index in range(count))
    edges = []
    for index in range(count - 1):
        reach = min(REACH, count - 1 - index)
        edges.append((index, index + 1 + int(draws.random() * reach)))
        if draws.random() < SHARE_OF_SECOND_EDGES:
            edges.append((index, index + 1 + int(draws.random() * (count - 1 - index))))
    return JobTemplate(name, stages, tuple(sorted(set(edges))))


def _stage(name: str, size: float, draws: np.random.Generator) -> StageTemplate:
    kind = KINDS[int(np.searchsorted(np.cumsum([kind.share for kind in KINDS[:-1]]), draws.random(), side="right"))]
    tasks = round(_quantile(kind.tasks, draws.random()))
    own = float(ndtri(draws.random()))
    place = float(ndtr(np.sqrt(KINSHIP) * size + np.sqrt(1.0 - KINSHIP) * own))
    first_ms, rest_ms = (1000.0 * _quantile(values, place) for values in (kind.first_s, kind.rest_s))
    fresh_ratio = _quantile(FRESH_RATIO, draws.random())
    fresh_samples = FRESH_SAMPLES if draws.random() < SHARE_WITH_FRESH else 0
    waves = {}
    for level in LEVELS:
        first = first_ms * (level / USUAL_LEVEL) ** kind.first_growth
        rest = rest_ms * (level / USUAL_LEVEL) ** kind.rest_growth
        # With fewer tasks than executors no executor does a second one.
        rest_samples = REST_SAMPLES if tasks > level else 0
        waves[level] = Waves(
            _samples(first * fresh_ratio, kind.spread, fresh_samples, draws),
            _samples(first, kind.spread, FIRST_SAMPLES, draws),
            _samples(rest, kind.spread, rest_samples, draws),
        )
    return StageTemplate(name, tasks, waves)


def _samples(mean_ms: float, spread: float, count: int, draws: np.random.Generator) -> np.ndarray:
    """Return lognormal durations in ns, on the grid of milliseconds on which profiles are recorded."""
    variance = np.log(1.0 + spread * spread)
    factors = np.exp(np.sqrt(variance) * ndtri(draws.random(count)) - variance / 2)
    return np.asarray(np.maximum(1, np.rint(mean_ms * factors)) * NS_PER_MS, np.int64)
