"""What may be asked for until the next plan: rates of each model, and how likely they are.

What was seen last goes on, a little more comes, or a burst. A burst is as high as the highest rate that is still
remembered, and as likely as such bursts were so far; before any was seen, a peak of twice the mean rate is thought
possible, as daily swings and the bursts of published traces have it. More than that may come too, if hardly ever: of
hostings that can bear all the rest, the one with the most to spare is worth the most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.serving.plans import Situation

MORE, MORE_CHANCE = 1.2, 0.25
"""By how much the rate may exceed the forecast without a burst, and how likely that is."""
PEAK_TO_MEAN = 2.0
"""Peak, as a multiple of the mean rate, before anything was seen."""
FADING = 0.97
"""What is left of a peak after a plan without it."""
BURST = 1.5
"""Rate, as a multiple of the last plan's, that counts as the beginning of a burst."""
PRIOR_BURSTS, PRIOR_PLANS = 1.0, 10.0
"""Bursts that count as seen before the first plan, in so many plans."""
FORGETTING = 0.97
"""What is left of a count after each plan."""
BEYOND = 1.5
"""What may come that was never seen, as a multiple of the peak."""
SURPRISE = 3.0
"""Standard deviations of a Poisson number by which the last sample must exceed the forecast to be believed at once."""


@dataclass(frozen=True)
class Demand:
    """Rates that may come, one row each, and the weight of every request of them: likelihood times rate."""

    rates: np.ndarray
    weights: np.ndarray

    @property
    def level(self) -> np.ndarray:
        """What is most likely, of each model."""
        return np.asarray(self.rates[0])


class Outlook:
    """A memory of the rates of an episode."""

    def __init__(self, beyond: float = 0.0) -> None:
        """Begin with nothing; `beyond` is the chance of more than a burst."""
        self._beyond = beyond
        self._level = self._peak = self._bursts = self._chances = np.zeros(0)

    def look(self, now: Situation) -> Demand:
        """Return what may come after this plan."""
        level = np.where(now.seen > now.demand + SURPRISE * np.sqrt(now.demand) + 1.0, now.seen, now.demand)
        if now.first:
            self._peak = PEAK_TO_MEAN * level
            self._bursts, self._chances = np.zeros(now.models), np.zeros(now.models)
        else:
            begins = level > BURST * self._level
            # Where the rate was near its peak, no burst could begin.
            possible = (BURST * self._level < self._peak) | begins
            self._bursts = FORGETTING * self._bursts + begins
            self._chances = FORGETTING * self._chances + possible
            self._peak = np.maximum(level, FADING * self._peak + (1.0 - FADING) * level)
        self._level = level
        burst = (PRIOR_BURSTS + self._bursts) / (PRIOR_PLANS + self._chances)
        peak = np.maximum(self._peak, MORE * level)
        rates = np.stack((level, MORE * level, peak, BEYOND * peak))
        quiet = (1.0 - self._beyond) * (1.0 - burst)
        beyond = np.full(now.models, self._beyond)
        likely = np.stack(((1.0 - MORE_CHANCE) * quiet, MORE_CHANCE * quiet, (1.0 - self._beyond) * burst, beyond))
        return Demand(rates, likely * rates)
