"""The compiled kernel behind the reference's interface, and the comparison of the two, choice by choice."""

from __future__ import annotations

import numpy as np

from slipstream.core.env import SchedulingEnv
from slipstream.core.simulator import Simulator
from slipstream.edge import FAMILY, features
from slipstream.edge.scenario import EdgeScenario
from tests.kernels import KernelLane, compare_step, log_rows
from tests.kernels import compare_choice as compare_point
from tests.reference.edge import ReferenceEdge
from tests.strategies import scripted_action

__all__ = ["KernelEdge", "compare_choice", "compare_step", "log_rows"]

MOST_CHOICES = 20_000


def smallest_log(scenario: EdgeScenario) -> int:
    """Return the fewest rows that a log may have: one more than an event and the choice after it may write."""
    # Where memory is limited, a start may evict all weights there are.
    limited = scenario.device.memory_mb is not None
    evictions = sum(task.num_variants for task in scenario.tasks) if limited else 0
    return 8 + evictions + 1


class KernelEdge(KernelLane):
    """One episode of the compiled kernel, stopped at each choice."""

    family = FAMILY


def compare_choice(kernel: KernelEdge, reference: ReferenceEdge) -> None:
    """Assert that both have come to the same point, and ask for the same stream."""
    compare_point(kernel, reference)
    assert kernel.asked == reference.asked, f"at choice {reference.choices - 1}"


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
