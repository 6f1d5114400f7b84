"""REINFORCE with the input-dependent baseline of Decima (Mao et al. 2019).

Several lanes play the same arrivals. What a choice brought is compared with what the lanes of its set had still to
gain, on average, at the same time: the luck of the arrivals cancels out, and no value needs to be learned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from slipstream.learn.advantages import discounts, returns_to_go
from slipstream.learn.networks import packed_entropy, packed_log_softmax
from slipstream.learn.rollout import Rollout
from slipstream.learn.scoring import Scorer, minibatches


@dataclass(frozen=True)
class ReinforceSettings:
    """The knobs of REINFORCE."""

    learning_rate: float = 1e-3
    """At the beginning; it falls linearly to a tenth by the end of training."""
    same_arrivals: int = 8
    """Lanes that play identical arrivals."""
    minibatch: int = 16384
    """Choices whose gradients are summed at a time; they all make one step."""
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

    def __init__(self, scorer: Scorer, settings: ReinforceSettings, horizon: float) -> None:
        """`horizon` is the discount horizon in ns."""
        self.scorer, self.settings, self.horizon = scorer, settings, horizon
        self.parameters = list(scorer.network.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=settings.learning_rate, eps=1e-5)

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
        settings, made = self.settings, rollout.made
        for group in self.optimizer.param_groups:
            group["lr"] = settings.learning_rate * (1.0 - 0.9 * progress)
        entropy_weight = settings.entropy_weight * (1.0 - progress)
        gain = self.advantages(rollout)[made]
        gain = torch.from_numpy((gain / (gain.std() + 1e-8)).astype(np.float32))
        taken = torch.from_numpy(rollout.taken[made].astype(np.int64))
        choices = rollout.choices()
        self.optimizer.zero_grad()
        policy_sum = entropy_sum = 0.0
        for picks in minibatches(rng.permutation(len(choices)), settings.minibatch):
            scored = self.scorer.score(choices, picks)
            log_chances = packed_log_softmax(scored.logits, scored.choice_of, len(picks))
            policy_loss = -(log_chances[scored.first + taken[picks]] * gain[picks]).sum() / len(choices)
            entropy = packed_entropy(log_chances, scored.choice_of, len(picks)).sum() / len(choices)
            (policy_loss - entropy_weight * entropy).backward()  # type: ignore[no-untyped-call]
            policy_sum += policy_loss.item()
            entropy_sum += entropy.item()
        torch.nn.utils.clip_grad_norm_(self.parameters, settings.gradient_norm)
        self.optimizer.step()
        return {"policy": policy_sum, "entropy": entropy_sum}
