"""Warm starts: a network learns to choose as an expert does, in the situations that it gets itself into.

That is DAgger (Ross, Gordon and Bagnell 2011): at first the expert plays, then the network plays more and more of the
choices, and in each of them the expert says what it would have done.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from slipstream.learn.advantages import discounts, generalised_advantages
from slipstream.learn.networks import packed_log_softmax
from slipstream.learn.rollout import Rollout
from slipstream.learn.scoring import Scorer, minibatches


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

    def __init__(self, scorer: Scorer, settings: ImitationSettings, horizon: float) -> None:
        """`horizon` is the discount horizon in ns."""
        self.scorer, self.settings, self.horizon = scorer, settings, horizon
        self.parameters = list(scorer.network.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=settings.learning_rate)

    def update(self, rollout: Rollout, progress: float, rng: np.random.Generator) -> dict[str, float]:
        """Take the gradient steps of one rollout; `progress` runs from 0 to 1 over the warm start."""
        settings, made = self.settings, rollout.made
        for group in self.optimizer.param_groups:
            group["lr"] = settings.learning_rate * (1.0 - 0.9 * progress)
        discount = discounts(rollout.elapsed, self.horizon)
        advantage = generalised_advantages(
            rollout.reward, rollout.value, rollout.after, rollout.ended, discount, settings.trace, rollout.length
        )
        goal = torch.from_numpy((advantage + rollout.value)[made].astype(np.float32))
        label = torch.from_numpy(rollout.label[made].astype(np.int64))
        choices = rollout.choices()
        value_scale = self.scorer.network.value_scale
        told = []
        for _ in range(settings.epochs):
            for picks in minibatches(rng.permutation(len(choices)), settings.minibatch):
                scored = self.scorer.score(choices, picks)
                log_chances = packed_log_softmax(scored.logits, scored.choice_of, len(picks))
                # Where the expert's choice was not allowed there is nothing to imitate.
                known = label[picks] >= 0
                imitation = -(log_chances[scored.first + label[picks].clamp(min=0)] * known).mean()
                value = (((scored.values - goal[picks]) / value_scale) ** 2).mean()
                self.optimizer.zero_grad()
                (imitation + settings.value_weight * value).backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(self.parameters, settings.gradient_norm)
                self.optimizer.step()
                told.append((imitation.item(), value.item()))
        imitation_mean, value_mean = np.mean(told, axis=0)
        return {"imitation": float(imitation_mean), "value": float(value_mean)}
