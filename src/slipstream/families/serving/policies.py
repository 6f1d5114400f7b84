"""Policies of the serving family: planners, which decide what is hosted, and routing rules.

Planners read a plan's rows and return a target deployment; `plans.Planner` makes the moves. The baselines are those
that Proteus is compared with: INFaaS (ATC'21), Clipper (NSDI'17) and Sommelier (SIGMOD'22), and the simple ones of the
BLIS scheduler.
"""

# Elements of arrays and results of compiled functions have no type that mypy knows.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from slipstream.families.serving.features import ACCURACY, FINISH, SEND, SLACK
from slipstream.families.serving.local_search import THOROUGH, LocalSearchPlanner
from slipstream.families.serving.plans import PlanFunction, Planner, PlanningState
from slipstream.families.serving.scenario import ServingScenario
from slipstream.families.serving.solver import Solution, largest_base, solve, undominated
from slipstream.policies.base import chooser, find, register_policy

LOG = logging.getLogger(__name__)
MIN_MOVE_GAIN = 0.02
"""Least gain of mean accuracy, from 0 to 1, for which accelerators move from one model to another."""
MIN_PEAK_SHARE = 0.1
"""Share of the recent peak rate for which there is capacity in any case."""
INFAAS_SLACK = 0.05
"""Share of its capacity that INFaaS keeps free."""
INFAAS_DOWNSCALE = 2.0
"""Capacity per request at which INFaaS frees an accelerator."""


HEEDLESS = {"static", "random", "lfu", "clipper-ha", "clipper-ht", "sommelier", "milp-throughput"}
"""Planners whose plans for another demand are not worth trying: they plan once, or take a solver long."""


def planner(function: PlanFunction) -> PlanFunction:
    """Register a planner under the function's name."""
    name = function.__name__.strip("_").replace("_", "-")
    register_policy(Planner(name, (function.__doc__ or "").split("\n")[0], function, name not in HEEDLESS))
    return function


# Choosing variants


def _extreme(state: PlanningState, best: bool) -> np.ndarray:
    """Return a mask of the columns with their model's most accurate (`best`) or least accurate variant."""
    sign = 1.0 if best else -1.0
    top = np.full(state.models, -np.inf)
    np.maximum.at(top, state.model, sign * state.accuracy)
    return np.asarray(sign * state.accuracy == top[state.model])


def _free(state: PlanningState, counts: np.ndarray) -> np.ndarray:
    """Return the accelerators of each kind that a deployment leaves free."""
    return state.fleet - np.bincount(state.kind, counts, len(state.fleet)).astype(np.int64)


