"""Policies that do not apply to a scenario: "all" leaves them out, and naming one is refused in one line."""

from __future__ import annotations

import json

import pytest

import slipstream
from slipstream.errors import PolicyError
from slipstream.families.contract import FAMILIES
from slipstream.policies.base import applicable, default_for, find, find_for, names
from slipstream.policies.learned import shipped
from slipstream.scenario import dump, load

PREEMPTION = {"edge": {"kind": "resume"}, "cluster": {"cost_s": 1.0}}


def preemptive(builtin):
    data = json.loads(dump(load(builtin)))
    (data["device"] if data["family"] == "edge" else data)["preemption"] = PREEMPTION[data["family"]]
    return load(data)


BATCHING = {"clipper", "deeprt", "edgeserving"}
"""Policies of edge that apply where tasks have batches."""

LEFT_OUT = {
    "edge/tiny": {"edf-preempt", *BATCHING},
    "dag/tiny": set(),
    "taskgraph/tiny": set(),
    "taskgraph/push-8-2g2c": set(),
    "serving/tiny": {"eft", "most-accurate"},
    "cluster/tiny": {"las", "tiresias-2q"},
    "elastic/tiny": set(),
    "elastic/at-events": {"max-min", "water-filling", "finish-time-fair", "min-makespan", "gavel-fifo"},
    "llm/tiny": {"sarathi", "least-load", "prefix-affinity"},
}


@pytest.mark.parametrize("builtin", LEFT_OUT)
def test_all_leaves_out_what_does_not_apply(builtin):
    scenario = load(builtin)
    assert set(names(scenario.family)) - set(applicable(scenario)) == LEFT_OUT[builtin]
    assert default_for(scenario) == FAMILIES[scenario.family].default_policy


@pytest.mark.parametrize("builtin", ["edge/tiny", "cluster/tiny"])
def test_with_preemption_every_policy_applies_but_those_of_batches(builtin):
    scenario = preemptive(builtin)
    assert applicable(scenario) == [name for name in names(scenario.family) if name not in BATCHING]


def test_a_fleet_that_routes_takes_routing_rules_only():
    scenario = load("serving/route")
    assert applicable(scenario) == ["eft", "most-accurate"]
    assert default_for(scenario) == "eft"
    assert find_for(None, scenario).policy_for(scenario).name in [*applicable(scenario), *shipped("serving")]
    with pytest.raises(PolicyError, match="policy 'milp' does not apply to serving/route: it plans what is hosted"):
        slipstream.evaluate(scenario, "milp", episodes=1)


@pytest.mark.parametrize(
    ("builtin", "policy", "reason"),
    [
        ("edge/tiny", "edf-preempt", "it interrupts running jobs: expected device.preemption.kind"),
        ("serving/tiny", "eft", "it routes requests, but mode is 'plan': expected a planner such as milp"),
        ("cluster/tiny", "tiresias-2q(100)", "it sorts by attained service"),
    ],
)
def test_an_unfitting_policy_is_refused_by_name(builtin, policy, reason):
    with pytest.raises(PolicyError) as caught:
        slipstream.compare(builtin, policy, episodes=1)
    assert str(caught.value).startswith(f"policy '{policy}' does not apply to {builtin}: {reason}")
    assert "\n" not in str(caught.value)


def test_a_comparison_of_all_lists_planners_only():
    found = slipstream.compare("serving/tiny", "all", episodes=1)
    assert {"eft", "most-accurate"}.isdisjoint(one.policy for one in found.evaluations)
    assert found.of("static").mean("throughput_hz") > 0.0


def test_an_object_is_played_as_it_is():
    without = slipstream.evaluate("edge/tiny", find("edf-preempt", "edge"), episodes=2)
    assert without.mean("reward") == slipstream.evaluate("edge/tiny", "edf", episodes=2).mean("reward")
