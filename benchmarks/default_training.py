"""What `slipstream train` reaches by default: every family, every scenario of the suite, five minutes each.

Each training has the default settings: it races the heuristics, imitates the best and improves on it. Of each the
result has two comparisons: `outcome`, the verdict that the training itself prints (held-out episodes that neither
trained nor selected the policy, paired with the best heuristic of the race), and `rules`, by how much the policy is
ahead of every heuristic on the suite's test episodes, whose rewards are part of the suite.

    python benchmarks/default_training.py --results runs/default/results.json --json
    python benchmarks/default_training.py --families cluster --scenarios light,heavy --steps 2000000

All of it takes five hours. Each result is written as its training ends, and trainings that are in the file are not
repeated; one that was interrupted goes on from its last evaluation. A file holds results of one length and one version
of the settings: others are refused. With another number of `--episodes` policies are played again, not trained.
`--scenarios` also takes names of the package, such as `cluster/lublin-256`; their heuristics are played.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tables import publish

import slipstream
from slipstream.errors import InputError, SlipstreamError
from slipstream.evaluation import bootstrap_interval
from slipstream.families.contract import Scenario
from slipstream.files.atomic import replace_file
from slipstream.files.inputs import read_object
from slipstream.learn.files import RUN
from slipstream.learn.training import Training
from slipstream.policies.base import Heuristic, applicable, find
from slipstream.suite.catalogue import Seeds, load_suite

MINUTES = 5.0
NEEDED = {"ahead": "ahead of every rule", "level": "level with the best rule", "behind": "behind a rule"}


@dataclass(frozen=True)
class Subject:
    """Scenario of a training, and the rewards of its rules on test episodes as far as they are known."""

    name: str
    scenario: Scenario
    known: dict[str, np.ndarray]

    def rewards_of_rules(self, test: Seeds) -> dict[str, np.ndarray]:
        """Return the rewards of every rule on the test episodes; they are played where they are not known."""
        if self.known and all(len(rewards) == test.episodes for rewards in self.known.values()):
            return self.known
        rules = [name for name in applicable(self.scenario) if isinstance(find(name, self.scenario.family), Heuristic)]
        played = (test.episodes, test.first, test.split)
        return {name: slipstream.evaluate(self.scenario, name, *played).of("reward") for name in rules}


def subjects(families: list[str], scenarios: list[str]) -> list[Subject]:
    """Return the scenarios of the suite's `families`, or those among `scenarios`; others by their full names."""
    suite = load_suite()
    chosen = suite.only(families) if families else suite
    found = [
        Subject(entry.id, entry.scenario, entry.reference.rules)
        for entry in chosen.entries
        if not scenarios or entry.name in scenarios
    ]
    return found + [Subject(f"{name} (built in)", slipstream.load(name), {}) for name in scenarios if "/" in name]


