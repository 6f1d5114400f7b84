"""Best known reward of an episode: over all heuristics, and for small episodes by exhaustive depth-first search."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from slipstream.errors import InvariantError
from slipstream.families.contract import Scenario, family_of
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.policies.base import applicable, find
from slipstream.sim.simulator import Simulator


@dataclass(frozen=True)
class SearchResult:
    """Result of an exhaustive search."""

    reward: float
    complete: bool
    """Whether the search tree was exhausted: then `reward` is optimal."""


def best_policy(simulator: Simulator, seed: int, split: str) -> tuple[str, float, np.ndarray]:
    """Return name, reward and event log of the best heuristic that applies, the first among equals."""
    family = family_of(simulator.scenario)
    best: tuple[str, float, np.ndarray] | None = None
    for name in applicable(simulator.scenario):
        events = simulator.play(find(name, family.name), seed, split)
        reward = family.metrics(simulator.scenario, events)["reward"]
        if best is None or reward > best[1]:
            best = (name, reward, events)
    assert best is not None
    return best


def heuristic_bounds(
    reward_bound: Callable[[Any, np.ndarray, int, str], float], method: str
) -> Callable[[Any, int, str, float], OptimumBounds]:
    """Return the `optimum_bounds` of a family: the reward of its best heuristic, and what no policy exceeds.

    `reward_bound(scenario, events, seed, split)` returns the latter; `events` is the log of the best heuristic, and
    `method` says what proves the bound. Every heuristic plays the episode, however long that takes.
    """

    def optimum_bounds(scenario: Scenario, seed: int, split: str = "test", seconds: float = 10.0) -> OptimumBounds:
        began = perf_counter()
        source, best, events = best_policy(Simulator(scenario), seed, split)
        most = reward_bound(scenario, events, seed, split)
        if best > most + 1e-6 * max(1.0, abs(most)):
            raise InvariantError(f"a reward of {best} was reached, but {most} was proven to be the most")
        return OptimumBounds(best, max(most, best), bool(best >= most), source, method, perf_counter() - began)

    return optimum_bounds


def least_flow(arrival: np.ndarray, work: np.ndarray) -> float:
    """Return the least total time between arrival and end on one server: shortest remaining work first."""
    left: list[float] = []
    now = total = 0.0
    for index, begin in enumerate(arrival.tolist()):
        now = max(now, float(begin)) if not left else now
        heapq.heappush(left, float(work[index]))
        until = float(arrival[index + 1]) if index + 1 < len(arrival) else np.inf
        while left and now + left[0] <= until:
            step = heapq.heappop(left)
            total += (len(left) + 1) * step
            now += step
        if left and until < np.inf:
            step = max(0.0, until - now)
            total += len(left) * step
            left[0] -= step
            now = until
    return total


def search(simulator: Simulator, seed: int, split: str, best: float, deadline: float) -> SearchResult:
    """Return the best reward of an episode, at least `best`; stop at `deadline`, a time of `perf_counter`."""
    simulator.reset(seed, split)
    tree = _Search(simulator, best, deadline)
    # The reward before the first decision is part of the first step, so none is earned yet.
    complete = tree.try_all(0.0)
    return SearchResult(tree.best, complete)


class _Search:
    """Depth-first branch and bound over decisions; rewards only fall, so a branch not above the best is cut."""

    def __init__(self, simulator: Simulator, best: float, deadline: float) -> None:
        self.simulator, self.best, self.deadline = simulator, best, deadline

    def try_all(self, earned: float) -> bool:
        """Search below the present decision, `earned` being the reward up to it; return whether it ended in time."""
        if not self.simulator.asking:
            self.best = max(self.best, earned)
            return True
        mask = self.simulator.observe()[2].copy()
        saved = self.simulator.save()
        for action in np.flatnonzero(mask).tolist():
            if perf_counter() > self.deadline:
                return False
            self.simulator.header["log_rows"] = 0
            self.simulator.step(action)
            total = earned + float(self.simulator.header["reward"])
            if total > self.best and not self.try_all(total):
                return False
            self.simulator.restore(saved)
        return True
