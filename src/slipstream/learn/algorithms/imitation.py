"""Warm starts: imitation of an expert in the states that the network visits.

That is DAgger (Ross, Gordon and Bagnell 2011): at first the expert plays, then the network plays a growing share of the
choices, and each of them is labelled with the expert's choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.learn.algorithms.advantages import Horizon, discounts, generalised_advantages
from slipstream.learn.compiled.objective import LIKELIHOOD, POLICY, VALUE, Objective
from slipstream.learn.rollout.learner import Batch, Learner, Optimizer, minibatches
from slipstream.learn.rollout.rollout import Rollout


@dataclass(frozen=True)
class ImitationSettings:
    """Settings of imitation."""

    rollouts: int = 12
    """Rollouts of the imitation."""
    expert_rollouts: int = 3
    """First rollouts, which the expert plays alone; after them its share of choices falls linearly to 0."""
    n_epochs: int = 2
    """Passes over the choices of a rollout."""
    batch_size: int = 2048
    """Choices per gradient step (minibatch)."""
    learning_rate: float = 3e-3
    """Initial learning rate; it falls linearly to a tenth by the end of the warm start."""
    vf_coef: float = 0.5
    """Coefficient of the value error in the loss."""
    gae_lambda: float = 0.95
    """Lambda of the returns that are the targets of the value."""
    max_grad_norm: float = 1.0
    """Greatest norm of a gradient; longer ones are scaled down."""

    def expert_probability(self, rollout: int) -> float:
        """Return the share of choices that the expert makes in rollout `rollout`."""
        if rollout < self.expert_rollouts:
            return 1.0
        rest = self.rollouts - self.expert_rollouts
        return 1.0 - (rollout - self.expert_rollouts + 1) / rest


class Imitation:
    """Imitation updates of a network from labelled rollouts; its value learns their returns."""

    def __init__(
        self, learner: Learner, settings: ImitationSettings, horizon: Horizon, optimizer: Optimizer | None = None
    ) -> None:
        """`horizon` is the discount horizon in ns; several imitations of one network share their `optimizer`."""
        self.learner, self.settings, self.horizon = learner, settings, horizon
        self.optimizer = optimizer or Optimizer(learner, settings.learning_rate, settings.max_grad_norm)

    def update(self, rollout: Rollout, progress: float, rng: np.random.Generator) -> dict[str, float]:
        """Take the gradient steps of one rollout; `progress` runs from 0 to 1 over the warm start."""
        settings, made = self.settings, rollout.made
        self.optimizer.anneal(progress)
        discount = discounts(rollout.elapsed, self.horizon)
        inputs = (rollout.reward, rollout.value, rollout.next_value, rollout.ended, discount)
        advantages = generalised_advantages(*inputs, settings.gae_lambda, rollout.length)
        label, value_target = rollout.label[made], (advantages + rollout.value)[made]
        # Where the expert's choice was not legal, the policy term has the weight 0.
        batch = Batch.of(rollout.choices(), np.maximum(label, 0), label >= 0, value_target=value_target)
        objective = Objective(LIKELIHOOD, settings.vf_coef)
        stats = [
            self.optimizer.learn(batch, picks, objective)
            for _ in range(settings.n_epochs)
            for picks in minibatches(rng.permutation(len(batch)), settings.batch_size)
        ]
        means = np.mean(stats, axis=0)
        return {"imitation": float(means[POLICY]), "value": float(means[VALUE])}
