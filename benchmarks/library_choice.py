"""How well the model library chooses for workloads that no model was trained on.

A library is built of the trained policies that come with the package, each with the built-in that it is for, and of
small ones trained here on task graphs. Then it chooses for held-out instances of every family: other sizes, machines,
rates and latencies. What it chose, every model and every rule then play test episodes that the choice has not seen.
Regret is measured against the best that any of them reached in the same episode. Where no model comes with a family,
rules race alone.

    python benchmarks/library_choice.py --json
    python benchmarks/library_choice.py --steps 0            # trains nothing: only policies that come with the package
    python benchmarks/library_choice.py --library FOLDER     # keeps the library and what was measured, or goes on
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

import slipstream
from slipstream.families.contract import FAMILIES, family_of
from slipstream.families.shared.variation import Variation
from slipstream.learn.settings import TrainSettings
from slipstream.library import Library
from slipstream.library.judging import shares_lost
from slipstream.policies.base import applicable
from slipstream.policies.learned import load_policy, shipped
from slipstream.scenario import builtin_names, digest

SEED = 10_000
GATE_EPISODES = 3
"""Episodes that a model plays when it is added: nothing here depends on them."""
MADE_FOR = {
    "learned-robust": "edge/heavy",
    "learned-stream-50x200-tpch": "dag/stream-50x200",
    "learned-batch-50x20-compat": "dag/batch-50x20",
    "learned-batch-50x20-tpch": "dag/batch-50x20",
    "learned-plain": "taskgraph/cholesky-8-2g2c",
    "learned-noisy": "taskgraph/noisy",
    "learned-unrolled": "taskgraph/unrolled",
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
    if steps == 0:
        return perf_counter() - began
    settings = TrainSettings(steps=steps, n_envs=64, warm_start="mct", evaluation_episodes=8, evaluate_every=10)
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


def held_out(family: str) -> list[Any]:
    """Return workloads of a family that no model was trained on."""
    return [slipstream.load(one) if isinstance(one, dict) else one for one in HELD_OUT[family]()]


def edge_instances() -> list[Any]:
    """Return every built-in twice, with other latencies, rates and interference."""
    found = []
    for name in ("edge/light", "edge/medium", "edge/heavy", "edge/overload", "edge/drone"):
        scenario = slipstream.load(name)
        for seed in (1, 2):
            varied = family_of(scenario).vary(scenario, Variation(latency=0.4, rate=0.4, interference=0.2), seed)
            found.append(varied.model_copy(update={"name": f"{varied.name}-varied-{seed}"}))
    return found


def dag_instances() -> list[Any]:
    """Return streams and a batch of other jobs on other numbers of executors, and a workflow."""
    found: list[Any] = []
    for executors, jobs, gap in ((10, 30, 60.0), (20, 40, 25.0), (30, 60, 20.0)):
        arrivals = {"kind": "poisson", "jobs": jobs, "mean_gap_s": gap}
        data = {"family": "dag", "name": f"{executors}x{jobs}", "executors": executors, "arrivals": arrivals}
        found.append({**data, "jobs": {"kind": "synthetic", "seed": 7}})
    batch = {"family": "dag", "name": "batch-25x10", "executors": 25, "arrivals": {"kind": "batch", "jobs": 10}}
    return [*found, {**batch, "jobs": {"kind": "synthetic", "seed": 8}}, slipstream.load("dag/ml-workflow")]


def taskgraph_instances() -> list[Any]:
    """Return two other sizes of every kind of graph, on one machine each."""
    sizes = {"cholesky": (4, 8), "lu": (4, 7), "qr": (4, 7), "gemm": (3, 5), "spgemm": (6, 10), "layered": (6, 16)}
    found = []
    for kind, values in sizes.items():
        for value, machine in zip(values, MACHINES, strict=True):
            graph = {**TRAINED[kind], ("layers" if kind == "layered" else "n"): value}
            found.append(task_graph(graph, machine, seed=5))
    return found


def generated(family: str, settings: tuple[dict[str, Any], ...]) -> list[Any]:
    """Return generated scenarios, each named after its settings."""
    generator = FAMILIES[family].generator
    assert generator is not None
    found = []
    for seed, own in enumerate(settings, 11):
        scenario = generator.generate(generator.settings(**own), seed)
        found.append(scenario.model_copy(update={"name": "-".join(str(value) for value in own.values())}))
    return found


def serving_instances() -> list[Any]:
    """Return half-minutes of three ways to arrive at two loads each, on 9 accelerators."""
    size = {"models": 4, "accelerators": 9, "duration_s": 30.0}
    kinds = [(kind, load) for kind in ("bursty", "poisson", "diurnal") for load in (0.6, 1.2)]
    return generated("serving", tuple({"arrivals": kind, "load": load, **size} for kind, load in kinds))


def cluster_instances() -> list[Any]:
    """Return three workloads at two loads each, on 16 nodes of 4 GPUs."""
    size = {"nodes": 16, "gpus": 4, "jobs": 2000, "episode_jobs": 128}
    kinds = [(kind, load) for kind in ("diurnal", "heavy-tailed", "bursty") for load in (0.7, 1.0)]
    return generated("cluster", tuple({"workload": kind, "load": load, **size} for kind, load in kinds))


HELD_OUT = {
    "edge": edge_instances,
    "dag": dag_instances,
    "taskgraph": taskgraph_instances,
    "serving": serving_instances,
    "cluster": cluster_instances,
}


def measure(library: Library, scenario: Any, episodes: int) -> dict[str, Any]:
    """Return what was chosen, in how long, and the mean regret of everything on test episodes."""
    began = process_time()
    choice = library.choose(scenario)
    cpu = process_time() - began
    used = {name: library.policy(name) for name, family in library.store.models().items() if family == scenario.family}
    players: dict[str, Any] = {f"model {name}": policy for name, policy in used.items()}
    players |= {f"rule {name}": name for name in applicable(scenario)}
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
        "cpu seconds": cpu,
        "regret": regrets[chosen],
        "regrets": regrets,
    }


def measure_all(library: Library, families: list[str], episodes: int, kept: Path | None) -> list[dict[str, Any]]:
    """Return the measurements of all held-out instances; those that were kept are not made again."""
    known = {}
    if kept is not None and kept.is_file():
        known = {(row["digest"], row["episodes"]): row for row in map(json.loads, kept.read_text().splitlines())}
    rows = []
    for scenario in (one for family in families for one in held_out(family)):
        key = (digest(scenario), episodes)
        if key not in known:
            known[key] = {**measure(library, scenario, episodes), "digest": key[0], "episodes": episodes}
            if kept is not None:
                with kept.open("a") as file:
                    file.write(json.dumps(known[key]) + "\n")
        rows.append(known[key])
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return mean regrets of a family: of the choice, and of the model and the rule that are best on average."""
    means = {label: float(np.mean([row["regrets"][label] for row in rows])) for label in rows[0]["regrets"]}
    found: dict[str, Any] = {"instances": len(rows), "chosen": float(np.mean([row["regret"] for row in rows]))}
    for kind in ("model", "rule"):
        of_kind = [label for label in means if label.startswith(kind)]
        best = min(of_kind, key=lambda label: means[label], default=None)
        found[f"best single {kind}"] = None if best is None else means[best]
        found[f"which {kind}"] = None if best is None else best.partition(" ")[2]
    found["models chosen"] = sum(row["chosen"].startswith("model") for row in rows)
    return found | times(rows)


