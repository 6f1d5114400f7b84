"""What `auto` and `rollout` gain over rules, and what their decisions cost, on generated scenarios.

Per family: decision times of both (p50, p99), and the gain of `rollout` over its base against the number of futures.
With `--generated N`: the gain of `auto` over the best rule of each of N scenarios, chosen with hindsight, and the worst
one. With `--peek`: what a policy would gain that plays the true future, which none may know.

Gains are in points: 0 is the mean reward of `random`, 100 that of the scenario's best rule, in the same episodes.
`auto` races on train episodes; all gains are of `eval` episodes. Scenarios are drawn from generator seeds from
9,000,000 on.

    python benchmarks/auto.py --json --families dag,edge --minutes 10
    python benchmarks/auto.py --generated 40 --keep generated.jsonl --minutes 60 --json   # again, to continue
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from time import monotonic, perf_counter_ns
from typing import Any

import numpy as np

from slipstream.evaluation import evaluate
from slipstream.families.contract import FAMILIES, Scenario
from slipstream.policies.auto import FULL, QUICK, Auto, Effort
from slipstream.policies.base import ModelBased, Policy, applicable, default_for, find
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.policies.rollout import Rollout
from slipstream.results import bootstrap_interval
from slipstream.scenario import digest
from slipstream.sim.simulator import Simulator

FIRST = 9_000_000
"""Generator seed of the first scenario: those of the suite, of built-ins and of training are smaller."""
FIRST_EPISODE = 0
BUDGETS = (2, 4, 8, 16, 32)
TIMED = 400
"""Decisions that are timed, evenly spaced over an episode or less."""

SETTINGS: dict[str, dict[str, tuple[Any, ...]]] = {
    "edge": {
        "utilisation": (0.5, 0.7, 0.9, 1.1),
        "streams": (1, 2, 4),
        "bursty_tasks": (0, 2),
        "ladder": ("profiles", "geometric"),
        "horizon_ms": (2000.0,),
    },
    "dag": {"load": (0.5, 0.8, 1.1, 1.5), "executors": (5, 10, 20), "jobs": (10, 20), "templates": (20,)},
    "taskgraph": {"sizes": ("3,4", "4,5", "5,6"), "gpus": (1, 2, 3), "cpus": (1, 4), "noise_cv": (0.0, 0.1, 0.3)},
    "serving": {"models": (2, 4), "accelerators": (4, 8), "load": (0.5, 0.8, 1.1), "duration_s": (30.0,)},
    "cluster": {
        "nodes": (2, 4, 8),
        "load": (0.6, 0.9, 1.2),
        "episode_jobs": (64, 128),
        "backfill": ("easy", "conservative"),
    },
}
"""Values of the generators' settings that scenarios are drawn from; other settings have their defaults."""


def scenario_of(family: str, number: int) -> Scenario:
    """Return the generated scenario of that number."""
    seed = FIRST + number
    draws = np.random.default_rng(seed)
    values = {name: choices[draws.integers(len(choices))] for name, choices in SETTINGS.get(family, {}).items()}
    generator = FAMILIES[family].generator
    assert generator is not None
    scenario: Scenario = generator.generate(generator.settings(**values), seed)
    return scenario


def rewards(scenario: Scenario, policy: str | Policy, episodes: int) -> np.ndarray:
    """Return the rewards of `policy` in the practice episodes."""
    return evaluate(scenario, policy, episodes, FIRST_EPISODE, "eval").of("reward")


def unit_of(reached: dict[str, np.ndarray]) -> float:
    """Return the reward of one point: a hundredth of the lead of the best rule over `random`."""
    means = {name: float(values.mean()) for name, values in reached.items()}
    return abs(max(means.values()) - means["random"]) / 100.0 or 1.0


def of_rules(scenario: Scenario, episodes: int) -> dict[str, np.ndarray]:
    """Return the rewards of all rules that apply and of `random`."""
    players = {name: find(name, scenario.family) for name in ["random", *applicable(scenario)]}
    return {name: rewards(scenario, policy, episodes) for name, policy in players.items()}


def summary(gains: np.ndarray) -> dict[str, float]:
    """Return the mean of gains with its bootstrap 95% interval."""
    low, high = bootstrap_interval(gains)
    return {"mean": float(gains.mean()), "low": low, "high": high}


def decision_times(scenario: Scenario, policy: Policy) -> dict[str, Any]:
    """Return median and 99th percentile of the time of single decisions in a practice episode, in ms."""
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(FIRST_EPISODE, "eval")
    spent: list[float] = []
    while simulator.asking and len(spent) < TIMED + 1:
        began = perf_counter_ns()
        action = _decide(policy, simulator)
        spent.append((perf_counter_ns() - began) / 1e6)
        simulator.step(action)
    p50, p99 = np.percentile(spent[1:], (50, 99)) if len(spent) > 1 else (0.0, 0.0)
    return {"policy": policy.name, "p50_ms": float(p50), "p99_ms": float(p99), "decisions": len(spent) - 1}


def _decide(policy: Policy, simulator: Simulator) -> int:
    if isinstance(policy, ModelBased):
        return policy.decide(simulator)
    if isinstance(policy, CompiledPolicy):
        return int(policy.action(simulator))
    return int(policy.choose(*simulator.observe()))


