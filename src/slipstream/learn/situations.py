"""Situations looked at from every side: what each candidate would have earned on the future that really came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from slipstream.learn.branches import branch, see
from slipstream.learn.collect import make_rollout
from slipstream.learn.learner import Choices, Learner
from slipstream.learn.rollout import Group, LanePool, Rollout
from slipstream.policies.base import Heuristic
from slipstream.policies.inference import make_network


@dataclass(frozen=True)
class Situations:
    """Choices with packed candidates, and what each of these would have earned."""

    choices: Choices
    earned: np.ndarray
    """One number per candidate, in the order of the packed rows, less the mean of its choice."""

    NAMES: ClassVar[tuple[str, ...]] = ("rows", "global_rows", "begin", "count", "earned")

    @classmethod
    def of(cls, rows: np.ndarray, global_rows: np.ndarray, counts: np.ndarray, earned: np.ndarray) -> Situations:
        """Return situations from packed candidates, so many of each choice, and what they earned."""
        begin = (np.cumsum(counts) - counts).astype(np.int64)
        means = np.add.reduceat(earned, begin) / counts
        choices = Choices(rows, global_rows, begin, counts.astype(np.int32))
        return cls(choices, (earned - np.repeat(means, counts)).astype(np.float32))

    @classmethod
    def joined(cls, parts: Sequence[Situations]) -> Situations:
        """Return the situations of several parts as one."""
        counts = np.concatenate([part.choices.count for part in parts])
        choices = Choices(
            np.concatenate([part.choices.rows for part in parts]),
            np.concatenate([part.choices.global_rows for part in parts]),
            (np.cumsum(counts) - counts).astype(np.int64),
            counts,
        )
        return cls(choices, np.concatenate([part.earned for part in parts]))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything as arrays."""
        return {**vars(self.choices), "earned": self.earned}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Situations:
        """Return what `arrays` gave."""
        return cls(Choices(**{name: array for name, array in arrays.items() if name != "earned"}), arrays["earned"])


class Lookout(Protocol):
    """Whatever finds situations and tries them from every side."""

    def look_around(self, pool: LanePool, round_number: int) -> Situations:
        """Return situations that the network gets itself into; the lanes of the pool stay where they are."""


class Branching:
    """Looks at where the lanes are: copies of them try every candidate and go on under a base policy."""

    def __init__(self, learner: Learner, base: Heuristic, window: float) -> None:
        """The copies go on for `window` ns."""
        self.learner, self.base, self.window = learner, base, window

    def look_around(self, pool: LanePool, round_number: int) -> Situations:
        """Return the present situations of all lanes."""
        return Situations.joined([part for part in pool.map(self._of_group) if part is not None])

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
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        source = np.repeat(asked, counts)
        earned = self._try(group, source, actions[source, offsets])
        places = np.repeat(rollout.begin[asked, 0], counts) + offsets
        return Situations.of(rollout.rows[places], rollout.globals[asked, 0], counts, earned)

    def _try(self, group: Group, source: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Return what copies of lanes earn that take these actions."""
        copies = group.copies(len(source))
        for name, array in group.arrays.items():
            copies.arrays[name][: len(source)] = array[source]
        earned = np.zeros(len(source))
        self.base.prepare_for(group.scenario)
        policy = (self.base.form, self.base.address)
        branch(copies.spec, copies.state, copies.raw, *policy, actions, self.window, earned)
        return earned
