"""What a policy does when a term of the edge reward is left out: trained without it, judged with it.

For each scenario one policy is trained with all terms and one with the weight of each term in use set to 0, all with
the same steps and seed. All of them then play the same test episodes of the scenario as it is. Differences are those
to the policy trained with all terms, paired by episode, with bootstrap 95% intervals; they say how sure the figures of
these policies are, not how another seed of training would have come out.

    python benchmarks/reward_terms.py --json
    python benchmarks/reward_terms.py --write docs/rl.md
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

SCENARIOS = ("edge/heavy", "edge/overload")
METRICS = ("reward", "miss_rate", "effective_accuracy", "executed_accuracy", "late_rate", "drop_rate", "utilisation")
ALL = "all terms"
BEGIN, END = "<!-- reward-terms -->", "<!-- /reward-terms -->"


def without(scenario: Any, term: str) -> dict[str, Any]:
    """Return the scenario with the weight of a term set to 0."""
    from slipstream.scenario import dump

    data: dict[str, Any] = json.loads(dump(scenario))
    data["reward"] = {**data.get("reward", {}), term: 0.0}
    return data


def measure(name: str, changes: dict[str, Any], episodes: int) -> dict[str, Any]:
    """Train all policies of a scenario and return how they do in it."""
    import slipstream
    from slipstream.learn.settings import TrainSettings

    scenario: Any = slipstream.load(name)
    weights = {term: weight for term, weight in scenario.reward.model_dump().items() if weight > 0.0}
    sources = {ALL: scenario, **{f"without {term}": without(scenario, term) for term in weights}}
    policies = []
    for label, source in sources.items():
        training = slipstream.train(source, TrainSettings().with_changes(changes))
        training.policy.name = label
        policies.append(training.policy)
        print(f"{name}: trained {label}, {training.steps:,} steps in {training.seconds:.0f} s", file=sys.stderr)
    comparison = slipstream.compare(scenario, policies, episodes)
    figures = {}
    for label in sources:
        own = figures[label] = {}
        for metric in METRICS:
            difference, low, high = comparison.difference(label, ALL, metric)
            mean = comparison.of(label).mean(metric)
            own[metric] = {"mean": mean, "difference": difference, "low": low, "high": high}
    return {"weights": weights, "policies": figures}


def markdown(result: dict[str, Any]) -> str:
    """Return the tables of a result."""
    pieces = [
        f"Made by `{result['command']}`: one training of {result['steps']:,} steps with seed {result['seed']} per row, "
        f"{result['episodes']} test episodes of the scenario as it is. Below a mean: its difference to the first row, "
        "and the paired 95% interval."
    ]
    for name, found in result["scenarios"].items():
        header = [f"`{name}`, trained with", *(metric.replace("_", " ") for metric in METRICS)]
        rows = [header, ["---"] * len(header)]
        rows += [[label, *map(_cell, METRICS, own.values())] for label, own in found["policies"].items()]
        pieces.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    return "\n\n".join(pieces)


def _cell(metric: str, figure: dict[str, float]) -> str:
    digits = 1 if metric == "reward" else 3
    mean = f"{figure['mean']:,.{digits}f}"
    if figure["low"] == figure["high"] == 0.0:
        return mean
    difference, low, high = (f"{figure[key]:+,.{digits}f}" for key in ("difference", "low", "high"))
    return f"{mean}<br>{difference} [{low}, {high}]"


def filled(text: str, tables: str) -> str:
    """Return a page with the tables between its markers, in place of what was there."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"error: no place for the tables: expected {BEGIN} and, behind it, {END}")
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--steps", type=int, default=1_000_000, help="choices to learn from, of every training")
    parser.add_argument("--seed", type=int, default=0, help="seed of the trainings")
    parser.add_argument("--episodes", type=int, default=100, help="test episodes")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="names separated by commas")
    parser.add_argument("--set", action="append", default=[], help="a setting of all trainings, such as n_envs=64")
    parser.add_argument("--write", type=Path, help="page whose block of tables to fill in")
    arguments = parser.parse_args()
    if arguments.write is not None:
        filled(arguments.write.read_text(encoding="utf-8"), "")  # ends before the work, not after it
    changes = {"steps": arguments.steps, "seed": arguments.seed, **dict(one.split("=", 1) for one in arguments.set)}
    names = arguments.scenarios.split(",")
    result: dict[str, Any] = {key: getattr(arguments, key) for key in ("steps", "seed", "episodes")}
    result["command"] = shlex.join(["python", "benchmarks/reward_terms.py", *sys.argv[1:]])
    result["scenarios"] = {name: measure(name, changes, arguments.episodes) for name in names}
    if arguments.write is not None:
        page = arguments.write.read_text(encoding="utf-8")
        arguments.write.write_text(filled(page, markdown(result)), encoding="utf-8")
    print(json.dumps(result, indent=2) if arguments.json else markdown(result))


if __name__ == "__main__":
    main()
