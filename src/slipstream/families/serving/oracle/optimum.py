"""Hindsight optimum of one episode, bracketed between the best reward reached and a bound that no policy exceeds.

The bound is a plan that knows every arrival: a linear program over the intervals between two plans, in which
accelerators can be split among variants, load nothing and never wait. A request is answered in the interval of its
arrival, or in the next if its deadline reaches there.
"""

from __future__ import annotations

import numpy as np

from slipstream.families.serving.build import compiled_scenario
from slipstream.families.serving.metrics import requests_of
from slipstream.families.serving.scenario import FixedService, ServingScenario
from slipstream.families.shared.schema import nanoseconds_of
from slipstream.families.shared.search import heuristic_bounds
from slipstream.sim.eventlog import ARRIVAL


def bound(scenario: ServingScenario, events: np.ndarray) -> float:
    """Return an upper bound of the reward of any policy, given the requests of an episode."""
    spec = compiled_scenario(scenario).spec
    requests = requests_of(scenario, events)
    weights = scenario.reward
    arrivals = int((events["kind"] == ARRIVAL).sum())
    accuracy = spec["variants"]["accuracy"] / 100.0
    value = weights.accuracy * accuracy + weights.violations
    if not isinstance(scenario.service, FixedService):
        # Random service times may be arbitrarily short: the bound answers every request with the best variant.
        best = np.zeros(len(spec["models"]))
        np.maximum.at(best, spec["variants"]["model"], value)
        return float(best[requests.model].sum() - weights.violations * arrivals)
    served = _served(scenario, requests.model, requests.arrival, requests.deadline, value)
    return served - weights.violations * arrivals


optimum_bounds = heuristic_bounds(lambda scenario, events, _seed, _split: bound(scenario, events), "windows")
"""Return bounds of the best reward of an episode; every policy plays it, however long that takes."""


def _served(
    scenario: ServingScenario, model: np.ndarray, arrival: np.ndarray, deadline: np.ndarray, value: np.ndarray
) -> float:
    """Return the greatest total value of answers, by the linear program."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    spec = compiled_scenario(scenario).spec
    length = nanoseconds_of(scenario.planning.interval_s)
    if scenario.mode == "route" or not len(arrival):
        length = int(deadline.max(initial=0)) + 1
    first, last = arrival // length, deadline // length
    intervals = int(last.max(initial=0)) + 1
    columns, models, kinds = spec["columns"], len(spec["models"]), len(scenario.kinds)
    fleet = np.bincount(spec["kinds"], minlength=kinds)
    rate, longest = _rates(spec)
    width = len(columns)
    each = np.arange(width * intervals)
    interval, column = each // width, each % width
    own = columns["model"][column]
    shape = (intervals * kinds, len(each))
    time = coo_array((1.0 / rate[column], (interval * kinds + columns["kind"][column], each)), shape=shape)
    # A batch that ends in an interval may have begun before it.
    capacity = np.tile(fleet * (length + longest), intervals)
    by_interval = coo_array(
        (np.ones(len(each)), (interval * models + own, each)), shape=(intervals * models, len(each))
    )
    available = np.zeros((intervals, models))
    for begin, end, number in zip(first.tolist(), last.tolist(), model.tolist(), strict=True):
        available[begin : end + 1, number] += 1.0
    whole = coo_array((np.ones(len(each)), (own, each)), shape=(models, len(each)))
    found = linprog(
        -value[columns["variant"][column]],
        A_ub=vstack([time, by_interval, whole]),
        b_ub=np.concatenate((capacity, available.reshape(-1), np.bincount(model, minlength=models))),
        bounds=(0.0, None),
    )
    return -float(found.fun)


def _rates(spec: dict[str, np.ndarray]) -> tuple[np.ndarray, int]:
    """Return the most requests per ns of each column, over all batch sizes, and the longest batch."""
    rates, longest = [], 0
    for column in spec["columns"]:
        times = spec["service"][column["kind"], column["variant"], 1 : column["largest"] + 1]
        sizes = np.arange(1, column["largest"] + 1)
        rates.append(float((sizes / times).max()))
        longest = max(longest, int(times.max()))
    return np.array(rates), longest
