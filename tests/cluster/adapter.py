"""The compiled cluster kernel behind the reference's interface, and the comparison of the two, choice by choice."""

from __future__ import annotations

import numpy as np

from slipstream.cluster import FAMILY, features
from slipstream.cluster.laws import check
from slipstream.cluster.scenario import ClusterScenario
from slipstream.core.env import SchedulingEnv
from slipstream.core.features import FeatureTable
from tests.kernels import KernelLane, compare_choice, compare_step
from tests.reference.cluster_rows import ReferenceCluster
from tests.strategies import often_eager_action

MOST_CHOICES = 2_000


class KernelCluster(KernelLane):
    """One episode of the compiled kernel, stopped at each choice."""

    family = FAMILY


def smallest_log(scenario: ClusterScenario) -> int:
    """Return the fewest rows that a log may have: one more than an event and the choice before it may write."""
    return FAMILY.log_margin(scenario) + 1


def compare_observation(kernel: KernelCluster, reference: ReferenceCluster) -> None:
    """Assert that every raw number at this choice is the same, to the last bit."""
    where = f"at choice {reference.choices - 1}"
    assert kernel.globals() == reference.globals(), where
    assert kernel.mask() == reference.mask(), where
    assert kernel.rows() == reference.rows(), where


def compare_episode(kernel: KernelCluster, reference: ReferenceCluster, script: int, observe_every: int = 1) -> None:
    """Drive both through the same scripted episode and assert that nothing tells them apart."""
    compare_choice(kernel, reference)
    while not reference.over and reference.choices <= MOST_CHOICES:
        if (reference.choices + script) % observe_every == 0:
            compare_observation(kernel, reference)
        action = often_eager_action(script, reference.choices - 1, reference.mask())
        kernel.step(action)
        reference.step(action)
        compare_choice(kernel, reference)
        compare_step(kernel, reference)
    assert kernel.log == reference.log
    if reference.over:
        check(kernel.events, reference.scenario)


def compare_observed(scenario: ClusterScenario, seed: int, script: int, most_choices: int) -> None:
    """Assert that an agent sees the image of the rows and globals of the reference, in a lane used before."""
    env = SchedulingEnv("cluster", scenario, namespace="test")
    _, info = env.reset(seed=seed ^ 1)
    for number in range(12):
        if not info["action_mask"].any():
            break
        info = env.step(often_eager_action(script + 1, number, info["action_mask"]))[4]
    observation, info = env.reset(seed=seed)
    reference = ReferenceCluster(scenario, seed)
    while not reference.over and reference.choices <= most_choices:
        compare_images(observation, info["action_mask"], reference)
        action = often_eager_action(script, reference.choices, info["action_mask"].tolist())
        observation, reward, terminated, truncated, info = env.step(action)
        reference.step(action)
        assert (reward, terminated, truncated) == (reference.reward, reference.terminated, reference.truncated)
    if reference.over:
        assert not info["action_mask"].any()


def compare_images(observation: dict[str, np.ndarray], mask: np.ndarray, reference: ReferenceCluster) -> None:
    """Assert that an observation is the scaled and clipped image of what the reference shows."""
    width = reference.width
    legal, rows = reference.mask(), reference.rows()
    assert mask.tolist() == [*legal[:width], legal[-1]]
    shown = [[row[name] for name in features.CANDIDATE.names] for row in [*rows[:width], rows[-1]]]
    assert np.array_equal(observation["candidates"], image(features.CANDIDATE, np.array(shown)))
    whole = reference.globals()
    expected = image(features.GLOBAL, np.array([whole[name] for name in features.GLOBAL.names]))
    assert np.array_equal(observation["globals"], expected)


def image(table: FeatureTable, values: np.ndarray) -> np.ndarray:
    """Return raw values as an agent sees them."""
    scale, low, high = table.observed.image()
    return np.clip(values[..., : len(scale)] * scale, low, high).astype(np.float32)
