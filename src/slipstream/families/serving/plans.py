"""What a planner observes and returns, and the moves from the present deployment to its target.

A planner reads the rows of a plan's first decision and returns how many accelerators of each kind are to host each
variant: its target. Moves are then the same rows that any policy chooses from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from slipstream.families.serving import features as f
from slipstream.families.serving.kernel.state import ROWS_PER_COLUMN

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator

NANOSECONDS = 1e9

PLAN_HORIZON = 10e9
"""Time in ns for which a deployment is assumed to last, at the least: a load pays off beyond the next plan."""

PEAK_DECAY = 60e9
"""Time constant in ns of the decay of a remembered peak rate."""


@dataclass(frozen=True)
class PlanningState:
    """A plan's first decision as arrays, one entry per column: a variant on a kind of accelerator."""

    model: np.ndarray
    variant: np.ndarray
    kind: np.ndarray
    accuracy: np.ndarray
    """In percent."""
    peak: np.ndarray
    """Requests per second of one accelerator."""
    load: np.ndarray
    """Time to load the variant, as a share of the plan horizon."""
    latency: np.ndarray
    """Seconds of a single request."""
    batch_latency: np.ndarray
    """Seconds of the largest batch."""
    hosted: np.ndarray
    demand: np.ndarray
    """Forecast of each model, in requests per second."""
    observed: np.ndarray
    """Rate of each model in the last sample, in requests per second."""
    recent_peak: np.ndarray
    """Greatest recent rate of each model, decayed: bursts come back."""
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
    """Whether this is the first plan of the episode."""
    coin: float

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.demand)

    def capacity(self, counts: np.ndarray) -> np.ndarray:
        """Return the requests per second of each model that a deployment of `counts` can serve."""
        return np.bincount(self.model, self.peak * counts, self.models)


def planning_state(global_row: np.ndarray, rows: np.ndarray) -> PlanningState:
    """Return the planning state that the rows of a decision describe."""
    columns = rows[:-1:ROWS_PER_COLUMN]
    model, kind = columns[:, f.MODEL].astype(np.int64), columns[:, f.KIND].astype(np.int64)
    models, kinds = int(model.max()) + 1, int(kind.max()) + 1
    demand, observed, slo, free = np.zeros(models), np.zeros(models), np.zeros(models), np.zeros(kinds)
    demand[model] = columns[:, f.FORECAST]
    observed[model] = columns[:, f.RATE]
    slo[model] = columns[:, f.SLO] / NANOSECONDS
    free[kind] = columns[:, f.FREE]
    hosted = columns[:, f.HOSTED].astype(np.int64)
    fleet = free + np.bincount(kind, hosted, kinds)
    return PlanningState(
        model=model,
        variant=columns[:, f.VARIANT].astype(np.int64),
        kind=kind,
        accuracy=columns[:, f.ACCURACY].copy(),
        peak=columns[:, f.PEAK].copy(),
        load=columns[:, f.LOAD_TIME] / PLAN_HORIZON,
        latency=columns[:, f.LATENCY] / NANOSECONDS,
        batch_latency=columns[:, f.BATCH_LATENCY] / NANOSECONDS,
        hosted=hosted,
        demand=demand,
        observed=observed,
        recent_peak=np.maximum(demand, observed),
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
    """Return the row of the next move towards `target`: first accelerators are freed, then variants hosted."""
    hosted = rows[:-1:ROWS_PER_COLUMN, f.HOSTED]
    for column in np.flatnonzero(hosted > target):
        return int(ROWS_PER_COLUMN * column + 1)
    for column in np.flatnonzero(hosted < target):
        if mask[ROWS_PER_COLUMN * column]:
            return int(ROWS_PER_COLUMN * column)
    return len(mask) - 1


PlanFunction = Callable[[PlanningState], np.ndarray]


class Planner:
    """A policy that computes a target deployment at the first decision of a plan, and then makes the moves."""

    def __init__(self, name: str, description: str, target: PlanFunction, heeds_demand: bool = True) -> None:
        self.name = name
        self.heeds_demand = heeds_demand
        """Whether plans for another demand are worth trying."""
        self.family = "serving"
        self.description = description
        self._plan_function = target
        self._target = np.zeros(0)
        self._next_decision = (-1.0, -1.0)
        """Time and moves left at the next decision of the present plan."""
        self._planned = 0.0
        self._recent_peak = np.zeros(0)
        self._known_demand: np.ndarray | None = None

    def demand_before(self, simulator: Simulator) -> np.ndarray:
        """Return the requests per second of each model since the last plan."""
        interval = float(simulator.family.spec_arrays(simulator.scenario)["machine"]["interval"][0])
        return np.asarray(simulator.arrays["models"][0]["offered"] * NANOSECONDS / interval)

    def with_demand(self, demand: np.ndarray) -> Planner:
        """Return a copy that plans for these rates of each model instead of the forecasts in the rows."""
        planner = deepcopy(self)
        planner._known_demand = demand
        return planner

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Return the next move of the plan; where decisions route requests, the accelerator that finishes first."""
        if rows[0, f.SEND] == 1.0:
            legal = np.flatnonzero(mask[:-1])
            return int(legal[np.argmin(rows[legal, f.FINISH])])
        time, moves = float(global_row[f.TIME]), float(global_row[f.MOVES])
        if (time, moves) != self._next_decision:
            state = planning_state(global_row, rows)
            if self._known_demand is None:
                state = self._with_recent_peak(state, time - self._planned)
            else:
                known = self._known_demand[: state.models]
                state = replace(state, demand=known, observed=known, recent_peak=known)
            self._target = self._plan_function(state)
            self._planned = time
        move = next_move(self._target, rows, mask)
        self._next_decision = (time, moves - 1.0) if move < len(mask) - 1 else (-1.0, -1.0)
        return move

    def _with_recent_peak(self, state: PlanningState, passed: float) -> PlanningState:
        """Return `state` with the greatest rates of this episode, decayed over the time `passed`."""
        if not state.first and len(self._recent_peak) == state.models:
            state = replace(
                state, recent_peak=np.maximum(state.recent_peak, self._recent_peak * math.exp(-passed / PEAK_DECAY))
            )
        self._recent_peak = state.recent_peak
        return state
