"""Advantages and returns when the time between choices varies.

Returns are discounted by elapsed simulated time: a reward after time `t` counts exp(-t / horizon), so choices at the
same instant are not discounted against each other. A truncated episode is bootstrapped with the value of its last
observation; a terminated one is not.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from slipstream.learn.compiled.collect import ENDED

Horizon: TypeAlias = float | np.ndarray
"""A discount horizon in ns: one for all lanes, or (lanes, 1)."""


def discounts(elapsed: np.ndarray, horizon: Horizon) -> np.ndarray:
    """Return the discount factor of every step, exp(-`elapsed` / `horizon`), both in the same unit."""
    factors: np.ndarray = np.exp(-elapsed / horizon)
    return factors


def generalised_advantages(
    reward: np.ndarray,
    value: np.ndarray,
    next_value: np.ndarray,
    ended: np.ndarray,
    discount: np.ndarray,
    gae_lambda: float,
    length: np.ndarray,
) -> np.ndarray:
    """Return the generalised advantage estimates (Schulman et al. 2016) of (lanes, steps) choices.

    `next_value` is the value after a step that was truncated or is the last of its lane; `length` is the number of
    steps of each lane.
    """
    lanes, steps = reward.shape
    advantages = np.zeros((lanes, steps))
    running, following = np.zeros(lanes), np.zeros(lanes)
    for step in range(steps - 1, -1, -1):
        counts = step < length
        last = (step == length - 1) | (ended[:, step] != 0)
        following = np.where(last, np.where(ended[:, step] == ENDED, 0.0, next_value[:, step]), following)
        delta = reward[:, step] + discount[:, step] * following - value[:, step]
        running = delta + np.where(last, 0.0, discount[:, step] * gae_lambda * running)
        running = np.where(counts, running, 0.0)
        advantages[:, step] = running
        following = np.where(counts, value[:, step], following)
    return advantages


def returns_to_go(
    reward: np.ndarray, next_value: np.ndarray, ended: np.ndarray, discount: np.ndarray, length: np.ndarray
) -> np.ndarray:
    """Return the discounted sum of rewards from every step on; a truncated episode adds its bootstrap value."""
    zeros = np.zeros_like(next_value)
    return generalised_advantages(reward, zeros, next_value, ended, discount, 1.0, length)