def times_of(family: str, effort: Effort) -> dict[str, Any]:
    """Return the decision times of `rollout`, and of what `auto` plays, in the first generated scenario."""
    scenario = scenario_of(family, 0)
    found = {"auto": decision_times(scenario, Auto(family, effort).policy_for(scenario))}
    if FAMILIES[family].members.kernel.resample is not None:
        found["rollout"] = decision_times(scenario, find(f"rollout({default_for(scenario)})", family))
    return found


def curve_of(family: str, futures: int, episodes: int) -> dict[str, Any]:
    """Return the gain of `rollout` with a number of futures over its base, and the time of its decisions."""
    scenario = scenario_of(family, 0)
    base = find(default_for(scenario), family)
    policy = Rollout(family, [base], futures=futures)
    reached = of_rules(scenario, episodes)
    gains = (rewards(scenario, policy, episodes) - reached[base.name]) / unit_of(reached)
    return {"futures": futures, "gain": summary(gains), **decision_times(scenario, policy)}


def peeking_of(family: str, number: int, episodes: int) -> dict[str, Any]:
    """Return the gains over their base of honest futures and of the true one, in the same episodes."""
    scenario = scenario_of(family, number)
    base = find(default_for(scenario), family)
    reached = of_rules(scenario, episodes)
    found: dict[str, Any] = {"base": base.name}
    for name, peeks in (("honest", False), ("peeking", True)):
        own = rewards(scenario, Rollout(family, [base], peeks=peeks), episodes)
        found[name] = ((own - reached[base.name]) / unit_of(reached)).tolist()
    return found


def generated_of(family: str, number: int, episodes: int, effort: Effort) -> dict[str, Any]:
    """Return the gain of `auto` over the best rule of a generated scenario, chosen by the same episodes."""
    scenario = scenario_of(family, number)
    policy = Auto(family, effort)
    choice = policy.choice(scenario)
    reached = of_rules(scenario, episodes)
    best = max(reached, key=lambda name: float(reached[name].mean()))
    gains = (rewards(scenario, policy, episodes) - reached[best]) / unit_of(reached)
    about = {"number": number, "digest": digest(scenario), "choice": choice.policy, "best_rule": best}
    return {**about, "gain": summary(gains)}


class Kept:
    """Finished pieces of work, in a file of JSON lines if one is given; none begins after the time is up."""

    def __init__(self, path: Path | None, minutes: float, about: dict[str, Any]) -> None:
        self.path, self.end = path, monotonic() + 60.0 * minutes
        self.about = json.dumps(about)
        self.found: dict[str, Any] = {}
        self.left = 0
        """Pieces that were not begun."""
        if path is not None and path.is_file():
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            self.found = {key: value for key, settings, value in lines if settings == self.about}

    def get(self, key: str, work: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return the result of a piece of work in a list, which is empty if the time is up before it begins."""
        if key not in self.found:
            if monotonic() > self.end:
                self.left += 1
                return []
            self.found[key] = work(*arguments)
            if self.path is not None:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([key, self.about, self.found[key]]) + "\n")
        return [self.found[key]]


def generated_summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean gain over scenarios with its interval, the worst scenario, and all of them."""
    means = np.array([row["gain"]["mean"] for row in rows])
    behind = [row for row in rows if row["gain"]["high"] < 0.0]
    worst = min(rows, key=lambda row: float(row["gain"]["mean"]))
    figures = {"gain": summary(means), "scenarios": len(rows), "surely_behind": len(behind), "worst": worst}
    return {**figures, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--families", default=",".join(FAMILIES), help="families, separated by commas")
    parser.add_argument("--episodes", type=int, default=8, help="practice episodes of each measurement")
    parser.add_argument("--minutes", type=float, default=20.0, help="begin nothing after this many minutes")
    parser.add_argument("--keep", type=Path, help="file of finished pieces, from which the same command continues")
    parser.add_argument("--generated", type=int, metavar="N", help="compare auto with the rules of N scenarios each")
    parser.add_argument("--peek", type=int, metavar="N", help="compare honest futures with the true one on N scenarios")
    parser.add_argument("--quick", action="store_true", help="race with the effort of commands that name no policy")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    kept = Kept(options.keep, options.minutes, {"episodes": options.episodes, "effort": repr(effort)})
    found: dict[str, Any] = {}
    for family in options.families.split(","):
        simulates = FAMILIES[family].members.kernel.resample is not None
        own: dict[str, Any] = {}
        if options.generated is not None:
            rows = []
            for number in range(options.generated):
                arguments = (family, number, options.episodes, effort)
                rows += kept.get(f"generated {family} {number}", generated_of, *arguments)
            own = generated_summary(rows) if rows else {}
        elif options.peek is not None:
            rows = []
            for number in range(options.peek if simulates else 0):
                rows += kept.get(f"peek {family} {number}", peeking_of, family, number, options.episodes)
            for name in ("honest", "peeking") if rows else ():
                own[name] = summary(np.concatenate([row[name] for row in rows]))
        else:
            own = {"decision_times": kept.get(f"times {family}", times_of, family, effort), "curve": []}
            for futures in BUDGETS if simulates else ():
                own["curve"] += kept.get(f"curve {family} {futures}", curve_of, family, futures, options.episodes)
        found[family] = own
    if kept.left:
        found["not_begun"] = kept.left
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for family, own in found.items():
        print(family, json.dumps(own))


if __name__ == "__main__":
    main()
