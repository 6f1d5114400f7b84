"""Warm starts: a network learns to choose as an expert does, in the situations that it gets itself into.

That is DAgger (Ross, Gordon and Bagnell 2011): at first the expert plays, then the network plays more and more of the
choices, and in each of them the expert says what it would have done.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.learn.algorithms.advantages import discounts, generalised_advantages
from slipstream.learn.compiled.objective import LIKELIHOOD, POLICY, VALUE, Objective
from slipstream.learn.rollout.learner import Descent, Learner, Lessons, minibatches
from slipstream.learn.rollout.rollout import Rollout


@dataclass(frozen=True)
class ImitationSettings:
    """The knobs of imitation."""

    rollouts: int = 12
    """How many rollouts are imitated."""
    expert_rollouts: int = 3
    """How many of them the expert plays alone; after that its share falls linearly to nothing."""
    epochs: int = 2
    """How often every choice of a rollout is learned from."""
    minibatch: int = 2048
    """Choices per gradient step."""
    learning_rate: float = 3e-3
    """At the beginning; it falls linearly to a tenth by the end of the warm start."""
    value_weight: float = 0.5
    """Weight of the error of the value in the loss."""
    trace: float = 0.95
    """Lambda of the returns that the value learns."""
    gradient_norm: float = 1.0
    """Longer gradients are shortened to this."""

    def loyalty(self, rollout: int) -> float:
        """Return the share of choices that the expert makes in a rollout."""
        if rollout < self.expert_rollouts:
            return 1.0
        rest = self.rollouts - self.expert_rollouts
        return 1.0 - (rollout - self.expert_rollouts + 1) / rest


class Imitation:
    """Improves a network from what an expert would have done; its value learns what the rollouts brought."""

    def __init__(
        self, learner: Learner, settings: ImitationSettings, horizon: float, descent: Descent | None = None
    ) -> None:
        """`horizon` is the discount horizon in ns; several imitations of one network share their `descent`."""
        self.learner, self.settings, self.horizon = learner, settings, horizon
        self.descent = descent or Descent(learner, settings.learning_rate, settings.gradient_norm)

    def update(self, rollout: Rollout, progress: float, rng: np.random.Generator) -> dict[str, float]:
        """Take the gradient steps of one rollout; `progress` runs from 0 to 1 over the warm start."""
        settings, made = self.settings, rollout.made
        self.descent.slow_down(progress)
        discount = discounts(rollout.elapsed, self.horizon)
        advantage = generalised_advantages(
            rollout.reward, rollout.value, rollout.after, rollout.ended, discount, settings.trace, rollout.length
        )
        label, goal = rollout.label[made], (advantage + rollout.value)[made]
        # Where the expert's choice was not allowed there is nothing to imitate.
        lessons = Lessons.of(rollout.choices(), np.maximum(label, 0), label >= 0, goal=goal)
        objective = Objective(LIKELIHOOD, settings.value_weight)
        told = [
            self.descent.learn(lessons, picks, objective)
            for _ in range(settings.epochs)
            for picks in minibatches(rng.permutation(len(lessons)), settings.minibatch)
        ]
        means = np.mean(told, axis=0)
        return {"imitation": float(means[POLICY]), "value": float(means[VALUE])}
