"""Evolution: improve a vector of numbers by what samples around it cost, without gradients (CMA-ES).

Covariance matrix adaptation as in Hansen, "The CMA Evolution Strategy: A Tutorial" (2016), with its default constants
and positive weights. Only the order of the costs counts, so they may be noisy and of any scale.
"""

from __future__ import annotations

import numpy as np


class Evolution:
    """A normal distribution that moves to where costs are low."""

    def __init__(self, start: np.ndarray, spread: float, seed: int, population: int | None = None) -> None:
        """`spread` is the standard deviation of every number at first."""
        size = len(start)
        self.mean, self.spread = np.array(start, float), float(spread)
        self.population = population or 4 + int(3 * np.log(size))
        self.generation = 0
        self._rng = np.random.default_rng(seed)
        parents = self.population // 2
        weights = np.log((self.population + 1) / 2) - np.log(np.arange(1, parents + 1))
        self._weights = weights / weights.sum()
        mass = self._mass = 1.0 / float((self._weights**2).sum())
        self._path_rate = (4 + mass / size) / (size + 4 + 2 * mass / size)
        self._step_rate = (mass + 2) / (size + mass + 5)
        self._damping = 1 + 2 * max(0.0, np.sqrt((mass - 1) / (size + 1)) - 1) + self._step_rate
        self._rank_one = 2 / ((size + 1.3) ** 2 + mass)
        self._rank_many = min(1 - self._rank_one, 2 * (mass - 2 + 1 / mass) / ((size + 2) ** 2 + mass))
        self._usual_length = np.sqrt(size) * (1 - 1 / (4 * size) + 1 / (21 * size**2))
        self._covariance = np.eye(size)
        self._path, self._step_path = np.zeros(size), np.zeros(size)
        self._steps = np.zeros((self.population, size))
        self._root = self._inverse_root = np.eye(size)

    def ask(self) -> np.ndarray:
        """Return samples to try, one a row."""
        self._steps = self._rng.standard_normal((self.population, len(self.mean))) @ self._root
        return np.asarray(self.mean + self.spread * self._steps)

    def tell(self, costs: np.ndarray) -> None:
        """Learn from the costs of the samples that were asked for."""
        self.generation += 1
        best = self._steps[np.argsort(costs, kind="stable")[: len(self._weights)]]
        step = self._weights @ best
        self.mean = self.mean + self.spread * step
        rate = self._step_rate
        self._step_path = (1 - rate) * self._step_path
        self._step_path += np.sqrt(rate * (2 - rate) * self._mass) * (step @ self._inverse_root)
        length = float(np.linalg.norm(self._step_path))
        settled = np.sqrt(1 - (1 - rate) ** (2 * self.generation))
        moving = length / settled < (1.4 + 2 / (len(step) + 1)) * self._usual_length
        rate = self._path_rate
        self._path = (1 - rate) * self._path
        if moving:
            self._path += np.sqrt(rate * (2 - rate) * self._mass) * step
        lost = 0.0 if moving else self._rank_one * rate * (2 - rate)
        self._covariance *= 1 - self._rank_one - self._rank_many + lost
        self._covariance += self._rank_one * np.outer(self._path, self._path)
        self._covariance += self._rank_many * (best.T * self._weights) @ best
        self.spread *= float(np.exp(self._step_rate / self._damping * (length / self._usual_length - 1)))
        values, vectors = np.linalg.eigh((self._covariance + self._covariance.T) / 2)
        roots = np.sqrt(np.maximum(values, 1e-20))
        self._root = (vectors * roots) @ vectors.T
        self._inverse_root = (vectors / roots) @ vectors.T
