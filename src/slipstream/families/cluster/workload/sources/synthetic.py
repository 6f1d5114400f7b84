"""Seeded generators of workloads, from NumPy's counter-based generator: a seed gives the same jobs anywhere."""

from __future__ import annotations

import math

import numpy as np

from slipstream.families.cluster.scenario import Generated, Lublin, SyntheticJobs
from slipstream.families.cluster.workload.arrivals import RawJobs

DAY_S = 86_400.0

# Lublin and Feitelson, "The workload on parallel supercomputers", JPDC 63 (2003): all jobs alike. The numbers are those
# of their program, lublin99.c of the Parallel Workloads Archive, for jobs of no type.
SERIAL, POWER_OF_TWO = 0.244, 0.576
"""Shares of jobs with one processor, and with a power of two: of all jobs in their program, of the others unless
`as_published`."""
LOW, MEDIUM_BELOW_HIGH, SMALL = 0.8, 2.5, 0.86
"""Two-stage uniform of log2 of the size: low end, distance of the middle from the high end, share below the middle."""
SHORT, LONG = (4.2, 0.94), (312.0, 0.03)
"""Gammas (shape, scale) of the natural logarithm of the run time."""
SHARE_SLOPE, SHARE_AT_ZERO = -0.0054, 0.78
"""Share of short jobs, linear in the size."""
GAP, RUSH_TO_ALL = (10.2303, 0.4871), 1.0225
"""Gamma of the natural logarithm of the gap in seconds, in busy hours; its shape times that is for all hours."""
ROUNDED_GAP = (10.23, 0.4871)
"""Unless `as_published`: of log2 of the gap, in the hours of a working day."""
HOURS, BUCKETS, DAY_BEGINS = (8.1737, 3.9631), 48, 11
"""Gamma of the arrival time in half-hours; the day of the model begins with the eleventh of them."""
LONGEST, LONGEST_GAP = 12.0, 13.0
"""Greatest logarithms of run times and gaps; greater draws are repeated."""
NIGHT = 0.35
"""Arrival rate by night, in multiples of that by day."""


def lublin(source: Lublin) -> RawJobs:
    """Return jobs after the model of Lublin and Feitelson, at the load of `source`."""
    rng = np.random.Generator(np.random.Philox(source.seed))
    if source.as_published:
        return _lublin_as_published(source, rng)
    count = source.jobs
    high = math.log2(source.largest) if source.largest > 1 else 0.0
    middle = max(min(LOW, high), high - MEDIUM_BELOW_HIGH)
    low = min(LOW, middle)
    below = rng.random(count) < SMALL
    exponent = np.where(below, rng.uniform(low, middle, count), rng.uniform(middle, max(high, middle), count))
    rounded = np.where(rng.random(count) < POWER_OF_TWO, 2.0 ** np.rint(exponent), np.rint(2.0**exponent))
    gpus = np.clip(np.where(rng.random(count) < SERIAL, 1, rounded), 1, source.largest).astype(np.int64)
    short = rng.random(count) < np.clip(SHARE_SLOPE * gpus + SHARE_AT_ZERO, 0.0, 1.0)
    logarithm = np.where(short, rng.gamma(*SHORT, count), rng.gamma(*LONG, count))
    run = np.maximum(1.0, np.rint(np.exp(np.minimum(logarithm, 12.0))))
    gaps = 2.0 ** np.minimum(rng.gamma(*ROUNDED_GAP, count), 20.0)
    # One factor scales the gaps from the load that they were drawn with to the one asked for.
    gaps *= (run * gpus).sum() / (source.load * source.largest) / gaps.sum()
    return _raw(source, rng, _with_nights(gaps), run, gpus)


def _lublin_as_published(source: Lublin, rng: np.random.Generator) -> RawJobs:
    """Return jobs as the authors' program draws them, except for one factor on the gaps that sets the load."""
    count = source.jobs
    high = max(LOW, math.log2(source.largest))
    middle = max(LOW, high - MEDIUM_BELOW_HIGH)
    below, draw = rng.random(count) < SMALL, rng.random(count)
    exponent = np.where(below, rng.uniform(LOW, middle, count), rng.uniform(middle, high, count))
    exponent = np.where(draw <= SERIAL + POWER_OF_TWO, np.rint(exponent), exponent)
    gpus = np.clip(np.where(draw <= SERIAL, 1, np.rint(2.0**exponent)), 1, source.largest).astype(np.int64)
    short = rng.random(count) < np.clip(SHARE_SLOPE * gpus + SHARE_AT_ZERO, 0.0, 1.0)
    logarithm = np.where(short, _below(rng, SHORT, LONGEST, count), _below(rng, LONG, LONGEST, count))
    run = np.maximum(1.0, np.floor(np.exp(logarithm)))
    gaps = np.exp(_below(rng, (GAP[0] * RUSH_TO_ALL, GAP[1]), LONGEST_GAP, count))
    gaps *= (run * gpus).sum() / (source.load * source.largest) / gaps.sum()
    return _raw(source, rng, _on_clock(gaps, arrival_rates()), run, gpus)


