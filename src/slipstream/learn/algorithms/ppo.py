"""Proximal policy optimisation (Schulman et al. 2017) on packed choices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.learn.algorithms.advantages import discounts, generalised_advantages
from slipstream.learn.compiled.objective import CLIPPED, CUT, ENTROPY, KL, POLICY, VALUE, Objective
from slipstream.learn.rollout.learner import Descent, Learner, Lessons, minibatches
from slipstream.learn.rollout.rollout import Rollout


@dataclass(frozen=True)
class PPOSettings:
    """The knobs of PPO."""

    learning_rate: float = 1e-3
    """At the beginning; it falls linearly to a tenth by the end of training."""
    epochs: int = 4
    """How often every choice of a rollout is learned from."""
    minibatch: int = 4096
    """Choices per gradient step."""
    clip: float = 0.2
    """How far the probability of a choice may move in one update before it stops counting."""
    discount_horizon: float = 100.0
    """Time after which a reward counts 1/e, in the family's timescale (edge: the mean deadline). A short one makes slow
    variants look worse than they are, only because their reward comes later."""
    trace: float = 0.9
    """Lambda of the generalised advantage estimate: 1 trusts what happened, 0 what the network expects."""
    value_weight: float = 0.5
    """Weight of the error of the value in the loss."""
    entropy_weight: float = 0.003
    """Reward for keeping options open, at the beginning; it falls linearly to zero."""
    target_kl: float = 0.03
    """An update ends early when the policy has moved so far from the one that played; 0 never does."""
    gradient_norm: float = 0.5
    """Longer gradients are shortened to this."""


class PPO:
    """Improves a network from the rollouts it played."""

    def __init__(self, learner: Learner, settings: PPOSettings, horizon: float) -> None:
        """`horizon` is the discount horizon in ns."""
        self.learner, self.settings, self.horizon = learner, settings, horizon
        self.descent = Descent(learner, settings.learning_rate, settings.gradient_norm, eps=1e-5)

    def update(self, rollout: Rollout, progress: float, rng: np.random.Generator) -> dict[str, float]:
        """Take the gradient steps of one rollout; `progress` runs from 0 to 1 over the training."""
        settings = self.settings
        self.descent.slow_down(progress)
        objective = Objective(CLIPPED, settings.value_weight, settings.entropy_weight * (1.0 - progress), settings.clip)
        lessons = self.lessons(rollout)
        told = []
        for _ in range(settings.epochs):
            for picks in minibatches(rng.permutation(len(lessons)), settings.minibatch):
                told.append(self.descent.learn(lessons, picks, objective))
            if 0.0 < settings.target_kl < told[-1][KL]:
                break
        means = np.mean(told, axis=0)
        names = {"policy": POLICY, "value": VALUE, "entropy": ENTROPY, "kl": KL, "clipped": CUT}
        return {name: float(means[index]) for name, index in names.items()}

    def lessons(self, rollout: Rollout) -> Lessons:
        """Return what a rollout teaches: gains in units of their deviation, and what the value should have been."""
        made, discount = rollout.made, discounts(rollout.elapsed, self.horizon)
        advantage = generalised_advantages(
            rollout.reward, rollout.value, rollout.after, rollout.ended, discount, self.settings.trace, rollout.length
        )
        gain, goal = advantage[made], (advantage + rollout.value)[made]
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        return Lessons.of(rollout.choices(), rollout.taken[made], gain, rollout.log_chance[made], goal)
