"""How the trained policies of the cluster family are made: evolution of a small network that scores rows.

The network has two heads: one says who comes first, the other who passes a job that is reserved. Each is a weighted sum
of a row's columns, as many heuristics are, less what the row exceeds a bar by, which is another such sum. At first the
bar holds back long jobs that would leave hardly any GPU free, so that short ones that come later find room. It does
not see how much of a window is to come, so that it cannot tell when the window ends. What it costs in windows of
training decides how it goes on; what it costs there and in held-out ones, which network is kept.
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

import slipstream
from slipstream.core.family import FAMILIES
from slipstream.core.simulator import FOREVER, Simulator
from slipstream.learn.evolution import Evolution
from slipstream.policies import find
from slipstream.policies.compiled import CompiledPolicy
from slipstream.policies.learned import save_policy
from slipstream.policies.operations import Operation
from slipstream.scenario import digest

COLUMNS = {
    "gpus_share": 0.2,
    "expected": 5.0,
    "log_expected": 1.0,
    "log_area": 1.0,
    "waited": 10.0,
    "log_waited": 1.0,
    "log_slowdown": 1.0,
    "fits": 1.0,
    "leaves_share": 0.3,
    "before_shadow": 1.0,
    "rank": 0.3,
    "wait": 10.0,
}
"""Columns of a row that the network looks at, and about how far each varies."""
MACHINE = {
    "free_share": 0.3,
    "waiting": 0.3,
    "waiting_gpus": 5.0,
    "reserved_share": 0.3,
    "shadow_in": 3.0,
    "extra_share": 0.3,
}
"""Columns of the whole machine that go into bars."""
HEADS = ("first", "passing")
SUMS = {
    "sjf": {"log_expected": -1.0},
    "saf": {"log_area": -1.0},
    "wfp3": {"log_waited": 1.0, "log_expected": -1.33, "log_area": 0.33},
    "unicep": {"log_waited": 1.0, "log_expected": -0.6, "log_area": -0.4},
}
"""Heuristics as weighted sums: logarithms of their scores, those of `unicep` nearly."""
BAR = {"log_expected": 0.6, "leaves_share": -12.0, "waited": -0.06, "fits": 6.0}
BARRED_FROM_S, LEAST_FREE = 1000.0, 0.03
"""The bar at first: who takes so long, and would leave less than this share of the GPUs free, had better wait."""
HEIGHT, WAIT = -1.0, -9.0
"""What counts against a job beyond the bar, and the score of waiting."""


class Scorer:
    """The network, as a vector of numbers and as a policy."""

    def __init__(self, bars: int, more: dict[str, float] | None = None) -> None:
        """`more`: further columns, and how far they vary."""
        self.bars, self.scales = bars, {**COLUMNS, **(more or {})}
        family = FAMILIES["cluster"]
        self.columns = family.candidate_features.observed.names
        self.machine = family.global_features.observed.names
        self.shapes = {
            "first": (1, len(self.scales)),
            "passing": (1, len(self.scales)),
            "bars": (bars, len(self.scales)),
            "bars_machine": (bars, len(MACHINE)),
            "bars_bias": (1, bars),
            "first_bars": (1, bars),
            "passing_bars": (1, bars),
        }

    def start(self, sums: dict[str, float]) -> dict[str, np.ndarray]:
        """Return the parts with which both heads are a sum of columns, and the first bar keeps some GPUs free."""
        parts = {name: np.zeros(shape) for name, shape in self.shapes.items()}
        for head in HEADS:
            parts[head][0] = self.row({**sums, "wait": WAIT})
            parts[f"{head}_bars"][0, 0] = HEIGHT
        parts["bars"][0] = self.row(BAR)
        parts["bars_bias"][0, 0] = -BAR["fits"] - BAR["log_expected"] * np.log10(BARRED_FROM_S)
        parts["bars_bias"][0, 0] -= BAR["leaves_share"] * LEAST_FREE
        return parts

    def row(self, weights: dict[str, float]) -> np.ndarray:
        """Return weights of columns as numbers that vary about as much as each other."""
        return np.array([weights.get(name, 0.0) * scale for name, scale in self.scales.items()])

    def policy(self, numbers: np.ndarray) -> CompiledPolicy:
        """Return the policy of some numbers."""
        return CompiledPolicy("candidate", "cluster", self.operations, self._tensors(numbers))

    def _tensors(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Return the weights of the network."""
        parts, place = {}, 0
        for name, shape in self.shapes.items():
            parts[name] = numbers[place : place + int(np.prod(shape))].reshape(shape)
            place += int(np.prod(shape))
        found = {
            "reserved": np.array([float(name == "reserved") for name in self.machine]),
            "nothing": np.zeros(1),
            "value.weight": np.zeros((1, len(self.machine))),
            "bars.weight": _spread(parts["bars"], self.scales, self.columns),
            "bars.bias": parts["bars_bias"][0],
            "bars_machine.weight": _spread(parts["bars_machine"], MACHINE, self.machine),
            "bars_machine.bias": np.zeros(self.bars),
        }
        for head in HEADS:
            found[f"{head}.weight"] = _spread(parts[head], self.scales, self.columns)
            found[f"{head}_bars.weight"] = parts[f"{head}_bars"]
        return {name: np.asarray(tensor, np.float32) for name, tensor in found.items()}

    @property
    def operations(self) -> list[Operation]:
        """The network as operations."""
        return [
            Operation("linear", "globals", "machine", "bars_machine.weight", "bars_machine.bias"),
            Operation("linear", "rows", "above", "bars.weight", "bars.bias"),
            Operation("add", "machine", "above"),
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


def _spread(weights: np.ndarray, scales: dict[str, float], names: list[str]) -> np.ndarray:
    """Return weights of some columns as weights of all, by how far each varies."""
    spread = np.zeros((len(weights), len(names)))
    for place, (name, scale) in enumerate(scales.items()):
        spread[:, names.index(name)] = weights[:, place] / scale
    return spread


# What windows cost


class Windows(ABC):
    """Windows of a workload, and what rivals made of them: a row of figures each."""

    figures: tuple[str, ...]

    def __init__(self, scenario: Any, namespace: str, count: int, rivals: tuple[Any, ...]) -> None:
        self.namespace, self.choices = namespace, 0
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
    """Windows that count slowdowns and waits: what is longer to wait than with the best heuristics counts much."""

    figures = ("slowdown", "wait_p99_h", "wait_max_h")
    RIVALS = ("fifo", "sjf", "saf", "smallest", "f1", "f2", "f3", "f4", "wfp3", "unicep", "finish-time-fair")
    STRICTNESS = 3.0
    """What waits are longer by than those of the best heuristic counts so many times."""

    def __init__(self, scenario: Any, namespace: str, count: int) -> None:
        super().__init__(scenario, namespace, count, self.RIVALS)
        means = {name: float(found[:, 0].mean()) for name, found in self.rivals.items()}
        self.best = min(means, key=lambda name: means[name])

    def judged_as(self, other: Slowdowns) -> Slowdowns:
        """Let the heuristic that was best in other windows be the one to compare with here; few windows deceive."""
        self.best = other.best
        return self

    def _simulator(self, scenario: Any) -> Simulator:
        return Simulator(scenario, log_rows=0)

    def _figures(self, policy: Any, seed: int) -> tuple[float, ...]:
        self.simulator.reset(seed, self.namespace)
        policy.run(self.simulator, FOREVER)
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

    generations: int = 150
    pool: int = 400
    """Windows of training."""
    windows: int = 32
    """Those of them that the samples of a generation play, all the same."""
    held_out: int = 60
    """Windows by which, with half of those of training, the best is picked."""
    evaluate_every: int = 10
    """Generations between two looks at these."""
    spread: float = 0.25
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

    def start(self) -> np.ndarray:
        """Return the numbers of the heuristic that costs least in training."""
        found = []
        for sums in SUMS.values():
            numbers = flat(self.scorer.start(sums))
            found.append((self.cost(self.windows, numbers, self.settings.pool)[0], numbers))
        return min(found, key=lambda one: one[0])[1]

    def cost(self, windows: Windows, numbers: np.ndarray, count: int) -> tuple[float, np.ndarray]:
        """Return what some numbers cost in the first windows, and the means of their figures."""
        places = np.arange(count)
        found = windows.play(self.scorer.policy(numbers), places)
        return windows.cost(found, places), found.mean(axis=0)

    def run(self, start: np.ndarray, out: Path, command: str) -> None:
        """Train; the folder gets the network that costs least, and a line per look at the held-out windows."""
        settings, windows, began = self.settings, self.windows, perf_counter()
        evolution = Evolution(start, settings.spread, settings.seed)
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
            "settings": vars(self.settings),
            "algorithm": "evolution",
            "steps": line["steps"],
            "held_out": line,
        }
        policy = self.scorer.policy(numbers)
        save_policy(folder, "cluster", policy.operations, policy.tensors, about)


def flat(parts: dict[str, np.ndarray]) -> np.ndarray:
    """Return the parts as one vector."""
    return np.concatenate([part.reshape(-1) for part in parts.values()])
