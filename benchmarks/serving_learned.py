"""How the trained policy of serving does on bursts that it never saw, next to every rule for the way of a request.

At home: 30 test episodes of `serving/route-bursty`, the scenario that it was trained on. Away: the same with bursts
that are longer, come at other times, and are 15% higher. All policies play the same arrivals; differences are paired,
with bootstrap 95% intervals. The default, milp-rehearsed, sends requests to where they finish first, as planners do.

    python benchmarks/serving_learned.py --json
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import slipstream
from slipstream.evaluation import bootstrap_interval

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
        theirs = slipstream.evaluate(scenario, rule, EPISODES, SEED)
        gap = ours.of("on_time_accuracy") - theirs.of("on_time_accuracy")
        low, high = bootstrap_interval(gap)
        figures = {metric: theirs.mean(metric) for metric in METRICS}
        rows[rule] = figures | {"ahead": float(gap.mean()), "low": low, "high": high}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--policy", default="learned-bursty", help="the trained policy: a name or a folder")
    options = parser.parse_args()
    results = {"home": measured(slipstream.load(HOME), options.policy), "away": measured(away(), options.policy)}
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for place, rows in results.items():
        print(place)
        for policy, figures in rows.items():
            print(f"  {policy:24}", "  ".join(f"{name} {value:.4f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
