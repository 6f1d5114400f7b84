"""The deployment that serves the forecast most accurately, as a mixed-integer linear program on HiGHS.

Accelerators of a kind are alike, so the program counts them: n of column (kind, variant) host it, and c requests per
second of their capacity count. It is a linear, type-aggregated form of the model in Proteus (ASPLOS'24):

    max   sum over columns of  value x c - switching x u,  plus  demand x (credit x s + rest x t)  summed over models
    s.t.  c <= peak x n,  n of a kind in all <= fleet,  u >= n - hosted,
          c of a model in all + demand x (s + t) = headroom x demand,  s <= scarce - base,  t <= headroom - scarce

All that is hosted gets requests, in proportion to its capacity: so the accuracy of a model is the mean over c. In
Proteus all of the headroom is required (s = t = 0). Here it has a price: missing headroom is credited with the accuracy
of the best variant less that price, so that accuracy is not traded for headroom that is hardly needed. The first third
of the usual headroom (s) has the full price, the rest (t) a part of it. Where even the base, the demand itself, exceeds
the capacity, it is lowered until it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from slipstream.families.serving.plans import PlanningState

SMALLEST_BASE = 0.05
BASE_STEP = 0.9
"""Factor on the base when whole accelerators cannot serve what fractions of them can."""
FEW_COLUMNS = 240
"""Most columns of a program that is solved as a whole."""
LEAST_SECONDS = 0.05
SCARCE_SHARE, REST_PRICE = 1 / 3, 1 / 4
"""Share of the headroom at full price, and the share of the price that the rest has."""


@dataclass(frozen=True)
class Program:
    """The program above: integer n and real c, u of each column, real s, t of each model."""

    value: np.ndarray
    switching: np.ndarray
    credit: np.ndarray
    rest_credit: np.ndarray
    peak: np.ndarray
    model: np.ndarray
    kind: np.ndarray
    hosted: np.ndarray
    demand: np.ndarray
    fleet: np.ndarray
    headroom: np.ndarray
    scarce: np.ndarray
    base: float
    gap: float
    seconds: float


BY_COLUMN = ("value", "switching", "peak", "model", "kind", "hosted")


@dataclass(frozen=True)
class Solution:
    """A plan and its proven quality."""

    counts: np.ndarray
    """Accelerators of each column."""
    value: float
    gap: float
    """Proven distance from the best value, relative to it."""
    base: float
    """Least capacity of every model per request; below 1, the demand exceeds the capacity."""


Solver = Callable[[Program], Solution | None]
"""Returns a plan, or None if there is none; any such function can replace `highs`."""


def highs(program: Program) -> Solution | None:
    """Solve with the HiGHS that comes with SciPy.

    Of many columns only the most valuable of the LP relaxation are kept; its value bounds what the others could add.
    """
    from scipy.optimize import linprog

    if len(program.value) <= FEW_COLUMNS:
        return solve_integer(program)
    began = perf_counter()
    form = _standard_form(program)
    relaxed = linprog(
        form.cost,
        A_ub=form.rows[: form.equal],
        b_ub=form.upper[: form.equal],
        A_eq=form.rows[form.equal :],
        b_eq=form.upper[form.equal :],
        bounds=np.stack((np.zeros(len(form.most)), form.most), axis=1),
    )
    if relaxed.x is None:
        return None
    columns = len(program.value)
    order = np.lexsort((relaxed.lower.marginals[:columns], -relaxed.x[:columns]))
    kept = np.sort(order[:FEW_COLUMNS])
    seconds = max(LEAST_SECONDS, program.seconds - (perf_counter() - began))
    part = replace(program, seconds=seconds, **{name: getattr(program, name)[kept] for name in BY_COLUMN})
    found = solve_integer(part)
    if found is None:
        return solve_integer(program)
    counts = np.zeros(columns, np.int64)
    counts[kept] = found.counts
    gap = max(0.0, -float(relaxed.fun) - found.value) / max(abs(found.value), 1e-9)
    return replace(found, counts=counts, gap=gap)


@dataclass(frozen=True)
class _StandardForm:
    """The program in the solver's form: least cost, rows of which the last ones are equations, bounds from 0 up."""

    cost: np.ndarray
    rows: Any
    lower: np.ndarray
    upper: np.ndarray
    equal: int
    """Index of the first equation."""
    most: np.ndarray


def _standard_form(program: Program) -> _StandardForm:
    """Return the solver's form; unknowns are n and c of each column, u of those hosted, s and t of each model."""
    from scipy.sparse import block_array, coo_array, diags_array

    columns, models, kinds = len(program.value), len(program.demand), len(program.fleet)
    each = np.arange(columns)
    # A variant that is not hosted yet is loaded on every accelerator that it gets, so u = n there.
    hosted = np.flatnonzero(program.hosted > 0)
    one = diags_array(np.ones(columns))
    by_kind = coo_array((np.ones(columns), (program.kind, each)), shape=(kinds, columns))
    by_model = coo_array((np.ones(columns), (program.model, each)), shape=(models, columns))
    missing = diags_array(program.demand)
    less = coo_array((np.ones(len(hosted)), (np.arange(len(hosted)), hosted)), shape=(len(hosted), columns))
    rows = block_array(
        [
            [-diags_array(program.peak), one, None, None, None],
            [by_kind, None, None, None, None],
            [less, None, -diags_array(np.ones(len(hosted))), None, None],
            [None, by_model, coo_array((models, len(hosted))), missing, missing],
        ],
        format="csr",
    )
    wanted = program.headroom * program.demand
    credited = np.concatenate((program.credit * program.demand, program.rest_credit * program.demand))
    widths = np.concatenate((program.scarce - program.base, program.headroom - program.scarce))
    equal = columns + kinds + len(hosted)
    return _StandardForm(
        cost=np.concatenate(
            (
                np.where(program.hosted > 0, 0.0, program.switching),
                -program.value,
                program.switching[hosted],
                -credited,
            )
        ),
        rows=rows,
        lower=np.concatenate((np.full(equal, -np.inf), wanted)),
        upper=np.concatenate((np.zeros(columns), program.fleet, program.hosted[hosted], wanted)),
        equal=equal,
        most=np.concatenate((program.fleet[program.kind], np.full(columns + len(hosted), np.inf), widths)),
    )


