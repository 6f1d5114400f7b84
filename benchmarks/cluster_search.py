"""How the trained policies of the cluster family are made: evolution of a small network that scores rows.

The network has two heads: one says who comes first, the other who passes a job that is reserved. Each is a weighted sum
of a row's columns, as many heuristics are, less what the row exceeds a bar by: the bar holds back long jobs that would
leave hardly any GPU free, so that short ones that come later find free GPUs. Few numbers are searched
(`SEARCH_SPACE`), since traces are short and slowdowns depend on a few jobs. The network does not observe how much of a
window is left, so that it cannot exploit its end. The cost in training windows drives the search; the cost in these
and in held-out windows selects the network that is kept.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from evolution import Evolution

import slipstream
from slipstream.families.contract import FAMILIES
from slipstream.policies import find
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.policies.learned import save_policy
from slipstream.policies.operations import Operation
from slipstream.scenario import digest
from slipstream.sim.simulator import NO_LIMIT, Simulator

HEADS = ("first", "passing")
SUMS = {
    "sjf": {"log_expected": -1.0, "log_area": 0.0, "log_waited": 0.0},
    "saf": {"log_expected": 0.0, "log_area": -1.0, "log_waited": 0.0},
    "wfp3": {"log_expected": -1.33, "log_area": 0.33, "log_waited": 1.0},
    "unicep": {"log_expected": -0.6, "log_area": -0.4, "log_waited": 1.0},
}
"""Heuristics as weighted sums: logarithms of their scores, those of `unicep` nearly."""
BAR = {"log_expected": 0.6, "leaves_share": -12.0, "fits": 6.0}
"""How much longer jobs, and those that leave fewer GPUs free, rise above the bar; who does not fit never does."""
WAIT = -9.0
"""The score of waiting: below that of jobs that keep below the bar."""
SEARCH_SPACE = {
    "log_expected": (0.0, 0.3),
    "log_area": (0.0, 0.3),
    "log_waited": (0.0, 0.3),
    "passing_log_expected": (0.0, 0.3),
    "passing_log_waited": (0.0, 0.3),
    "barred_from": (3.0, 0.5),
    "least_free": (0.03, 0.03),
    "relief": (0.06, 0.04),
    "height": (1.0, 0.7),
}
"""Where each number is at first, and about how far it may lie from there.

