"""Situations looked at from every side: what each candidate would have earned on the future that really came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from slipstream.learn.compiled.branches import branch, branch_by_network, see
from slipstream.learn.compiled.collect import make_rollout
from slipstream.learn.rollout.batch import Choices
from slipstream.learn.rollout.learner import Learner
from slipstream.learn.rollout.rollout import Group, LanePool, Rollout
from slipstream.policies.base import Heuristic
from slipstream.policies.compiled.networks import make_network
from slipstream.policies.operations import Layout

COPIES = 256
"""Copies of lanes that are tried at a time: enough to share the work, few enough for the memory of large machines."""


@dataclass(frozen=True)
class Situations:
    """Choices with packed candidates, and what each of these would have earned."""

    choices: Choices
    earned: np.ndarray
    """One number per candidate, in the order of the packed rows, less the mean of its choice."""

    @classmethod
    def of(cls, choices: Choices, earned: np.ndarray) -> Situations:
        """Return situations from choices that are packed without gaps, and what their candidates earned.

        What was not tried (not a number) counts as the mean of what was: nothing is known for or against it.
        """
        tried = np.add.reduceat(~np.isnan(earned), choices.begin, dtype=np.int64)
        means = np.add.reduceat(np.nan_to_num(earned), choices.begin) / tried
        return cls(choices, np.nan_to_num(earned - np.repeat(means, choices.count)).astype(np.float32))

    @classmethod
    def joined(cls, parts: Sequence[Situations]) -> Situations:
        """Return the situations of several parts as one."""
        choices = Choices.joined([part.choices for part in parts])
        return cls(choices, np.concatenate([part.earned for part in parts]))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything as arrays."""
        return {**self.choices.arrays(), "earned": self.earned}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Situations:
        """Return what `arrays` gave."""
        return cls(Choices.from_arrays(arrays), arrays["earned"])


class Lookout(Protocol):
    """Whatever finds situations and tries them from every side."""

    def look_around(self, pool: LanePool, round_number: int) -> Situations | None:
        """Return situations that the network gets itself into, if it had a choice in any.

        The lanes of the pool stay where they are.
        """


class Branching:
    """Looks at where the lanes are: copies of them try candidates and go on under a base policy, or the network."""

    def __init__(self, learner: Learner, base: Heuristic, window: float, candidates: int, based_rounds: int) -> None:
        """The copies go on for `window` ns, in the first `based_rounds` rounds under the base policy.

        Of every choice, up to `candidates` are tried: those that the network likes best.
        """
        self.learner, self.base, self.window, self.candidates = learner, base, window, candidates
        self.based_rounds = based_rounds

    def look_around(self, pool: LanePool, round_number: int) -> Situations | None:
        """Return the present situations of all lanes that have a choice."""
        look = Look(
            self.learner.layout,
            self.learner.weights,
            self.base,
            self.window,
            self.candidates,
            round_number >= self.based_rounds,
        )
        parts = [part for part in pool.map(look) if part is not None]
        return Situations.joined(parts) if parts else None


@dataclass(frozen=True)
class Look:
    """The look at the present situations of a group's lanes."""

    layout: Layout
    weights: np.ndarray
    base: Heuristic
    window: float
    candidates: int
    by_network: bool
    """Whether the copies go on under the network, not under the base policy."""

    def __call__(self, group: Group) -> Situations | None:
        """Return the choices of a group that have several candidates, and what each of these would earn."""
        rollout = Rollout.empty(group.count, 1, group.candidates, self.layout.widths[:2], group.graph)
        actions = np.zeros((group.count, group.candidates), np.int64)
        logits = np.full(actions.shape, -np.inf)
        network = make_network(self.layout, self.weights)
        see(group.spec, group.state, group.buffer, network, make_rollout(rollout.arrays), actions, logits)
        # A choice with one candidate teaches nothing.
        rollout.length[rollout.count[:, 0] < 2] = 0
        asked = np.flatnonzero(rollout.length)
        if not len(asked):
            return None
        counts = rollout.count[asked, 0]
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        source = np.repeat(asked, counts)
        rank = np.argsort(np.argsort(-logits[asked], axis=1), axis=1)
        tried = rank[np.repeat(np.arange(len(asked)), counts), offsets] < self.candidates
        earned = np.full(len(source), np.nan)
        earned[tried] = self._try(group, source[tried], actions[source, offsets][tried])
        return Situations.of(rollout.choices().picked(np.arange(len(asked))), earned)

    def _try(self, group: Group, source: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Return what copies of lanes earn that take these actions, a few copies at a time."""
        copies = group.copies(min(len(source), COPIES))
        network = make_network(self.layout, self.weights)
        earned = np.zeros(len(source))
        self.base.prepare_for(group.scenario)
        for first in range(0, len(source), copies.count):
            part = slice(first, first + copies.count)
            for name, array in group.arrays.items():
                copies.arrays[name][: len(source[part])] = array[source[part]]
            copies.take_number(self.base)
            end = (actions[part], self.window, earned[part])
            if self.by_network:
                branch_by_network(copies.spec, copies.state, copies.buffer, network, *end)
            else:
                branch(copies.spec, copies.state, copies.raw, self.base.form, self.base.address, *end)
        return earned
