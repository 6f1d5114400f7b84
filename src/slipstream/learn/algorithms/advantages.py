"""How much better a choice was than expected, when the time between choices varies.

Returns are discounted by elapsed simulated time: what comes `t` later counts exp(-t / horizon), so two choices at the
same instant are not discounted against each other. An episode that was cut off goes on in the estimate by the value of
what was seen last; one that ended does not.
"""

from __future__ import annotations

import numpy as np

from slipstream.learn.compiled.collect import ENDED


def discounts(elapsed: np.ndarray, horizon: float) -> np.ndarray:
    """Return the factor by which every step discounts what follows; times in the unit of the horizon."""
    factors: np.ndarray = np.exp(-elapsed / horizon)
    return factors


def generalised_advantages(
    reward: np.ndarray,
    value: np.ndarray,
    after: np.ndarray,
    ended: np.ndarray,
    discount: np.ndarray,
    trace: float,
    length: np.ndarray,
) -> np.ndarray:
    """Return the generalised advantage estimates (Schulman et al. 2016) of (lanes, steps) choices.

    `after` is what was expected after a step that was cut off or is a lane's last; `trace` is their lambda; `length`
    how many steps of each lane count.
    """
    lanes, steps = reward.shape
    advantages = np.zeros((lanes, steps))
    running, following = np.zeros(lanes), np.zeros(lanes)
    for step in range(steps - 1, -1, -1):
        counts = step < length
        last = (step == length - 1) | (ended[:, step] != 0)
        following = np.where(last, np.where(ended[:, step] == ENDED, 0.0, after[:, step]), following)
        surprise = reward[:, step] + discount[:, step] * following - value[:, step]
        running = surprise + np.where(last, 0.0, discount[:, step] * trace * running)
        running = np.where(counts, running, 0.0)
        advantages[:, step] = running
        following = np.where(counts, value[:, step], following)
    return advantages


def returns_to_go(
    reward: np.ndarray, after: np.ndarray, ended: np.ndarray, discount: np.ndarray, length: np.ndarray
) -> np.ndarray:
    """Return the discounted sum of what every step and those after it brought; a cut-off counts what was expected."""
    nothing = np.zeros_like(after)
    return generalised_advantages(reward, nothing, after, ended, discount, 1.0, length)
