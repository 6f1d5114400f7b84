"""A compiled kernel of any family behind the interface of its reference, and episodes of either."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from slipstream.families.contract import family_of
from slipstream.policies.base import Heuristic
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.rng import SPLITS
from slipstream.sim.simulator import Simulator

LogRow = tuple[int, int, int, int, int, int]
LOG_COLUMNS = ["time", "kind", "task", "job", "variant", "resource"]
NAMESPACE_NAMES = {number: name for name, number in SPLITS.items()}


def log_rows(events: np.ndarray) -> list[LogRow]:
    """Return rows of an event log as a reference writes them."""
    return list(zip(*(events[column].tolist() for column in LOG_COLUMNS), strict=True))


class KernelLane:
    """One episode of a compiled kernel, stopped at each choice."""

    def __init__(self, scenario: Any, seed: int, split: int = 2, log_rows: int = 1024) -> None:
        self.family = family_of(scenario)
        self.simulator = Simulator(scenario, log_rows)
        self.restart(seed, split)

    def restart(self, seed: int, split: int = 2) -> None:
        """Begin another episode in the same lane."""
        self.flushed: list[np.ndarray] = []
        self.simulator.reset(seed, NAMESPACE_NAMES[split], self.flushed.append)

    def step(self, action: int) -> None:
        """Take the action at the present choice and go on to the next choice or the end."""
        self.simulator.step(action, self.flushed.append)

    @property
    def now(self) -> int:
        return int(self.simulator.header["now"])

    @property
    def asked(self) -> int:
        return int(self.simulator.header["asked"])

    @property
    def choices(self) -> int:
        return int(self.simulator.header["choices"])

    @property
    def terminated(self) -> bool:
        return bool(self.simulator.header["status"] == lanes.TERMINATED)

    @property
    def truncated(self) -> bool:
        return bool(self.simulator.header["status"] == lanes.TRUNCATED)

    @property
    def over(self) -> bool:
        return not self.simulator.asking

    @property
    def reward(self) -> float:
        return float(self.simulator.header["reward"])

    @property
    def illegal(self) -> bool:
        return bool(self.simulator.header["illegal"])

    @property
    def elapsed(self) -> int:
        return int(self.simulator.header["elapsed"])

    @property
    def terms(self) -> dict[str, float]:
        return dict(zip(self.family.reward_terms, self.simulator.arrays["terms"][0].tolist(), strict=True))

    @property
    def events(self) -> np.ndarray:
        """The whole event log so far."""
        return np.concatenate([*self.flushed, self.simulator.log()])

    @property
    def log(self) -> list[LogRow]:
        return log_rows(self.events)

    def mask(self) -> list[int]:
        """Return the legal rows as 0/1."""
        return list(self.simulator.observe()[2].tolist())

    def rows(self) -> list[dict[str, float]]:
        """Return the raw observation rows by column name."""
        table = self.simulator.observe()[1].tolist()
        return [dict(zip(self.family.candidate_features.names, row, strict=True)) for row in table]

    def globals(self) -> dict[str, float]:
        """Return the raw observation of the whole by name."""
        return dict(zip(self.family.global_features.names, self.simulator.observe()[0].tolist(), strict=True))


def smallest_log(scenario: Any) -> int:
    """Return the fewest rows that a log may have: one more than an event and the choice before it may write."""
    return family_of(scenario).log_margin(scenario) + 1


def rows_for(reference: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what a policy is asked with where a reference is."""
    family = family_of(reference.scenario)
    whole = reference.globals()
    global_row = np.array([whole[name] for name in family.global_features.names])
    rows = np.array([[row[name] for name in family.candidate_features.names] for row in reference.rows()])
    return global_row, rows, np.array(reference.mask(), np.int8)


def play_reference(reference: Any, policy: Heuristic, most_rows: float = math.inf) -> list[LogRow]:
    """Play an episode of a reference, or so much of it as fills so many rows, under the policy's plain-Python form."""
    if getattr(policy, "prepare", None) is not None:
        reference.planned = (policy.name,)
    while not reference.over and len(reference.log) < most_rows:
        reference.step(policy.choose(*rows_for(reference)))
        assert not reference.illegal
    return list(reference.log)


def play_case(actions: Sequence[int], lane: Any) -> tuple[list[LogRow], float]:
    """Return log and total reward of an episode: the rows that are given, -1 for the last, then the first legal one."""
    left, total = list(actions), 0.0
    while not lane.over:
        mask = lane.mask()
        action = left.pop(0) if left else mask.index(1)
        lane.step(action if action >= 0 else len(mask) - 1)
        assert not lane.illegal
        total += lane.reward
    assert not left
    return lane.log, total
