"""How well the model library chooses for workloads that no model was trained on.

A library is built of the trained policies that come with the package, each with the built-in that it is for, and of
small ones trained here on task graphs. Then it chooses for held-out instances of every family: other sizes, machines,
rates and latencies. What it chose, every model and every rule then play test episodes that the choice has not seen.
Regret is measured against the best that any of them reached in the same episode.

    python benchmarks/library_choice.py --json
    python benchmarks/library_choice.py --library FOLDER     # keeps the library, or goes on with one
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import slipstream
from slipstream.core.family import FAMILIES, family_of
from slipstream.core.variation import Variation
from slipstream.learn.settings import TrainSettings
from slipstream.library import Library
from slipstream.library.judging import shares_lost
from slipstream.policies import names
from slipstream.policies.learned import load_policy, shipped
from slipstream.scenario import builtin_names

SEED = 10_000
GATE_EPISODES = 3
"""Episodes that a model plays when it is added: nothing here depends on them."""
MADE_FOR = {
    "learned-robust": "edge/heavy",
    "learned-stream-50x200-tpch": "dag/stream-50x200",
    "learned-batch-50x20-compat": "dag/batch-50x20",
}
"""Built-ins for policies that were trained on a variation or on data that does not come with the package."""
TRAINED = {
    "cholesky": {"kind": "cholesky", "n": 6},
    "lu": {"kind": "lu", "n": 5},
    "qr": {"kind": "qr", "n": 5},
    "gemm": {"kind": "gemm", "n": 4},
    "spgemm": {"kind": "spgemm", "n": 8, "density": 0.3},
    "layered": {"kind": "layered", "layers": 10, "width": 6},
}
MACHINES = {"2g2c": (2, 2), "1g3c": (1, 3)}
TABLE = {"POTRF": (18, 11), "SYRK": (57, 2), "TRSM": (52, 8), "GEMM": (95, 3)}
"""READYS's durations on a CPU and a GPU, for graphs of these kernels."""


def task_graph(graph: dict[str, Any], machine: str, seed: int = 0) -> dict[str, Any]:
    """Return a scenario of one graph on a machine, with durations that scatter."""
    gpus, cpus = MACHINES[machine]
    own = {} if graph["kind"] not in ("layered", "spgemm") else {"seed": seed}
    data: dict[str, Any] = {
        "family": "taskgraph",
        "name": f"{graph['kind']}-{graph.get('n', graph.get('layers'))}-{machine}",
        "processors": [{"name": "gpu", "count": gpus}, {"name": "cpu", "count": cpus}],
        "noise": {"kind": "lognormal", "cv": 0.1},
        "graphs": [{**graph, **own}],
    }
    if graph["kind"] in ("gemm", "spgemm"):
        table = {kernel: {"cpu": float(cpu), "gpu": float(gpu)} for kernel, (cpu, gpu) in TABLE.items()}
        data["durations"] = {"kind": "table", "kernels_ms": table}
    return data


def larger(graph: dict[str, Any]) -> dict[str, Any]:
    """Return a graph of the same kind, two sizes larger."""
    return {**graph, **{key: graph[key] + 2 for key in ("n", "layers") if key in graph}}


def build(library: Library, steps: int) -> float:
    """Fill a library; return how many seconds its trainings took."""
    began, known = perf_counter(), set(library.store.models())
    for family in FAMILIES:
        for name, folder in shipped(family).items():
            own = MADE_FOR.get(name, str(load_policy(folder).card["scenario"]))
            if name not in known and own in builtin_names():
                library.add(name, folder, [own])
    settings = TrainSettings(steps=steps, lanes=64, warm_start="mct", evaluation_episodes=8, evaluate_every=10)
    for kind, graph in TRAINED.items():
        for machine in MACHINES:
            name = f"{kind}-{machine}"
            if name in known:
                continue
            scenario = task_graph(graph, machine)
            with tempfile.TemporaryDirectory() as place:
                slipstream.train(scenario, settings, Path(place) / "run")
                library.add(name, Path(place) / "run" / "best", [scenario], [task_graph(larger(graph), machine)])
    return perf_counter() - began