Weights of columns, beside those of the heuristic that it begins as, those of the second head on top of the first's; the
time from which jobs are barred, as a logarithm, and the share of the GPUs that these have to leave free; by how much an
hour of waiting lowers a job towards the bar; and how much counts what is above it.
"""


class Scorer:
    """The network, as some numbers and as a policy."""

    def __init__(self, rule: str = "saf") -> None:
        self.rule, self.search_space = rule, dict(SEARCH_SPACE)
        family = FAMILIES["cluster"]
        self.columns = family.candidate_features.observed.names
        self.machine = family.global_features.observed.names

    def values(self, numbers: np.ndarray) -> dict[str, float]:
        """Return the values of the search space by name; `numbers` are their offsets in units of the initial step."""
        pairs = zip(self.search_space.items(), numbers.tolist(), strict=True)
        return {name: start + far * number for (name, (start, far)), number in pairs}

    def heads(self, values: dict[str, float]) -> dict[str, dict[str, float]]:
        """Return the weights of the columns, for each head."""
        first = {name: weight + values[name] for name, weight in SUMS[self.rule].items()}
        passing = {name: weight + values.get(f"passing_{name}", 0.0) for name, weight in first.items()}
        return {"first": {**first, "wait": WAIT}, "passing": {**passing, "wait": WAIT}}

    def bars(self, values: dict[str, float]) -> list[tuple[dict[str, float], float, float]]:
        """Return the bars: weights of the columns, what is added, and how much counts what is above."""
        added = -BAR["fits"] - BAR["log_expected"] * values["barred_from"] - BAR["leaves_share"] * values["least_free"]
        return [({**BAR, "waited": -max(0.0, values["relief"])}, added, -max(0.0, values["height"]))]

    def policy(self, numbers: np.ndarray) -> CompiledPolicy:
        """Return the policy of some numbers."""
        values = self.values(numbers)
        bars = self.bars(values)
        found = {
            "reserved": np.array([float(name == "reserved") for name in self.machine]),
            "nothing": np.zeros(1),
            "value.weight": np.zeros((1, len(self.machine))),
            "bars.weight": np.array([self._row(weights) for weights, _, _ in bars]),
            "bars.bias": np.array([added for _, added, _ in bars]),
        }
        for head, weights in self.heads(values).items():
            found[f"{head}.weight"] = self._row(weights)[None]
            found[f"{head}_bars.weight"] = np.array([[height for _, _, height in bars]])
        tensors = {name: np.asarray(tensor, np.float32) for name, tensor in found.items()}
        return CompiledPolicy("candidate", "cluster", self.operations, tensors)

    def _row(self, weights: dict[str, float]) -> np.ndarray:
        return np.array([weights.get(name, 0.0) for name in self.columns])

    @property
    def operations(self) -> list[Operation]:
        """The network as operations."""
        return [
            Operation("linear", "rows", "above", "bars.weight", "bars.bias"),
            Operation("relu", "above", "above"),
            Operation("linear", "rows", "logits", "first.weight", "nothing"),
            Operation("linear", "above", "first", "first_bars.weight", "nothing"),
            Operation("add", "first", "logits"),
            Operation("linear", "rows", "passing", "passing.weight", "nothing"),
            Operation("linear", "above", "passing_more", "passing_bars.weight", "nothing"),
            Operation("add", "passing_more", "passing"),
            Operation("switch", "passing", "logits", "reserved"),
            Operation("linear", "globals", "value", "value.weight", "nothing"),
        ]


# What windows cost


class Windows(ABC):
    """Windows of a workload, and what rivals made of them: a row of figures each."""

    figures: tuple[str, ...]

    def __init__(self, scenario: Any, split: str, count: int, rivals: tuple[Any, ...]) -> None:
        self.split, self.choices = split, 0
        self.simulator = self._simulator(scenario)
        players = [find(one, "cluster") for one in rivals]
        self.rivals = {one.name: self.play(one, np.arange(count)) for one in players}

    def play(self, policy: Any, places: np.ndarray) -> np.ndarray:
        """Return the figures of some of the windows."""
        rows = []
        for place in places.tolist():
            rows.append(self._figures(policy, place))
            self.choices += int(self.simulator.header["choices"])
        return np.array(rows)

    @abstractmethod
    def _simulator(self, scenario: Any) -> Simulator:
        """Return what plays."""

    @abstractmethod
    def _figures(self, policy: Any, seed: int) -> tuple[float, ...]:
        """Play a window; return its figures."""

    @abstractmethod
    def cost(self, found: np.ndarray, places: np.ndarray) -> float:
        """Return what is to be made small, of the figures of some windows."""


class Slowdowns(Windows):
    """Windows whose cost is slowdown and waits; waits beyond those of the best heuristic have a large weight."""

    figures = ("slowdown", "wait_p99_h", "wait_max_h")
    RIVALS = ("fifo", "sjf", "saf", "smallest", "f1", "f2", "f3", "f4", "wfp3", "unicep", "finish-time-fair")
    STRICTNESS = 3.0
    """Weight of the time by which waits exceed those of the best heuristic."""

    def __init__(self, scenario: Any, split: str, count: int) -> None:
        super().__init__(scenario, split, count, self.RIVALS)
        means = {name: float(found[:, 0].mean()) for name, found in self.rivals.items()}
        self.best = min(means, key=lambda name: means[name])

    def judged_as(self, other: Slowdowns) -> Slowdowns:
        """Use the heuristic that was best in `other` as the reference here, since the best of few windows is noisy."""
        self.best = other.best
        return self

    def _simulator(self, scenario: Any) -> Simulator:
        return Simulator(scenario, log_rows=0)

    def _figures(self, policy: Any, seed: int) -> tuple[float, ...]:
        self.simulator.reset(seed, self.split)
        policy.run(self.simulator, NO_LIMIT)
        jobs = self.simulator.arrays["jobs"][0]
        waits_h = (jobs["start"] - jobs["submit"]) / 3.6e12
        slowdown = np.maximum(1.0, (jobs["end"] - jobs["submit"]) / 1e9 / jobs["bound"])
        return float(slowdown.mean()), float(np.percentile(waits_h, 99)), float(waits_h.max())

    def cost(self, found: np.ndarray, places: np.ndarray) -> float:
        """Return what is to be made small; about 1 is as good as the best heuristic.

        Half of the slowdown counts as a mean over all windows, which a few crowded ones decide, half window by window.
        """
        best = self.rivals[self.best][places]
        slowdown = 0.5 * found[:, 0].mean() / best[:, 0].mean()
        slowdown += 0.5 * np.exp(np.log(found[:, 0] / best[:, 0]).mean())
        late = np.maximum(0.0, found.mean(axis=0)[1:] / np.maximum(best.mean(axis=0)[1:], 1e-9) - 1.0)
        return float(slowdown + self.STRICTNESS * late.sum())


# The search


@dataclass(frozen=True)
class SearchSettings:
    """How a policy is searched for."""

    generations: int = 16
    pool: int = 200
    """Windows of training."""
    windows: int = 60
    """Those of them that the samples of a generation play, all the same."""
    held_out: int = 60
    """Windows by which, with half of those of training, the best is picked."""
    evaluate_every: int = 4
    """Generations between two looks at these."""
    spread: float = 0.5
    """Deviation of the samples at first."""
    seed: int = 0

    @property
    def parts(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Where windows come from, and how many: for training, and held out."""
        return ("train", self.pool), ("eval", self.held_out)


