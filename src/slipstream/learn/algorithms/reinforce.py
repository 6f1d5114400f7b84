"""REINFORCE with the input-dependent baseline of Decima (Mao et al. 2019).

Several lanes play the same arrivals. The baseline of a choice is the mean return-to-go of these lanes at the same time:
the variance of the arrivals cancels out, and no value needs to be learned. With more than one gradient step per
rollout, the objective is clipped as in PPO.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.learn.algorithms.advantages import Horizon, discounts, returns_to_go
from slipstream.learn.compiled.objective import CLIPPED, ENTROPY, KL, LIKELIHOOD, POLICY, Objective
from slipstream.learn.rollout.learner import Batch, Learner, Optimizer, minibatches
from slipstream.learn.rollout.rollout import Rollout


@dataclass(frozen=True)
class ReinforceSettings:
    """Settings of REINFORCE, named as in Stable-Baselines3."""

    learning_rate: float = 1e-3
    """Initial learning rate; it falls linearly to a tenth by the end of training."""
    same_arrivals: int = 8
    """Lanes with identical arrivals, which share a baseline."""
    discount_horizon: float = 10.0
    """Time after which a reward counts 1/e, in the family's timescale (edge: the mean deadline)."""
    ent_coef: float = 0.003
    """Initial coefficient of the entropy bonus; it falls linearly to zero."""
    max_grad_norm: float = 0.5
    """Greatest norm of a gradient; longer ones are scaled down."""
    n_epochs: int = 1
    """Passes over the choices of a rollout; with several, the objective is clipped as in PPO."""
    batch_size: int = 0
    """Choices per gradient step (minibatch); 0: all of a rollout."""
    clip_range: float = 0.2
    """With several steps per rollout: range of the probability ratio beyond which the objective is clipped."""
    target_kl: float = 0.03
    """With several epochs: KL divergence from the policy of the rollout at which an update stops early; 0: no limit."""
    terminal: bool = False
    """Whether the sum of an episode's rewards is moved to its last choice."""
    relative: bool = False
    """Whether advantages are divided by the mean absolute episode return of lanes with the same arrivals, so that short
    and long episodes count alike."""


def mean_at_same_time(returns: np.ndarray, time: np.ndarray, length: np.ndarray, horizon: float) -> np.ndarray:
    """Return, for every choice of some lanes, the mean return-to-go of these lanes at its time.

    Between two choices, the return-to-go of a lane is that of the next one, discounted until then.
    """
    lanes = len(length)
    total = np.zeros_like(returns)
    for lane in range(lanes):
        for other in range(lanes):
            last = length[other]
            indices = np.searchsorted(time[other, :last], time[lane, : length[lane]])
            there = np.minimum(indices, last - 1)
            gap = time[other, there] - time[lane, : length[lane]]
            to_come = returns[other, there] * np.exp(-np.maximum(gap, 0) / horizon)
            total[lane, : length[lane]] += np.where(indices < last, to_come, 0.0)
    return total / lanes


def terminal_rewards(reward: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return `reward` with the sum of each lane moved to its last choice."""
    terminal = np.zeros_like(reward)
    for lane, last in enumerate(length.tolist()):
        if last:
            terminal[lane, last - 1] = reward[lane, :last].sum()
    return terminal


def mean_magnitude(reward: np.ndarray, length: np.ndarray) -> float:
    """Return the mean absolute episode return of the lanes, 1 if it is 0."""
    earned = [reward[lane, :last].sum() for lane, last in enumerate(length.tolist())]
    return float(np.abs(earned).mean()) or 1.0


class Reinforce:
    """REINFORCE updates of a network from complete episodes."""

    def __init__(self, learner: Learner, settings: ReinforceSettings, horizon: Horizon) -> None:
        """`horizon` is the discount horizon in ns."""
        self.learner, self.settings, self.horizon = learner, settings, horizon
        self.optimizer = Optimizer(learner, settings.learning_rate, settings.max_grad_norm, eps=1e-5)

    def advantages(self, rollout: Rollout) -> np.ndarray:
        """Return the return-to-go of every choice, less the mean of the lanes with the same arrivals at its time."""
        discount = discounts(rollout.elapsed, self.horizon)
        # Episodes are complete, so nothing is bootstrapped.
        zeros = np.zeros_like(rollout.reward)
        reward = terminal_rewards(rollout.reward, rollout.length) if self.settings.terminal else rollout.reward
        returns = returns_to_go(reward, zeros, rollout.ended, discount, rollout.length)
        advantage = np.zeros_like(returns)
        horizons = np.broadcast_to(self.horizon, (len(returns), 1))[:, 0]
        for first in range(0, len(returns), self.settings.same_arrivals):
            group = slice(first, first + self.settings.same_arrivals)
            mean = mean_at_same_time(returns[group], rollout.time[group], rollout.length[group], horizons[first])
            advantage[group] = returns[group] - mean
            if self.settings.relative:
                advantage[group] /= mean_magnitude(reward[group], rollout.length[group])
        return advantage

    def update(self, rollout: Rollout, progress: float, rng: np.random.Generator) -> dict[str, float]:
        """Take the gradient steps of one rollout; `progress` runs from 0 to 1 over the training."""
        settings, made = self.settings, rollout.made
        self.optimizer.anneal(progress)
        single_step = settings.n_epochs == 1 and settings.batch_size == 0
        term, ent_coef = LIKELIHOOD if single_step else CLIPPED, settings.ent_coef * (1.0 - progress)
        objective = Objective(term, ent_coef=ent_coef, clip_range=settings.clip_range)
        advantage = self.advantages(rollout)[made]
        seen, taken = rollout.choices(), rollout.taken[made]
        batch = Batch.of(seen, taken, advantage / (advantage.std() + 1e-8), rollout.log_prob[made])
        stats = []
        for _ in range(settings.n_epochs):
            order = rng.permutation(len(batch))
            for picks in minibatches(order, settings.batch_size or len(order)):
                stats.append(self.optimizer.learn(batch, picks, objective))
            if 0.0 < settings.target_kl < stats[-1][KL]:
                break
        means = np.mean(stats, axis=0)
        return {"policy": float(means[POLICY]), "entropy": float(means[ENTROPY]), "kl": float(means[KL])}
