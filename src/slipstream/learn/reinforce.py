"""REINFORCE with the input-dependent baseline of Decima (Mao et al. 2019).

Several lanes play the same arrivals. What a choice brought is compared with what the lanes of its set had still to
gain, on average, at the same time: the luck of the arrivals cancels out, and no value needs to be learned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.learn.advantages import discounts, returns_to_go
from slipstream.learn.learner import Descent, Learner, Lessons
from slipstream.learn.objective import ENTROPY, LIKELIHOOD, POLICY, Objective
from slipstream.learn.rollout import Rollout


@dataclass(frozen=True)
class ReinforceSettings:
    """The knobs of REINFORCE."""

    learning_rate: float = 1e-3
    """At the beginning; it falls linearly to a tenth by the end of training."""
    same_arrivals: int = 8
    """Lanes that play identical arrivals."""
    discount_horizon: float = 10.0
    """Time after which a reward counts 1/e, in the family's timescale (edge: the mean deadline)."""
    entropy_weight: float = 0.003
    """Reward for keeping options open, at the beginning; it falls linearly to zero."""
    gradient_norm: float = 0.5
    """Longer gradients are shortened to this."""


def mean_at_same_time(returns: np.ndarray, time: np.ndarray, length: np.ndarray, horizon: float) -> np.ndarray:
    """Return, for every choice of some lanes, the mean over these lanes of what was still to come at its time.

    A lane that is between two choices has to come what it has at the next one, discounted until then.
    """
    lanes = len(length)
    total = np.zeros_like(returns)
    for lane in range(lanes):
        for other in range(lanes):
            last = length[other]
            places = np.searchsorted(time[other, :last], time[lane, : length[lane]])
            there = np.minimum(places, last - 1)
            gap = time[other, there] - time[lane, : length[lane]]
            to_come = returns[other, there] * np.exp(-np.maximum(gap, 0) / horizon)
            total[lane, : length[lane]] += np.where(places < last, to_come, 0.0)
    return total / lanes


class Reinforce:
    """Improves a network from whole episodes that it played."""

    def __init__(self, learner: Learner, settings: ReinforceSettings, horizon: float) -> None:
        """`horizon` is the discount horizon in ns."""
        self.learner, self.settings, self.horizon = learner, settings, horizon
        self.descent = Descent(learner, settings.learning_rate, settings.gradient_norm, eps=1e-5)

    def advantages(self, rollout: Rollout) -> np.ndarray:
        """Return how much more every choice brought than the lanes of its set had to gain at its time."""
        discount = discounts(rollout.elapsed, self.horizon)
        # Episodes are whole, and what comes after them is no choice's merit.
        nothing = np.zeros_like(rollout.reward)
        returns = returns_to_go(rollout.reward, nothing, rollout.ended, discount, rollout.length)
        advantage = np.zeros_like(returns)
        for first in range(0, len(returns), self.settings.same_arrivals):
            group = slice(first, first + self.settings.same_arrivals)
            mean = mean_at_same_time(returns[group], rollout.time[group], rollout.length[group], self.horizon)
            advantage[group] = returns[group] - mean
        return advantage

    def update(self, rollout: Rollout, progress: float, rng: np.random.Generator) -> dict[str, float]:
        """Take one gradient step from one rollout; `progress` runs from 0 to 1 over the training."""
        made = rollout.made
        self.descent.slow_down(progress)
        objective = Objective(LIKELIHOOD, entropy_weight=self.settings.entropy_weight * (1.0 - progress))
        gain = self.advantages(rollout)[made]
        lessons = Lessons.of(rollout.choices(), rollout.taken[made], gain / (gain.std() + 1e-8))
        means = self.descent.learn(lessons, np.arange(len(lessons)), objective)
        return {"policy": float(means[POLICY]), "entropy": float(means[ENTROPY])}
