"""Proximal policy optimisation (Schulman et al. 2017) on packed choices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from slipstream.learn.advantages import discounts, generalised_advantages
from slipstream.learn.networks import packed_entropy, packed_log_softmax
from slipstream.learn.rollout import Rollout
from slipstream.learn.scoring import Scorer, minibatches


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

    def __init__(self, scorer: Scorer, settings: PPOSettings, horizon: float) -> None:
        """`horizon` is the discount horizon in ns."""
        self.scorer, self.settings, self.horizon = scorer, settings, horizon
        self.parameters = list(scorer.network.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=settings.learning_rate, eps=1e-5)

    def update(self, rollout: Rollout, progress: float, rng: np.random.Generator) -> dict[str, float]:
        """Take the gradient steps of one rollout; `progress` runs from 0 to 1 over the training."""
        settings, made = self.settings, rollout.made
        for group in self.optimizer.param_groups:
            group["lr"] = settings.learning_rate * (1.0 - 0.9 * progress)
        entropy_weight = settings.entropy_weight * (1.0 - progress)
        discount = discounts(rollout.elapsed, self.horizon)
        advantage = generalised_advantages(
            rollout.reward, rollout.value, rollout.after, rollout.ended, discount, settings.trace, rollout.length
        )
        goal = torch.from_numpy((advantage + rollout.value)[made].astype(np.float32))
        gain = advantage[made]
        gain = torch.from_numpy(((gain - gain.mean()) / (gain.std() + 1e-8)).astype(np.float32))
        taken = torch.from_numpy(rollout.taken[made].astype(np.int64))
        before = torch.from_numpy(rollout.log_chance[made])
        choices = rollout.choices()
        value_scale = self.scorer.network.value_scale
        told: dict[str, list[float]] = {name: [] for name in ("policy", "value", "entropy", "kl", "clipped")}
        for _ in range(settings.epochs):
            for picks in minibatches(rng.permutation(len(choices)), settings.minibatch):
                scored = self.scorer.score(choices, picks)
                log_chances = packed_log_softmax(scored.logits, scored.choice_of, len(picks))
                change = log_chances[scored.first + taken[picks]] - before[picks]
                ratio = change.exp()
                limited = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip)
                policy_loss = -torch.min(ratio * gain[picks], limited * gain[picks]).mean()
                value_loss = (((scored.values - goal[picks]) / value_scale) ** 2).mean()
                entropy = packed_entropy(log_chances, scored.choice_of, len(picks)).mean()
                loss = policy_loss + settings.value_weight * value_loss - entropy_weight * entropy
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(self.parameters, settings.gradient_norm)
                self.optimizer.step()
                kl = (ratio - 1.0 - change).mean().item()
                clipped = (ratio != limited).float().mean().item()
                figures = (policy_loss.item(), value_loss.item(), entropy.item(), kl, clipped)
                for name, figure in zip(told, figures, strict=True):
                    told[name].append(figure)
            if 0.0 < settings.target_kl < kl:
                break
        return {name: float(np.mean(values)) for name, values in told.items()}
