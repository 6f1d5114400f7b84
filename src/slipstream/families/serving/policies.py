"""Policies of the serving family: planners, which decide what is hosted, and rules for the way of a request.

Planners look at a plan's rows and say what they want; `plans.Planner` makes the moves. The baselines are those that
Proteus is compared with, in words: INFaaS (ATC'21), Clipper (NSDI'17) and Sommelier (SIGMOD'22), and the simple ones of
the BLIS scheduler.
"""

# Elements of arrays and results of compiled functions have no type that mypy knows.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from slipstream.families.serving.features import ACCURACY, FINISH, SEND, SLACK
from slipstream.families.serving.local_search import WHOLE, Rehearsed
from slipstream.families.serving.plans import Planner, Situation, Target
from slipstream.families.serving.solver import Solution, largest_base, solve, undominated
from slipstream.policies.base import chooser, register_policy

LOG = logging.getLogger(__name__)
WORTH_MOVING = 0.02
"""Mean accuracy, from 0 to 1, that has to be gained before accelerators go from one model to another."""
LEAST_OF_RECENT = 0.1
"""Share of the greatest recent rate for which there is capacity in any case."""
INFAAS_SLACK = 0.05
"""Share of its capacity that INFaaS leaves free."""
INFAAS_DOWNSCALE = 2.0
"""Capacity per request at which INFaaS gives an accelerator back."""


def planner(function: Target) -> Target:
    """Register a planner under the function's name."""
    name = function.__name__.strip("_").replace("_", "-")
    register_policy(Planner(name, (function.__doc__ or "").split("\n")[0], function))
    return function


# Choosing variants


def _extreme(now: Situation, best: bool) -> np.ndarray:
    """Return whether each column is of its model's most accurate variant, or of its least."""
    sign = 1.0 if best else -1.0
    top = np.full(now.models, -np.inf)
    np.maximum.at(top, now.model, sign * now.accuracy)
    return np.asarray(sign * now.accuracy == top[now.model])


def _left(now: Situation, counts: np.ndarray) -> np.ndarray:
    """Return the accelerators of each kind that a hosting leaves free."""
    return now.fleet - np.bincount(now.kind, counts, len(now.fleet)).astype(np.int64)


