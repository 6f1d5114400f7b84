"""Race of a family's heuristics on training episodes: which is best, and which is best of those to imitate.

The race has rounds: all play a few episodes, the better half a few more, the best three the rest. Heuristics of one
compiled function play first; a policy that does not finish its first episode in its share of the time drops out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstream.errors import InputError, PolicyError
from slipstream.evaluation import evaluate
from slipstream.families.contract import Scenario
from slipstream.policies.base import Heuristic, Policy, WholeEpisodes, applicable, find
from slipstream.scale.executor import Executor, InProcess
from slipstream.sim.kernel import lanes
from slipstream.sim.simulator import Simulator

RANDOM = "random"
"""Policy that a heuristic must beat to be worth imitating."""
FINALISTS = 3
ROUNDS = (2, 8, 16)
"""Episodes that a policy has played after each round."""
CHUNK = 2000
"""Decisions that a compiled policy makes between two looks at the clock."""
SLOW_SHARE = 0.25
"""Share of the race's time that the first episode of one policy may take."""
OTHERS_SECONDS = 10.0
"""Time of the policies that are not compiled functions, in a race without a limit."""

Seconds = Callable[[], float]
"""Reads a clock."""


@dataclass
class Racer:
    """A policy in the race."""

    policy: Policy
    rewards: list[float] = field(default_factory=list)
    choices: int = 0
    """Decisions of all its episodes."""

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self.policy.name

    @property
    def can_be_imitated(self) -> bool:
        """Whether it is one compiled function, so that it can label the choices of a rollout."""
        return isinstance(self.policy, Heuristic)


@dataclass(frozen=True)
class Race:
    """Result of a race."""

    ranking: tuple[Racer, ...]
    """All policies that finished an episode, best first."""
    dropped: tuple[str, ...]
    """Policies that did not finish an episode in their time."""

    @property
    def best(self) -> str:
        """The policy with the highest mean reward."""
        return self.ranking[0].name

    @property
    def finalists(self) -> tuple[str, ...]:
        """The best policies of the race."""
        return tuple(racer.name for racer in self.ranking[:FINALISTS])

    @property
    def warm_start(self) -> str | None:
        """The best heuristic that can be imitated, if it is ahead of random choices."""
        for racer in self.ranking:
            if racer.name == RANDOM:
                return None
            if racer.can_be_imitated:
                return racer.name
        return None

    @property
    def episode_choices(self) -> float:
        """Mean number of decisions of an episode under the best policy."""
        return self.ranking[0].choices / len(self.ranking[0].rewards)

    def to_dict(self) -> dict[str, Any]:
        """Return the race as JSON-ready data."""
        ranking = [
            {"policy": racer.name, "reward": float(np.mean(racer.rewards)), "episodes": len(racer.rewards)}
            for racer in self.ranking
        ]
        return {"split": "train", "ranking": ranking, "dropped": list(self.dropped), "warm_start": self.warm_start}


def play_within(
    simulator: Simulator, policy: Policy, seed: int, split: str, end: float, clock: Seconds
) -> float | None:
    """Return the reward of `policy` in the episode of `seed`; None if it is not over when `clock` reaches `end`."""
    figures = _figures_within(simulator, policy, seed, split, end, clock)
    return None if figures is None else float(figures["reward"])


def _figures_within(
    simulator: Simulator, policy: Policy, seed: int, split: str, end: float, clock: Seconds
) -> dict[str, float] | None:
    """Return the metrics of `policy` in the episode of `seed`; None if it is not over when `clock` reaches `end`."""
    log: list[np.ndarray] = []
    simulator.reset(seed, split, log.append)
    while simulator.asking:
        if clock() > end:
            return None
        if not isinstance(policy, WholeEpisodes):
            simulator.step(policy.choose(*simulator.observe()), log.append)
            continue
        while policy.run(simulator, CHUNK) == lanes.LOG_FULL:
            log.append(simulator.log())
            simulator.header["log_rows"] = 0
    log.append(simulator.log())
    scenario = simulator.scenario
    return simulator.family.metrics(scenario, np.concatenate(log), seed, split)


def rewards_within(
    scenario: Scenario,
    policy: str | Policy,
    seeds: range,
    split: str,
    end: float,
    clock: Seconds,
    executor: Executor | None = None,
) -> np.ndarray:
    """Return the rewards of `policy` in the episodes that are over when `clock` reaches `end`: at least the first."""
    return metrics_within(scenario, policy, seeds, split, end, clock, executor, ("reward",))["reward"]


