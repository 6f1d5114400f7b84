"""How the trained policy of serving does on bursts that it never saw, next to every rule for the way of a request.

At home: 30 test episodes of `serving/route-bursty`, the scenario that it was trained on. Away: the same with bursts
that are longer, come at other times, and are 15% higher. All policies play the same arrivals; differences are paired,
with bootstrap 95% intervals. milp-rehearsed sends requests to where they finish first, as all planners do.
With `--data`, also on the open bursty trace, in mode route: the fleet hosts for good what its first plan hosts. A
trace is one episode, so there are no intervals; the planner itself, which goes on planning, is beside it.

    python benchmarks/serving_learned.py --json --data TRACES
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from serving_policies import FLEETS, INTERVAL_S, LOAD_S, SLO_MS

import slipstream
from slipstream.evaluation import bootstrap_interval
from slipstream.families.serving.build import compiled_scenario
from slipstream.families.serving.metrics import metrics
from slipstream.families.serving.workload.sources import KINDS, scenario_of
from slipstream.policies import find
from slipstream.sim.eventlog import MOVE
from slipstream.sim.simulator import Simulator

HOME = "serving/route-bursty"
SEED, EPISODES = 10_000, 30
METRICS = ("reward", "on_time_accuracy", "violation_ratio", "effective_accuracy")
RULES = ("milp-rehearsed", "eft", "most-accurate")


def away() -> Any:
    """Return the scenario with other bursts."""
    home: Any = slipstream.load(HOME)
    data = home.model_dump(mode="json")
    for model in data["models"]:
        model["arrivals"] |= {"switch_s": 7.0, "high_hz": 1.15 * model["arrivals"]["high_hz"]}
    return slipstream.load(data)


def measured(scenario: Any, policy: str) -> dict[str, Any]:
    """Return the figures of the trained policy and the rules, and by how much it is ahead of each."""
    ours = slipstream.evaluate(scenario, policy, EPISODES, SEED)
    rows: dict[str, Any] = {policy: {metric: ours.mean(metric) for metric in METRICS}}
    for rule in RULES:
        theirs = slipstream.evaluate(scenario, find(rule, "serving"), EPISODES, SEED)
        gap = ours.of("on_time_accuracy") - theirs.of("on_time_accuracy")
        low, high = bootstrap_interval(gap)
        figures = {metric: theirs.mean(metric) for metric in METRICS}
        rows[rule] = figures | {"ahead": float(gap.mean()), "low": low, "high": high}
    return rows


def on_trace(data: Path, count: int, policy: str) -> dict[str, Any]:
    """Return the figures of all policies on the bursty trace, with `count` accelerators of each kind."""
    profile, variants, trace = data / "profile.csv", data / "variants", data / "trace_bursty"
    fleet, planning = dict.fromkeys(KINDS, count), {"interval_s": INTERVAL_S}
    described = scenario_of(profile, variants, trace, SLO_MS, LOAD_S, fleet, planning=planning)
    planned: Any = slipstream.load(described)
    events = Simulator(planned).play(find("milp-rehearsed", "serving"), 0)
    rows = {"milp-rehearsed, going on planning": shown(planned, events)}
    first = events[(events["kind"] == MOVE) & (events["time"] == 0)]
    kinds = [kind.name for kind in planned.accelerators for _ in range(kind.count)]
    hosted = Counter((int(event["variant"]), kinds[event["resource"]]) for event in first)
    names = [variant.name for variant in compiled_scenario(planned).variants]
    initial = [
        {"variant": names[variant], "accelerator": kind, "count": number}
        for (variant, kind), number in sorted(hosted.items())
    ]
    routed = slipstream.load({**described, "mode": "route", "initial": initial})
    for name in (policy, *RULES[1:]):
        rows[name] = shown(routed, Simulator(routed).play(find(name, "serving"), 0))
    return rows


def shown(scenario: Any, events: Any) -> dict[str, float]:
    """Return the figures of an episode that tables show."""
    found = metrics(scenario, events)
    return {metric: found[metric] for metric in METRICS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--policy", default="learned-bursty", help="the trained policy: a name or a folder")
    parser.add_argument("--data", type=Path, help="folder with profile.csv, variants and trace_bursty")
    options = parser.parse_args()
    results = {"home": measured(slipstream.load(HOME), options.policy), "away": measured(away(), options.policy)}
    for count in FLEETS if options.data is not None else ():
        results[f"trace, {len(KINDS) * count} accelerators"] = on_trace(options.data, count, options.policy)
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for place, rows in results.items():
        print(place)
        for policy, figures in rows.items():
            print(f"  {policy:24}", "  ".join(f"{name} {value:.4f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
