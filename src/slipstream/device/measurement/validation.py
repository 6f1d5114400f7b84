"""Comparison of a run on the device with a simulation of the same arrivals, and causes of the difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.device.measurement.overlap import MOSTLY_ALONE, Runs, runs_of
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.sim.eventlog import ARRIVAL, FAIL

COMPARED = ("miss_rate", "response_p50_ms", "response_p95_ms", "response_p99_ms", "utilisation", "effective_accuracy")
"""The metrics that are compared; those of each task come in addition."""


@dataclass(frozen=True)
class Cause:
    """A cause of the difference between measurement and simulation."""

    name: str
    measured: float
    simulated: float
    unit: str
    meaning: str
    size: float
    """Relative size of the difference: of a mean run, or of all jobs."""


def compared(names: list[str]) -> list[str]:
    """Return the metrics that are compared, for a scenario with the tasks `names`."""
    by_task = [f"{metric}/{name}" for metric in ("miss_rate", "effective_accuracy") for name in names]
    return [*COMPARED, *by_task]


def causes(scenario: EdgeScenario, measured: np.ndarray, simulated: np.ndarray, others: float) -> list[Cause]:
    """Return the causes of the difference, largest first; `others` is the processor share of other programs."""
    real, model = runs_of(scenario, measured), runs_of(scenario, simulated)
    crowd = float((real.shared > MOSTLY_ALONE).mean()) if len(real.shared) else 0.0
    alone, beside = _mean_ms(real, model, alone=True), _mean_ms(real, model, alone=False)
    waits = _median_ms(real.waited), _median_ms(model.waited)
    strayed = 1.0 - _agreement(real, model)
    failed = (float((measured["kind"] == FAIL).sum()), 0.0)
    jobs = max(1, int((measured["kind"] == ARRIVAL).sum()))
    run = float(real.length.mean()) / 1e6 if len(real.length) else 1.0
    found = [
        Cause("runs alone", *alone, "ms", ALONE, _gap(alone) / run * (1.0 - crowd)),
        Cause("runs side by side", *beside, "ms", BESIDE, _gap(beside) / run * crowd),
        Cause("dispatch", *waits, "ms", WAITING, _gap(waits) / run),
        Cause("other choices", strayed, 0.0, "share", "runs in another variant than simulated", strayed),
        Cause("failed jobs", *failed, "jobs", "jobs that gave no result", failed[0] / jobs),
        Cause("other programs", others, 0.0, "share", "of the processor time, around the run", others),
    ]
    return sorted(found, key=lambda cause: -cause.size)


ALONE = "mean time of a run with the device to itself, over the same variants"
BESIDE = "mean time of a run beside another, over the same variants"
WAITING = "median time for which a job waited although its stream was idle: waking up, choosing, handing over"


def _median_ms(times: np.ndarray) -> float:
    return float(np.median(times)) / 1e6 if len(times) else 0.0


def _gap(sides: tuple[float, float]) -> float:
    return abs(sides[0] - sides[1])


def _mean_ms(real: Runs, model: Runs, alone: bool) -> tuple[float, float]:
    """Return the mean time of runs alone, or of the others, measured and simulated."""
    totals, count = np.zeros(2), 0
    for variant in set(_variants(real)) & set(_variants(model)):
        times = [_times(runs, variant, alone) for runs in (real, model)]
        if all(map(len, times)):
            # Weighted by the runs on the device, so that both means are over the same mix of variants.
            totals += len(times[0]) * np.array([times[0].mean(), times[1].mean()])
            count += len(times[0])
    measured, simulated = (totals / 1e6 / max(count, 1)).tolist()
    return float(measured), float(simulated)


def _variants(runs: Runs) -> list[tuple[int, int]]:
    return list(zip(runs.task.tolist(), runs.variant.tolist(), strict=True))


def _times(runs: Runs, variant: tuple[int, int], alone: bool) -> np.ndarray:
    own = (runs.task == variant[0]) & (runs.variant == variant[1])
    return np.asarray(runs.length[own & ((runs.shared <= MOSTLY_ALONE) == alone)])


def _agreement(real: Runs, model: Runs) -> float:
    """Return the share of jobs, of those finished on both sides, with the same variant."""
    chosen = {(t, n): v for t, n, v in zip(model.task, model.number, model.variant, strict=True)}
    both = [(v, chosen[t, n]) for t, n, v in zip(real.task, real.number, real.variant, strict=True) if (t, n) in chosen]
    return sum(int(one == other) for one, other in both) / len(both) if both else 1.0
