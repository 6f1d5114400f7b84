"""Machine-learning workflows: data preparation in shards, training, validation, hyper-parameter trials and test.

prepare (a task per shard) -> merge -> train -> validate -> trial 1 .. k -> validate 1 .. k -> select -> test
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from slipstream.families.dag.scenario import MlWorkflow
from slipstream.families.dag.workload.templates import JobTemplate, Library, StageTemplate, Waves

NS_PER_MS = 1_000_000
SAMPLES = 16
PARALLELISM = (1, 4, 16, 64)
CONTENTION = 0.08
"""Exponent of the slowdown by parallel reads from shared storage."""
WARM_SHARE = 0.85
"""Ratio of a further task's time to the first one on an executor, whose libraries and data are loaded."""


def library(source: MlWorkflow) -> Library:
    """Return the workflows of a source."""
    draws = np.random.Generator(np.random.PCG64(np.random.SeedSequence(source.seed, spawn_key=(2,))))
    templates = tuple(_workflow(f"workflow-{number}", source.most_trials, draws) for number in range(source.templates))
    return Library(templates, PARALLELISM)


def _between(low: float, high: float, draws: np.random.Generator) -> float:
    """Return a log-uniform random number between `low` and `high`."""
    return float(low * (high / low) ** draws.random())


def _workflow(name: str, most_trials: int, draws: np.random.Generator) -> JobTemplate:
    size = _between(0.5, 4.0, draws)
    shards = round(_between(8, 128, draws))
    workers = round(_between(1, 8, draws))
    trials = 1 + int(draws.random() * most_trials)
    stages: list[StageTemplate] = []
    edges: list[tuple[int, int]] = []

    def add(stage: str, tasks: int, mean_s: float, spread: float, parents: list[int]) -> int:
        stages.append(_stage(stage, tasks, mean_s * size, spread, draws))
        edges.extend((parent, len(stages) - 1) for parent in parents)
        return len(stages) - 1

    prepare = add("prepare", shards, _between(1.0, 4.0, draws), 0.3, [])
    merge = add("merge", 1, _between(1.0, 3.0, draws), 0.1, [prepare])
    train = add("train", workers, _between(20.0, 80.0, draws), 0.1, [merge])
    validate = add("validate", max(1, shards // 8), _between(0.5, 2.0, draws), 0.2, [train])
    results = []
    for trial in range(trials):
        searched = add(f"trial-{trial + 1}", 1, _between(10.0, 60.0, draws), 0.3, [validate])
        results.append(add(f"validate-{trial + 1}", max(1, shards // 16), _between(0.5, 2.0, draws), 0.2, [searched]))
    select = add("select", 1, 0.5, 0.1, results)
    add("test", max(1, shards // 4), _between(0.5, 2.0, draws), 0.2, [select])
    return JobTemplate(name, tuple(stages), tuple(edges))


def _stage(name: str, tasks: int, mean_s: float, spread: float, draws: np.random.Generator) -> StageTemplate:
    variance = np.log(1.0 + spread * spread)
    waves = {}
    for parallelism in PARALLELISM:
        factors = np.exp(np.sqrt(variance) * ndtri(draws.random(SAMPLES)) - variance / 2)
        first_ms = np.maximum(1, np.rint(mean_s * 1000.0 * parallelism**CONTENTION * factors))
        rest_ms = np.maximum(1, np.rint(first_ms * WARM_SHARE))
        first, rest = (np.asarray(times * NS_PER_MS, np.int64) for times in (first_ms, rest_ms))
        waves[parallelism] = Waves(np.zeros(0, np.int64), first, rest)
    return StageTemplate(name, tasks, waves)
