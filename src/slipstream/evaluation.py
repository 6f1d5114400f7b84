"""Evaluation of policies on the same arrivals, with bootstrap confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slipstream.errors import InputError, PolicyError
from slipstream.families.contract import Scenario, ScenarioLike, family_of
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.policies.auto import Auto
from slipstream.policies.base import Policy, applicable, find, find_for, names
from slipstream.policies.kinds import kind_of
from slipstream.policies.learned import shipped
from slipstream.results import RESAMPLES, Comparison, Evaluation, bootstrap_interval
from slipstream.scale.executor import Executor, InProcess, chunk_ranges
from slipstream.scenario import changed, digest, load
from slipstream.sim.simulator import Simulator, check_seed

__all__ = [
    "RESAMPLES",
    "Comparison",
    "Evaluation",
    "bootstrap_interval",
    "compare",
    "evaluate",
    "oracle",
    "what_if",
]

Progress = Callable[[int, int], None]
"""Called with (episodes done, episodes in all)."""


@dataclass(frozen=True)
class _Episodes:
    """Task of an executor: runs a policy on a range of seeds and returns the metrics of each episode."""

    scenario: Scenario
    split: str

    @cached_property
    def _simulator(self) -> Simulator:
        return Simulator(self.scenario)

    def __getstate__(self) -> dict[str, Any]:
        return {"scenario": self.scenario, "split": self.split}

    def __call__(self, item: tuple[str | Policy, range]) -> list[dict[str, float]]:
        policy, seeds = item
        family = family_of(self.scenario)
        player = find(policy, family.name)
        return [
            family.metrics(self.scenario, self._simulator.play(player, seed, self.split), seed, self.split)
            for seed in seeds
        ]


@dataclass(frozen=True)
class _BoundsTask:
    """Task of an executor: bounds the best reward of the episode of a seed."""

    scenario: Scenario
    split: str
    seconds: float

    def __call__(self, seed: int) -> OptimumBounds:
        return family_of(self.scenario).oracle(self.scenario, seed, self.split, self.seconds)


def _transferable(policy: Policy, family: str) -> str | Policy:
    """Return what to send to another process: the name of a policy of the package, else the policy itself."""
    in_package = getattr(policy, "function", type(policy)).__module__.startswith("slipstream.")
    known = policy.name.partition("(")[0] in names(family)
    return policy.name if in_package and known and find(policy.name, family) == policy else policy


def _play(
    scenario: Scenario,
    policies: Sequence[Policy],
    seeds: range,
    split: str,
    executor: Executor,
    progress: Progress | None,
) -> list[Evaluation]:
    """Return the metrics of every policy on the episodes `seeds`."""
    if len(seeds) < 1:
        raise InputError(f"episodes {len(seeds)}: expected at least 1")
    check_seed(seeds[-1])
    chunks = [seeds[part.start : part.stop] for part in chunk_ranges(len(seeds), executor)]
    for policy in policies:
        if isinstance(policy, Auto):
            policy.choice(scenario)  # once, not in every process
    here = isinstance(executor, InProcess)
    players = [policy if here else _transferable(policy, scenario.family) for policy in policies]
    items = [(player, chunk) for player in players for chunk in chunks]
    rows: list[dict[str, float]] = []
    for found in executor.map(_Episodes(scenario, split), items):
        rows += found
        if progress is not None:
            progress(len(rows), len(seeds) * len(policies))
    return [
        Evaluation(policy.name, {metric: np.array([row[metric] for row in own]) for metric in own[0]}, kind_of(policy))
        for policy, own in (
            (policy, rows[index * len(seeds) : (index + 1) * len(seeds)]) for index, policy in enumerate(policies)
        )
    ]


def evaluate(
    scenario: ScenarioLike,
    policy: str | Policy,
    episodes: int = 100,
    seed: int = 0,
    split: str = "test",
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Evaluation:
    """Run `policy` for `episodes` episodes with seeds `seed`, `seed + 1`, ...; in this process, or on `executor`."""
    loaded = load(scenario)
    player = find_for(policy, loaded)
    return _play(loaded, [player], range(seed, seed + episodes), split, executor or InProcess(), progress)[0]


def chosen_policies(policies: str | Sequence[str | Policy], scenario: Scenario) -> list[Policy]:
    """Return the policies that a comma-separated string or a list names, each once, with groups written out."""
    family = scenario.family
    listed = policies.split(",") if isinstance(policies, str) else policies
    chosen: dict[str, Policy] = {}
    for policy in listed:
        groups: dict[Any, list[str]] = {"all": applicable(scenario), "learned": list(shipped(family))}
        name = policy.strip() if isinstance(policy, str) else policy
        for one in groups[name] if isinstance(name, str) and name in groups else [name]:
            found = find_for(one, scenario)
            chosen.setdefault(found.name, found)
    if not chosen:
        trained = f"'learned' stands for {len(shipped(family))} that come with '{family}'"
        raise PolicyError(f"no policy to play: expected at least one ({trained})")
    return list(chosen.values())


def compare(
    scenario: ScenarioLike,
    policies: str | Sequence[str | Policy] = "all",
    episodes: int = 100,
    seed: int = 0,
    split: str = "test",
    progress: Progress | None = None,
    oracle_seconds: float | None = None,
    executor: Executor | None = None,
) -> Comparison:
    """Run several policies on the same arrivals: objects or names, also in one comma-separated string.

    "all" means every heuristic that applies to the scenario, "learned" the family's trained policies in the package; a
    policy named twice runs once. With `oracle_seconds`, the best possible reward of every episode is bounded too, with
    about that time limit for each. Episodes run in this process, or on `executor`, with the same result.
    """
    loaded = load(scenario)
    chosen = chosen_policies(policies, loaded)
    executor = executor or InProcess()
    seeds, total = range(seed, seed + episodes), episodes * len(chosen)
    evaluations = _play(loaded, chosen, seeds, split, executor, progress)
    label = scenario if isinstance(scenario, str) else f"{loaded.family}/{loaded.name}"
    optimum_bounds: list[OptimumBounds] = []
    if oracle_seconds is not None:
        for bounds in executor.map(_BoundsTask(loaded, split, oracle_seconds), seeds):
            optimum_bounds.append(bounds)
            if progress is not None:
                progress(total + len(optimum_bounds), total + episodes)
    parts = (tuple(evaluations), tuple(optimum_bounds), f"{loaded.family}/{loaded.name}", digest(loaded))
    return Comparison(str(label), episodes, seed, *parts)


def what_if(
    scenario: ScenarioLike,
    changes: Sequence[str],
    policies: str | Sequence[str | Policy] = "all",
    episodes: int = 100,
    seed: int = 0,
    split: str = "test",
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Comparison:
    """Run policies on `scenario` and on each of its variants, in one comparison.

    Each of `changes` makes a variant; it may change several values, as in 'nodes.0.count=16,power.budget_w=9000'
    (`scenario.changed`). A policy in a variant is named `policy @ change`.
    """
    loaded = load(scenario)
    parts = []
    others = [loaded, *(changed(loaded, change) for change in changes)]  # all checked before the first episode
    for index, other in enumerate(others):

        def tick(done: int, total: int, before: int = index) -> None:
            if progress is not None:
                progress(before * total + done, (1 + len(changes)) * total)

        parts.append(compare(other, policies, episodes, seed, split, tick, executor=executor))
    named = [
        Evaluation(f"{one.policy} @ {change}" if change else one.policy, one.values, one.kind)
        for part, change in zip(parts, ["", *changes], strict=True)
        for one in part.evaluations
    ]
    label = scenario if isinstance(scenario, str) else parts[0].scenario
    return Comparison(
        label, episodes, seed, tuple(named), title=parts[0].title, scenario_digest=parts[0].scenario_digest
    )


def oracle(scenario: ScenarioLike, seed: int = 0, split: str = "test", seconds: float = 10.0) -> OptimumBounds:
    """Return bounds of the best reward of one episode with all arrivals known, after about `seconds` of solving."""
    loaded = load(scenario)
    return family_of(loaded).oracle(loaded, check_seed(seed), split, seconds)
