"""States with the returns of all their candidates on the future that was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from slipstream.learn.compiled.branches import branch, branch_by_network, observe_states
from slipstream.learn.compiled.collect import make_rollout
from slipstream.learn.rollout.batch import Choices
from slipstream.learn.rollout.learner import Learner
from slipstream.learn.rollout.rollout import Group, LanePool, Rollout
from slipstream.policies.base import Heuristic
from slipstream.policies.compiled.networks import make_network
from slipstream.policies.operations import Layout

COPIES = 256
"""Copies of lanes per batch: enough to share the work, few enough for the memory of large scenarios."""


@dataclass(frozen=True)
class States:
    """Choices with the advantages of all their candidates."""

    choices: Choices
    advantages: np.ndarray
    """Return of every candidate less the mean of its choice, in the order of the packed rows."""

    @classmethod
    def of(cls, choices: Choices, returns: np.ndarray) -> States:
        """Return states from choices that are packed without gaps, and the returns of their candidates.

        A candidate that was not branched (NaN) gets the mean of the others: an advantage of 0.
        """
        tried = np.add.reduceat(~np.isnan(returns), choices.begin, dtype=np.int64)
        means = np.add.reduceat(np.nan_to_num(returns), choices.begin) / tried
        return cls(choices, np.nan_to_num(returns - np.repeat(means, choices.count)).astype(np.float32))

    def relative(self) -> States:
        """Return the states with advantages divided by their mean absolute value, unless all are 0."""
        size = float(np.abs(self.advantages).mean())
        return replace(self, advantages=self.advantages / np.float32(size)) if size > 0.0 else self

    @classmethod
    def joined(cls, parts: Sequence[States]) -> States:
        """Return the concatenation of several parts."""
        choices = Choices.joined([part.choices for part in parts])
        return cls(choices, np.concatenate([part.advantages for part in parts]))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all fields as plain arrays."""
        return {**self.choices.arrays(), "advantages": self.advantages}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> States:
        """Return the states whose `arrays` were given."""
        return cls(Choices.from_arrays(arrays), arrays["advantages"])


class StateEvaluator(Protocol):
    """Protocol: collects states and computes the returns of their candidates."""

    def evaluate_states(self, pool: LanePool, round_number: int) -> States | None:
        """Return states that the network visits, with all candidates evaluated; None if no lane has a choice.

        The lanes of the pool are not changed.
        """


class Branching:
    """Evaluates the lanes' current states: copies take each candidate, then follow a base policy or the network."""

    def __init__(
        self,
        learner: Learner,
        base: Heuristic,
        horizon: float,
        candidates: int,
        based_rounds: int,
        relative: bool = False,
    ) -> None:
        """Branches last `horizon` of their group's timescales; they follow `base` for `based_rounds`, then the network.

        Of every choice, up to `candidates` are branched: those with the highest logits. With `relative`, advantages are
        divided by their mean absolute value in each group.
        """
        self.learner, self.base, self.horizon, self.candidates = learner, base, horizon, candidates
        self.based_rounds, self.relative = based_rounds, relative

    def evaluate_states(self, pool: LanePool, round_number: int) -> States | None:
        """Return the current states of all lanes that have a choice."""
        evaluation = CandidateReturns(
            self.learner.layout,
            self.learner.weights,
            self.base,
            self.horizon,
            self.candidates,
            round_number >= self.based_rounds,
            self.relative,
        )
        parts = [part for part in pool.map(evaluation) if part is not None]
        return States.joined(parts) if parts else None


@dataclass(frozen=True)
class CandidateReturns:
    """Computes the returns of all candidates in the current states of a group's lanes."""

    layout: Layout
    weights: np.ndarray
    base: Heuristic
    horizon: float
    candidates: int
    by_network: bool
    """Whether branches follow the network instead of the base policy."""
    relative: bool
    """Whether advantages are relative to those of the group."""

    def __call__(self, group: Group) -> States | None:
        """Return the choices of `group` with several candidates, evaluated; None if there is none."""
        rollout = Rollout.empty(group.count, 1, group.candidates, self.layout.widths[:2], group.graph)
        actions = np.zeros((group.count, group.candidates), np.int64)
        logits = np.full(actions.shape, -np.inf)
        network = make_network(self.layout, self.weights)
        structs = (group.spec, group.state, group.buffer, network)
        observe_states(*structs, make_rollout(rollout.arrays), group.raw, actions, logits)
        # A choice with one candidate has no advantage to learn from.
        rollout.length[rollout.count[:, 0] < 2] = 0
        asked = np.flatnonzero(rollout.length)
        if not len(asked):
            return None
        counts = rollout.count[asked, 0]
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        source = np.repeat(asked, counts)
        rank = np.argsort(np.argsort(-logits[asked], axis=1), axis=1)
        tried = rank[np.repeat(np.arange(len(asked)), counts), offsets] < self.candidates
        returns = np.full(len(source), np.nan)
        returns[tried] = self._branch(group, source[tried], actions[source, offsets][tried])
        states = States.of(rollout.choices().picked(np.arange(len(asked))), returns)
        return states.relative() if self.relative else states

    def _branch(self, group: Group, source: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Return the returns of `actions` in copies of the lanes `source`, in batches."""
        copies = group.copies(min(len(source), COPIES))
        network = make_network(self.layout, self.weights)
        returns = np.zeros(len(source))
        base = group.expert or self.base
        base.prepare_for(group.scenario)
        for first in range(0, len(source), copies.count):
            part = slice(first, first + copies.count)
            for name, array in group.arrays.items():
                copies.arrays[name][: len(source[part])] = array[source[part]]
            copies.set_parameter(base)
            end = (actions[part], self.horizon * group.timescale, returns[part])
            if self.by_network:
                branch_by_network(copies.spec, copies.state, copies.buffer, network, copies.raw, *end)
            else:
                branch(copies.spec, copies.state, copies.raw, base.form, base.address, *end)
        return returns
