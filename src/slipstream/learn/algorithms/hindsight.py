"""Learning from hindsight: returns of all candidates of a choice on the future that was drawn.

A lane is copied once per candidate; each copy takes its candidate and goes on under a base policy, on the same
arrivals. The difference between the copies is the advantage of a candidate, with almost none of the variance of the
arrivals, which all copies share. Learned over many states, that is one step of policy improvement over the base policy:
the rollout algorithm (Tesauro and Galperin 1996), applied in the states that the network visits (DAgger). Where the
oracle solves the rest of an episode, every copy goes on optimally.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.learn.algorithms.states import States
from slipstream.learn.compiled.objective import ENTROPY, EXPECTED, POLICY, SAMPLE, Objective
from slipstream.learn.rollout.learner import Batch, Learner, Optimizer


@dataclass(frozen=True)
class HindsightSettings:
    """Settings of learning from hindsight."""

    rounds: int = 0
    """Rounds after the warm start; 0: none."""
    horizon: float = 4.0
    """Simulated time of a branch, in the family's timescale (edge: the mean deadline)."""
    own_rounds: int = 0
    """Last rounds in which branches follow the current network instead of the base policy: every round improves on the
    one before."""
    candidates: int = 1000
    """Most candidates of a choice that are branched: those with the highest logits."""
    episodes: int = 8
    """Episodes per round that the oracle solves, if the warm start is `oracle`."""
    oracle_seconds: float = 1.0
    """Time limit of the oracle per candidate, in seconds; what it has not solved by then is an estimate."""
    steps_between: int = 8
    """Choices that lanes make by the network between two branched states."""
    buffer_rounds: int = 40
    """Rounds in the replay buffer that every update samples from, the current one included."""
    gradient_steps: int = 24
    """Gradient steps per round."""
    batch_size: int = 2048
    """Choices per gradient step (minibatch)."""
    learning_rate: float = 1e-3
    """Initial learning rate; it falls linearly to a tenth by the last round."""
    ent_coef: float = 0.01
    """Coefficient of the entropy bonus, in units of the deviation of candidates' returns."""
    relative: bool = False
    """Whether advantages are divided by their mean absolute value among states of the same scenario, so that scenarios
    with great and small rewards count alike."""
    max_grad_norm: float = 1.0
    """Greatest norm of a gradient; longer ones are scaled down."""


class Hindsight:
    """Updates of a network from the returns of all candidates of a choice."""

    def __init__(self, learner: Learner, settings: HindsightSettings) -> None:
        self.settings = settings
        self.optimizer = Optimizer(learner, settings.learning_rate, settings.max_grad_norm)
        self.buffer: list[States] = []

    def update(self, states: States, progress: float, rng: np.random.Generator) -> dict[str, float]:
        """Take the gradient steps of one round; `progress` runs from 0 to 1 over the rounds."""
        settings = self.settings
        self.optimizer.anneal(progress)
        self.buffer = [*self.buffer[1 - settings.buffer_rounds :], states]
        known = States.joined(self.buffer)
        choices, action_values = known.choices, known.advantages / np.float32(max(float(known.advantages.std()), 1e-6))
        batch = Batch(choices, np.zeros(len(choices), SAMPLE), action_values)
        objective = Objective(EXPECTED, ent_coef=settings.ent_coef)
        size = min(settings.batch_size, len(choices))
        stats = [
            self.optimizer.learn(batch, rng.integers(len(choices), size=size), objective)
            for _ in range(settings.gradient_steps)
        ]
        means = np.mean(stats, axis=0)
        return {"improvement": -float(means[POLICY]), "entropy": float(means[ENTROPY])}