def differences(ours: np.ndarray, rules: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Return by how much the policy is ahead of each rule, with the paired bootstrap 95% interval."""
    found = {}
    for name, theirs in rules.items():
        gap = ours - theirs
        low, high = bootstrap_interval(gap)
        found[name] = {"reward": float(theirs.mean()), "ahead": float(gap.mean()), "low": low, "high": high}
    return found


def verdict(rules: dict[str, dict[str, float]]) -> str:
    """Return `ahead` if the policy is ahead of all rules with their intervals, `behind` if it is behind one."""
    if all(row["low"] > 0.0 for row in rules.values()):
        return "ahead"
    return "behind" if any(row["high"] < 0.0 for row in rules.values()) else "level"


def trained(subject: Subject, folder: Path, changes: dict[str, Any], minutes: float | None) -> Training:
    """Return the training of `subject`, gone on with where its folder holds one that was interrupted."""
    words = f"python benchmarks/default_training.py: {json.dumps(changes)}, minutes {minutes}"
    if (folder / RUN).exists():
        return slipstream.train(subject.scenario, out=folder, resume=True, command=words)
    return slipstream.train(subject.scenario, changes, folder, minutes, command=words, warm_start="auto")


def result_of(subject: Subject, training: Training, test: Seeds) -> dict[str, Any]:
    """Return what became of one training."""
    rules = subject.rewards_of_rules(test)
    played = slipstream.evaluate(subject.scenario, training.policy, test.episodes, test.first, test.split)
    ahead = differences(played.of("reward"), rules)
    return {
        "outcome": training.outcome.to_dict(),
        "verdict": verdict(ahead),
        "reward": played.mean("reward"),
        "best_rule": max(ahead, key=lambda name: ahead[name]["reward"]),
        "rules": ahead,
        "warm_start": training.settings.warm_start,
        "algo": training.settings.algo,
        "steps": training.steps,
        "seconds": training.seconds,
        "episodes": test.episodes,
    }


def table(results: dict[str, Any]) -> str:
    """Return the table of all results."""
    columns = (
        *("scenario", "imitated", "then", "steps", "outcome, held-out episodes"),
        *("best rule, test episodes", "ahead of it by", ""),
    )
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name, result in results.items():
        outcome, row = result["outcome"], result["rules"][result["best_rule"]]
        gap = f"{outcome['difference']:+,.4g} [{outcome['low']:+,.4g}, {outcome['high']:+,.4g}]"
        broken = [one["metric"] for one in outcome["constraints"] if not one["kept"]]
        words = f"{outcome['verdict']} (`{outcome['heuristic']}`), {gap}" + "".join(f", breaks {one}" for one in broken)
        lines.append(
            f"| {name} | `{result['warm_start']}` | {result['algo']} | {result['steps']:,} | {words} "
            f"| `{result['best_rule']}` | {row['ahead']:+,.4g} [{row['low']:+,.4g}, {row['high']:+,.4g}] "
            f"| {NEEDED[result['verdict']]} |"
        )
    return "\n".join(lines)


def read_results(path: Path, length: dict[str, Any]) -> dict[str, Any]:
    """Return the file of results, or a new one; refuse one whose trainings have another length."""
    if not path.exists():
        return {"length": length, "results": {}}
    found = read_object(path, "a file written by benchmarks/default_training.py")
    if found.get("length") != length or not isinstance(found.get("results"), dict):
        raise InputError(f"{path}: holds trainings of {found.get('length')}: expected {length}, or another --results")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--results", type=Path, default=Path("runs/default/results.json"), help="file of the results")
    parser.add_argument("--families", default="", help="families, separated by commas; default: all of the suite")
    parser.add_argument("--scenarios", default="", help="scenarios, separated by commas; default: all of the suite")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=None, help=f"of each training; default: {MINUTES:g}")
    length.add_argument("--steps", type=int, default=None, help="of each training, in place of minutes")
    parser.add_argument("--episodes", type=int, help="test episodes; default: those of the suite, which come first")
    parser.add_argument("--algo", choices=("ppo", "reinforce"), help="default: that of the family")
    parser.add_argument("--write", type=Path, help="put the table into this page")
    chosen = parser.parse_args()
    minutes = None if chosen.steps is not None else MINUTES if chosen.minutes is None else chosen.minutes
    changes = {"steps": chosen.steps, "algo": chosen.algo}
    changes = {name: value for name, value in changes.items() if value is not None}
    try:
        failed = run(chosen, changes, minutes)
    except SlipstreamError as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if failed else 0


def run(chosen: argparse.Namespace, changes: dict[str, Any], minutes: float | None) -> bool:
    """Make the trainings that the file of results has not; return whether one failed."""
    figures, failed = read_results(chosen.results, {**changes, "minutes": minutes}), False
    test = load_suite().test
    if chosen.episodes is not None:
        test = replace(test, episodes=chosen.episodes)
    families, scenarios = ([one for one in text.split(",") if one] for text in (chosen.families, chosen.scenarios))
    todo = subjects(families, scenarios)
    if not todo:
        raise InputError(f"--scenarios {chosen.scenarios}: expected names of the suite's scenarios, such as light")
    for subject in todo:
        if figures["results"].get(subject.name, {}).get("episodes") == test.episodes:
            continue
        folder = chosen.results.parent / chosen.results.stem / subject.name.partition(" ")[0].replace("/", "-")
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            result = result_of(subject, trained(subject, folder, changes, minutes), test)
        except SlipstreamError as error:
            print(f"{subject.name}: {error}", file=sys.stderr)
            failed = True
            continue
        figures["results"][subject.name] = result
        replace_file(chosen.results, (json.dumps(figures, indent=2) + "\n").encode())
        print(f"{subject.name}: {NEEDED[result['verdict']]}, {result['outcome']['verdict']}", file=sys.stderr)
    results = {one.name: figures["results"][one.name] for one in todo if one.name in figures["results"]}
    figures["families"] = counts(results)
    publish(figures, {"default-training": table(results)}, chosen.json, chosen.write)
    return failed


def counts(results: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return for each family in how many scenarios the policy is ahead of all rules, level with or behind one."""
    found: dict[str, dict[str, int]] = {}
    for name, result in results.items():
        row = found.setdefault(name.partition("/")[0], dict.fromkeys(NEEDED, 0))
        row[result["verdict"]] += 1
    return found


if __name__ == "__main__":
    sys.exit(main())
