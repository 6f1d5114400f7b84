"""Evolution finds the least of a function from the order of its values alone."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.evolution import Evolution

GOAL = np.array([1.0, -2.0, 0.5, 3.0])


def stretched(points: np.ndarray) -> np.ndarray:
    """A valley that is a hundred times as steep in one direction as in another, and slanted."""
    gaps = (points - GOAL) @ np.linalg.qr(np.arange(16.0).reshape(4, 4) + np.eye(4))[0]
    return np.asarray((gaps**2 * np.array([1.0, 10.0, 100.0, 1000.0])).sum(axis=1))


def improved(generations: int, seed: int = 0, noise: float = 0.0) -> Evolution:
    evolution = Evolution(np.zeros(4), 0.5, seed)
    rng = np.random.default_rng(1)
    for _ in range(generations):
        evolution.tell(stretched(evolution.ask()) + noise * rng.standard_normal(evolution.population))
    return evolution


def test_it_finds_the_bottom_of_a_slanted_valley() -> None:
    assert np.allclose(improved(250).mean, GOAL, atol=1e-4)


def test_the_same_seed_gives_the_same_numbers() -> None:
    assert np.array_equal(improved(20).mean, improved(20).mean)
    assert not np.array_equal(improved(20).mean, improved(20, seed=1).mean)


def test_only_the_order_of_costs_counts() -> None:
    plain, bent = Evolution(np.zeros(4), 0.5, 0), Evolution(np.zeros(4), 0.5, 0)
    for _ in range(10):
        plain.tell(stretched(plain.ask()))
        bent.tell(np.log(stretched(bent.ask())))
    assert np.array_equal(plain.mean, bent.mean)


@pytest.mark.parametrize("population", [6, 20])
def test_it_asks_for_as_many_samples_as_it_was_told(population: int) -> None:
    assert Evolution(np.zeros(3), 1.0, 0, population).ask().shape == (population, 3)


def test_noise_does_not_keep_it_from_coming_near() -> None:
    assert stretched(improved(250, noise=1.0).mean[None])[0] < 0.02 * stretched(np.zeros((1, 4)))[0]
