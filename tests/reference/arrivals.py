"""When the jobs of a task are released, and how far apart a policy may expect them to be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from slipstream.families.edge.scenario import Arrival, Bursty, External, Periodic, Poisson, Trace
from tests.reference.numbers import Draws


def ns(milliseconds: float) -> int:
    """Return the nearest whole number of nanoseconds."""
    return round(milliseconds * 1e6)


def periodic_releases(arrival: Periodic, draws: Draws) -> Iterator[int]:
    """Yield the nominal releases, each with its own delay."""
    period, phase, jitter = ns(arrival.period_ms), ns(arrival.phase_ms), ns(arrival.jitter_ms)
    for k in count():
        delay = int(jitter * draws.uniform()) if jitter > 0 else 0
        yield phase + k * period + delay


def poisson_releases(arrival: Poisson | External, draws: Draws) -> Iterator[int]:
    """Yield releases with independent exponential gaps."""
    time = 0
    while True:
        time += draws.gap(ns(arrival.mean_gap_ms))
        yield time


def bursty_releases(arrival: Bursty, draws: Draws, horizon: int) -> Iterator[int]:
    """Yield the releases of a Poisson process whose gap depends on the spell, calm (0) or burst (1)."""
    gap = (ns(arrival.calm_gap_ms), ns(arrival.burst_gap_ms))
    spell = (ns(arrival.calm_ms), ns(arrival.burst_ms))
    state = 1 if draws.uniform() < float(spell[1]) / float(spell[0] + spell[1]) else 0
    spell_end = draws.gap(spell[state])
    time = 0
    # Beyond the horizon nothing can be released, however many spells it would take to find the time.
    while time < horizon:
        candidate = time + draws.gap(gap[state])
        if candidate <= spell_end:
            time = candidate
            yield time
        else:
            # The gap has no memory, so what is left of it is drawn afresh in the new state.
            time = spell_end
            state = 1 - state
            spell_end = time + draws.gap(spell[state])


def releases_of(arrival: Arrival, draws: Draws, trace: list[int], horizon: int) -> Iterator[int]:
    """Return the releases of a task that do not depend on what becomes of its jobs."""
    if isinstance(arrival, Periodic):
        return periodic_releases(arrival, draws)
    if isinstance(arrival, Poisson | External):
        return poisson_releases(arrival, draws)
    if isinstance(arrival, Bursty):
        return bursty_releases(arrival, draws, horizon)
    if isinstance(arrival, Trace):
        return iter(trace)
    return iter([ns(arrival.phase_ms)])


def mean_gap(arrival: Arrival, fastest: int, trace: list[int], horizon: int) -> int:
    """Return the mean time between releases as a policy may know it."""
    if isinstance(arrival, Periodic):
        return ns(arrival.period_ms)
    if isinstance(arrival, Poisson | External):
        return ns(arrival.mean_gap_ms)
    if isinstance(arrival, Bursty):
        calm, burst = float(ns(arrival.calm_ms)), float(ns(arrival.burst_ms))
        calm_gap, burst_gap = float(ns(arrival.calm_gap_ms)), float(ns(arrival.burst_gap_ms))
        return round((calm + burst) / (calm / calm_gap + burst / burst_gap))
    if isinstance(arrival, Trace):
        if len(trace) > 1 and trace[-1] > trace[0]:
            return round((trace[-1] - trace[0]) / (len(trace) - 1))
        return horizon
    return ns(arrival.think_ms) + fastest
