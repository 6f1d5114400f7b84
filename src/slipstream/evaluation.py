"""Playing policies on the same arrivals, and saying how sure the figures are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import InputError, PolicyError
from slipstream.families.contract import family_of
from slipstream.families.shared.bounds import OptimumBounds, share_of_bound
from slipstream.policies.base import Policy, find, names
from slipstream.policies.learned import shipped
from slipstream.scale.executor import Farm, InProcess, in_pieces
from slipstream.scenario import changed, digest, load
from slipstream.sim.simulator import Simulator, check_seed

RESAMPLES = 2000
"""Bootstrap resamples behind every 95% interval."""

Progress = Callable[[int, int], None]
"""Called with (episodes done, episodes in all)."""


@dataclass(frozen=True)
class Evaluation:
    """A policy's metrics, one value per episode."""

    policy: str
    values: dict[str, np.ndarray]

    def mean(self, metric: str) -> float:
        """Return the metric's mean over the episodes."""
        return float(self.of(metric).mean())

    def interval(self, metric: str) -> tuple[float, float]:
        """Return the bootstrap 95% interval of the metric's mean."""
        return bootstrap_interval(self.of(metric))

    def of(self, metric: str) -> np.ndarray:
        """Return the metric's values, one per episode."""
        if metric not in self.values:
            raise InputError(f"unknown metric '{metric}': expected one of {', '.join(self.values)}")
        return self.values[metric]

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as JSON-ready data."""
        figures = {}
        for metric, values in self.values.items():
            low, high = self.interval(metric)
            figures[metric] = {"mean": self.mean(metric), "low": low, "high": high, "values": values.tolist()}
        return {"policy": self.policy, "metrics": figures}


@dataclass(frozen=True)
class Comparison:
    """Several policies on the same episodes, in the same order, so that differences can be paired."""

    scenario: str
    episodes: int
    seed: int
    evaluations: tuple[Evaluation, ...]
    brackets: tuple[OptimumBounds, ...] = ()
    """Where the best reward of each episode lies, if that was asked for."""
    title: str = ""
    """The scenario's family and name, however it was given."""
    scenario_digest: str = ""

    def place(self, policy: str) -> float:
        """Return how near the policy's mean reward comes to the mean bound that nobody can exceed."""
        return share_of_bound(self.of(policy).mean("reward"), float(np.mean([one.bound for one in self.brackets])))

    def of(self, policy: str) -> Evaluation:
        """Return the evaluation of the named policy."""
        for evaluation in self.evaluations:
            if evaluation.policy == policy:
                return evaluation
        known = ", ".join(evaluation.policy for evaluation in self.evaluations)
        raise InputError(f"policy '{policy}' was not compared: expected one of {known}")

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON-ready data, of the same shape in every family."""
        return {
            "scenario": self.scenario,
            "title": self.title,
            "scenario_digest": self.scenario_digest,
            "episodes": self.episodes,
            "seed": self.seed,
            "oracle": self._oracle() if self.brackets else None,
            "policies": [evaluation.to_dict() for evaluation in self.evaluations],
        }

    def _oracle(self) -> dict[str, Any]:
        known, bound = ([getattr(one, name) for one in self.brackets] for name in ("best_known", "bound"))
        return {
            "metric": "reward",
            "best_known": {"mean": float(np.mean(known)), "values": known},
            "bound": {"mean": float(np.mean(bound)), "values": bound},
            "exact": sum(bracket.exact for bracket in self.brackets),
            "seconds": sum(bracket.seconds for bracket in self.brackets),
            "places": {evaluation.policy: self.place(evaluation.policy) for evaluation in self.evaluations},
        }

    def difference(self, policy: str, other: str, metric: str) -> tuple[float, float, float]:
        """Return the mean paired difference of two policies and its bootstrap 95% interval."""
        gap = self.of(policy).of(metric) - self.of(other).of(metric)
        return float(gap.mean()), *bootstrap_interval(gap)


def bootstrap_interval(values: np.ndarray) -> tuple[float, float]:
    """Return the percentile bootstrap 95% interval of the mean; the resampling is seeded, so it repeats."""
    if len(values) < 2 or np.all(values == values[0]):
        return float(values.mean()), float(values.mean())
    picks = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(values[picks].mean(axis=1), (2.5, 97.5))
    return float(low), float(high)


@dataclass(frozen=True)
class _Episodes:
    """The work of playing episodes: of a policy and a stretch of seeds, it makes a row of metrics each."""

    scenario: Any
    split: str

    @cached_property
    def _simulator(self) -> Simulator:
        return Simulator(self.scenario)

    def __getstate__(self) -> dict[str, Any]:
        return {"scenario": self.scenario, "split": self.split}

    def __call__(self, piece: tuple[str | Policy, range]) -> list[dict[str, float]]:
        policy, seeds = piece
        family = family_of(self.scenario)
        player = find(policy, family.name)
        return [
            family.metrics(self.scenario, self._simulator.play(player, seed, self.split), seed, self.split)
            for seed in seeds
        ]


@dataclass(frozen=True)
class _Brackets:
    """The work of bracketing the best reward of the episode of a seed."""

    scenario: Any
    split: str
    seconds: float

    def __call__(self, seed: int) -> OptimumBounds:
        return family_of(self.scenario).oracle(self.scenario, seed, self.split, self.seconds)


def _sent(policy: Policy, family: str) -> str | Policy:
    """Return what another process finds a policy by: its name if it comes with the package, else the policy itself."""
    comes_along = getattr(policy, "function", type(policy)).__module__.startswith("slipstream.")
    known = policy.name.partition("(")[0] in names(family)
    return policy.name if comes_along and known and find(policy.name, family) == policy else policy


def _play(
    scenario: Any,
    policies: Sequence[Policy],
    seeds: range,
    split: str,
    farm: Farm,
    progress: Progress | None,
) -> list[Evaluation]:
    """Return the metrics of every policy on the same episodes."""
    if len(seeds) < 1:
        raise InputError(f"episodes {len(seeds)}: expected at least 1")
    check_seed(seeds[-1])
    stretches = [seeds[piece.start : piece.stop] for piece in in_pieces(len(seeds), farm)]
    here = isinstance(farm, InProcess)
    players = [policy if here else _sent(policy, scenario.family) for policy in policies]
    pieces = [(player, stretch) for player in players for stretch in stretches]
    rows: list[dict[str, float]] = []
    for found in farm.map(_Episodes(scenario, split), pieces):
        rows += found
        if progress is not None:
            progress(len(rows), len(seeds) * len(policies))
    return [
        Evaluation(policy.name, {metric: np.array([row[metric] for row in own]) for metric in own[0]})
        for policy, own in (
            (policy, rows[index * len(seeds) : (index + 1) * len(seeds)]) for index, policy in enumerate(policies)
        )
    ]


def evaluate(
    scenario: str | Path | dict[str, Any] | Any,
    policy: str | Policy,
    episodes: int = 100,
    seed: int = 0,
    split: str = "test",
    progress: Progress | None = None,
    farm: Farm | None = None,
) -> Evaluation:
    """Play a policy for a number of episodes, with seeds `seed`, `seed + 1`, ...; in this process, or on a farm."""
    loaded: Any = load(scenario)
    player = find(policy, family_of(loaded).name)
    return _play(loaded, [player], range(seed, seed + episodes), split, farm or InProcess(), progress)[0]


def _chosen(policies: str | Sequence[str | Policy], family: str) -> list[Policy]:
    listed = policies.split(",") if isinstance(policies, str) else policies
    chosen: dict[str, Policy] = {}
    for policy in listed:
        groups: dict[Any, list[str]] = {"all": names(family), "learned": list(shipped(family))}
        name = policy.strip() if isinstance(policy, str) else policy
        for one in groups[name] if isinstance(name, str) and name in groups else [name]:
            found = find(one, family)
            chosen.setdefault(found.name, found)
    if not chosen:
        trained = f"'learned' stands for {len(shipped(family))} that come with '{family}'"
        raise PolicyError(f"no policy to play: expected at least one ({trained})")
    return list(chosen.values())


def compare(
    scenario: str | Path | dict[str, Any] | Any,
    policies: str | Sequence[str | Policy] = "all",
    episodes: int = 100,
    seed: int = 0,
    split: str = "test",
    progress: Progress | None = None,
    oracle_seconds: float | None = None,
    farm: Farm | None = None,
) -> Comparison:
    """Play several policies on the same arrivals: objects, or names, also in one string separated by commas.

    "all" stands for every heuristic of the family, "learned" for the trained policies that come with it; what is named
    twice is played once. With `oracle_seconds`, the best possible reward of every episode is bracketed too, solving
    each for about so long. Episodes are played in this process, or on a farm, with the same result.
    """
    loaded: Any = load(scenario)
    chosen = _chosen(policies, loaded.family)
    farm = farm or InProcess()
    seeds, total = range(seed, seed + episodes), episodes * len(chosen)
    evaluations = _play(loaded, chosen, seeds, split, farm, progress)
    label = scenario if isinstance(scenario, str) else f"{loaded.family}/{loaded.name}"
    brackets: list[OptimumBounds] = []
    if oracle_seconds is not None:
        for bracket in farm.map(_Brackets(loaded, split, oracle_seconds), seeds):
            brackets.append(bracket)
            if progress is not None:
                progress(total + len(brackets), total + episodes)
    parts = (tuple(evaluations), tuple(brackets), f"{loaded.family}/{loaded.name}", digest(loaded))
    return Comparison(str(label), episodes, seed, *parts)


def what_if(
    scenario: str | Path | dict[str, Any] | Any,
    changes: Sequence[str],
    policies: str | Sequence[str | Policy] = "all",
    episodes: int = 100,
    seed: int = 0,
    split: str = "test",
    progress: Progress | None = None,
    farm: Farm | None = None,
) -> Comparison:
    """Play policies on a scenario as it is and with each of some changes (`scenario.changed`), in one table.

    A policy under a change is called `policy @ change`.
    """
    loaded: Any = load(scenario)
    parts = []
    others = [loaded, *(changed(loaded, change) for change in changes)]  # before anything is played for nothing
    for index, other in enumerate(others):

        def tick(done: int, total: int, before: int = index) -> None:
            if progress is not None:
                progress(before * total + done, (1 + len(changes)) * total)

        parts.append(compare(other, policies, episodes, seed, split, tick, farm=farm))
    named = [
        Evaluation(f"{one.policy} @ {change}" if change else one.policy, one.values)
        for part, change in zip(parts, ["", *changes], strict=True)
        for one in part.evaluations
    ]
    label = scenario if isinstance(scenario, str) else parts[0].scenario
    return Comparison(
        label, episodes, seed, tuple(named), title=parts[0].title, scenario_digest=parts[0].scenario_digest
    )