def _fill_free(state: PlanningState, counts: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Return a deployment whose free accelerators host the most accurate variant where capacity is scarcest.

    Variants that are hosted already stay, if they are what would be hosted.
    """
    counts = counts.copy()
    best: dict[tuple[int, int], int] = {}
    for column in np.flatnonzero(usable & (state.demand[state.model] > 0.0)).tolist():
        key = (int(state.model[column]), int(state.kind[column]))
        if key not in best or state.accuracy[column] > state.accuracy[best[key]]:
            best[key] = column
    left = _free(state, counts)
    for column in best.values():
        kept = min(max(0, int(state.hosted[column] - counts[column])), int(left[state.kind[column]]))
        counts[column] += kept
        left[state.kind[column]] -= kept
    for kind in range(len(left)):
        served = [model for model in range(state.models) if (model, kind) in best]
        while left[kind] > 0 and served:
            capacity = state.capacity(counts)
            scarce = min(served, key=lambda model: (capacity[model] / state.demand[model], model))
            counts[best[scarce, kind]] += 1
            left[kind] -= 1
    return counts


def _equal_shares(state: PlanningState) -> np.ndarray:
    """Return a deployment with as many accelerators of each kind for each model, with its least accurate variant."""
    return _share_out(state, np.ones(state.models), _extreme(state, best=False))


def _share_out(state: PlanningState, weight: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Return a deployment that divides each kind by `weight`, remainders by the largest-remainder method."""
    counts = np.zeros(len(state.model), np.int64)
    for kind, fleet in enumerate(state.fleet):
        columns = np.flatnonzero(usable & (state.kind == kind))
        total = weight[state.model[columns]].sum()
        if not len(columns) or total <= 0.0:
            continue
        wanted = weight[state.model[columns]] / total * fleet
        whole = np.floor(wanted).astype(np.int64)
        order = np.argsort(whole - wanted, kind="stable")
        whole[order[: fleet - whole.sum()]] += 1
        counts[columns] = whole
    return counts


# Simple planners


@planner
def static(state: PlanningState) -> np.ndarray:
    """The same number of accelerators for each model, with its least accurate variant, from the beginning."""
    return _equal_shares(state) if state.first and not state.hosted.any() else state.hosted


@planner
def random(state: PlanningState) -> np.ndarray:
    """Random variants; at each plan one accelerator of each kind gets another."""
    rng = np.random.default_rng(int(state.coin * 2**53))
    counts = state.hosted.copy()
    for kind in range(len(state.fleet)):
        columns = np.flatnonzero(state.kind == kind)
        hosted = np.flatnonzero((state.kind == kind) & (counts > 0))
        if not len(columns):
            continue
        if len(hosted):
            counts[rng.choice(hosted)] -= 1
        for _ in range(int(state.fleet[kind] - counts[state.kind == kind].sum())):
            counts[rng.choice(columns)] += 1
    return counts


@planner
def lfu(state: PlanningState) -> np.ndarray:
    """Least frequently used: the least utilised model gives an accelerator of each kind to the most utilised."""
    if state.first and not state.hosted.any():
        return _equal_shares(state)
    counts = state.hosted.copy()
    least = _extreme(state, best=False)
    used = state.demand / np.maximum(state.capacity(counts), 1e-9)
    idlest, busiest = int(np.argmin(used)), int(np.argmax(used))
    if used[idlest] == used[busiest]:
        return counts
    for kind in range(len(state.fleet)):
        gives = np.flatnonzero((state.model == idlest) & (state.kind == kind) & (counts > 0))
        takes = np.flatnonzero((state.model == busiest) & (state.kind == kind) & least)
        if len(gives) and len(takes):
            counts[gives[0]] -= 1
            counts[takes[0]] += 1
    return counts


@planner
def load_proportional(state: PlanningState) -> np.ndarray:
    """Accelerators of each kind by the forecasts; each model takes the most accurate variant that keeps up."""
    counts = np.zeros(len(state.model), np.int64)
    chosen = _extreme(state, best=False)
    shares = _share_out(state, np.maximum(state.demand, 1e-6), chosen)
    accelerators = np.zeros((state.models, len(state.fleet)), np.int64)
    np.add.at(accelerators, (state.model, state.kind), shares)
    for model in range(state.models):
        own = np.flatnonzero(state.model == model)
        variants = sorted(set(state.variant[own].tolist()), key=lambda one: -state.accuracy[state.variant == one][0])
        for variant in variants:
            columns = own[state.variant[own] == variant]
            hosted = accelerators[model, state.kind[columns]]
            enough = (state.peak[columns] * hosted).sum() >= state.headroom * state.demand[model]
            if enough or variant == variants[-1]:
                counts[columns] = hosted
                break
    return counts


# Systems from the literature


@planner
def infaas(state: PlanningState) -> np.ndarray:
    """INFaaS: adds or speeds up an accelerator where the last second's rate needs it, at the least loss of accuracy."""
    counts = state.hosted.copy()
    for model in np.argsort(-state.observed, kind="stable"):
        _scale(state, counts, int(model))
    return counts


def _scale(state: PlanningState, counts: np.ndarray, model: int) -> None:
    """Add, speed up or remove accelerators of one model until they suit its rate."""
    own = np.flatnonzero(state.model == model)

    def spare() -> float:
        return float((state.peak[own] * counts[own]).sum() * (1.0 - INFAAS_SLACK) - state.observed[model])

    while spare() < 0.0:
        left = _free(state, counts)
        # Loss of accuracy, negated throughput, column to stop hosting (-1: a free accelerator), column to host.
        options = [
            (100.0 - state.accuracy[new], -state.peak[new], -1, int(new)) for new in own if left[state.kind[new]] > 0
        ]
        for old in own[counts[own] > 0]:
            faster = own[(state.kind[own] == state.kind[old]) & (state.peak[own] > state.peak[old])]
            options += [
                (state.accuracy[old] - state.accuracy[new], -state.peak[new], int(old), int(new)) for new in faster
            ]
        if not options:
            return
        _, _, old, new = min(options)
        if old >= 0:
            counts[old] -= 1
        counts[new] += 1
    if counts[own].sum() > 1 and state.observed[model] * INFAAS_DOWNSCALE < (state.peak[own] * counts[own]).sum():
        hosted = own[counts[own] > 0]
        least = hosted[np.argmin(state.accuracy[hosted])]
        if spare() > state.peak[least]:
            counts[least] -= 1


def _solve_and_fill(
    state: PlanningState, usable: np.ndarray, headroom: np.ndarray | None = None, base: float = 1.0
) -> np.ndarray:
    if headroom is None:
        headroom = np.full(state.models, state.headroom)
    return _fill_free(state, _logged(solve(state, usable & undominated(state), headroom, base)).counts, usable)


def _logged(solution: Solution) -> Solution:
    LOG.info("plan: gap %.4f, at least %.3f of capacity per request", solution.gap, solution.base)
    return solution


def _fixed_allocation(state: PlanningState) -> PlanningState:
    """Return the planning state in which every model keeps the accelerators of each kind that it has."""
    # A kind of its own for every model and kind fixes the number of accelerators.
    pair = state.model * len(state.fleet) + state.kind
    fleet = np.bincount(pair, state.hosted, state.models * len(state.fleet)).astype(np.int64)
    return replace(state, kind=pair, fleet=fleet)


def _fixed(best: bool) -> Callable[[PlanningState], np.ndarray]:
    def plan(state: PlanningState) -> np.ndarray:
        return _solve_and_fill(state, _extreme(state, best)) if state.first else state.hosted

    return plan


@planner
def clipper_ha(state: PlanningState) -> np.ndarray:
    """Clipper, high accuracy: the most accurate variants only, allocated once for the expected rates."""
    return _fixed(best=True)(state)


@planner
def clipper_ht(state: PlanningState) -> np.ndarray:
    """Clipper, high throughput: the least accurate variants only, allocated once for the expected rates."""
    return _fixed(best=False)(state)


@planner
def sommelier(state: PlanningState) -> np.ndarray:
    """Sommelier: models keep the accelerators of the first plan, and exchange variants on them."""
    everything = np.ones(len(state.model), bool)
    return _solve_and_fill(state if state.first else _fixed_allocation(state), everything)


@planner
def milp(state: PlanningState) -> np.ndarray:
    """The most accurate deployment that serves the forecast, with headroom for recent bursts, by HiGHS."""
    # A model with little demand now may have its peak demand again at once.
    demand = np.maximum(state.demand, MIN_PEAK_SHARE * state.recent_peak)
    headroom = np.maximum(
        state.headroom, np.divide(state.recent_peak, demand, out=np.ones(state.models), where=demand > 0.0)
    )
    state = replace(state, demand=demand)
    usable = np.ones(len(state.model), bool)
    free = _logged(solve(state, undominated(state), headroom))
    if not state.first:
        settled = _fixed_allocation(state)
        kept = _logged(solve(settled, undominated(settled), headroom))
        if kept.base >= free.base and free.value < kept.value + MIN_MOVE_GAIN:
            return _fill_free(settled, kept.counts, usable)
    return _fill_free(state, free.counts, usable)


def program_plan(state: PlanningState) -> np.ndarray:
    """Return the program's plan for the demand of `state`, wherever accelerators are now."""
    return _solve_and_fill(state, np.ones(len(state.model), bool))


register_policy(
    LocalSearchPlanner(
        "milp-rehearsed",
        "Local search from the integer program's plans, simulated at likely future rates.",
        program_plan,
    )
)


def accurate_plan(state: PlanningState) -> np.ndarray:
    """Return the plan that hosts the most accurate variants only, where capacity is scarcest, without a program."""
    return _fill_free(state, np.zeros(len(state.model), np.int64), _extreme(state, best=True))


register_policy(
    LocalSearchPlanner(
        "milp-thorough",
        "Local search from the integer program's and the most accurate plans, simulated to the last request.",
        program_plan,
        accurate_plan,
        settings=THOROUGH,
    )
)


@planner
def milp_throughput(state: PlanningState) -> np.ndarray:
    """The deployment with the most headroom over the forecast, and then the most accurate, by HiGHS."""
    usable = np.ones(len(state.model), bool)
    if not state.demand.any():
        return _solve_and_fill(state, usable)
    most = largest_base(state, state.demand)
    return _solve_and_fill(state, usable, np.full(state.models, most), most)


# Routing rules


@chooser("serving")
def eft(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Mode route: earliest finish time."""
    last = mask.shape[0] - 1
    best = last
    for row in range(last):
        if mask[row] and rows[row, SEND] == 1.0 and (best == last or rows[row, FINISH] < rows[best, FINISH]):
            best = row
    return best


@chooser("serving")
def most_accurate(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Mode route: the most accurate variant that makes the deadline, else earliest finish time."""
    last = mask.shape[0] - 1
    best = last
    for row in range(last):
        if not mask[row] or rows[row, SEND] != 1.0:
            continue
        if best == last:
            best = row
            continue
        on_time, best_on_time = rows[row, SLACK] >= 0.0, rows[best, SLACK] >= 0.0
        if on_time != best_on_time:
            better = on_time
        elif on_time and rows[row, ACCURACY] != rows[best, ACCURACY]:
            better = rows[row, ACCURACY] > rows[best, ACCURACY]
        else:
            better = rows[row, FINISH] < rows[best, FINISH]
        if better:
            best = row
    return best


ROUTERS = (eft.name, most_accurate.name)
"""Policies that route requests; all others plan what is hosted."""


def policy_refusal(scenario: ServingScenario, policy: str) -> str:
    """Return why a policy does not apply to `scenario`, empty if it does: planners plan, routing rules route."""
    if policy in ROUTERS and scenario.mode == "plan":
        return "it routes requests, but mode is 'plan': expected a planner such as milp, or mode 'route'"
    if scenario.mode == "route" and isinstance(find(policy, "serving"), Planner):
        return f"it plans what is hosted, but mode is 'route': expected {' or '.join(ROUTERS)}, or mode 'plan'"
    return ""
