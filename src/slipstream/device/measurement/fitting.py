"""Fit of a profile to a run on the device: latencies of variants alone, and slowdowns of pairs.

Each run is modelled as work at full speed while it is alone, and slowed down by the profile's entry while another runs
beside it. Latencies are fitted to runs that were mostly alone, slowdowns to the remaining difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.device.measurement.overlap import MOSTLY_ALONE, Runs, runs_of
from slipstream.device.measurement.profiler import trimmed
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.edge.workload.measured import MeasuredProfile, variant_indices

LEAST_RUNS = 5
"""Least number of runs of a variant, or of a pair, for a fit; with fewer the profile's value stays."""
ROUNDS = 4
LEAST_SLOWDOWN, MOST_SLOWDOWN = 0.5, 20.0


def fit(scenario: EdgeScenario, profile: MeasuredProfile, events: np.ndarray, command: str) -> MeasuredProfile:
    """Return `profile` fitted to the event log of a run; variants that did not run are scaled like those that did."""
    runs = runs_of(scenario, events)
    rows = variant_indices(scenario, profile)
    kind = np.array([rows[task][variant] for task, variant in zip(runs.task, runs.variant, strict=True)], int)
    latency = np.array([variant.latency_ms for variant in profile.variants]) * 1e6
    known = latency.copy()
    slowdowns = np.array(profile.slowdowns)
    counts = np.bincount(kind, minlength=len(latency))
    for _ in range(ROUNDS):
        work = _work(runs, kind, slowdowns)
        latency = _latencies(runs, kind, work, counts, known)
        slowdowns = _slowdowns(runs, kind, slowdowns, latency)
    return _corrected(profile, latency / 1e6, _work(runs, kind, slowdowns) / 1e6, kind, counts, slowdowns, command)


def _work(runs: Runs, kind: np.ndarray, slowdowns: np.ndarray) -> np.ndarray:
    """Return the time of each run without its slowdowns."""
    work = runs.length.astype(float)
    for index, others in enumerate(runs.beside):
        for other, time in others:
            work[index] -= time * (1.0 - 1.0 / slowdowns[kind[index], kind[other]])
    return work


def _latencies(runs: Runs, kind: np.ndarray, work: np.ndarray, counts: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the fitted latency of each variant alone."""
    latency, alone = known.copy(), runs.shared <= MOSTLY_ALONE
    seen = counts >= LEAST_RUNS
    for variant in np.flatnonzero(seen):
        own = kind == variant
        clear = own & alone
        latency[variant] = trimmed(work[clear if clear.sum() >= LEAST_RUNS else own]).mean()
    if seen.any():
        # The device as a whole may be faster or slower than before: unseen variants follow the seen ones.
        latency[~seen] *= np.median(latency[seen] / known[seen])
    return latency


def _slowdowns(runs: Runs, kind: np.ndarray, slowdowns: np.ndarray, latency: np.ndarray) -> np.ndarray:
    """Return the fitted slowdowns, with which co-running runs do the work of their variants on average."""
    count = len(latency)
    together, left, met = np.zeros((count, count)), np.zeros((count, count)), np.zeros((count, count), int)
    work = _work(runs, kind, slowdowns)
    for index, others in enumerate(runs.beside):
        if not others:
            continue
        other, time = max(others, key=lambda pair: pair[1])
        pair = kind[index], kind[other]
        done = time / slowdowns[pair]
        together[pair] += time
        # Work done beside this co-runner, if the run's total work is its variant's latency.
        left[pair] += latency[kind[index]] - (work[index] - done)
        met[pair] += 1
    fitted = slowdowns.copy()
    clear = (met >= LEAST_RUNS) & (left > 0)
    fitted[clear] = np.sqrt(slowdowns[clear] * np.clip(together[clear] / left[clear], LEAST_SLOWDOWN, MOST_SLOWDOWN))
    return fitted


def _corrected(
    profile: MeasuredProfile,
    latency: np.ndarray,
    work: np.ndarray,
    kind: np.ndarray,
    counts: np.ndarray,
    slowdowns: np.ndarray,
    command: str,
) -> MeasuredProfile:
    variants = []
    for index, variant in enumerate(profile.variants):
        factor = latency[index] / variant.latency_ms
        update: dict[str, Any] = {"latency_ms": float(latency[index])}
        if counts[index] >= LEAST_RUNS:
            own = work[kind == index]
            p50, p95, p99 = (float(max(value, 1e-6)) for value in np.percentile(own, (50, 95, 99)))
            trimmed_runs = trimmed(own)
            update |= {"p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "runs": int(counts[index])}
            update["cv"] = float(min(10.0, trimmed_runs.std() / max(trimmed_runs.mean(), 1e-6)))
        else:
            update |= {name: getattr(variant, name) * factor for name in ("p50_ms", "p95_ms", "p99_ms")}
        variants.append(variant.model_copy(update=update))
    table = slowdowns.clip(0.01, 100.0).tolist()
    return profile.model_copy(update={"variants": variants, "slowdowns": table, "fitted_from": command})
