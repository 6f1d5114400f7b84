"""How the trained policies of the llm family are made: evolution of a small network that scores rows.

The network is a sum of three parts, of which each decision sees one. Waiting requests have a weighted sum of logarithms
of their sizes, of the time that they have waited, and of whether their first token is late already. Levels of a step
lose what their token budget, as a logarithm, is away from a target, which is a weighted sum of the engine's globals.
Engines have a weighted sum of the prompt's tokens in their cache and of their loads. These few numbers (`SEARCH_SPACE`)
are searched on windows of the first part of a workload's requests, at several loads at once; these and windows that the
search does not play select the network that is kept. See `llm_policies.py` for the workloads.

    python benchmarks/llm_search.py azure-code --parts runs/llm --out runs/learned-azure-code
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from evolution import Evolution
from llm_policies import LOADS, WORKLOADS, described, gap_s, training_scenario, windows, write_parts

import slipstream
from slipstream.families.contract import FAMILIES
from slipstream.policies import find
from slipstream.policies.base import Policy
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.policies.learned import save_policy
from slipstream.policies.operations import Operation
from slipstream.scenario import digest
from slipstream.sim.simulator import NO_LIMIT, Simulator

SEARCH_SPACE = {
    "prompt": (-1.0, 0.3),
    "predicted": (0.0, 0.15),
    "work": (0.0, 0.2),
    "waited": (0.0, 0.5),
    "preemptions": (0.0, 1.0),
    "late": (0.0, 1.0),
    "late_from_s": (0.2, 0.3),
    "target": (0.0, 0.7),
    "target_batch": (0.0, 0.2),
    "target_queued": (0.0, 0.15),
    "target_free": (0.0, 0.5),
    "target_alone": (0.0, 0.4),
    "headroom": (0.0, 5.0),
    "send_cached": (0.1, 0.1),
    "send_waiting": (-4.0, 1.5),
    "send_running": (-1.0, 0.5),
}
"""Where each number is at first, and about how far it may lie from there.

Weights of logarithms of prompt, prediction and work, of ten seconds of waiting and of ten preemptions; what a request
loses whose first token is due in less than `late_from_s`; the target's distance from the logarithm of the engine's own
budget, and its weights of the logarithms of batch and queue, of the free blocks, and of an empty batch; the weight of a
headroom of 1; and weights of a thousand cached tokens, a hundred waiting and a hundred running requests of an engine.
"""
SIZES = {"prompt": 1000.0, "predicted": 1000.0, "work": 1e5, "budget": 1000.0}
"""Columns that are read as logarithms of 1 and this many times their value: tokens, and 100 microseconds."""
COUNTS = {"batch": 100.0, "queued": 100.0}
NEVER = -1e4
"""Weight of the row that waits."""
MANY = 1000.0
"""More thousand tokens than a prompt has."""
STEEP = 200.0
"""How steeply lateness rises: within fifty milliseconds."""
P99_STRICTNESS = 2.0
"""Weight of the share by which the 99th percentile of E2E exceeds the rule's."""