def metrics_within(
    scenario: Scenario,
    policy: str | Policy,
    seeds: range,
    split: str,
    end: float,
    clock: Seconds,
    executor: Executor | None,
    names: Sequence[str],
) -> dict[str, np.ndarray]:
    """Return metrics of `policy`, by name, in the episodes that are over when `clock` reaches `end`, at least one.

    On an `executor` other than this process, all episodes are played.
    """
    if executor is not None and not isinstance(executor, InProcess):
        played = evaluate(scenario, policy, len(seeds), seeds.start, split, executor=executor)
        return {name: played.of(name) for name in names}
    simulator, player = Simulator(scenario), find(policy, scenario.family)
    episodes: list[dict[str, float]] = []
    for seed in seeds:
        figures = _figures_within(simulator, player, seed, split, end if episodes else np.inf, clock)
        if figures is None:
            break
        episodes.append(figures)
        if clock() > end:
            break
    return {name: np.array([float(one[name]) for one in episodes]) for name in names}


def race(scenario: Scenario, limit: float | None, clock: Seconds, notify: Callable[[str], None] | None = None) -> Race:
    """Return the ranking of the family's policies on training episodes, after about `limit` seconds of `clock`.

    Without a limit, heuristics of one compiled function play all their episodes, so that their ranking is always the
    same; the other policies have `OTHERS_SECONDS`. `notify` is called with the name of the policy that plays next.
    """
    simulator, began = Simulator(scenario), clock()
    racers = [Racer(find(name, scenario.family)) for name in applicable(scenario)]
    racers.sort(key=lambda racer: not racer.can_be_imitated)
    others_end = np.inf
    dropped: list[str] = []
    eliminated: list[Racer] = []
    running = racers
    for number, episodes in enumerate(ROUNDS):
        for racer in list(running):
            if notify is not None:
                notify(racer.name)
            if limit is None and not racer.can_be_imitated and others_end == np.inf:
                others_end = clock() + OTHERS_SECONDS
            end = began + limit if limit is not None else np.inf if racer.can_be_imitated else others_end
            first_end = min(end, clock() + SLOW_SHARE * (limit or OTHERS_SECONDS)) if end < np.inf else np.inf
            while len(racer.rewards) < episodes:
                # The first of all finishes, so that a race always has a result.
                alone = not racer.rewards and racer is running[0]
                own_end = np.inf if alone else end if racer.rewards else first_end
                try:
                    reward = play_within(simulator, racer.policy, len(racer.rewards), "train", own_end, clock)
                except PolicyError:  # it does not fit this scenario
                    reward = None
                if reward is None:
                    break
                racer.rewards.append(reward)
                racer.choices += int(simulator.header["choices"])
            if not racer.rewards:
                dropped.append(racer.name)
                running.remove(racer)
        if not running:
            raise InputError(
                f"{scenario.family}/{scenario.name}: no policy of the family plays it: expected one that does"
            )
        ordered = _ranked(running)
        keep = max(FINALISTS, len(ordered) // 2) if number == 0 else FINALISTS
        eliminated = ordered[keep:] + eliminated
        running = ordered[:keep]
        if limit is not None and clock() > began + limit:
            break
    return Race((*running, *eliminated), tuple(dropped))


def _ranked(racers: Sequence[Racer]) -> list[Racer]:
    """Return `racers` by mean reward over the episodes that all of them played, best first."""
    common = min(len(racer.rewards) for racer in racers)
    return sorted(racers, key=lambda racer: -float(np.mean(racer.rewards[:common])))


def warm_start_of(found: Race, tell: Callable[[str], None] | None) -> str | None:
    """Return the warm start that a race chooses, None for random weights; `tell` it in one sentence."""
    name = found.warm_start
    played = f"{len(found.ranking)} policies in a race on training episodes"
    if name is None:
        words = f"warm start: none (random weights): {found.best}, the best of {played}, cannot be imitated yet"
    elif name != found.best:
        words = f"warm start: {name}; {found.best}, the best of {played}, cannot be imitated yet"
    else:
        words = f"warm start: {name}, the best of {played}"
    if tell is not None:
        tell(words)
    return name
