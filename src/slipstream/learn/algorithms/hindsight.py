"""Learning from hindsight: what each candidate would have earned on the future that really came.

A lane is copied once per candidate; each copy takes another one and goes on under a base policy, on the same arrivals.
The difference between the copies is what the choice was worth, with almost none of the noise of the arrivals, which
all of them share. Learned over many situations, that is one step of policy improvement over the base policy: the
rollout algorithm (Tesauro and Galperin 1996), asked in the situations that the network gets itself into (DAgger). Where
the oracle solves what remains of an episode, every copy goes on as well as it can be gone on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.learn.algorithms.states import Situations
from slipstream.learn.compiled.objective import ENTROPY, EXPECTED, LESSON, POLICY, Objective
from slipstream.learn.rollout.learner import Descent, Learner, Lessons


@dataclass(frozen=True)
class HindsightSettings:
    """The knobs of learning from hindsight."""

    rounds: int = 0
    """How many rounds follow the warm start; 0 leaves it out."""
    window: float = 4.0
    """For how long the copies of a lane go on, in the family's timescale (edge: the mean deadline)."""
    own_rounds: int = 0
    """In how many of the rounds, the last ones, the copies go on under the network as it is then: every round improves
    on the one before."""
    candidates: int = 1000
    """Most candidates of a choice that are tried: those that the network likes best."""
    episodes: int = 8
    """Episodes of a round that the oracle looks at, if it is what the training starts from."""
    look_seconds: float = 1.0
    """How long the oracle looks at a candidate, at the most; what it has not solved by then is an estimate."""
    apart: int = 8
    """Choices that lanes make by the network between two situations that are looked at."""
    remembered: int = 40
    """Rounds that every update learns from: this one and the latest before it."""
    minibatches: int = 24
    """Gradient steps of every round."""
    minibatch: int = 2048
    """Choices per gradient step."""
    learning_rate: float = 1e-3
    """At the beginning; it falls linearly to a tenth by the last round."""
    entropy_weight: float = 0.01
    """Reward for keeping options open, in units of the typical difference between candidates."""
    gradient_norm: float = 1.0
    """Longer gradients are shortened to this."""


class Hindsight:
    """Improves a network from what all candidates of a choice would have earned."""

    def __init__(self, learner: Learner, settings: HindsightSettings) -> None:
        self.settings = settings
        self.descent = Descent(learner, settings.learning_rate, settings.gradient_norm)
        self.memory: list[Situations] = []

    def update(self, situations: Situations, progress: float, rng: np.random.Generator) -> dict[str, float]:
        """Take the gradient steps of one round; `progress` runs from 0 to 1 over the rounds."""
        settings = self.settings
        self.descent.slow_down(progress)
        self.memory = [*self.memory[1 - settings.remembered :], situations]
        known = Situations.joined(self.memory)
        choices, worth = known.choices, known.earned / np.float32(max(float(known.earned.std()), 1e-6))
        lessons = Lessons(choices, np.zeros(len(choices), LESSON), worth)
        objective = Objective(EXPECTED, entropy_weight=settings.entropy_weight)
        size = min(settings.minibatch, len(choices))
        told = [
            self.descent.learn(lessons, rng.integers(len(choices), size=size), objective)
            for _ in range(settings.minibatches)
        ]
        means = np.mean(told, axis=0)
        return {"improvement": -float(means[POLICY]), "entropy": float(means[ENTROPY])}
