"""What a planner sees and says, and the moves that lead from what is hosted to what it wants.

A planner looks at the rows of a plan's first choice and says how many accelerators of each kind are to host each
variant: its target. Moves are then the same rows that any policy chooses from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from slipstream.families.serving import features as f
from slipstream.families.serving.kernel.state import ROWS_PER_COLUMN

NANOSECONDS = 1e9

LASTING = 10e9
"""Time in ns for which a plan is thought to last, at the least: what is loaded is of use beyond the next plan."""

FADING = 60e9
"""Time in ns after which a remembered rate counts 1/e."""


@dataclass(frozen=True)
class Situation:
    """A plan's first choice as arrays, one place per column: a variant on a kind of accelerator."""

    model: np.ndarray
    variant: np.ndarray
    kind: np.ndarray
    accuracy: np.ndarray
    """In percent."""
    peak: np.ndarray
    """Requests per second of one accelerator."""
    load: np.ndarray
    """Time to load the variant, as a share of the time for which a plan is thought to last."""
    latency: np.ndarray
    """Seconds of a single request."""
    batch_latency: np.ndarray
    """Seconds of the largest batch."""
    hosted: np.ndarray
    demand: np.ndarray
    """Requests per second that are expected, of each model."""
    seen: np.ndarray
    """Requests per second in the last sample, of each model."""
    recent: np.ndarray
    """Greatest rate of each model that is still remembered: bursts come back."""
    slo: np.ndarray
    """Seconds from the arrival of a request to its deadline, of each model."""
    fleet: np.ndarray
    """Accelerators of each kind."""
    interval: float
    """Seconds until the next plan."""
    headroom: float
    shortage: float
    accuracy_weight: float
    served_share: float
    gap: float
    seconds: float
    first: bool
    """Whether nothing was planned before in this episode."""
    coin: float

    @property
    def models(self) -> int:
        """How many there are."""
        return len(self.demand)

    def capacity(self, counts: np.ndarray) -> np.ndarray:
        """Return the requests per second that some hosting can serve, of each model."""
        return np.bincount(self.model, self.peak * counts, self.models)


def situation(global_row: np.ndarray, rows: np.ndarray) -> Situation:
    """Return what the rows of a plan say."""
    columns = rows[:-1:ROWS_PER_COLUMN]
    model, kind = columns[:, f.MODEL].astype(np.int64), columns[:, f.KIND].astype(np.int64)
    models, kinds = int(model.max()) + 1, int(kind.max()) + 1
    demand, seen, slo, free = np.zeros(models), np.zeros(models), np.zeros(models), np.zeros(kinds)
    demand[model] = columns[:, f.FORECAST]
    seen[model] = columns[:, f.RATE]
    slo[model] = columns[:, f.SLO] / NANOSECONDS
    free[kind] = columns[:, f.FREE]
    hosted = columns[:, f.HOSTED].astype(np.int64)
    fleet = free + np.bincount(kind, hosted, kinds)
    return Situation(
        model=model,
        variant=columns[:, f.VARIANT].astype(np.int64),
        kind=kind,
        accuracy=columns[:, f.ACCURACY].copy(),
        peak=columns[:, f.PEAK].copy(),
        load=columns[:, f.LOAD_TIME] / LASTING,
        latency=columns[:, f.LATENCY] / NANOSECONDS,
        batch_latency=columns[:, f.BATCH_LATENCY] / NANOSECONDS,
        hosted=hosted,
        demand=demand,
        seen=seen,
        recent=np.maximum(demand, seen),
        slo=slo,
        fleet=fleet.astype(np.int64),
        interval=float(global_row[f.INTERVAL]) / NANOSECONDS,
        headroom=float(global_row[f.HEADROOM]),
        shortage=float(global_row[f.SHORTAGE]),
        accuracy_weight=float(global_row[f.ACCURACY_WEIGHT]),
        served_share=float(global_row[f.SERVED_SHARE]),
        gap=float(global_row[f.GAP]),
        seconds=float(global_row[f.SECONDS]),
        first=bool(global_row[f.FIRST]),
        coin=float(global_row[f.COIN]),
    )


def next_move(target: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Return the row that leads on towards a target: first everything is freed that has to be, then hosted."""
    hosted = rows[:-1:ROWS_PER_COLUMN, f.HOSTED]
    for column in np.flatnonzero(hosted > target):
        return int(ROWS_PER_COLUMN * column + 1)
    for column in np.flatnonzero(hosted < target):
        if mask[ROWS_PER_COLUMN * column]:
            return int(ROWS_PER_COLUMN * column)
    return len(mask) - 1


Target = Callable[[Situation], np.ndarray]


class Planner:
    """A policy that decides at the first choice of a plan what to host, and then makes the moves."""

    def __init__(self, name: str, description: str, target: Target) -> None:
        self.name = name
        self.family = "serving"
        self.description = description
        self._wanted = target
        self._target = np.zeros(0)
        self._awaited = (-1.0, -1.0)
        """Time and moves left at the next choice of the plan that is under way."""
        self._planned = 0.0
        self._recent = np.zeros(0)

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Return the next move of the plan; where requests are the choices, the accelerator that ends first."""
        if rows[0, f.SEND] == 1.0:
            legal = np.flatnonzero(mask[:-1])
            return int(legal[np.argmin(rows[legal, f.FINISH])])
        time, moves = float(global_row[f.TIME]), float(global_row[f.MOVES])
        if (time, moves) != self._awaited:
            self._target = self._wanted(self._remembering(situation(global_row, rows), time - self._planned))
            self._planned = time
        move = next_move(self._target, rows, mask)
        self._awaited = (time, moves - 1.0) if move < len(mask) - 1 else (-1.0, -1.0)
        return move

    def _remembering(self, now: Situation, passed: float) -> Situation:
        """Return a situation with the greatest rates of this episode, those long past faded."""
        if not now.first:
            now = replace(now, recent=np.maximum(now.recent, self._recent * math.exp(-passed / FADING)))
        self._recent = now.recent
        return now