class Scorer:
    """The network, as some numbers and as a policy."""

    def __init__(self, budget: int) -> None:
        family = FAMILIES["llm"]
        self.budget = budget
        self.columns = family.candidate_features.observed.names
        self.machine = family.global_features.observed.names

    def values(self, numbers: np.ndarray) -> dict[str, float]:
        """Return the values of the search space by name; `numbers` are their offsets in units of the initial step."""
        pairs = zip(SEARCH_SPACE.items(), numbers.tolist(), strict=True)
        return {name: start + far * number for (name, (start, far)), number in pairs}

    def policy(self, numbers: np.ndarray) -> CompiledPolicy:
        """Return the policy of some numbers."""
        v = self.values(numbers)
        late = STEEP * v["late_from_s"] / 10.0
        target = np.log(1.0 + self.budget) + v["target"]
        engine = {"free_blocks": v["target_free"]}
        sizes = {"prompt": v["prompt"], "predicted": v["predicted"], "work": v["work"]}
        plain = {"waited": v["waited"], "preemptions": v["preemptions"], "headroom": v["headroom"], "wait": NEVER}
        plain |= {"waiting": v["send_waiting"], "running": v["send_running"]}
        counts = {"batch": v["target_batch"], "queued": v["target_queued"]}
        found = {
            "sizes": self._row(SIZES),
            "counts": self._machine(COUNTS),
            "one": np.ones(1),
            "nothing": np.zeros(1),
            "nothing2": np.zeros(2),
            "plain.weight": self._row(plain)[None],
            "sizes.weight": self._row(sizes)[None],
            # Late: a ramp from 0 to 1, as the difference of two.
            "ramp.weight": np.array([self._row({"slack": -STEEP})] * 2),
            "ramp.bias": np.array([late, late - 1.0]),
            "late.weight": np.array([[-max(0.0, v["late"]), max(0.0, v["late"])]]),
            # Above and below the target.
            "away.weight": np.array([self._row({"budget": 1.0}), self._row({"budget": -1.0})]),
            "target.weight": np.array([self._machine(counts), self._machine(counts)]) * [[-1.0], [1.0]],
            "engine.weight": np.array([self._machine(engine), self._machine(engine)]) * [[-1.0], [1.0]],
            "engine.bias": np.array([-target, target]),
            "alone.weight": self._machine({"batch": -100.0})[None],
            "alone_target.weight": np.array([[-v["target_alone"]], [v["target_alone"]]]),
            "level.weight": np.array([[-1.0, -1.0]]),
            # Cached tokens count in rows of engines.
            "cached.weight": self._row({"cached": 1.0, "send": MANY})[None],
            "cached.bias": np.array([-MANY]),
            "send.weight": np.array([[v["send_cached"]]]),
            "value.weight": np.zeros((1, len(self.machine))),
        }
        tensors = {name: np.asarray(tensor, np.float32) for name, tensor in found.items()}
        return CompiledPolicy("candidate", "llm", OPERATIONS, tensors)

    def _row(self, weights: dict[str, float]) -> np.ndarray:
        return np.array([weights.get(name, 0.0) for name in self.columns])

    def _machine(self, weights: dict[str, float]) -> np.ndarray:
        return np.array([weights.get(name, 0.0) for name in self.machine])


OPERATIONS = [
    Operation("log", "rows", "log_rows", "sizes"),
    Operation("log", "globals", "log_globals", "counts"),
    Operation("linear", "rows", "logits", "plain.weight", "nothing"),
    Operation("linear", "log_rows", "by_size", "sizes.weight", "nothing"),
    Operation("add", "by_size", "logits"),
    Operation("linear", "rows", "ramp", "ramp.weight", "ramp.bias"),
    Operation("relu", "ramp", "ramp"),
    Operation("linear", "ramp", "late", "late.weight", "nothing"),
    Operation("add", "late", "logits"),
    Operation("linear", "log_rows", "away", "away.weight", "nothing2"),
    Operation("linear", "log_globals", "target", "target.weight", "nothing2"),
    Operation("linear", "globals", "engine", "engine.weight", "engine.bias"),
    Operation("add", "engine", "target"),
    Operation("linear", "globals", "alone", "alone.weight", "one"),
    Operation("relu", "alone", "alone"),
    Operation("linear", "alone", "alone_target", "alone_target.weight", "nothing2"),
    Operation("add", "alone_target", "target"),
    Operation("add", "target", "away"),
    Operation("relu", "away", "away"),
    Operation("linear", "away", "level", "level.weight", "nothing"),
    Operation("add", "level", "logits"),
    Operation("linear", "rows", "cached", "cached.weight", "cached.bias"),
    Operation("relu", "cached", "cached"),
    Operation("linear", "cached", "send", "send.weight", "nothing"),
    Operation("add", "send", "logits"),
    Operation("linear", "globals", "value", "value.weight", "nothing"),
]