def _below(rng: np.random.Generator, shape: tuple[float, float], most: float, count: int) -> np.ndarray:
    """Return `count` gamma draws, each repeated until it is at most `most`."""
    values = rng.gamma(*shape, count)
    while (values > most).any():
        values = np.where(values > most, rng.gamma(*shape, count), values)
    return values


def arrival_rates() -> np.ndarray:
    """Return the arrival rate of each half-hour of a day, in multiples of the mean."""
    shape, scale = HOURS
    # Numerical integral of the density: the gamma distribution function would need another library.
    fine = np.linspace(0.5, DAY_BEGINS + BUCKETS, 20_000)
    density = np.exp((shape - 1.0) * np.log(fine) - fine / scale)
    passed = np.cumsum(density)
    edges = np.interp(np.arange(DAY_BEGINS, DAY_BEGINS + BUCKETS + 1) - 0.5, fine, passed)
    rates = np.roll(np.diff(edges), DAY_BEGINS - 1)
    return np.asarray(rates / rates.mean())


def _with_nights(gaps: np.ndarray) -> np.ndarray:
    """Return submit times at the day rate from eight to eighteen o'clock and at the night rate otherwise."""
    rates = np.array([1.0 if 8 <= hour < 18 else NIGHT for hour in range(24)])
    return _on_clock(gaps, rates * 24.0 / rates.sum())


def _on_clock(gaps: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Return submit times whose rate follows `rates`, those of equal parts of a day in multiples of the mean."""
    # Time is warped: each part of the day passes at its rate on a clock on which arrivals are uniform.
    length = DAY_S / len(rates)
    ends = np.concatenate(([0.0], np.cumsum(rates * length)))
    days, rest = np.divmod(np.cumsum(gaps), DAY_S)
    return np.asarray(np.rint(days * DAY_S + np.interp(rest, ends, np.arange(len(rates) + 1) * length)))


def jobs(source: SyntheticJobs) -> RawJobs:
    """Return jobs with the gaps, run times and sizes that `source` asks for."""
    rng = np.random.Generator(np.random.Philox(source.seed))
    count = source.jobs
    gaps = rng.exponential(source.gap_s, count)
    if source.arrivals == "bursty":
        # Bursts of twenty, at a tenth of the gap; the lull before each makes up for it.
        gaps *= np.where(np.arange(count) % 20 == 0, 20.0 - 19 * 0.1, 0.1)
    submit = np.cumsum(gaps)
    if source.arrivals == "diurnal":
        submit = _with_wave(submit)
    if source.run_times == "exponential":
        run = rng.exponential(source.mean_run_s, count)
    elif source.run_times == "lognormal":
        run = rng.lognormal(math.log(source.mean_run_s) - 1.5**2 / 2.0, 1.5, count)
    else:
        # A Pareto of exponent 1.5 has the mean 3 where it begins at 1.
        run = np.minimum((1.0 + rng.pareto(1.5, count)) / 3.0, 1000.0) * source.mean_run_s
    weights = np.ones(len(source.sizes)) if source.size_weights is None else np.array(source.size_weights)
    gpus = rng.choice(np.array(source.sizes, np.int64), count, p=weights / weights.sum())
    return _raw(source, rng, submit, np.maximum(run, 1e-3), gpus)


def _with_wave(even: np.ndarray) -> np.ndarray:
    """Return submit times whose rate is 1 - 0.6 cos(time of day): four to one between noon and midnight."""
    grid = np.linspace(0.0, DAY_S, 1441)
    passed = grid - 0.6 * DAY_S / (2.0 * math.pi) * np.sin(2.0 * math.pi * grid / DAY_S)
    days, rest = np.divmod(even, DAY_S)
    return np.asarray(days * DAY_S + np.interp(rest, passed, grid))


def _raw(source: Generated, rng: np.random.Generator, submit: np.ndarray, run: np.ndarray, gpus: np.ndarray) -> RawJobs:
    weights = 1.0 / np.arange(1, source.users + 1)
    users = rng.choice(source.users, source.jobs, p=weights / weights.sum())
    factor = rng.uniform(1.0, source.most_overestimate, source.jobs)
    requested = run * factor if source.most_overestimate > 1.0 else np.full(source.jobs, np.nan)
    return RawJobs(range(source.jobs), submit, run, requested, gpus, [f"user {user + 1}" for user in users.tolist()])