class Search:
    """A search under way, with its folder."""

    def __init__(
        self,
        scenario: Any,
        scorer: Scorer,
        settings: SearchSettings,
        windows: Windows,
        held_out: Windows,
    ) -> None:
        self.scenario, self.scorer, self.settings = scenario, scorer, settings
        self.windows, self.held_out = windows, held_out
        self.rng = np.random.default_rng(settings.seed)

    def begin(self) -> None:
        """Begin as the heuristic that costs least in training."""
        costs = {}
        for rule in SUMS:
            self.scorer.rule = rule
            costs[rule], _ = self.cost(self.windows, self.start, self.settings.pool)
        self.scorer.rule = min(costs, key=lambda rule: costs[rule])

    @property
    def start(self) -> np.ndarray:
        """The numbers to begin with."""
        return np.zeros(len(self.scorer.search_space))

    def cost(self, windows: Windows, numbers: np.ndarray, count: int) -> tuple[float, np.ndarray]:
        """Return what some numbers cost in the first windows, and the means of their figures."""
        places = np.arange(count)
        found = windows.play(self.scorer.policy(numbers), places)
        return windows.cost(found, places), found.mean(axis=0)

    def run(self, out: Path, command: str) -> None:
        """Train; the folder gets the network that costs least, and a line per look at the held-out windows."""
        settings, windows, began = self.settings, self.windows, perf_counter()
        evolution = Evolution(self.start, settings.spread, settings.seed)
        out.mkdir(parents=True, exist_ok=True)
        least = np.inf
        for generation in range(settings.generations + 1):
            if generation % settings.evaluate_every == 0:
                seen, _ = self.cost(windows, evolution.mean, settings.pool // 2)
                unseen, means = self.cost(self.held_out, evolution.mean, settings.held_out)
                cost = 0.5 * (seen + unseen)
                line = {
                    "generation": generation,
                    "steps": windows.choices,
                    "seconds": round(perf_counter() - began, 1),
                    "spread": evolution.spread,
                    "cost": cost,
                    "training_cost": seen,
                    "held_out_cost": unseen,
                    **dict(zip(windows.figures, means.tolist(), strict=True)),
                }
                with (out / "history.jsonl").open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(json.dumps(line), file=sys.stderr)
                if cost < least:
                    least = cost
                    self._save(out / "best", evolution.mean, line, command)
            if generation < settings.generations:
                places = self.rng.choice(settings.pool, settings.windows, replace=False)
                costs = [windows.cost(windows.play(self.scorer.policy(one), places), places) for one in evolution.ask()]
                evolution.tell(np.array(costs))

    def _save(self, folder: Path, numbers: np.ndarray, line: dict[str, Any], command: str) -> None:
        about = {
            "scenario": f"cluster/{self.scenario.name}",
            "scenario_digest": digest(self.scenario),
            "command": command,
            "version": slipstream.__version__,
            "settings": vars(self.settings) | {"rule": self.scorer.rule, "parameters": self.scorer.values(numbers)},
            "algorithm": "evolution",
            "steps": line["steps"],
            "held_out": line,
        }
        policy = self.scorer.policy(numbers)
        save_policy(folder, "cluster", policy.operations, policy.tensors, about)