class Episodes:
    """Windows at every load, and what the rule made of them: attainment, mean E2E and its 99th percentile."""

    def __init__(self, name: str, parts: Path, loads: tuple[float, ...], first: int, count: int) -> None:
        """Use `count` windows at each load, every second one from the one with number `first` on."""
        self.choices = 0
        self.played: list[tuple[Simulator, list[int]]] = []
        data = training_scenario(name, parts)
        for load in loads:
            requests = described(name, parts, "train", gap_s(name, parts, load), {})["requests"]
            scenario: Any = slipstream.load({**data, "requests": requests})
            seeds = windows(scenario, 0, 1000 if requests["kind"] == "trace" else first + count)
            chosen = np.linspace(0, len(seeds) - 1, 2 * count).round().astype(int)[first % 2 :: 2]
            self.played.append((Simulator(scenario), [seeds[index] for index in chosen]))
        self.rule = self.figures(find("shortest-prompt", "llm"))

    def figures(self, policy: Policy) -> np.ndarray:
        """Return attainment, mean E2E and its 99th percentile for each load, means over its windows."""
        rows = []
        for simulator, seeds in self.played:
            found = []
            for seed in seeds:
                simulator.reset(seed, "test")
                policy.run(simulator, NO_LIMIT)  # type: ignore[attr-defined]
                self.choices += int(simulator.header["choices"])
                found.append(self._outcome(simulator))
            rows.append(np.mean(found, axis=0))
        return np.array(rows)

    def _outcome(self, simulator: Simulator) -> tuple[float, float, float]:
        requests = simulator.arrays["requests"][0]
        limits = FAMILIES["llm"].spec_arrays(simulator.scenario)["classes"][0]
        e2e = (requests["last"] - requests["arrival"]) / 1e9
        kept = requests["first"] - requests["arrival"] <= limits["ttft"]
        kept &= requests["last"] - requests["first"] <= limits["tpot"] * (requests["output"] - 1)
        done = requests["last"] >= 0
        return float((kept & done).mean()), float(e2e[done].mean()), float(np.percentile(e2e[done], 99))

    def cost(self, policy: Policy) -> float:
        """Return what is to be made small; 3 is as good as the rule, the shortest prompt first with good settings."""
        attained, e2e, tail = self.figures(policy).T
        rule_attained, rule_e2e, rule_tail = self.rule.T
        missed = (1.0 - attained) / (1.0 - rule_attained + 0.02)
        late = np.maximum(0.0, tail / rule_tail - 1.0)
        return float((missed + 2.0 * e2e / rule_e2e + P99_STRICTNESS * late).mean())


def search(options: argparse.Namespace, command: str) -> None:
    """Search a policy for a workload; the folder gets the network that costs least in all windows seen and unseen."""
    name, parts, began = options.workload, options.parts, perf_counter()
    loads = tuple(float(load) for load in options.loads.split(","))
    scorer = Scorer(WORKLOADS[name].start["token_budget"])
    seen, unseen = (Episodes(name, parts, loads, first, options.windows) for first in (0, 1))
    evolution = Evolution(np.zeros(len(SEARCH_SPACE)), 0.6, options.seed)
    least = np.inf
    scenario: Any = slipstream.load(training_scenario(name, parts))
    for generation in range(options.generations + 1):
        policy = scorer.policy(evolution.mean)
        costs = seen.cost(policy), unseen.cost(policy)
        line = {
            "generation": generation,
            "steps": seen.choices + unseen.choices,
            "seconds": round(perf_counter() - began, 1),
            "training_cost": costs[0],
            "held_out_cost": costs[1],
            "figures": unseen.figures(policy).round(4).tolist(),
            "rule": unseen.rule.round(4).tolist(),
        }
        print(json.dumps(line), file=sys.stderr, flush=True)
        if sum(costs) < least:
            least = sum(costs)
            names = ("generations", "windows", "loads", "seed")
            about = {
                "scenario": f"llm/{name}",
                "scenario_digest": digest(scenario),
                "command": command,
                "version": slipstream.__version__,
                "settings": {one: vars(options)[one] for one in names} | {"parameters": scorer.values(evolution.mean)},
                "algorithm": "evolution",
                "steps": line["steps"],
                "held_out": line,
            }
            save_policy(options.out, "llm", policy.operations, policy.tensors, about)
        if generation < options.generations:
            evolution.tell(np.array([seen.cost(scorer.policy(one)) for one in evolution.ask()]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=list(WORKLOADS))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with llm/ and serving/")
    parser.add_argument("--parts", type=Path, default=Path("runs/llm"), help="folder for the parts of the traces")
    parser.add_argument("--out", type=Path, required=True, help="folder for the policy")
    parser.add_argument("--generations", type=int, default=24)
    parser.add_argument("--windows", type=int, default=4, help="windows at each load")
    parser.add_argument("--loads", default=",".join(map(str, LOADS)), help="loads, with commas between them")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    write_parts(options.data, options.parts)
    given = [f"--{one} {vars(options)[one]}" for one in ("generations", "windows", "loads", "seed")]
    out = f"--out runs/learned-{options.workload}"
    search(options, " ".join(["python benchmarks/llm_search.py", options.workload, out, *given]))


if __name__ == "__main__":
    main()
