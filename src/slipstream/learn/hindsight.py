"""Learning from hindsight: what each candidate would have earned on the future that really came.

A lane is copied once per candidate; each copy takes another one and goes on under a base policy, on the same arrivals.
The difference between the copies is what the choice was worth, with almost none of the noise of the arrivals, which
all of them share. Learned over many situations, that is one step of policy improvement over the base policy: the
rollout algorithm (Tesauro and Galperin 1996), asked in the situations that the network gets itself into (DAgger).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slipstream.learn.branches import branch, see
from slipstream.learn.collect import make_rollout
from slipstream.learn.learner import Choices, Descent, Learner, Lessons
from slipstream.learn.objective import ENTROPY, EXPECTED, LESSON, POLICY, Objective
from slipstream.learn.rollout import Group, LanePool, Rollout
from slipstream.policies.base import Heuristic
from slipstream.policies.inference import make_network


@dataclass(frozen=True)
class HindsightSettings:
    """The knobs of learning from hindsight."""

    rounds: int = 0
    """How many rounds follow the warm start; 0 leaves it out."""
    window: float = 4.0
    """For how long the copies of a lane go on, in the family's timescale (edge: the mean deadline)."""
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


@dataclass(frozen=True)
class Situations:
    """Choices that were looked at from every side: packed candidates, and what each would have earned."""

    choices: Choices
    earned: np.ndarray
    """One number per candidate, in the order of the packed rows, less the mean of its choice."""

    NAMES: ClassVar[tuple[str, ...]] = ("rows", "global_rows", "begin", "count", "earned")

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything as arrays."""
        return {**vars(self.choices), "earned": self.earned}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Situations:
        """Return what `arrays` gave."""
        return cls(Choices(**{name: array for name, array in arrays.items() if name != "earned"}), arrays["earned"])


class Hindsight:
    """Improves a network from what all candidates of a choice would have earned."""

    def __init__(self, learner: Learner, settings: HindsightSettings, base: Heuristic, window: float) -> None:
        """`window` is in ns."""
        self.learner, self.settings, self.base, self.window = learner, settings, base, window
        self.descent = Descent(learner, settings.learning_rate, settings.gradient_norm)
        self.memory: list[Situations] = []

    def look_around(self, pool: LanePool) -> Situations:
        """Return the present situations of all lanes, tried from every side; the lanes stay where they are."""
        found = [part for part in pool.map(self._of_group) if part is not None]
        counts = np.concatenate([part.choices.count for part in found])
        rows = np.concatenate([part.choices.rows for part in found])
        begin = (np.cumsum(counts) - counts).astype(np.int64)
        global_rows = np.concatenate([part.choices.global_rows for part in found])
        return Situations(Choices(rows, global_rows, begin, counts), np.concatenate([part.earned for part in found]))

    def _of_group(self, group: Group) -> Situations | None:
        layout = self.learner.layout
        widths = (int(layout.ports[4]), int(layout.ports[5]))
        rollout = Rollout.empty(group.count, 1, group.candidates, widths)
        actions = np.zeros((group.count, group.candidates), np.int64)
        network = make_network(layout, self.learner.weights)
        see(group.spec, group.state, group.sheet, network, make_rollout(rollout.arrays), actions)
        # A choice with one candidate teaches nothing.
        asked = np.flatnonzero((rollout.length > 0) & (rollout.count[:, 0] > 1))
        if not len(asked):
            return None
        counts = rollout.count[asked, 0]
        source = np.repeat(asked, counts)
        taken = np.concatenate([actions[lane, :count] for lane, count in zip(asked, counts, strict=True)])
        earned = self._try(group, source, taken)
        places = np.concatenate(
            [np.arange(first, first + count) for first, count in zip(rollout.begin[asked, 0], counts, strict=True)]
        )
        means = np.add.reduceat(earned, np.cumsum(counts) - counts) / counts
        choices = Choices(
            rollout.rows[places], rollout.globals[asked, 0], np.zeros(len(asked), np.int64), counts.astype(np.int32)
        )
        return Situations(choices, (earned - np.repeat(means, counts)).astype(np.float32))

    def _try(self, group: Group, source: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Return what copies of lanes earn that take these actions."""
        copies = group.copies(len(source))
        for name, array in group.arrays.items():
            copies.arrays[name][: len(source)] = array[source]
        earned = np.zeros(len(source))
        policy = (self.base.form, self.base.address)
        branch(copies.spec, copies.state, copies.raw, *policy, actions, self.window, earned)
        return earned

    def update(self, situations: Situations, progress: float, rng: np.random.Generator) -> dict[str, float]:
        """Take the gradient steps of one round; `progress` runs from 0 to 1 over the rounds."""
        settings = self.settings
        self.descent.slow_down(progress)
        self.memory = [*self.memory[1 - settings.remembered :], situations]
        choices, earned = _joined(self.memory)
        worth = earned / np.float32(max(float(earned.std()), 1e-6))
        lessons = Lessons(choices, np.zeros(len(choices), LESSON), worth)
        objective = Objective(EXPECTED, entropy_weight=settings.entropy_weight)
        size = min(settings.minibatch, len(choices))
        told = [
            self.descent.learn(lessons, rng.integers(len(choices), size=size), objective)
            for _ in range(settings.minibatches)
        ]
        means = np.mean(told, axis=0)
        return {"improvement": -float(means[POLICY]), "entropy": float(means[ENTROPY])}


def _joined(memory: list[Situations]) -> tuple[Choices, np.ndarray]:
    """Return the situations of several rounds as one."""
    counts = np.concatenate([one.choices.count for one in memory])
    choices = Choices(
        np.concatenate([one.choices.rows for one in memory]),
        np.concatenate([one.choices.global_rows for one in memory]),
        (np.cumsum(counts) - counts).astype(np.int64),
        counts,
    )
    return choices, np.concatenate([one.earned for one in memory])
