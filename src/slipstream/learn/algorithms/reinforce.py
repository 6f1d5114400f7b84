"""REINFORCE with the input-dependent baseline of Decima (Mao et al. 2019).

Several lanes play the same arrivals. What a choice brought is compared with what the lanes of its set had still to
gain, on average, at the same time: the luck of the arrivals cancels out, and no value needs to be learned. With more
than one step per rollout, steps are limited as in PPO.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.learn.algorithms.advantages import discounts, returns_to_go
from slipstream.learn.compiled.objective import CLIPPED, ENTROPY, KL, LIKELIHOOD, POLICY, Objective
from slipstream.learn.rollout.learner import Descent, Learner, Lessons, minibatches
from slipstream.learn.rollout.rollout import Rollout


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
    epochs: int = 1
    """How often every choice of a rollout is learned from; more than once only with the limits of PPO."""
    minibatch: int = 0
    """Choices per gradient step; 0: all of a rollout."""
    clip: float = 0.2
    """With several steps: how far the probability of a choice may move in one update before it stops counting."""
    target_kl: float = 0.03
    """With several epochs: an update ends early when the policy has moved so far; 0 never does."""
    terminal: bool = False
    """Whether all that an episode brings comes at its end, as if it were not known before what a choice cost."""
    relative: bool = False
    """Whether what a choice brought counts as a share of what lanes with the same arrivals earn in a whole episode: a
    percent is then a percent in short episodes and long ones."""


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


def at_the_end(reward: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return rewards of lanes as if each lane got all of it at its last choice."""
    moved = np.zeros_like(reward)
    for lane, last in enumerate(length.tolist()):
        if last:
            moved[lane, last - 1] = reward[lane, :last].sum()
    return moved


def typical_size(reward: np.ndarray, length: np.ndarray) -> float:
    """Return the mean size of what lanes earn in all their choices, and 1 where they earn nothing."""
    earned = [reward[lane, :last].sum() for lane, last in enumerate(length.tolist())]
    return float(np.abs(earned).mean()) or 1.0


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
        reward = at_the_end(rollout.reward, rollout.length) if self.settings.terminal else rollout.reward
        returns = returns_to_go(reward, nothing, rollout.ended, discount, rollout.length)
        advantage = np.zeros_like(returns)
        for first in range(0, len(returns), self.settings.same_arrivals):
            group = slice(first, first + self.settings.same_arrivals)
            mean = mean_at_same_time(returns[group], rollout.time[group], rollout.length[group], self.horizon)
            advantage[group] = returns[group] - mean
            if self.settings.relative:
                advantage[group] /= typical_size(reward[group], rollout.length[group])
        return advantage

    def update(self, rollout: Rollout, progress: float, rng: np.random.Generator) -> dict[str, float]:
        """Take the gradient steps of one rollout; `progress` runs from 0 to 1 over the training."""
        settings, made = self.settings, rollout.made
        self.descent.slow_down(progress)
        once = settings.epochs == 1 and settings.minibatch == 0
        term, entropy_weight = LIKELIHOOD if once else CLIPPED, settings.entropy_weight * (1.0 - progress)
        objective = Objective(term, entropy_weight=entropy_weight, clip=settings.clip)
        gain = self.advantages(rollout)[made]
        seen, taken = rollout.choices(), rollout.taken[made]
        lessons = Lessons.of(seen, taken, gain / (gain.std() + 1e-8), rollout.log_chance[made])
        told = []
        for _ in range(settings.epochs):
            order = rng.permutation(len(lessons))
            for picks in minibatches(order, settings.minibatch or len(order)):
                told.append(self.descent.learn(lessons, picks, objective))
            if 0.0 < settings.target_kl < told[-1][KL]:
                break
        means = np.mean(told, axis=0)
        return {"policy": float(means[POLICY]), "entropy": float(means[ENTROPY]), "kl": float(means[KL])}
