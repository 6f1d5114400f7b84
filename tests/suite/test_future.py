"""No row of any family shows the future: what has not happened yet may be changed, and a policy sees the same."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.policies import find
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator
from slipstream.suite import load_suite


def seen(scenario, policy, until):
    """Return all that a policy is shown before a time, in ns."""
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(3)
    shown = []
    while simulator.asking and simulator.header["now"] < until:
        observed = [part.copy() for part in simulator.observe()]
        shown.append(observed)
        simulator.step(policy.choose(*observed))
    return shown


def same(one, other):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def data_of(family, name="small"):
    entry = next(one for one in load_suite().of(family) if one.name == name)
    return entry.scenario.model_dump(mode="json", exclude_unset=True)


def edge(last):
    data = data_of("edge")
    for key in ("periodic_tasks", "poisson_tasks"):
        data.pop(key)
    times = [40.0 * number for number in range(20)]
    for task in data["tasks"]:
        # The last release stays: a task's mean gap is no secret.
        task["arrival"] = {"kind": "trace", "times_ms": [*times, last, 1000.0]}
    return data, 790e6


def dag(last):
    data = data_of("dag")
    # The last one stays: the mean gap between jobs is no secret.
    data["arrivals"] = {"kind": "trace", "times_s": [0.0, 20.0, 40.0, 60.0, last, 1000.0]}
    return data, 300e9


def taskgraph(last):
    data = data_of("taskgraph")
    data["arrivals"] = {"kind": "trace", "times_ms": [0.0, 20.0, last]}
    return data, 300e6


def serving(last):
    data = data_of("serving")
    for model in data["models"]:
        model["arrivals"] = {"kind": "trace", "times_ms": [*np.arange(0.0, 25_000.0, 20.0).tolist(), last]}
        model["expected_rate_hz"] = 50.0
    return data, 25e9


def cluster(last):
    data = data_of("cluster")
    jobs = [{"submit_s": 100.0 * number, "run_s": 700.0, "gpus": 1 + number % 3} for number in range(30)]
    data["jobs"] = {"kind": "list", "jobs": [*jobs, {"submit_s": last, "run_s": 50.0}]}
    data["episode"] = {"jobs": 31, "held_out": 0.0}
    return data, 2900e9


@pytest.mark.parametrize(
    ("make", "rule", "times"),
    [
        (edge, "edf-degrade", (800.0, 900.0)),
        (dag, "fifo", (300.0, 400.0)),
        (taskgraph, "fifo", (300.0, 400.0)),
        (serving, "random", (26_000.0, 29_000.0)),
        (cluster, "random", (2950.0, 9000.0)),
    ],
    ids=["edge", "dag", "taskgraph", "serving", "cluster"],
)
def test_what_has_not_arrived_yet_is_not_shown(make, rule, times):
    shown = []
    for last in times:
        data, until = make(last)
        shown.append(seen(load(data), find(rule, data["family"]), until))
    assert len(shown[0]) == len(shown[1]) > 3
    assert all(same(one, other) for one, other in zip(*shown, strict=True))


@pytest.mark.parametrize(("family", "name"), [("edge", "shifted-profiles"), ("taskgraph", "shifted-profiles")])
def test_how_long_work_really_takes_is_not_shown(family, name):
    """The first choice, before any duration could be seen, is the same with true and with false profiles."""
    data = data_of(family, name)
    true = {**data}
    if family == "edge":
        true["tasks"] = [
            {**task, "variants": [{**one, "actual_ms": None} for one in task["variants"]]} for task in data["tasks"]
        ]
    else:
        true.pop("noise")
    policy = find("fifo", family)
    wrong, right = (seen(load(one), policy, 2e6) for one in (data, true))
    assert same(wrong[0], right[0])
