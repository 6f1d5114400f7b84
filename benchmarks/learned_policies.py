"""How good the trained policies that come with the package are: the tables of docs/results.md.

For every scenario with a policy trained on it: that policy next to every heuristic on the same 100 test episodes, with
paired differences and bootstrap 95% intervals, and bounds of the hindsight optimum over the first episodes. The
trained policy is charged for its decisions: each takes CHARGED_MS of simulated time, the 99th percentile that
benchmarks/decision_latency.py measures at their width; heuristics decide in no time. Then: policies trained on
`edge/heavy`, unchanged, on other scenarios; and what a profile that is 20% wrong does to policies trained with and
without such ones.

    python benchmarks/learned_policies.py --json
    python benchmarks/learned_policies.py --write docs/results.md
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tables import commands, interval, write_tables

import slipstream
from slipstream.evaluation import bootstrap_interval
from slipstream.families.contract import FAMILIES
from slipstream.families.shared.variation import Variation
from slipstream.policies.base import applicable
from slipstream.scenario import dump

SEED, EPISODES, CHARGED_MS = 10_000, 100, 0.02
METRICS = ("reward", "miss_rate", "effective_accuracy")
TRAVELLERS = ("learned-robust", "learned-heavy")
"""Both trained on `edge/heavy`, the first with domain randomisation."""
TRAINED = {f"edge/{name}": f"learned-{name}" for name in ("medium", "heavy", "overload", "drone")}


def charged(scenario: Any) -> Any:
    """Return the scenario with the time of a decision charged to the clock."""
    data = json.loads(dump(scenario))
    data["device"]["decision_time_ms"] = CHARGED_MS
    return slipstream.load(data)


def difference(ours: Any, theirs: Any) -> dict[str, float]:
    """Return the mean paired difference in reward and its interval."""
    gap = ours.of("reward") - theirs.of("reward")
    low, high = bootstrap_interval(gap)
    return {"mean": float(gap.mean()), "low": low, "high": high}


def at_home(name: str, oracle_episodes: int) -> dict[str, Any]:
    """Return how the policy trained on a scenario does in it, next to every heuristic."""
    scenario = slipstream.load(name)
    others = [slipstream.evaluate(scenario, one, EPISODES, SEED) for one in applicable(scenario)]
    ours = slipstream.evaluate(charged(scenario), TRAINED[name], EPISODES, SEED)
    bounds = [FAMILIES["edge"].oracle(scenario, SEED + episode, "test", 2.0) for episode in range(oracle_episodes)]
    bound = float(np.mean([one.bound for one in bounds]))
    rows = {}
    for one in (ours, *others):
        rows[one.policy] = {metric: one.mean(metric) for metric in METRICS}
        rows[one.policy]["share_of_bound"] = float(one.of("reward")[:oracle_episodes].mean()) / bound
        rows[one.policy]["difference"] = difference(ours, one)
    return {"policies": rows, "bound": bound, "best_known": float(np.mean([one.best_known for one in bounds]))}


def elsewhere() -> dict[str, Any]:
    """Return how policies trained on `edge/heavy` do, unchanged, on other scenarios."""
    generator = FAMILIES["edge"].generator
    assert generator is not None
    scenarios: dict[str, Any] = {"edge/medium": slipstream.load("edge/medium")}
    for tasks, seed in ((3, 1), (5, 2), (12, 3), (20, 4)):
        chosen = generator.settings(periodic_tasks=tasks // 2, poisson_tasks=tasks - tasks // 2)
        scenarios[f"generated, {tasks} tasks"] = generator.generate(chosen, seed)
    found: dict[str, Any] = {}
    for name, scenario in scenarios.items():
        rivals = {one: slipstream.evaluate(scenario, one, EPISODES, SEED) for one in ("edf-fit", "lookahead")}
        row = found[name] = {one: rival.mean("reward") for one, rival in rivals.items()}
        for policy in TRAVELLERS:
            ours = slipstream.evaluate(charged(scenario), policy, EPISODES, SEED)
            row[policy] = {"reward": ours.mean("reward"), "against edf-fit": difference(ours, rivals["edf-fit"])}
    return found


def wrong_profiles(profiles: int, episodes: int) -> dict[str, Any]:
    """Return what policies earn where every variant really takes up to 20% more or less than profiled."""
    scenario = slipstream.load("edge/heavy")
    wrong = [FAMILIES["edge"].vary(scenario, Variation(profile_error=0.2), seed) for seed in range(profiles)]
    found: dict[str, Any] = {}
    earned = {}
    for policy in ("learned-robust", "learned-heavy", "lookahead", "edf-fit", "edf"):
        as_profiled = slipstream.evaluate(scenario, policy, EPISODES, SEED).mean("reward")
        rewards = [slipstream.evaluate(one, policy, episodes, SEED).mean("reward") for one in wrong]
        earned[policy] = np.array(rewards)
        found[policy] = {"as profiled": as_profiled, "20% wrong": float(np.mean(rewards)), "worst": float(min(rewards))}
    for policy, rewards in earned.items():
        gap = earned["learned-robust"] - rewards
        low, high = bootstrap_interval(gap)
        found[policy]["robust beats it by"] = {"mean": float(gap.mean()), "low": low, "high": high}
    return found


def markdown(figures: dict[str, Any]) -> str:
    """Return the tables."""
    lines = []
    for name, found in figures["at home"].items():
        lines += [
            f"### `{name}`",
            "",
            f"Best possible reward, all arrivals known: between {found['best_known']:,.1f} and {found['bound']:,.1f}.",
            "",
            "| policy | reward | miss rate | effective accuracy | share of the bound | trained policy ahead by |",
            "|---|---|---|---|---|---|",
        ]
        ordered = sorted(found["policies"].items(), key=lambda item: -item[1]["reward"])
        for policy, row in ordered:
            ahead = "" if policy.startswith("learned") else interval(row["difference"])
            lines.append(
                f"| `{policy}` | {row['reward']:,.1f} | {row['miss_rate']:.4f} | {row['effective_accuracy']:.4f} "
                f"| {row['share_of_bound']:.1%} | {ahead} |"
            )
        lines.append("")
    lines += [
        "### Trained on `edge/heavy`, run unchanged elsewhere",
        "",
        "| scenario | `edf-fit` | `lookahead` | "
        + " | ".join(f"`{one}` | ahead of `edf-fit` by" for one in TRAVELLERS)
        + " |",
        "|---" * (3 + 2 * len(TRAVELLERS)) + "|",
    ]
    for name, row in figures["elsewhere"].items():
        cells = [f"{row[one]['reward']:,.1f} | {interval(row[one]['against edf-fit'])}" for one in TRAVELLERS]
        lines.append(f"| {name} | {row['edf-fit']:,.1f} | {row['lookahead']:,.1f} | {' | '.join(cells)} |")
    lines += [
        "",
        "### Profiles that are 20% wrong (`edge/heavy`)",
        "",
        "| policy | reward as profiled | mean reward, 20% wrong | worst profile | `learned-robust` ahead by |",
        "|---|---|---|---|---|",
    ]
    for policy, row in figures["wrong profiles"].items():
        ahead = "" if policy == "learned-robust" else interval(row["robust beats it by"])
        lines.append(
            f"| `{policy}` | {row['as profiled']:,.1f} | {row['20% wrong']:,.1f} | {row['worst']:,.1f} | {ahead} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    parser.add_argument("--oracle-episodes", type=int, default=20, help="episodes whose optimum is bounded")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"at home": {}}
    for name in TRAINED:
        figures["at home"][name] = at_home(name, arguments.oracle_episodes)
        print(f"{name}: done", file=sys.stderr)
    figures["elsewhere"] = elsewhere()
    figures["wrong profiles"] = wrong_profiles(20, 10)
    if arguments.json:
        print(json.dumps(figures, indent=2))
    else:
        print(markdown(figures))
    if arguments.write is not None:
        write_tables(arguments.write, {"commands": commands("edge"), "learned-policies": markdown(figures)})


if __name__ == "__main__":
    main()
