"""One thread for torch, so that training repeats, and the small scenario that all libraries train on."""

import pytest

import slipstream
from slipstream.families.edge.workload.generator import Settings, generate
from tests.learn.conftest import one_thread_for_torch

__all__ = ["one_thread_for_torch", "random_reward", "small"]


@pytest.fixture(scope="session")
def small():
    """Three tasks, more work than the streams can do, half a second of it: the scenario of the examples."""
    return generate(Settings(periodic_tasks=1, poisson_tasks=2, utilisation=1, rate_hz=200, horizon_ms=500), seed=0)


@pytest.fixture(scope="session")
def random_reward(small):
    """What random legal rows earn: a policy that learned to choose earns more, not only one that learned the mask."""
    return slipstream.evaluate(small, "random", episodes=30, seed=0).mean("reward")
