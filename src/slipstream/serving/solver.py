"""The plan that serves the expected rates most accurately, as a mixed-integer linear program on HiGHS.

Accelerators of a kind are alike, so the program counts them: n of column (kind, variant) host it, and q requests per
second go there. It is the linear, type-aggregated form of the model in Proteus (ASPLOS'24), with the same optimum:

    max   sum over columns of  value x q - switching x u
    s.t.  headroom x q <= peak x n,  n of a kind in all <= fleet,  u >= n - hosted,
          q of a model in all <= its demand,  q in all >= served_share x demand in all

Where so much cannot be served with that headroom, the headroom is lowered until it can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from slipstream.serving.plans import Situation

SMALLEST_HEADROOM, MOST_HEADROOM = 0.05, 1000.0
STEP = 0.9
"""By which the headroom is multiplied when whole accelerators cannot do what fractions of them can."""


@dataclass(frozen=True)
class Program:
    """max value·q - switching·u over whole n and real q, u, as above."""

    value: np.ndarray
    switching: np.ndarray
    peak: np.ndarray
    model: np.ndarray
    kind: np.ndarray
    hosted: np.ndarray
    demand: np.ndarray
    fleet: np.ndarray
    headroom: float
    least: float
    """Requests per second that have to be served."""
    gap: float
    seconds: float


@dataclass(frozen=True)
class Solution:
    """A plan, and how good it is known to be."""

    counts: np.ndarray
    """Accelerators of each column."""
    served: np.ndarray
    """Requests per second of each column."""
    value: float
    gap: float
    """Proven distance from the best value, relative to it."""
    headroom: float
    """What was left of the headroom that was asked for."""


Solver = Callable[[Program], Solution | None]
"""Returns a plan, or None if there is none; another solver is a function of this kind."""


def highs(program: Program) -> Solution | None:
    """Solve with the HiGHS that comes with SciPy."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array, hstack

    columns, models, kinds = len(program.value), len(program.demand), len(program.fleet)
    each = np.arange(columns)
    identity = coo_array((np.ones(columns), (each, each)))
    nothing = coo_array((columns, columns))
    by_kind = coo_array((np.ones(columns), (program.kind, each)), shape=(kinds, columns))
    by_model = coo_array((np.ones(columns), (program.model, each)), shape=(models, columns))
    peaks = coo_array((program.peak, (each, each)))
    none_of_kind, none_of_model = coo_array((kinds, columns)), coo_array((models, columns))
    constraints = [
        LinearConstraint(hstack([-peaks, program.headroom * identity, nothing]), ub=0.0),
        LinearConstraint(hstack([by_kind, none_of_kind, none_of_kind]), ub=program.fleet),
        LinearConstraint(hstack([none_of_model, by_model, none_of_model]), ub=program.demand),
        LinearConstraint(np.repeat([0.0, 1.0, 0.0], columns)[None], lb=program.least),
        LinearConstraint(hstack([identity, nothing, -identity]), ub=program.hosted),
    ]
    most = program.fleet[program.kind].astype(float)
    found = milp(
        np.concatenate((np.zeros(columns), -program.value, program.switching)),
        integrality=np.repeat([1, 0, 0], columns),
        bounds=Bounds(0.0, np.concatenate((most, np.full(2 * columns, np.inf)))),
        constraints=constraints,
        options={"mip_rel_gap": program.gap, "time_limit": program.seconds},
    )
    if found.x is None:
        return None
    counts = np.rint(found.x[:columns]).astype(np.int64)
    gap = float(found.mip_gap) if found.mip_gap is not None else 0.0
    return Solution(counts, found.x[columns : 2 * columns], -float(found.fun), gap, program.headroom)


def largest_headroom(now: Situation, demand: np.ndarray) -> float:
    """Return the most headroom with which fractions of accelerators could serve the demand."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, hstack

    columns, models, kinds = len(now.peak), len(demand), len(now.fleet)
    each = np.arange(columns)
    by_kind = coo_array((np.ones(columns), (now.kind, each)), shape=(kinds, columns))
    by_model = coo_array((-now.peak, (now.model, each)), shape=(models, columns))
    asked = demand > 0.0
    found = linprog(
        np.append(np.zeros(columns), -1.0),
        A_ub=_stacked(hstack([by_kind, coo_array((kinds, 1))]), hstack([by_model, coo_array(demand[:, None])]), asked),
        b_ub=np.concatenate((now.fleet, np.zeros(int(asked.sum())))),
        bounds=(0.0, None),
    )
    return float(found.x[-1])


def _stacked(fleet: object, models: object, asked: np.ndarray) -> object:
    from scipy.sparse import csr_array, vstack

    return vstack([fleet, csr_array(models)[asked]])


def undominated(now: Situation) -> np.ndarray:
    """Return whether each column is worth considering: none of its model and kind is both as accurate and as fast."""
    keep = np.ones(len(now.peak), bool)
    order = np.lexsort((now.variant, -now.peak, -now.accuracy, now.kind, now.model))
    best, place = -np.inf, (-1, -1)
    for column in order:
        here = (int(now.model[column]), int(now.kind[column]))
        if here != place:
            best, place = -np.inf, here
        keep[column] = now.peak[column] > best
        best = max(best, now.peak[column])
    return keep


def solve(
    now: Situation, usable: np.ndarray, accuracy_weight: float, solver: Solver = highs, demand: np.ndarray | None = None
) -> Solution:
    """Return the best plan that uses some columns only; what no headroom can serve is left out of the demand."""
    asked = now.demand if demand is None else demand
    reachable = np.bincount(now.model[usable], minlength=now.models) > 0
    asked = np.where(reachable, asked, 0.0)
    part = _narrowed(now, usable)
    total = max(float(asked.sum()), 1e-9)
    value = (accuracy_weight * part.accuracy / 100.0 + (1.0 - accuracy_weight)) / total
    # While it loads, an accelerator serves nothing.
    switching = value * part.peak * np.minimum(part.load, 1.0)
    headroom = min(now.headroom, MOST_HEADROOM)
    if now.served_share * asked.sum() > 0.0:
        headroom = min(headroom, largest_headroom(part, now.served_share * asked))
    while headroom > SMALLEST_HEADROOM:
        program = Program(
            value,
            switching,
            part.peak,
            part.model,
            part.kind,
            part.hosted,
            asked,
            part.fleet,
            headroom,
            # A hair less, so that rounding does not make a program infeasible.
            now.served_share * float(asked.sum()) * (1.0 - 1e-9),
            now.gap,
            now.seconds,
        )
        found = solver(program)
        if found is not None:
            counts, served = np.zeros(len(usable), np.int64), np.zeros(len(usable))
            counts[usable], served[usable] = found.counts, found.served
            return Solution(counts, served, found.value, found.gap, found.headroom)
        headroom *= STEP
    return Solution(np.zeros(len(usable), np.int64), np.zeros(len(usable)), 0.0, 0.0, 0.0)


def _narrowed(now: Situation, usable: np.ndarray) -> Situation:
    names = ("model", "variant", "kind", "accuracy", "peak", "load", "hosted")
    return replace(now, **{name: getattr(now, name)[usable] for name in names})
