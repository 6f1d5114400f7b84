"""The best that is known of an episode: of all heuristics, and of a small one by trying all choices.

Choices are tried depth first, every lane a copy of the one before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from slipstream.errors import LawError
from slipstream.families.contract import family_of
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.policies.base import find, names
from slipstream.sim.simulator import Simulator


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    reward: float
    complete: bool
    """Whether everything was tried: then nothing is better."""


def best_policy(simulator: Simulator, seed: int, split: str) -> tuple[str, float, np.ndarray]:
    """Return the heuristic that earns most in an episode, the first among equals; its reward, and its event log."""
    family = family_of(simulator.scenario)
    best: tuple[str, float, np.ndarray] | None = None
    for name in names(family.name):
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

    def optimum_bounds(scenario: Any, seed: int, split: str = "test", seconds: float = 10.0) -> OptimumBounds:
        began = perf_counter()
        source, best, events = best_policy(Simulator(scenario), seed, split)
        most = reward_bound(scenario, events, seed, split)
        if best > most + 1e-6 * max(1.0, abs(most)):
            raise LawError(f"a reward of {best} was reached, but {most} was proven to be the most")
        return OptimumBounds(best, max(most, best), bool(best >= most), source, method, perf_counter() - began)

    return optimum_bounds


def search(simulator: Simulator, seed: int, split: str, best: float, deadline: float) -> Found:
    """Return the best reward of an episode, at least `best`, which some policy reached."""
    simulator.reset(seed, split)
    looking = _Search(simulator, best, deadline)
    # What came before the first choice belongs to the first step, so nothing is earned yet.
    complete = looking.try_all(0.0)
    return Found(looking.best, complete)


class _Search:
    """A walk through the tree of choices; costs only grow, so a branch that costs as much as the best is cut."""

    def __init__(self, simulator: Simulator, best: float, deadline: float) -> None:
        self.simulator, self.best, self.deadline = simulator, best, deadline

    def try_all(self, earned: float) -> bool:
        """Try every action of the present choice; return whether there was time for all."""
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