def _use_the_rest(now: Situation, counts: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Return a hosting with the accelerators that it leaves free: the most accurate variant where capacity is scarcest.

    What is hosted already stays, if it is what would be hosted.
    """
    counts = counts.copy()
    best: dict[tuple[int, int], int] = {}
    for column in np.flatnonzero(usable & (now.demand[now.model] > 0.0)).tolist():
        here = (int(now.model[column]), int(now.kind[column]))
        if here not in best or now.accuracy[column] > now.accuracy[best[here]]:
            best[here] = column
    left = _left(now, counts)
    for column in best.values():
        kept = min(max(0, int(now.hosted[column] - counts[column])), int(left[now.kind[column]]))
        counts[column] += kept
        left[now.kind[column]] -= kept
    for kind in range(len(left)):
        served = [model for model in range(now.models) if (model, kind) in best]
        while left[kind] > 0 and served:
            capacity = now.capacity(counts)
            scarce = min(served, key=lambda model: (capacity[model] / now.demand[model], model))
            counts[best[scarce, kind]] += 1
            left[kind] -= 1
    return counts


def _equal_shares(now: Situation) -> np.ndarray:
    """Return a hosting in which each model has as many accelerators of each kind, with its least accurate variants."""
    return _shared(now, np.ones(now.models), _extreme(now, best=False))


def _shared(now: Situation, weight: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Return a hosting that shares each kind out by weight, what is left by the largest remainder."""
    counts = np.zeros(len(now.model), np.int64)
    for kind, fleet in enumerate(now.fleet):
        columns = np.flatnonzero(usable & (now.kind == kind))
        total = weight[now.model[columns]].sum()
        if not len(columns) or total <= 0.0:
            continue
        wanted = weight[now.model[columns]] / total * fleet
        whole = np.floor(wanted).astype(np.int64)
        order = np.argsort(whole - wanted, kind="stable")
        whole[order[: fleet - whole.sum()]] += 1
        counts[columns] = whole
    return counts


# Simple planners


@planner
def static(now: Situation) -> np.ndarray:
    """The same number of accelerators for each model, with its least accurate variant, from the beginning."""
    return _equal_shares(now) if now.first and not now.hosted.any() else now.hosted


@planner
def random(now: Situation) -> np.ndarray:
    """Any variants anywhere; at each plan one accelerator of each kind gets another."""
    rng = np.random.default_rng(int(now.coin * 2**53))
    counts = now.hosted.copy()
    for kind in range(len(now.fleet)):
        columns = np.flatnonzero(now.kind == kind)
        hosted = np.flatnonzero((now.kind == kind) & (counts > 0))
        if not len(columns):
            continue
        if len(hosted):
            counts[rng.choice(hosted)] -= 1
        for _ in range(int(now.fleet[kind] - counts[now.kind == kind].sum())):
            counts[rng.choice(columns)] += 1
    return counts


@planner
def lfu(now: Situation) -> np.ndarray:
    """Least frequently used: the idlest model gives an accelerator of each kind to the busiest."""
    if now.first and not now.hosted.any():
        return _equal_shares(now)
    counts = now.hosted.copy()
    least = _extreme(now, best=False)
    used = now.demand / np.maximum(now.capacity(counts), 1e-9)
    idlest, busiest = int(np.argmin(used)), int(np.argmax(used))
    if used[idlest] == used[busiest]:
        return counts
    for kind in range(len(now.fleet)):
        gives = np.flatnonzero((now.model == idlest) & (now.kind == kind) & (counts > 0))
        takes = np.flatnonzero((now.model == busiest) & (now.kind == kind) & least)
        if len(gives) and len(takes):
            counts[gives[0]] -= 1
            counts[takes[0]] += 1
    return counts


@planner
def load_proportional(now: Situation) -> np.ndarray:
    """Accelerators of each kind by the forecasts; each model takes the most accurate variant that keeps up."""
    counts = np.zeros(len(now.model), np.int64)
    chosen = _extreme(now, best=False)
    shares = _shared(now, np.maximum(now.demand, 1e-6), chosen)
    accelerators = np.zeros((now.models, len(now.fleet)), np.int64)
    np.add.at(accelerators, (now.model, now.kind), shares)
    for model in range(now.models):
        own = np.flatnonzero(now.model == model)
        variants = sorted(set(now.variant[own].tolist()), key=lambda one: -now.accuracy[now.variant == one][0])
        for variant in variants:
            columns = own[now.variant[own] == variant]
            hosted = accelerators[model, now.kind[columns]]
            enough = (now.peak[columns] * hosted).sum() >= now.headroom * now.demand[model]
            if enough or variant == variants[-1]:
                counts[columns] = hosted
                break
    return counts


# Systems from the literature


@planner
def infaas(now: Situation) -> np.ndarray:
    """INFaaS: adds or speeds up an accelerator where the last second's rate needs it, at the least loss of accuracy."""
    counts = now.hosted.copy()
    for model in np.argsort(-now.seen, kind="stable"):
        _scale(now, counts, int(model))
    return counts


def _scale(now: Situation, counts: np.ndarray, model: int) -> None:
    """Change the accelerators of one model until they suit its rate."""
    own = np.flatnonzero(now.model == model)

    def spare() -> float:
        return float((now.peak[own] * counts[own]).sum() * (1.0 - INFAAS_SLACK) - now.seen[model])

    while spare() < 0.0:
        left = _left(now, counts)
        # What to stop hosting (-1: a free accelerator), what to host there, and what that costs.
        options = [(100.0 - now.accuracy[new], -now.peak[new], -1, int(new)) for new in own if left[now.kind[new]] > 0]
        for old in own[counts[own] > 0]:
            faster = own[(now.kind[own] == now.kind[old]) & (now.peak[own] > now.peak[old])]
            options += [(now.accuracy[old] - now.accuracy[new], -now.peak[new], int(old), int(new)) for new in faster]
        if not options:
            return
        _, _, old, new = min(options)
        if old >= 0:
            counts[old] -= 1
        counts[new] += 1
    if counts[own].sum() > 1 and now.seen[model] * INFAAS_DOWNSCALE < (now.peak[own] * counts[own]).sum():
        hosted = own[counts[own] > 0]
        least = hosted[np.argmin(now.accuracy[hosted])]
        if spare() > now.peak[least]:
            counts[least] -= 1


def _solved(now: Situation, usable: np.ndarray, headroom: np.ndarray | None = None, base: float = 1.0) -> np.ndarray:
    if headroom is None:
        headroom = np.full(now.models, now.headroom)
    return _use_the_rest(now, _logged(solve(now, usable & undominated(now), headroom, base)).counts, usable)


def _logged(solution: Solution) -> Solution:
    LOG.info("plan: gap %.4f, at least %.3f of capacity per request", solution.gap, solution.base)
    return solution


def _settled(now: Situation) -> Situation:
    """Return the situation in which every model keeps the accelerators of each kind that it has."""
    # To freeze how many accelerators of a kind a model has is to give it a kind of its own.
    place = now.model * len(now.fleet) + now.kind
    fleet = np.bincount(place, now.hosted, now.models * len(now.fleet)).astype(np.int64)
    return replace(now, kind=place, fleet=fleet)


def _fixed(best: bool) -> Callable[[Situation], np.ndarray]:
    def plan(now: Situation) -> np.ndarray:
        return _solved(now, _extreme(now, best)) if now.first else now.hosted

    return plan


@planner
def clipper_ha(now: Situation) -> np.ndarray:
    """Clipper, high accuracy: the most accurate variants only, shared out once for the expected rates."""
    return _fixed(best=True)(now)


@planner
def clipper_ht(now: Situation) -> np.ndarray:
    """Clipper, high throughput: the least accurate variants only, shared out once for the expected rates."""
    return _fixed(best=False)(now)


@planner
def sommelier(now: Situation) -> np.ndarray:
    """Sommelier: models keep the accelerators of the first plan, and exchange variants on them."""
    everything = np.ones(len(now.model), bool)
    return _solved(now if now.first else _settled(now), everything)


@planner
def milp(now: Situation) -> np.ndarray:
    """The most accurate hosting that serves the forecast, with headroom for recent bursts, by an open solver."""
    # What is hardly asked for now may be asked for again at once.
    demand = np.maximum(now.demand, LEAST_OF_RECENT * now.recent)
    headroom = np.maximum(now.headroom, np.divide(now.recent, demand, out=np.ones(now.models), where=demand > 0.0))
    now = replace(now, demand=demand)
    usable = np.ones(len(now.model), bool)
    free = _logged(solve(now, undominated(now), headroom))
    if not now.first:
        settled = _settled(now)
        kept = _logged(solve(settled, undominated(settled), headroom))
        if kept.base >= free.base and free.value < kept.value + WORTH_MOVING:
            return _use_the_rest(settled, kept.counts, usable)
    return _use_the_rest(now, free.counts, usable)


def program_plan(now: Situation) -> np.ndarray:
    """Return the program's plan for some demand, wherever accelerators are now."""
    return _solved(now, np.ones(len(now.model), bool))


register_policy(
    Rehearsed("milp-rehearsed", "The program's plans, rehearsed in what may come, and improved.", program_plan)
)


def accurate_plan(now: Situation) -> np.ndarray:
    """Return the plan that hosts the most accurate variants alone, where capacity is scarcest, without a program."""
    return _use_the_rest(now, np.zeros(len(now.model), np.int64), _extreme(now, best=True))


register_policy(
    Rehearsed(
        "milp-thorough",
        "The program's plans and the most accurate ones, rehearsed to the last request and improved by bolder steps.",
        program_plan,
        accurate_plan,
        thorough=WHOLE,
    )
)


@planner
def milp_throughput(now: Situation) -> np.ndarray:
    """The hosting with the most headroom over the forecast, and then the most accurate, by an open solver."""
    usable = np.ones(len(now.model), bool)
    if not now.demand.any():
        return _solved(now, usable)
    most = largest_base(now, now.demand)
    return _solved(now, usable, np.full(now.models, most), most)


# The way of a request


@chooser("serving")
def eft(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Mode route: earliest finish time; in mode plan it moves nothing."""
    last = mask.shape[0] - 1
    best = last
    for row in range(last):
        if mask[row] and rows[row, SEND] == 1.0 and (best == last or rows[row, FINISH] < rows[best, FINISH]):
            best = row
    return best


@chooser("serving")
def most_accurate(globals_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
    """Mode route: the most accurate variant that makes the deadline, else earliest finish; in mode plan nothing."""
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
