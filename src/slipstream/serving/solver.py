"""The plan that serves the expected rates most accurately, as a mixed-integer linear program on HiGHS.

Accelerators of a kind are alike, so the program counts them: n of column (kind, variant) host it, and q requests per
second go there. It is the linear, type-aggregated form of the model in Proteus (ASPLOS'24):

    max   sum over columns of  value x q - switching x u,  less  shortage x demand x s  summed over models
    s.t.  base x q <= peak x n,  n of a kind in all <= fleet,  u >= n - hosted,
          q of a model in all <= its demand,  q in all >= served_share x demand in all,
          peak x n of a model in all >= demand x (headroom - s)

In Proteus all of the headroom is a must (base = headroom); here what is above the demand itself has a price, so that
accuracy is not sold for headroom that is hardly needed. Where the demand cannot be met, the base is lowered until it can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from slipstream.serving.plans import Situation

SMALLEST_BASE = 0.05
STEP = 0.9
"""By which the base is multiplied when whole accelerators cannot do what fractions of them can."""


@dataclass(frozen=True)
class Program:
    """The program above: whole n and real q, u of each column, real s of each model."""

    value: np.ndarray
    switching: np.ndarray
    peak: np.ndarray
    model: np.ndarray
    kind: np.ndarray
    hosted: np.ndarray
    demand: np.ndarray
    fleet: np.ndarray
    base: float
    headroom: float
    shortage: np.ndarray
    """Price of a unit of headroom that is missing, by model."""
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
    base: float
    """Capacity per request that every column has; below 1, the demand exceeds what there is."""


Solver = Callable[[Program], Solution | None]
"""Returns a plan, or None if there is none; another solver is a function of this kind."""


def highs(program: Program) -> Solution | None:
    """Solve with the HiGHS that comes with SciPy."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import block_array, coo_array, diags_array

    columns, models, kinds = len(program.value), len(program.demand), len(program.fleet)
    each = np.arange(columns)
    one = diags_array(np.ones(columns))
    peaks = diags_array(program.peak)
    by_kind = coo_array((np.ones(columns), (program.kind, each)), shape=(kinds, columns))
    by_model = coo_array((np.ones(columns), (program.model, each)), shape=(models, columns))
    # Unknowns: n, q, u of each column, s of each model.
    rows = block_array(
        [
            [-peaks, program.base * one, None, None],
            [by_kind, None, None, None],
            [one, None, -one, None],
            [None, by_model, None, None],
            [None, coo_array(-np.ones((1, columns))), None, None],
            [-by_model @ peaks, None, None, -diags_array(program.demand)],
        ]
    )
    limits = (np.zeros(columns), program.fleet, program.hosted, program.demand, [-program.least])
    most = program.fleet[program.kind].astype(float)
    found = milp(
        np.concatenate((np.zeros(columns), -program.value, program.switching, program.shortage)),
        integrality=np.concatenate((np.ones(columns), np.zeros(2 * columns + models))),
        bounds=Bounds(0.0, np.concatenate((most, np.full(2 * columns + models, np.inf)))),
        constraints=LinearConstraint(rows, ub=np.concatenate((*limits, -program.headroom * program.demand))),
        options={"mip_rel_gap": program.gap, "time_limit": program.seconds},
    )
    if found.x is None:
        return None
    counts = np.rint(found.x[:columns]).astype(np.int64)
    gap = float(found.mip_gap) if found.mip_gap is not None else 0.0
    return Solution(counts, found.x[columns : 2 * columns], -float(found.fun), gap, program.base)


def largest_base(now: Situation, demand: np.ndarray) -> float:
    """Return the most capacity per request that fractions of accelerators could offer to every model."""
    from scipy.optimize import linprog
    from scipy.sparse import block_array, coo_array

    columns = len(now.peak)
    asked = np.flatnonzero(demand > 0.0)
    each = np.arange(columns)
    by_kind = coo_array((np.ones(columns), (now.kind, each)), shape=(len(now.fleet), columns))
    by_model = coo_array((-now.peak, (now.model, each)), shape=(len(demand), columns)).tocsr()[asked]
    found = linprog(
        np.append(np.zeros(columns), -1.0),
        A_ub=block_array([[by_kind, None], [by_model, coo_array(demand[asked, None])]]),
        b_ub=np.concatenate((now.fleet, np.zeros(len(asked)))),
        bounds=(0.0, None),
    )
    return float(found.x[-1])


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
    now: Situation, usable: np.ndarray, accuracy_weight: float, base: float = 1.0, solver: Solver = highs
) -> Solution:
    """Return the best plan that uses some columns only; what no base can serve is left out of the demand."""
    reachable = np.bincount(now.model[usable], minlength=now.models) > 0
    asked = np.where(reachable, now.demand, 0.0)
    part = _narrowed(now, usable)
    total = max(float(asked.sum()), 1e-9)
    value = (accuracy_weight * part.accuracy / 100.0 + (1.0 - accuracy_weight)) / total
    least = now.served_share * float(asked.sum())
    if least > 0.0:
        base = min(base, largest_base(part, now.served_share * asked))
    while base > SMALLEST_BASE:
        program = Program(
            value=value,
            # While it loads, an accelerator serves nothing.
            switching=value * part.peak * np.minimum(part.load, 1.0),
            peak=part.peak,
            model=part.model,
            kind=part.kind,
            hosted=part.hosted,
            demand=asked,
            fleet=part.fleet,
            base=base,
            headroom=now.headroom,
            shortage=now.shortage * asked / total,
            # A hair less, so that rounding does not make a program infeasible.
            least=least * (1.0 - 1e-9),
            gap=now.gap,
            seconds=now.seconds,
        )
        found = solver(program)
        if found is not None:
            counts, served = np.zeros(len(usable), np.int64), np.zeros(len(usable))
            counts[usable], served[usable] = found.counts, found.served
            return replace(found, counts=counts, served=served)
        base *= STEP
    return Solution(np.zeros(len(usable), np.int64), np.zeros(len(usable)), 0.0, 0.0, 0.0)


def _narrowed(now: Situation, usable: np.ndarray) -> Situation:
    names = ("model", "variant", "kind", "accuracy", "peak", "load", "hosted")
    return replace(now, **{name: getattr(now, name)[usable] for name in names})
