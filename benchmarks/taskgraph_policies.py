"""How good the trained policies of the taskgraph family are: the tables of docs/taskgraph-results.md.

For every setting that a policy was trained in: that policy next to every heuristic on the same test episodes, on sizes
and seeds that no training has seen, with paired differences in makespan and bootstrap 95% intervals. Where nothing is
random an episode is a graph, and each is played once. Then, graph by graph, the policies that were trained without
transfers and for small memories next to the best heuristics, and to a bound that no schedule can beat; and the cases in
which waiting pays.

    python benchmarks/taskgraph_policies.py --json
    python benchmarks/taskgraph_policies.py --write docs/taskgraph-results.md
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tables import ahead, commands, plain_table, publish, rival_tables

import slipstream
from slipstream.families.taskgraph.workload.generator import RANDOM, Settings, generate
from slipstream.policies import names
from slipstream.policies.learned import shipped

SEED, MAKESPAN = 10_000, "makespan_ms"
HELD_OUT = 1000
"""Seed of the graphs of tests; those of trainings have small ones."""
COPIES = 3
"""Random graphs of each size."""
SIZES = "4,8,10"
"""Of tests; trainings have others."""
SETTINGS: dict[str, tuple[str, Settings, int]] = {
    "no transfers": ("learned-exact", Settings(sizes=SIZES), 1),
    "noisy durations": ("learned-noisy", Settings(sizes=SIZES, noise_cv=0.4), 5),
    "small memories": (
        "learned-memory",
        Settings(sizes=SIZES, bandwidth_mb_s=1000.0, memory_tiles=8, pipeline=2),
        1,
    ),
    "unrolled": (
        "learned-unrolled",
        Settings(sizes="4,6,8", visible=20, jobs=3, mean_gap_ms=150.0),
        5,
    ),
}
"""Policy, machine and graphs, and episodes of each graph."""
PUSHED = ("dm", "dmda", "dmdar", "dmdas", "darts")
"""At home where tasks choose processors; where tiles move they play that way too."""
WAITING = ("taskgraph/wait-for-reuse", "taskgraph/cholesky-4-2g2c")
"""Where starting what is ready costs more than waiting."""


def graphs_of(settings: Settings) -> dict[str, Any]:
    """Return a scenario for each kind and size, and of random graphs for several seeds."""
    found: dict[str, Any] = {}
    for kind in settings.graphs.split(","):
        for size in settings.sizes.split(","):
            for copy in range(COPIES if kind in RANDOM else 1):
                wish = settings.model_copy(update={"graphs": kind, "sizes": size})
                name = f"{kind} {size}" + (f", seed {HELD_OUT + copy}" if kind in RANDOM else "")
                found[name] = generate(wish, HELD_OUT + copy)
    return found


def played(scenario: Any, player: str, episodes: int) -> slipstream.Evaluation:
    """Return how a policy does; one that is called `NAME, push` has tasks choose processors."""
    policy, _, mode = player.partition(", ")
    return slipstream.evaluate(scenario.model_copy(update={"mode": mode or "pull"}), policy, episodes, SEED)


def makespans(scenarios: dict[str, Any], player: str, episodes: int) -> np.ndarray:
    """Return the makespans of a policy, one graph behind the other."""
    return np.concatenate([played(one, player, episodes).of(MAKESPAN) for one in scenarios.values()])


def at_home(policy: str, settings: Settings, episodes: int) -> dict[str, Any]:
    """Return how a trained policy does next to every heuristic."""
    scenarios = graphs_of(settings)
    pushed = [f"{one}, push" for one in PUSHED if settings.bandwidth_mb_s]
    times = {one: makespans(scenarios, one, episodes) for one in (policy, *names("taskgraph"), *pushed)}
    return {one: {"mean": float(time.mean()), "ahead": ahead(times[policy], time)} for one, time in times.items()}


def graph_by_graph(rivals: tuple[str, ...], policy: str, settings: Settings) -> dict[str, dict[str, float]]:
    """Return the makespans of a trained policy and of its rivals, and the bound, for each graph."""
    found: dict[str, dict[str, float]] = {}
    for name, scenario in graphs_of(settings).items():
        evaluations = {one: played(scenario, one, 1) for one in (*rivals, policy)}
        found[name] = {one: evaluation.mean(MAKESPAN) for one, evaluation in evaluations.items()}
        found[name]["bound"] = evaluations[policy].mean("bound_ms")
    return found


def where_waiting_pays() -> dict[str, dict[str, float]]:
    """Return the makespans of every trained policy and of the best heuristics where waiting pays."""
    players = ("fifo", "mct", "peft", *shipped("taskgraph"))
    return {
        f"`{name}`": {one: slipstream.evaluate(name, one, 1, SEED).mean(MAKESPAN) for one in players}
        for name in WAITING
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    chosen = parser.parse_args()
    figures: dict[str, Any] = {"at home": {}}
    for name, (policy, settings, episodes) in SETTINGS.items():
        figures["at home"][name] = at_home(policy, settings, episodes)
        print(f"{name}: done", file=sys.stderr)
    figures["graphs"] = graph_by_graph(("mct", "heft", "peft", "learned-plain"), *SETTINGS["no transfers"][:2])
    figures["memory graphs"] = graph_by_graph(("mct", "darts", "dmdar, push"), *SETTINGS["small memories"][:2])
    figures["waiting"] = where_waiting_pays()
    tables = {
        "at-home": rival_tables(figures["at home"], "mean makespan, ms", "ms"),
        "graphs": plain_table("makespan, ms", figures["graphs"]),
        "memory-graphs": plain_table("makespan, ms", figures["memory graphs"]),
        "waiting": plain_table("makespan, ms", figures["waiting"]),
        "commands": commands("taskgraph"),
    }
    publish(figures, tables, chosen.json, chosen.write)


if __name__ == "__main__":
    main()
