"""Changes of the rules or the machine of a present state: more nodes, less power, other backfilling or limits."""

from __future__ import annotations

import re
from typing import Any

from slipstream.errors import InputError
from slipstream.families.cluster.caps import caps_of
from slipstream.families.cluster.scenario import ClusterScenario, NodeKind
from slipstream.files.validation import validated

PRESENT_RULES = "present rules"
DEFAULT = ("nodes=+10", "power=70%")
"""What-ifs that are asked about unless others are named."""
EXPECTED = (
    "nodes=+N, nodes.KIND=+N, power=SHARE%, power_w=WATTS, cap_w=WATTS, backfill=RULE or quota.USER=GPUS, "
    "as in nodes=+10"
)


def changed(scenario: ClusterScenario, what_if: str) -> ClusterScenario:
    """Return `scenario` after the change that `what_if` describes, with the same jobs.

    Raises:
        InputError: One line: what is not understood, or does not apply.
    """
    key, _, value = what_if.partition("=")
    name, _, part = key.partition(".")
    change = {"nodes": _nodes, "power": _share_of_power, "power_w": _power, "cap_w": _cap, "backfill": _backfill}
    if name == "quota" and part:
        update = {"quotas": {**scenario.quotas, part: int(_number(what_if, value, r"\d+"))}}
    elif name in change and value and (name == "nodes" or not part):
        update = change[name](scenario, what_if, part, value)
    else:
        raise _unknown(what_if)
    # Validated with one job in place of all: pydantic would take longer over the list than the futures take.
    small = scenario.model_dump(mode="json", exclude_unset=True) | _in_words(update)
    small["jobs"] = {"kind": "list", "jobs": [{"submit_s": 0.0, "run_s": 1.0}]}
    checked = validated(small, ClusterScenario, f"--what-if {what_if}")
    found = scenario.model_copy(update={name: getattr(checked, name) for name in update})
    found._folder = scenario._folder
    return found


def _unknown(what_if: str) -> InputError:
    return InputError(f"--what-if '{what_if[:80]}': expected {EXPECTED}")


def _in_words(update: dict[str, Any]) -> dict[str, Any]:
    nodes = update.get("nodes")
    return update if nodes is None else {**update, "nodes": [kind.model_dump(mode="json") for kind in nodes]}


def _number(what_if: str, text: str, pattern: str) -> float:
    if not re.fullmatch(pattern, text):
        raise _unknown(what_if)
    return float(text.strip("+%"))


def _nodes(scenario: ClusterScenario, what_if: str, kind: str, value: str) -> dict[str, Any]:
    """Return the nodes with more of one kind: the named one, else the one with most nodes."""
    more = int(_number(what_if, value, r"\+\d{1,6}"))
    names = [one.name for one in scenario.nodes]
    if kind and kind not in names:
        raise InputError(f"--what-if {what_if}: there are no nodes of kind '{kind}': expected {' or '.join(names)}")
    largest = max(scenario.nodes, key=lambda one: one.count).name
    return {
        "nodes": [
            one.model_copy(update={"count": one.count + more}) if one.name == (kind or largest) else one
            for one in scenario.nodes
        ]
    }


def _budget(scenario: ClusterScenario, watts: float) -> dict[str, Any]:
    return {"power": {**scenario.power.model_dump(mode="json"), "budget_w": watts}}


def _power(scenario: ClusterScenario, what_if: str, part: str, value: str) -> dict[str, Any]:
    return _budget(scenario, _number(what_if, value, r"\d{1,9}(\.\d*)?"))


def _share_of_power(scenario: ClusterScenario, what_if: str, part: str, value: str) -> dict[str, Any]:
    """Return the power budget that is a share of what the cluster draws with all GPUs at work."""
    share = _number(what_if, value, r"\d{1,3}(\.\d*)?%") / 100.0
    most = sum(kind.count * (kind.gpus * max(kind.busy_w, kind.idle_w) + kind.node_w) for kind in scenario.nodes)
    return _budget(scenario, share * most)


def _cap(scenario: ClusterScenario, what_if: str, part: str, value: str) -> dict[str, Any]:
    watts = _number(what_if, value, r"\d{1,6}(\.\d*)?")
    return {"nodes": [_capped(kind, watts, what_if) for kind in scenario.nodes]}


def _capped(kind: NodeKind, watts: float, what_if: str) -> NodeKind:
    """Return nodes whose GPUs are all capped at the highest of their caps of at most `watts`."""
    below = [cap for cap in caps_of(kind) if cap.watts <= watts]
    if not below:
        raise InputError(
            f"--what-if {what_if}: nodes '{kind.name}' have no cap of at most {watts:g} W: "
            "expected a scenario whose nodes list `caps`"
        )
    cap = max(below, key=lambda one: one.watts)
    return kind.model_copy(
        update={"speed": kind.speed / cap.time, "busy_w": kind.busy_w * cap.power, "caps": []},
    )


def _backfill(scenario: ClusterScenario, what_if: str, part: str, value: str) -> dict[str, Any]:
    return {"backfill": value}


def without_caps(scenario: ClusterScenario) -> ClusterScenario:
    """Return `scenario` with nodes that have no caps to choose from: Slurm chooses none when it starts a job."""
    found = scenario.model_copy(update={"nodes": [kind.model_copy(update={"caps": []}) for kind in scenario.nodes]})
    found._folder = scenario._folder
    return found
