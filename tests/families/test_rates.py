"""Random arrivals by mean gap or by rate: the same arrivals and the same digest, and exactly one of the two keys."""

from __future__ import annotations

import json

import pytest

from slipstream.errors import ScenarioError
from slipstream.families.contract import family_of
from slipstream.families.shared.variation import Variation
from slipstream.scenario import digest, dump, load


def edge(kind):
    def change(data, keys):
        data.pop("poisson_tasks", None)
        data.pop("periodic_tasks", None)
        data["tasks"][0] |= {"deadline_ms": 50, "arrival": {"kind": kind, **keys}}

    return change


def arrivals(data, keys):
    data["arrivals"] = {"kind": "poisson", "jobs": 3, **keys}


def synthetic(data, keys):
    data.pop("episode", None)
    data["jobs"] = {"kind": "synthetic", "jobs": 20, **keys}


def requests(data, keys):
    data["models"][0]["arrivals"] = {"kind": "poisson", **keys}


def drawn(data, keys):
    del data["requests"]["rate_hz"]
    data["requests"] |= keys


CASES = {
    "serving/tiny": (requests, {"mean_gap_ms": 40.0}, {"rate_hz": 25.0}),
    "edge/tiny poisson": (edge("poisson"), {"mean_gap_ms": 40.0}, {"rate_hz": 25.0}),
    "edge/tiny external": (edge("external"), {"mean_gap_ms": 40.0}, {"rate_hz": 25.0}),
    "dag/tiny": (arrivals, {"mean_gap_s": 40.0}, {"rate_hz": 0.025}),
    "taskgraph/tiny": (arrivals, {"mean_gap_ms": 40.0}, {"rate_hz": 25.0}),
    "cluster/tiny": (synthetic, {"mean_gap_s": 40.0}, {"rate_hz": 0.025}),
    "llm/tiny": (drawn, {"mean_gap_s": 0.0625}, {"rate_hz": 16.0}),
}


def arrivals_of(data):
    """Return the part of a scenario that holds the keys of a case."""
    if data["family"] == "edge":
        return data["tasks"][0]["arrival"]
    if data["family"] == "serving":
        return data["models"][0]["arrivals"]
    return data[{"cluster": "jobs", "llm": "requests"}.get(data["family"], "arrivals")]


def scenario(case, keys):
    data = json.loads(dump(load(case.split()[0])))
    CASES[case][0](data, keys)
    return load(data)


@pytest.mark.parametrize("case", CASES)
def test_a_rate_is_the_inverse_of_a_mean_gap(case):
    _, gap, rate = CASES[case]
    by_gap, by_rate = scenario(case, gap), scenario(case, rate)
    assert digest(by_gap) == digest(by_rate)
    one, other = (family_of(by_gap).spec_arrays(found) for found in (by_gap, by_rate))
    assert all((one[name] == other[name]).all() for name in one if one[name].dtype.names is not None)
    for found, keys in ((by_gap, gap), (by_rate, rate)):
        data = json.loads(dump(found))
        assert {"mean_gap_ms", "mean_gap_s", "rate_hz"} & arrivals_of(data).keys() == keys.keys()
        assert load(data) == found


@pytest.mark.parametrize("case", CASES)
def test_both_keys_at_once_are_refused(case):
    _, gap, rate = CASES[case]
    with pytest.raises(ScenarioError, match=f"expected either '{next(iter(gap))}' or 'rate_hz'"):
        scenario(case, {**gap, **rate})


@pytest.mark.parametrize(
    "case", ["edge/tiny poisson", "edge/tiny external", "taskgraph/tiny", "serving/tiny", "llm/tiny"]
)
def test_one_of_the_keys_is_required(case):
    with pytest.raises(ScenarioError, match=f"expected either '{next(iter(CASES[case][1]))}' or 'rate_hz'"):
        scenario(case, {})


@pytest.mark.parametrize("case", ["edge/tiny poisson", "dag/tiny", "taskgraph/tiny"])
def test_a_rate_is_varied_like_a_gap(case):
    _, gap, rate = CASES[case]
    by_gap, by_rate = scenario(case, gap), scenario(case, rate)
    variation = Variation(rate=0.3)
    found = [family_of(one).vary(one, variation, 7) for one in (by_gap, by_rate)]
    assert digest(found[0]) == digest(found[1]) != digest(by_gap)