def solve_integer(program: Program) -> Solution | None:
    """Solve with whole accelerators, all columns at once."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    columns, form = len(program.value), _standard_form(program)
    found = milp(
        form.cost,
        integrality=np.arange(len(form.cost)) < columns,
        bounds=Bounds(0.0, form.most),
        constraints=LinearConstraint(form.rows, form.lower, form.upper),
        options={"mip_rel_gap": program.gap, "time_limit": program.seconds},
    )
    if found.x is None:
        return None
    counts = np.rint(found.x[:columns]).astype(np.int64)
    gap = float(found.mip_gap) if found.mip_gap is not None else 0.0
    return Solution(counts, -float(found.fun), gap, program.base)


def largest_base(state: PlanningState, demand: np.ndarray) -> float:
    """Return the most capacity per request that fractions of accelerators could give to every model."""
    from scipy.optimize import linprog
    from scipy.sparse import block_array, coo_array

    columns = len(state.peak)
    asked = np.flatnonzero(demand > 0.0)
    each = np.arange(columns)
    by_kind = coo_array((np.ones(columns), (state.kind, each)), shape=(len(state.fleet), columns))
    by_model = coo_array((-state.peak, (state.model, each)), shape=(len(demand), columns)).tocsr()[asked]
    found = linprog(
        np.append(np.zeros(columns), -1.0),
        A_ub=block_array([[by_kind, None], [by_model, coo_array(demand[asked, None])]]),
        b_ub=np.concatenate((state.fleet, np.zeros(len(asked)))),
        bounds=(0.0, None),
    )
    return float(found.x[-1])


def undominated(state: PlanningState) -> np.ndarray:
    """Return a mask of the columns that no other of their model and kind matches in both accuracy and throughput."""
    keep = np.ones(len(state.peak), bool)
    order = np.lexsort((state.variant, -state.peak, -state.accuracy, state.kind, state.model))
    best, pair = -np.inf, (-1, -1)
    for column in order:
        here = (int(state.model[column]), int(state.kind[column]))
        if here != pair:
            best, pair = -np.inf, here
        keep[column] = state.peak[column] > best
        best = max(best, state.peak[column])
    return keep


def solve(
    state: PlanningState, usable: np.ndarray, headroom: np.ndarray, base: float = 1.0, solver: Solver = highs
) -> Solution:
    """Return the best plan on the columns `usable`, with headroom by model; models without columns are left out."""
    reachable = np.bincount(state.model[usable], minlength=state.models) > 0
    asked = np.where(reachable, state.demand, 0.0)
    part = _restricted(state, usable)
    # Scaled so that the value is the mean accuracy of a request.
    scale = 1.0 / (headroom * max(float(asked.sum()), 1e-9))
    value = state.accuracy_weight * part.accuracy / 100.0 + (1.0 - state.accuracy_weight)
    best = np.zeros(state.models)
    np.maximum.at(best, part.model, value)
    base = min(float(headroom.min()), state.served_share * base)
    if base * asked.sum() > 0.0:
        base = min(base, largest_base(part, asked))
    while True:
        program = Program(
            value=scale[part.model] * value,
            # A loading accelerator serves nothing.
            switching=scale[part.model] * value * part.peak * np.minimum(part.load, 1.0),
            credit=scale * (best - state.shortage),
            rest_credit=scale * (best - REST_PRICE * state.shortage),
            peak=part.peak,
            model=part.model,
            kind=part.kind,
            hosted=part.hosted,
            demand=asked,
            fleet=part.fleet,
            headroom=headroom,
            scarce=np.maximum(base, np.minimum(headroom, 1.0 + SCARCE_SHARE * (state.headroom - 1.0))),
            base=base,
            gap=state.gap,
            seconds=state.seconds,
        )
        found = solver(program)
        if found is not None:
            counts = np.zeros(len(usable), np.int64)
            counts[usable] = found.counts
            return replace(found, counts=counts)
        if base == 0.0:
            return Solution(np.zeros(len(usable), np.int64), 0.0, 0.0, 0.0)
        base = base * BASE_STEP if base > SMALLEST_BASE else 0.0


def _restricted(state: PlanningState, usable: np.ndarray) -> PlanningState:
    names = ("model", "variant", "kind", "accuracy", "peak", "load", "hosted")
    return replace(state, **{name: getattr(state, name)[usable] for name in names})