def times(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the median time that a choice took, by the clock and of one core: the same where the machine is free."""
    return {
        "seconds to choose": float(np.median([row["seconds"] for row in rows])),
        "cpu seconds to choose": float(np.median([row["cpu seconds"] for row in rows])),
    }


def overall(families: dict[str, Any], kind: str) -> float | None:
    """Return the mean over all instances of families that have such a policy: the best single one of each family."""
    having = [one for one in families.values() if one[kind] is not None]
    if not having:
        return None
    return float(np.average([one[kind] for one in having], weights=[one["instances"] for one in having]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--library", type=Path, help="where to keep the library")
    parser.add_argument("--steps", type=int, default=150_000, help="steps of every training")
    parser.add_argument("--episodes", type=int, default=20, help="test episodes")
    parser.add_argument("--families", default=",".join(HELD_OUT), help="families to choose for, separated by commas")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        library = Library(chosen.library or Path(place) / "library", create=True, episodes=GATE_EPISODES)
        trained = build(library, chosen.steps)
        kept = None if chosen.library is None else chosen.library / "choices.jsonl"
        rows = measure_all(library, chosen.families.split(","), chosen.episodes, kept)
        models = len(library.store.models())
        library.store.close()
    families: dict[str, Any] = {}
    for family in dict.fromkeys(row["scenario"].partition("/")[0] for row in rows):
        families[family] = summary([row for row in rows if row["scenario"].startswith(f"{family}/")])
    kinds = ("chosen", "best single model", "best single rule")
    together: dict[str, Any] = {kind: overall(families, kind) for kind in kinds} | times(rows)
    found = {"models": models, "seconds to build": trained, "all": together, "families": families, "instances": rows}
    if chosen.json:
        print(json.dumps(found, indent=2))
        return
    for name, one in {"all": together, **families}.items():
        regrets = [f"{kind} {'none' if one[kind] is None else format(one[kind], '.2%')}" for kind in kinds]
        print(f"{name}: {', '.join(regrets)}, {one['cpu seconds to choose']:.1f} s of a core to choose")


if __name__ == "__main__":
    main()
