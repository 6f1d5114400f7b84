"""The comparison of a compiled kernel with its reference, choice by choice and number by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slipstream.envs.env import SchedulingEnv
from slipstream.families.shared.features import FeatureTable
from tests.kernels import KernelLane
from tests.subjects import Subject

MOST_CHOICES = 20_000


def compare_choice(kernel: KernelLane, reference: Any) -> None:
    """Assert that both have come to the same point."""
    where = f"at choice {reference.choices - 1}"
    assert (kernel.now, kernel.choices, kernel.asked) == (reference.now, reference.choices, reference.asked), where
    assert (kernel.terminated, kernel.truncated) == (reference.terminated, reference.truncated), where


def compare_step(kernel: KernelLane, reference: Any) -> None:
    """Assert that the last step gave the same."""
    where = f"before choice {reference.choices - 1}"
    assert kernel.terms == reference.terms, where
    assert kernel.reward == reference.reward, where
    assert (kernel.illegal, kernel.elapsed) == (reference.illegal, reference.elapsed), where


def compare_observation(kernel: KernelLane, reference: Any) -> None:
    """Assert that every raw number at this choice is the same, to the last bit."""
    where = f"at choice {reference.choices - 1}"
    assert kernel.globals() == reference.globals(), where
    assert kernel.mask() == reference.mask(), where
    assert kernel.rows() == reference.rows(), where


def compare_episode(
    subject: Subject,
    kernel: KernelLane,
    reference: Any,
    script: int,
    observe_every: int = 1,
    most_choices: int = MOST_CHOICES,
) -> None:
    """Drive both through the same scripted episode and assert that nothing tells them apart.

    The observation is compared at every `observe_every`-th choice, all else at each.
    """
    compare_choice(kernel, reference)
    while not reference.over and reference.choices <= most_choices:
        if (reference.choices + script) % observe_every == 0:
            compare_observation(kernel, reference)
        action = subject.act(script, reference.choices - 1, reference.mask())
        kernel.step(action)
        reference.step(action)
        compare_choice(kernel, reference)
        compare_step(kernel, reference)
    assert kernel.log == reference.log
    if reference.over:
        subject.check_laws(kernel.events, reference.scenario)


def compare_after_another(
    subject: Subject, scenario: Any, seed: int, script: int, steps: int, log_rows: int = 1024, **options: int
) -> None:
    """Compare an episode in a lane in which another went before, for some steps."""
    kernel = KernelLane(scenario, seed ^ 1, log_rows=log_rows)
    while not kernel.over and kernel.choices <= steps:
        kernel.step(subject.act(script + 1, kernel.choices, kernel.mask()))
    kernel.restart(seed)
    compare_episode(subject, kernel, subject.reference(scenario, seed), script, **options)


def compare_observed(subject: Subject, scenario: Any, seed: int, script: int, most_choices: int) -> None:
    """Assert that an agent sees the image of what the reference shows, in a lane used before."""
    env = SchedulingEnv(subject.name, scenario, split="test")
    _, info = env.reset(seed=seed ^ 1)
    for number in range(12):
        if not info["action_mask"].any():
            break
        info = env.step(subject.act(script + 1, number, info["action_mask"].tolist()))[4]
    observation, info = env.reset(seed=seed)
    reference = subject.reference(scenario, seed)
    while not reference.over and reference.choices <= most_choices:
        compare_images(subject, observation, info["action_mask"], reference)
        action = subject.act(script, reference.choices, info["action_mask"].tolist())
        observation, reward, terminated, truncated, info = env.step(action)
        reference.step(action)
        assert (reward, terminated, truncated) == (reference.reward, reference.terminated, reference.truncated)
    if reference.over and "nodes" in observation:
        assert not info["action_mask"].any()
        assert (observation["node_job"] == -1).all()
        assert (observation["edges"] == -1).all()
        assert not observation["nodes"].any()


def compare_images(subject: Subject, observation: Mapping[str, np.ndarray], mask: np.ndarray, reference: Any) -> None:
    """Assert that an observation is the scaled and clipped image of what the reference shows."""
    candidates, whole = subject.family.candidate_features, subject.family.global_features
    width = len(mask) - 1
    legal, rows = reference.mask(), reference.rows()
    assert mask.tolist() == [*legal[:width], legal[-1]]
    assert np.array_equal(observation["candidates"], image(candidates, [*rows[:width], rows[-1]]))
    assert np.array_equal(observation["globals"], image(whole, [reference.globals()])[0])
    if "nodes" in observation:
        compare_graphs(subject.family.node_features, observation, reference)


def compare_graphs(table: FeatureTable, observation: Mapping[str, np.ndarray], reference: Any) -> None:
    """Assert that the graph in an observation is that of the reference, and nothing stands behind it."""
    nodes, jobs, edges, candidates = reference.graph()
    count = len(nodes)
    assert np.array_equal(observation["nodes"][:count], image(table, nodes))
    assert not observation["nodes"][count:].any()
    assert observation["node_job"].tolist() == jobs + [-1] * (len(observation["node_job"]) - count)
    pairs = [tuple(pair) for pair in observation["edges"].T.tolist()]
    assert pairs == edges + [(-1, -1)] * (len(pairs) - len(edges))
    assert observation["candidate_node"].tolist() == candidates


def image(table: FeatureTable, rows: Sequence[Mapping[str, float]]) -> np.ndarray:
    """Return rows as an agent sees them."""
    scale, low, high = table.observed.image()
    values = np.array([[row[name] for name in table.names] for row in rows])
    return np.clip(values[:, : len(scale)] * scale, low, high).astype(np.float32)