def held_out() -> list[Any]:
    """Return workloads of every family that no model was trained on."""
    found = []
    for name in ("edge/light", "edge/medium", "edge/heavy", "edge/overload", "edge/drone"):
        scenario = slipstream.load(name)
        for seed in (1, 2):
            varied = family_of(scenario).vary(scenario, Variation(latency=0.4, rate=0.4, interference=0.2), seed)
            found.append(varied.model_copy(update={"name": f"{varied.name}-varied-{seed}"}))
    for executors, jobs, gap in ((10, 30, 60.0), (20, 40, 25.0), (30, 60, 20.0)):
        arrivals = {"kind": "poisson", "jobs": jobs, "mean_gap_s": gap}
        data = {"family": "dag", "name": f"{executors}x{jobs}", "executors": executors, "arrivals": arrivals}
        found.append(slipstream.load({**data, "jobs": {"kind": "synthetic", "seed": 7}}))
    batch = {"family": "dag", "name": "batch-25x10", "executors": 25, "arrivals": {"kind": "batch", "jobs": 10}}
    found += [slipstream.load({**batch, "jobs": {"kind": "synthetic", "seed": 8}}), slipstream.load("dag/ml-workflow")]
    sizes = {"cholesky": (4, 8), "lu": (4, 7), "qr": (4, 7), "gemm": (3, 5), "spgemm": (6, 10), "layered": (6, 16)}
    for kind, values in sizes.items():
        for value, machine in zip(values, MACHINES, strict=True):
            graph = {**TRAINED[kind], ("layers" if kind == "layered" else "n"): value}
            found.append(slipstream.load(task_graph(graph, machine, seed=5)))
    return found


def measure(library: Library, scenario: Any, episodes: int) -> dict[str, Any]:
    """Return what was chosen, in how long, and the mean regret of everything on test episodes."""
    choice = library.choose(scenario)
    used = {name: library.policy(name) for name, family in library.store.models().items() if family == scenario.family}
    players = {**{f"model {name}": policy for name, policy in used.items()}}
    players |= {f"rule {name}": name for name in names(scenario.family)}
    earned = {
        label: slipstream.evaluate(scenario, policy, episodes, SEED).of("reward") for label, policy in players.items()
    }
    best = np.max(list(earned.values()), axis=0)
    regrets = {label: float(shares_lost(best, rewards).mean()) for label, rewards in earned.items()}
    chosen = f"rule {choice.policy}" if choice.version is None else f"model {choice.version.partition('@')[0]}"
    print(f"{scenario.family}/{scenario.name}: {chosen}, regret {regrets[chosen]:.2%}", file=sys.stderr, flush=True)
    return {
        "scenario": f"{scenario.family}/{scenario.name}",
        "chosen": chosen,
        "seconds": choice.seconds,
        "regret": regrets[chosen],
        "regrets": regrets,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return mean regrets of a family: of the choice, and of the model and the rule that are best on average."""
    means = {label: float(np.mean([row["regrets"][label] for row in rows])) for label in rows[0]["regrets"]}
    found: dict[str, Any] = {"instances": len(rows), "chosen": float(np.mean([row["regret"] for row in rows]))}
    for kind in ("model", "rule"):
        best = min((label for label in means if label.startswith(kind)), key=lambda label: means[label])
        found[f"best single {kind}"] = means[best]
        found[f"which {kind}"] = best.partition(" ")[2]
    found["models chosen"] = sum(row["chosen"].startswith("model") for row in rows)
    found["seconds to choose"] = float(np.median([row["seconds"] for row in rows]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--library", type=Path, help="where to keep the library")
    parser.add_argument("--steps", type=int, default=150_000, help="steps of every training")
    parser.add_argument("--episodes", type=int, default=20, help="test episodes")
    parser.add_argument("--families", default="edge,dag,taskgraph", help="families to choose for, separated by commas")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        library = Library(chosen.library or Path(place) / "library", create=True, episodes=GATE_EPISODES)
        trained = build(library, chosen.steps)
        rows = [
            measure(library, scenario, chosen.episodes)
            for scenario in held_out()
            if scenario.family in chosen.families.split(",")
        ]
        models = len(library.store.models())
        library.store.close()
    families: dict[str, Any] = {}
    for family in dict.fromkeys(row["scenario"].partition("/")[0] for row in rows):
        families[family] = summary([row for row in rows if row["scenario"].startswith(f"{family}/")])
    kinds = ("chosen", "best single model", "best single rule")
    overall = {
        kind: float(
            np.average(
                [one[kind] for one in families.values()], weights=[one["instances"] for one in families.values()]
            )
        )
        for kind in kinds
    }
    overall["seconds to choose"] = float(np.median([row["seconds"] for row in rows]))
    found = {"models": models, "seconds to build": trained, "all": overall, "families": families, "instances": rows}
    if chosen.json:
        print(json.dumps(found, indent=2))
        return
    for name, one in {"all": overall, **families}.items():
        print(f"{name}: " + ", ".join(f"{kind} {one[kind]:.2%}" for kind in kinds), end="")
        print(f", {one['seconds to choose']:.1f} s to choose")


if __name__ == "__main__":
    main()
