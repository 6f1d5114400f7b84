"""How true the simulation was: a run on the device beside a simulation of the same arrivals, and why they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.core.eventlog import FAIL
from slipstream.device.overlap import MOSTLY_ALONE, Runs, runs_of

COMPARED = ("miss_rate", "response_p50_ms", "response_p95_ms", "response_p99_ms", "utilisation", "effective_accuracy")
"""The metrics that are set side by side; per task where they are reported so."""


@dataclass(frozen=True)
class Cause:
    """One reason why measured and simulated differ."""

    name: str
    measured: float
    simulated: float
    unit: str
    meaning: str

    @property
    def size(self) -> float:
        """How large it is: the difference as a share of the larger."""
        top = max(abs(self.measured), abs(self.simulated))
        return abs(self.measured - self.simulated) / top if top else 0.0


def compared(names: list[str]) -> list[str]:
    """Return the metrics that are set side by side, for a scenario with these tasks."""
    by_task = [f"{metric}/{name}" for metric in ("miss_rate", "effective_accuracy") for name in names]
    return [*COMPARED, *by_task]


def causes(scenario: Any, measured: np.ndarray, simulated: np.ndarray, others: float) -> list[Cause]:
    """Return what set a run apart from its simulation, largest first; `others` is their share of the machine."""
    real, model = runs_of(scenario, measured), runs_of(scenario, simulated)
    alone, beside = _service(real, model)
    found = [
        Cause("runs alone", *alone, "ms", "mean time of a run with the device to itself, over the same variants"),
        Cause("runs side by side", *beside, "ms", "mean time of a run beside another, over the same variants"),
        Cause("dispatch", _median_ms(real.waited), _median_ms(model.waited), "ms", WAITING),
        Cause("other choices", 1.0 - _agreement(real, model), 0.0, "share", "runs in another variant than simulated"),
        Cause("failed jobs", float((measured["kind"] == FAIL).sum()), 0.0, "jobs", "jobs that gave no result"),
        Cause("other programs", others, 0.0, "share", "of the processor time, around the run"),
    ]
    return sorted(found, key=lambda cause: -cause.size)


WAITING = "median time for which a job waited although its stream was idle: waking up, choosing, handing over"


def _median_ms(times: np.ndarray) -> float:
    return float(np.median(times)) / 1e6 if len(times) else 0.0


def _service(real: Runs, model: Runs) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return mean times in ms, measured and simulated, of runs alone and of runs beside others."""
    return _mean_ms(real, model, alone=True), _mean_ms(real, model, alone=False)


def _mean_ms(real: Runs, model: Runs, alone: bool) -> tuple[float, float]:
    totals, count = np.zeros(2), 0
    for variant in set(_variants(real)) & set(_variants(model)):
        times = [_times(runs, variant, alone) for runs in (real, model)]
        if all(map(len, times)):
            # Weighted by how often the device ran it, so that both sides speak of the same mix.
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
    """Return the share of the jobs that finished on both sides in the same variant."""
    chosen = {(t, n): v for t, n, v in zip(model.task, model.number, model.variant, strict=True)}
    both = [(v, chosen[t, n]) for t, n, v in zip(real.task, real.number, real.variant, strict=True) if (t, n) in chosen]
    return sum(int(one == other) for one, other in both) / len(both) if both else 1.0
