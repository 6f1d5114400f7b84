"""Proximal policy optimisation (Schulman et al. 2017) on packed choices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.learn.algorithms.advantages import Horizon, discounts, generalised_advantages
from slipstream.learn.compiled.objective import CLIP_FRACTION, CLIPPED, ENTROPY, KL, POLICY, VALUE, Objective
from slipstream.learn.rollout.learner import Batch, Learner, Optimizer, minibatches
from slipstream.learn.rollout.rollout import Rollout


@dataclass(frozen=True)
class PPOSettings:
    """Settings of PPO, named as in Stable-Baselines3."""

    learning_rate: float = 1e-3
    """Initial learning rate; it falls linearly to a tenth by the end of training."""
    n_epochs: int = 4
    """Passes over the choices of a rollout."""
    batch_size: int = 4096
    """Choices per gradient step (minibatch)."""
    clip_range: float = 0.2
    """Range of the probability ratio beyond which the surrogate objective is clipped."""
    discount_horizon: float = 100.0
    """Time after which a reward counts 1/e, in the family's timescale (edge: the mean deadline). A short horizon
    undervalues slow variants, whose reward comes later."""
    gae_lambda: float = 0.9
    """Lambda of the generalised advantage estimate: 1 uses the rewards alone, 0 the value after one step."""
    vf_coef: float = 0.5
    """Coefficient of the value error in the loss."""
    ent_coef: float = 0.003
    """Initial coefficient of the entropy bonus; it falls linearly to zero."""
    target_kl: float = 0.03
    """KL divergence from the policy of the rollout at which an update stops early; 0: no limit."""
    max_grad_norm: float = 0.5
    """Greatest norm of a gradient; longer ones are scaled down."""


class PPO:
    """PPO updates of a network from its rollouts."""

    def __init__(self, learner: Learner, settings: PPOSettings, horizon: Horizon) -> None:
        """`horizon` is the discount horizon in ns."""
        self.learner, self.settings, self.horizon = learner, settings, horizon
        self.optimizer = Optimizer(learner, settings.learning_rate, settings.max_grad_norm, eps=1e-5)

    def update(self, rollout: Rollout, progress: float, rng: np.random.Generator) -> dict[str, float]:
        """Take the gradient steps of one rollout; `progress` runs from 0 to 1 over the training. Return statistics."""
        settings = self.settings
        self.optimizer.anneal(progress)
        objective = Objective(CLIPPED, settings.vf_coef, settings.ent_coef * (1.0 - progress), settings.clip_range)
        batch = self.make_batch(rollout)
        stats = []
        for _ in range(settings.n_epochs):
            for picks in minibatches(rng.permutation(len(batch)), settings.batch_size):
                stats.append(self.optimizer.learn(batch, picks, objective))
            if 0.0 < settings.target_kl < stats[-1][KL]:
                break
        means = np.mean(stats, axis=0)
        names = {"policy": POLICY, "value": VALUE, "entropy": ENTROPY, "kl": KL, "clipped": CLIP_FRACTION}
        return {name: float(means[index]) for name, index in names.items()}

    def make_batch(self, rollout: Rollout) -> Batch:
        """Return the batch of a rollout: normalised advantages and value targets."""
        made, discount, gae_lambda = rollout.made, discounts(rollout.elapsed, self.horizon), self.settings.gae_lambda
        advantages = generalised_advantages(
            rollout.reward, rollout.value, rollout.next_value, rollout.ended, discount, gae_lambda, rollout.length
        )
        advantage, value_target = advantages[made], (advantages + rollout.value)[made]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        return Batch.of(rollout.choices(), rollout.taken[made], advantage, rollout.log_prob[made], value_target)
