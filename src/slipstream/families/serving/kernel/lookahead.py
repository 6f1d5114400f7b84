"""Demand scenarios until the next plan: rates of each model, and their probabilities.

The present rate goes on, drifts up, or a burst comes. A burst is as high as the highest rate that is still remembered,
and as probable as such bursts were before. Until the first sample, a peak of twice the mean rate is assumed, as daily
swings and the bursts of published traces have it. Rates above all peaks have a small probability too: of deployments
that bear all other scenarios, the one with the most spare capacity has the greatest value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.serving.plans import PlanningState

DRIFT, DRIFT_PROBABILITY = 1.2, 0.25
"""Factor by which the rate may exceed the forecast without a burst, and the probability of that."""
PEAK_TO_MEAN = 2.0
"""Assumed peak before the first sample, as a multiple of the mean rate."""
PEAK_DECAY = 0.97
"""Factor on a remembered peak after each plan without it."""
BURST = 1.5
"""Rate at which a burst begins, as a multiple of the last plan's."""
PRIOR_BURSTS, PRIOR_PLANS = 1.0, 10.0
"""Prior of the burst probability: bursts counted, and the plans that they are counted in."""
COUNT_DECAY = 0.97
"""Factor on the counts of bursts and plans after each plan."""
UNSEEN_FACTOR = 1.5
"""Rate of the scenario above all peaks, as a multiple of the peak."""
SURPRISE_SIGMAS = 3.0
"""Standard deviations of a Poisson number by which the last sample must exceed the forecast to replace it at once."""


@dataclass(frozen=True)
class DemandScenarios:
    """Rates that may come, one row per scenario, and the weight of each request of them: probability times rate."""

    rates: np.ndarray
    weights: np.ndarray

    @property
    def expected(self) -> np.ndarray:
        """Most probable rate of each model."""
        return np.asarray(self.rates[0])


def certain(rates: np.ndarray) -> DemandScenarios:
    """Return the demand of which these rates are known."""
    return DemandScenarios(rates[np.newaxis], rates[np.newaxis])


class DemandModel:
    """Probabilities of demand scenarios, learned from the rates of an episode."""

    def __init__(self, unseen_probability: float = 0.0) -> None:
        """Begin without history; `unseen_probability` is that of rates above all peaks."""
        self._unseen_probability = unseen_probability
        self._last = self._peak = self._bursts = self._opportunities = np.zeros(0)

    def predict(self, state: PlanningState) -> DemandScenarios:
        """Return the demand scenarios until the next plan, and update the history with the rates of `state`."""
        current = np.where(
            state.observed > state.demand + SURPRISE_SIGMAS * np.sqrt(state.demand) + 1.0, state.observed, state.demand
        )
        if state.first or len(self._last) != state.models:
            self._peak = PEAK_TO_MEAN * current
            self._bursts, self._opportunities = np.zeros(state.models), np.zeros(state.models)
        else:
            begins = current > BURST * self._last
            # A rate near its peak leaves no burst to begin.
            possible = (BURST * self._last < self._peak) | begins
            self._bursts = COUNT_DECAY * self._bursts + begins
            self._opportunities = COUNT_DECAY * self._opportunities + possible
            self._peak = np.maximum(current, PEAK_DECAY * self._peak + (1.0 - PEAK_DECAY) * current)
        self._last = current
        burst = (PRIOR_BURSTS + self._bursts) / (PRIOR_PLANS + self._opportunities)
        peak = np.maximum(self._peak, DRIFT * current)
        rates = np.stack((current, DRIFT * current, peak, UNSEEN_FACTOR * peak))
        quiet = (1.0 - self._unseen_probability) * (1.0 - burst)
        unseen = np.full(state.models, self._unseen_probability)
        probability = np.stack(
            (
                (1.0 - DRIFT_PROBABILITY) * quiet,
                DRIFT_PROBABILITY * quiet,
                (1.0 - self._unseen_probability) * burst,
                unseen,
            )
        )
        return DemandScenarios(rates, probability * rates)
