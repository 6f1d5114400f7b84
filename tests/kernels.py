"""A compiled kernel of any family behind the interface of its reference, stopped at each choice."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from slipstream.core import lanes
from slipstream.core.family import Family
from slipstream.core.rng import NAMESPACES
from slipstream.core.simulator import Simulator

LogRow = tuple[int, int, int, int, int, int]
LOG_COLUMNS = ["time", "kind", "task", "job", "variant", "resource"]
NAMESPACE_NAMES = {number: name for name, number in NAMESPACES.items()}


def log_rows(events: np.ndarray) -> list[LogRow]:
    """Return rows of an event log as a reference writes them."""
    return list(zip(*(events[column].tolist() for column in LOG_COLUMNS), strict=True))


class KernelLane:
    """One episode of a compiled kernel, stopped at each choice."""

    family: ClassVar[Family]

    def __init__(self, scenario: Any, seed: int, namespace: int = 2, log_rows: int = 1024) -> None:
        self.simulator = Simulator(scenario, log_rows)
        self.restart(seed, namespace)

    def restart(self, seed: int, namespace: int = 2) -> None:
        """Begin another episode in the same lane."""
        self.flushed: list[np.ndarray] = []
        self.simulator.reset(seed, NAMESPACE_NAMES[namespace], self.flushed.append)

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


def compare_choice(kernel: KernelLane, reference: Any) -> None:
    """Assert that both have come to the same point."""
    where = f"at choice {reference.choices - 1}"
    assert (kernel.now, kernel.choices) == (reference.now, reference.choices), where
    assert (kernel.terminated, kernel.truncated) == (reference.terminated, reference.truncated), where


def compare_step(kernel: KernelLane, reference: Any) -> None:
    """Assert that the last step gave the same."""
    where = f"before choice {reference.choices - 1}"
    assert kernel.terms == reference.terms, where
    assert kernel.reward == reference.reward, where
    assert (kernel.illegal, kernel.elapsed) == (reference.illegal, reference.elapsed), where
