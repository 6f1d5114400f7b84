"""Shares of time for all jobs at once, as linear programs on the HiGHS that comes with SciPy.

A column is a configuration of a job: GPUs of one kind. x is the share of the time in which the job has it. In all
programs the shares of a job sum to at most 1, and GPUs x share over the columns of a kind to at most its GPUs. What
differs is the aim. They are the policies of Gavel (Narayanan et al., OSDI'20), where a job has one column for each
kind; jobs with several numbers of GPUs on a kind have more.

The programs have many optima, and which one is taken decides results. HiGHS's interior point method with crossover is
used because its choice is close to that of Gavel's interior point solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BOTTLENECK = 1e-4
"""Least price of a job's bound, relative to the greatest, at which the bound is a bottleneck."""
CLOSE = 1e-4
"""Relative gain at which the search for the least finish-time ratio ends."""
STEPS = 50
"""Most steps of that search."""


@dataclass(frozen=True)
class Columns:
    """Unfinished jobs and their configurations; times in seconds."""

    job: np.ndarray  # (C) index into the jobs
    kind: np.ndarray  # (C) index into the kinds
    gpus: np.ndarray  # (C)
    rate: np.ndarray  # (C) work per second
    capacity: np.ndarray  # (K) GPUs of each kind
    weight: np.ndarray  # (J)
    left: np.ndarray  # (J) work
    age: np.ndarray  # (J)
    alone: np.ndarray  # (J) time that it would have taken to do what it has done with its own part of the cluster

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return len(self.weight)

    @property
    def size(self) -> np.ndarray:
        """Least number of GPUs of each job."""
        least = np.full(self.jobs, np.inf)
        np.minimum.at(least, self.job, self.gpus)
        return least

    def throughput(self, x: np.ndarray) -> np.ndarray:
        """Return the work per second of each job with shares `x`."""
        return np.bincount(self.job, self.rate * x, self.jobs)

    def by_kind(self) -> np.ndarray:
        """Return the greatest throughput of each job on each kind, (J, K)."""
        best = np.zeros((self.jobs, len(self.capacity)))
        np.maximum.at(best, (self.job, self.kind), self.rate)
        return best

    def proportional(self) -> np.ndarray:
        """Return the throughput of each job that has every kind for that part of the time that its GPUs are of all."""
        return np.asarray(self.by_kind() @ (self.capacity / self.capacity.sum()))

    def isolated(self) -> np.ndarray:
        """Return the throughput of each job on its own part of the cluster, GPUs divided among all jobs."""
        shares = self.capacity[None, :] / self.jobs / self.size[:, None]
        shares = shares / np.maximum(1.0, shares.sum(axis=1))[:, None]
        return np.asarray((self.by_kind() * shares).sum(axis=1))


@dataclass(frozen=True)
class Shares:
    """An optimum."""

    x: np.ndarray
    """Share of each column."""
    value: float
    bound: float
    """What no shares exceed, by the prices of all constraints."""
    price: np.ndarray
    """Gain of the aim from each job's bound, 0 where it does not bind."""


def solve(columns: Columns, gain: np.ndarray, floor: np.ndarray, unit: np.ndarray) -> Shares | None:
    """Maximise t so that throughput >= floor + gain x t for every job; None if no shares reach the floor.

    `unit` is a throughput of each job by which its row is divided, so that all rows are of one size.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    count, jobs, kinds = len(columns.job), columns.jobs, len(columns.capacity)
    # The order of Gavel, where kinds are sorted by name, and slower ones come first.
    by_name = kinds - 1 - columns.kind
    order = np.lexsort((by_name, columns.job))
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    rows = np.concatenate((columns.job, np.arange(jobs), by_name + jobs, columns.job + jobs + kinds))
    entries = np.concatenate((place, np.full(jobs, count), place, place))
    values = np.concatenate(
        (-columns.rate / unit[columns.job], gain / unit, columns.gpus.astype(float), np.ones(count))
    )
    upper = coo_array((values, (rows, entries)), shape=(2 * jobs + kinds, count + 1)).tocsr()
    limits = np.concatenate((-floor / unit, columns.capacity[::-1], np.ones(jobs)))
    cost = np.zeros(count + 1)
    cost[count] = -1.0
    bounds = np.column_stack((np.append(np.zeros(count), -np.inf), np.full(count + 1, np.inf)))
    found = linprog(cost, A_ub=upper, b_ub=limits, bounds=bounds, method="highs-ipm")
    if found.x is None:
        return None
    price = -found.ineqlin.marginals[:jobs] * gain / unit
    bound = -float(found.ineqlin.marginals @ limits)
    return Shares(np.clip(found.x[place], 0.0, 1.0), -float(found.fun), bound, price)


def _shares(found: Shares | None) -> np.ndarray:
    assert found is not None, "shares of 0 are always allowed"
    return found.x


def max_min(columns: Columns) -> np.ndarray:
    """Return shares whose least throughput is greatest, by weight, GPU and the job's proportional throughput."""
    gain = columns.proportional() * columns.weight / columns.size
    return _shares(solve(columns, gain, np.zeros(columns.jobs), gain))


def water_filling(columns: Columns) -> np.ndarray:
    """Return shares as `max_min`; what the least ones cannot use then raises the others, again and again."""
    gain = columns.proportional() * columns.weight / columns.size
    floor, full = np.zeros(columns.jobs), np.zeros(columns.jobs, bool)
    x = np.zeros(len(columns.job))
    while not full.all():
        found = solve(columns, np.where(full, 0.0, gain), floor, columns.proportional())
        if found is None:  # the floor is out of reach by a rounding error
            break
        x = found.x
        floor = np.where(full, floor, np.minimum(floor + found.value * gain, columns.throughput(x)))
        bottlenecks = ~full & (found.price > BOTTLENECK * found.price.max())
        if not bottlenecks.any():
            break
        full |= bottlenecks
    return x


def min_makespan(columns: Columns) -> np.ndarray:
    """Return shares with which the last of the jobs ends as soon as it can."""
    return _shares(solve(columns, columns.left, np.zeros(columns.jobs), columns.left))


def finish_time_fair(columns: Columns) -> np.ndarray:
    """Return shares whose greatest finish-time ratio is least.

    The ratio is the time of a job from arrival to end with these shares, to that on its own part of the cluster. Each
    step raises the least throughput relative to what the ratio of the step before needs.
    """
    isolated = columns.isolated()
    alone = columns.alone + columns.left / isolated
    # At the start all jobs get the same part of what they need to end at the same time.
    x = min_makespan(columns)
    ratio = np.inf
    for _ in range(STEPS):
        needed = columns.age + columns.left / np.maximum(columns.throughput(x), 1e-300)
        found = float((needed / alone).max())
        if found >= ratio * (1.0 - CLOSE):
            break
        ratio = found
        gain = columns.left / np.maximum(ratio * alone - columns.age, 1e-9)
        shares = solve(columns, gain, np.zeros(columns.jobs), gain)
        if shares is None:
            break
        x = shares.x
    return x
