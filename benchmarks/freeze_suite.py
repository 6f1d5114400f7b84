"""Writes Slipstream-Bench v2 into the package: scenarios with their digests, and what is known of their test episodes.

What is there already is left alone, so the script can be stopped and goes on where it was: rules that are new, trained
policies whose files changed, and episodes without a solution are played, nothing else. Scenarios never change once
they are listed; one whose digest is not the listed one stops the script.

    python benchmarks/freeze_suite.py
    python benchmarks/freeze_suite.py --families edge,dag --solve 5       # solves again: bounds only narrow
    python benchmarks/freeze_suite.py --rules fifo,edf                    # plays these again
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from suite_scenarios import KINDS, no_two_alike, scenarios

import slipstream
from slipstream.families.contract import family_of
from slipstream.policies import find, names
from slipstream.policies.learned import shipped
from slipstream.scenario import digest, dump
from slipstream.suite.catalogue import FLOOR, Entry, Suite, folder_hash, load_suite

SECONDS = 0.5
"""Time of the oracle for an episode without a solution."""
HOME = Path(slipstream.__file__).parent / "suite" / "v2"
SEEDS = {
    "train": {"split": "train"},
    "practice": {"split": "eval", "first": 20_000, "episodes": 4},
    "test": {"split": "test", "first": 20_000, "episodes": 10},
}


def write_json(path: Path, data: Any) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(path)


def write_scenarios() -> Suite:
    """Write the scenarios and their list, once: their digests are checked at every later load."""
    listing = HOME / "suite.json"
    if listing.is_file():
        return load_suite()
    listed, digests = [], {}
    for family, members in scenarios().items():
        for name, data in members.items():
            scenario = slipstream.load(data)
            found = digests[f"{family}/{name}"] = digest(scenario)
            path = HOME / "scenarios" / family / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dump(scenario), encoding="utf-8")
            listed.append({"family": family, "name": name, "kind": KINDS[name], "digest": found})
    no_two_alike(digests)
    write_json(listing, {"version": "v2", "seeds": SEEDS, "scenarios": listed})
    return load_suite()


def rewards(entry: Entry, suite: Suite, policy: str) -> list[float]:
    """Return what a policy reaches in the test episodes."""
    seeds = suite.test
    # An object is played even where its name does not apply to the scenario: the reference lists every rule.
    player = find(policy, entry.family)
    played = slipstream.evaluate(entry.scenario, player, seeds.episodes, seeds.first, seeds.split)
    found: list[float] = played.of("reward").tolist()
    return found


def solve(entry: Entry, suite: Suite, known: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return the optimum bounds of the test episodes, no wider than those that are known."""
    seeds = range(suite.test.first, suite.test.first + suite.test.episodes)
    oracle = family_of(entry.scenario).oracle
    bounds = [oracle(entry.scenario, seed, suite.test.split, seconds) for seed in seeds]
    found = {key: [getattr(one, key) for one in bounds] for key in ("best_known", "bound", "exact")}
    if known["bound"] is not None:
        found["best_known"] = np.maximum(found["best_known"], known["best_known"]).tolist()
        found["bound"] = np.minimum(found["bound"], known["bound"]).tolist()
        found["exact"] = np.logical_or(found["exact"], known["exact"]).tolist()
    return found


def complete(
    entry: Entry, suite: Suite, found: dict[str, Any], again: list[str], seconds: float | None
) -> Iterator[dict[str, Any]]:
    """Yield what is known of an entry each time that something is new; with a time, everything is solved again."""
    if found.get("digest") != entry.digest:
        found = {"digest": entry.digest, "best_known": None, "bound": None, "exact": None, "rules": {}, "learned": {}}
    for name in names(entry.family):
        if name in again or name not in found["rules"]:
            found["rules"][name] = rewards(entry, suite, name)
            yield found
    for name in [name for name in found["learned"] if name not in shipped(entry.family)]:
        del found["learned"][name]
    for name, folder in shipped(entry.family).items():
        sha256 = folder_hash(folder)
        if found["learned"].get(name, {}).get("sha256") != sha256:
            found["learned"][name] = {"sha256": sha256, "rewards": rewards(entry, suite, str(folder))}
            yield found
    if found["bound"] is None or seconds is not None:
        found |= solve(entry, suite, found, SECONDS if seconds is None else seconds)
    yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default="cluster,edge,taskgraph,dag,serving", help="separated by commas")
    parser.add_argument("--scenarios", default=",".join(KINDS), help="separated by commas")
    parser.add_argument("--solve", type=float, help="seconds for which every episode is solved again")
    parser.add_argument("--rules", default="", help="rules to play again, separated by commas")
    chosen = parser.parse_args()
    suite = write_scenarios()
    for family in chosen.families.split(","):
        path = HOME / "reference" / f"{family}.json"
        reference = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        for entry in (one for one in suite.of(family) if one.name in chosen.scenarios.split(",")):
            began = process_time()
            known = reference.get(entry.name, {})
            for found in complete(entry, suite, known, chosen.rules.split(","), chosen.solve):
                reference[entry.name] = found
                write_json(path, reference)
            best = np.max([found["best_known"], *found["rules"].values()], axis=0).mean()
            floor, bound = np.mean(found["rules"][FLOOR]), np.mean(found["bound"])
            assert best > floor, f"{entry.id}: random is as good as anything: no scale"
            took = process_time() - began
            line = f"random {floor:.4g}, best {best:.4g}, bound {bound:.4g}, exact {sum(found['exact'])}, {took:.1f} s"
            print(f"{entry.id}: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
