"""Random jobs fitted to profiled TPC-H queries: stages, tasks, waves and the cost of parallelism.

The numbers below are quantiles measured on the 154 query profiles published with Decima (Mao et al. 2019); the profiles
themselves are not included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from slipstream.families.dag.scenario import Synthetic
from slipstream.families.dag.workload.templates import JobTemplate, Library, StageTemplate, Waves

PARALLELISM = (2, 5, 10, 20, 40, 50, 60, 80, 100)
USUAL_PARALLELISM = 10
"""Number of executors for which durations are given below."""
NS_PER_MS = 1_000_000

Quantiles = tuple[float, ...]
PROBABILITIES = (0.0, 0.1, 0.5, 0.9, 1.0)
STAGES_PER_JOB = (1.5, 4.0, 8.0, 16.0, 18.49)


@dataclass(frozen=True)
class StageKind:
    """Distribution of the stages of one kind, as quantiles."""

    share: float
    tasks: Quantiles
    first_s: Quantiles
    """Mean duration of the first wave."""
    rest_s: Quantiles
    """Mean duration of the rest wave, at the same quantile as the first."""
    first_growth: float
    rest_growth: float
    """Exponents of the growth of durations with the number of executors."""
    spread: float
    """Coefficient of variation within a wave."""


KINDS = (
    # Shuffles: the default number of partitions, each with little work.
    StageKind(0.48, (200,) * 5, (0.036, 0.059, 0.213, 0.685, 2.0), (0.007, 0.010, 0.031, 0.256, 1.2), 0.22, 0.34, 0.3),
    # Table scans: one task per block.
    StageKind(0.26, (3, 6, 40, 350, 593), (1.0, 1.7, 2.7, 4.1, 5.1), (0.9, 1.35, 1.8, 2.25, 3.5), 0.15, 0.12, 0.15),
    # Final aggregations: one or two tasks.
    StageKind(0.26, (1, 1, 2, 2, 2), (0.036, 0.06, 0.3, 2.0, 4.0), (0.007, 0.015, 0.03, 0.06, 0.1), 0.1, 0.2, 0.15),
)
FRESH_RATIO = (1.0, 1.0, 1.065, 1.52, 2.0)
"""Ratio of fresh durations to those of the first wave."""
SHARE_WITH_FRESH = 0.3
"""Share of stages with measured fresh durations; the others use the scenario's warm-up delay."""
MOST_EDGE_LENGTH = 3
"""A stage has a child among this many following stages."""
SHARE_OF_SECOND_EDGES = 0.04
DURATION_CORRELATION = 0.5
"""Correlation of the durations of a job's stages, which read data of the same size."""
FRESH_SAMPLES, FIRST_SAMPLES, REST_SAMPLES = 4, 8, 16


def library(source: Synthetic) -> Library:
    """Return the random jobs of a source."""
    draws = np.random.Generator(np.random.PCG64(np.random.SeedSequence(source.seed, spawn_key=(1,))))
    templates = tuple(_job(f"job-{number}", draws) for number in range(source.templates))
    return Library(templates, PARALLELISM)


def _quantile(values: Quantiles, probability: float) -> float:
    """Return the quantile at `probability`, interpolated linearly in the logarithm of `values`."""
    return float(np.exp(np.interp(probability, PROBABILITIES, np.log(values))))


def _job(name: str, draws: np.random.Generator) -> JobTemplate:
    count = round(float(np.interp(draws.random(), PROBABILITIES, STAGES_PER_JOB)))
    job_deviate = float(ndtri(draws.random()))
    stages = tuple(_stage(f"stage-{index}", job_deviate, draws) for index in range(count))
    edges = []
    for index in range(count - 1):
        length = min(MOST_EDGE_LENGTH, count - 1 - index)
        edges.append((index, index + 1 + int(draws.random() * length)))
        if draws.random() < SHARE_OF_SECOND_EDGES:
            edges.append((index, index + 1 + int(draws.random() * (count - 1 - index))))
    return JobTemplate(name, stages, tuple(sorted(set(edges))))


def _stage(name: str, job_deviate: float, draws: np.random.Generator) -> StageTemplate:
    kind = KINDS[int(np.searchsorted(np.cumsum([kind.share for kind in KINDS[:-1]]), draws.random(), side="right"))]
    tasks = round(_quantile(kind.tasks, draws.random()))
    own_deviate = float(ndtri(draws.random()))
    probability = float(
        ndtr(np.sqrt(DURATION_CORRELATION) * job_deviate + np.sqrt(1.0 - DURATION_CORRELATION) * own_deviate)
    )
    first_ms, rest_ms = (1000.0 * _quantile(values, probability) for values in (kind.first_s, kind.rest_s))
    fresh_ratio = _quantile(FRESH_RATIO, draws.random())
    fresh_samples = FRESH_SAMPLES if draws.random() < SHARE_WITH_FRESH else 0
    waves = {}
    for parallelism in PARALLELISM:
        first = first_ms * (parallelism / USUAL_PARALLELISM) ** kind.first_growth
        rest = rest_ms * (parallelism / USUAL_PARALLELISM) ** kind.rest_growth
        # With at most as many tasks as executors, no executor runs a second one.
        rest_samples = REST_SAMPLES if tasks > parallelism else 0
        waves[parallelism] = Waves(
            _samples(first * fresh_ratio, kind.spread, fresh_samples, draws),
            _samples(first, kind.spread, FIRST_SAMPLES, draws),
            _samples(rest, kind.spread, rest_samples, draws),
        )
    return StageTemplate(name, tasks, waves)


def _samples(mean_ms: float, spread: float, count: int, draws: np.random.Generator) -> np.ndarray:
    """Return `count` lognormal durations in ns, rounded to milliseconds as in the profiles."""
    variance = np.log(1.0 + spread * spread)
    factors = np.exp(np.sqrt(variance) * ndtri(draws.random(count)) - variance / 2)
    return np.asarray(np.maximum(1, np.rint(mean_ms * factors)) * NS_PER_MS, np.int64)
