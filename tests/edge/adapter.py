"""The compiled kernel behind the reference's interface, and the comparison of the two, choice by choice."""

from __future__ import annotations

import numpy as np

from slipstream.core import lanes
from slipstream.core.env import SchedulingEnv
from slipstream.core.rng import NAMESPACES
from slipstream.core.simulator import Simulator
from slipstream.edge import FAMILY, features
from slipstream.edge.scenario import EdgeScenario
from tests.reference.edge import ReferenceEdge
from tests.strategies import scripted_action

LogRow = tuple[int, int, int, int, int, int]
LOG_COLUMNS = ["time", "kind", "task", "job", "variant", "resource"]
NAMESPACE_NAMES = {number: name for name, number in NAMESPACES.items()}
MOST_CHOICES = 20_000


def log_rows(events: np.ndarray) -> list[LogRow]:
    """Return rows of an event log as the reference writes them."""
    return list(zip(*(events[column].tolist() for column in LOG_COLUMNS), strict=True))


def smallest_log(scenario: EdgeScenario) -> int:
    """Return the fewest rows that a log may have: one more than an event and the choice after it may write."""
    # Where memory is limited, a start may evict all weights there are.
    limited = scenario.device.memory_mb is not None
    evictions = sum(task.num_variants for task in scenario.tasks) if limited else 0
    return 8 + evictions + 1


class KernelEdge:
    """One episode of the compiled kernel, stopped at each choice."""

    def __init__(self, scenario: EdgeScenario, seed: int, namespace: int = 2, log_rows: int = 1024) -> None:
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
        return dict(zip(FAMILY.reward_terms, self.simulator.arrays["terms"][0].tolist(), strict=True))

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
        return [dict(zip(features.CANDIDATE.names, row, strict=True)) for row in table]

    def globals(self) -> dict[str, float]:
        """Return the raw observation of the whole by name."""
        return dict(zip(features.GLOBAL.names, self.simulator.observe()[0].tolist(), strict=True))


def compare_choice(kernel: KernelEdge, reference: ReferenceEdge) -> None:
    """Assert that both have come to the same point."""
    where = f"at choice {reference.choices - 1}"
    assert (kernel.now, kernel.asked, kernel.choices) == (reference.now, reference.asked, reference.choices), where
    assert (kernel.terminated, kernel.truncated) == (reference.terminated, reference.truncated), where


def compare_step(kernel: KernelEdge, reference: ReferenceEdge) -> None:
    """Assert that the last step gave the same."""
    where = f"before choice {reference.choices - 1}"
    assert kernel.terms == reference.terms, where
    assert kernel.reward == reference.reward, where
    assert (kernel.illegal, kernel.elapsed) == (reference.illegal, reference.elapsed), where


def compare_observation(kernel: KernelEdge, reference: ReferenceEdge) -> None:
    """Assert that every raw number at this choice is the same, to the last bit."""
    where = f"at choice {reference.choices - 1}"
    assert kernel.globals() == reference.globals(), where
    assert kernel.mask() == reference.mask(), where
    assert kernel.rows() == reference.rows(), where


def compare_episode(
    kernel: KernelEdge, reference: ReferenceEdge, script: int, observe_every: int = 1, most_choices: int = MOST_CHOICES
) -> None:
    """Drive both through the same scripted episode and assert that nothing tells them apart.

    The observation is compared at every `observe_every`-th choice, all else at each.
    """
    compare_choice(kernel, reference)
    while not reference.over and reference.choices <= most_choices:
        if (reference.choices + script) % observe_every == 0:
            compare_observation(kernel, reference)
        action = scripted_action(script, reference.choices - 1, reference.mask())
        kernel.step(action)
        reference.step(action)
        compare_choice(kernel, reference)
        compare_step(kernel, reference)
    assert kernel.log == reference.log


def compare_observed(device: EdgeScenario, seed: int, script: int, most_choices: int) -> None:
    """Assert that an agent sees the scaled and clipped image of the raw rows, though only changes are written."""
    env = SchedulingEnv("edge", device, namespace="test")
    raw = Simulator(device)
    _, info = env.reset(seed=seed ^ 1)
    for number in range(20):
        info = env.step(scripted_action(script + 1, number, info["action_mask"]))[4]
    observation, info = env.reset(seed=seed)
    raw.reset(seed)
    tables = {"globals": features.GLOBAL, "candidates": features.CANDIDATE}
    while raw.asking and raw.header["choices"] <= most_choices:
        global_row, rows, mask = raw.observe()
        assert np.array_equal(info["action_mask"], mask)
        for name, values in (("globals", global_row), ("candidates", rows)):
            shown = tables[name].observed
            scale, low, high = shown.image()
            expected = np.clip(values[..., : len(shown)] * scale, low, high).astype(np.float32)
            assert np.array_equal(observation[name], expected), name
        action = scripted_action(script, int(raw.header["choices"]), mask)
        observation, _, _, _, info = env.step(action)
        raw.step(action)
