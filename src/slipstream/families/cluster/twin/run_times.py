"""How long jobs of the present run, drawn from past jobs of which some still run.

A run time is a requested time multiplied by the ratio of run time to requested time of a past job of the same user, or
where those are few, of past jobs of the same size, or of any. Nothing here knows the run time of a job that has not
ended. Jobs that still run are known to have run as long as they have: the distributions are those of Kaplan and Meier
(1958) over the jobs that ended and those like them that started in the same time, so that short jobs, which end first,
do not count too much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from slipstream.families.cluster.twin.history import History

SIMILAR = 2.0
"""Greatest ratio of two requested times that are similar."""
QUANTILES = 256
"""Quantiles by which a distribution is kept."""
LATEST = 5000
"""Past jobs among which similar ones are sought first: the last to start."""
MOST_CONSECUTIVE, LEAST_CONSECUTIVE = 512, 16
"""Past jobs of a user that a correlation is taken from."""
HIGHEST_CORRELATION = 0.95


@dataclass(frozen=True)
class RunTimeSettings:
    """How past jobs are read; chosen on the first parts of three traces (`benchmarks/slurm_twin.py`)."""

    recent: int = 64
    """Most jobs that ended of a distribution, the last to start; four times as many of all users."""
    least: int = 8
    """Least past jobs of one user that are enough."""
    pooled: float = 0.1
    """Share of the draws that come from the jobs of all users."""
    days: float | None = None
    """Jobs to come are those after a moment of the last `days` of the history; of all of it if absent."""
    shared: float | None = None
    """Correlation of the run times of one user's jobs; that of consecutive past jobs of the user if absent."""


DEFAULTS = RunTimeSettings()


@dataclass(frozen=True)
class JobsNow:
    """Jobs of the present whose run times are drawn, as columns; times in seconds."""

    requested: np.ndarray
    gpus: np.ndarray
    user: Sequence[str]
    elapsed: np.ndarray
    """Time for which each has run already; 0 if it waits."""


@dataclass(frozen=True)
class Group:
    """Past jobs that are like a job of the present, and what makes jobs like them."""

    jobs: np.ndarray
    """Indices into the history, in the order of their starts."""
    user: str | None
    requested: float | None
    size: int | None
    """What they have in common; None if that does not matter."""


def size_class(gpus: np.ndarray) -> np.ndarray:
    """Return the whole part of the binary logarithm of each number of GPUs, -1 for none."""
    return np.asarray(np.floor(np.log2(np.maximum(gpus, 0.5))), np.int64)


def are_similar(requested: np.ndarray, to: float) -> np.ndarray:
    """Return whether requested times are similar to another."""
    ratio = requested / to
    return np.asarray((ratio >= 1.0 / SIMILAR) & (ratio <= SIMILAR))


class RunTimes:
    """Distributions of run times, from past jobs."""

    def __init__(self, history: History, settings: RunTimeSettings = DEFAULTS) -> None:
        self.history, self.settings = history, settings
        self._class = size_class(history.gpus)
        self._groups: dict[tuple[str | None, float, int], Group | None] = {}
        self._tables: dict[int, np.ndarray] = {}
        """Quantiles of groups of which no job still runs, by the group's id."""
        self._correlations: tuple[np.ndarray, float] | None = None

    # Groups of similar jobs

    def _own(self, user: str, requested: float, size: int) -> Group | None:
        """Return the past jobs of `user` that are like a job; None if they are too few."""
        number = self.history.number.get(user)
        if number is None:
            return None
        mine = self.history.of_user[number]
        alike = mine[are_similar(self.history.requested[mine], requested)]
        same = alike[self._class[alike] == size]
        most = self.settings.recent
        choices = (
            Group(same[-most:], user, requested, size),
            Group(alike[-most:], user, requested, None),
            Group(mine[-most:], user, None, None),
        )
        return next((group for group in choices if len(group.jobs) >= self.settings.least), None)

    def _pool(self, requested: float, size: int) -> Group:
        """Return the past jobs of all users that are like a job."""
        count, most = len(self.history), 4 * self.settings.recent
        for last in (LATEST, count):
            jobs = np.arange(max(0, count - last), count)
            alike = jobs[are_similar(self.history.requested[jobs], requested)]
            same = alike[self._class[alike] == size]
            if len(same) >= most:
                break
        choices = (
            Group(same[-most:], None, requested, size),
            Group(jobs[self._class[jobs] == size][-most:], None, None, size),
            Group(alike[-most:], None, requested, None),
        )
        found = next((group for group in choices if len(group.jobs) >= self.settings.least), None)
        return found or Group(jobs[-most:], None, None, None)

    def group(self, user: str | None, requested: float, size: int) -> Group | None:
        """Return the group of a job among those of its user, None if it is too small; without `user`, among all."""
        key = (user, requested, size)
        if key not in self._groups:
            self._groups[key] = self._pool(requested, size) if user is None else self._own(user, requested, size)
        return self._groups[key]

    # Distributions

    def _table(self, group: Group, running: Running) -> np.ndarray:
        """Return the quantiles of the ratios of a group, with the jobs like it that still run."""
        alike = running.like(group)
        # Those that started since the first of the group: older ones that still run are the long ones of their time.
        still = alike[running.start[alike] >= self.history.start[group.jobs[0]]] if len(alike) else alike
        if not len(still):
            if id(group) not in self._tables:
                self._tables[id(group)] = quantiles(self.history.ratio[group.jobs], np.zeros(0))
            return self._tables[id(group)]
        return quantiles(self.history.ratio[group.jobs], running.ratio[still])

    def draw(self, now: JobsNow, moment: float | None, futures: int, rng: np.random.Generator) -> np.ndarray:
        """Return run times in seconds (futures, jobs), each longer than its job has run already.

        `moment` is the present on the clock of the history; the last end of it if that is not known. The draws of a
        user's jobs in one future are correlated: jobs that one user sends together are often alike. Without past jobs,
        a run time is the requested one.
        """
        history = self.history
        if not len(history):
            return np.tile(np.maximum(now.requested, now.elapsed + 1.0), (futures, 1))
        running = Running(now, float((history.start + history.run).max()) if moment is None else moment)
        uniform = self._uniform(now.user, futures, rng)
        pooled = rng.random(uniform.shape) < self.settings.pooled
        tables: dict[int, int] = {}
        rows: list[np.ndarray] = []

        def row_of(group: Group) -> int:
            if id(group) not in tables:
                tables[id(group)] = len(rows)
                rows.append(self._table(group, running))
            return tables[id(group)]

        pool, own = np.zeros(len(now.user), np.int64), np.zeros(len(now.user), np.int64)
        for job, (user, requested, size) in enumerate(
            zip(now.user, now.requested.tolist(), running.size.tolist(), strict=True)
        ):
            of_all, of_user = self.group(None, requested, size), self.group(user, requested, size)
            assert of_all is not None
            pool[job] = row_of(of_all)
            own[job] = pool[job] if of_user is None else row_of(of_user)
        table = np.array(rows)
        ratio = np.where(
            pooled, _above(table[pool], running.ratio, uniform), _above(table[own], running.ratio, uniform)
        )
        return np.asarray(np.maximum(ratio * now.requested, now.elapsed + 1.0))

    # Correlation

    def _uniform(self, users: Sequence[str], futures: int, rng: np.random.Generator) -> np.ndarray:
        """Return uniform numbers (futures, jobs), those of one user correlated."""
        numbers = {name: index for index, name in enumerate(dict.fromkeys(users))}
        common = rng.standard_normal((futures, len(numbers)))[:, [numbers[name] for name in users]]
        own = rng.standard_normal((futures, len(users)))
        shared = self._shared(users)
        return np.asarray(ndtr(np.sqrt(shared) * common + np.sqrt(1.0 - shared) * own))

    def _shared(self, users: Sequence[str]) -> np.ndarray:
        """Return the correlation of each job with others of its user."""
        if self.settings.shared is not None:
            return np.full(len(users), self.settings.shared)
        own, overall = self.correlations()
        numbers = (self.history.number.get(name) for name in users)
        return np.array([overall if number is None else own[number] for number in numbers])

    def correlations(self) -> tuple[np.ndarray, float]:
        """Return the correlation of the ratios of consecutive jobs of each user, and that over all users.

        It is that of normal scores, which a few very long jobs do not decide. Users with few jobs get one near that of
        all.
        """
        if self._correlations is None:
            self._correlations = self._consecutive()
        return self._correlations

    def _consecutive(self) -> tuple[np.ndarray, float]:
        history = self.history
        together, alone, counts = (np.zeros(len(history.users)) for _ in range(3))
        for user, jobs in enumerate(history.of_user):
            mine = jobs[np.argsort(history.submit[jobs], kind="stable")][-MOST_CONSECUTIVE:]
            if len(mine) >= LEAST_CONSECUTIVE:
                scores = ndtri((mean_ranks(history.ratio[mine]) - 0.5) / len(mine))
                together[user], alone[user] = float((scores[1:] * scores[:-1]).sum()), float((scores**2).sum())
                counts[user] = len(mine)
        overall = max(0.0, float(together.sum() / alone.sum())) if alone.sum() > 0.0 else 0.0
        own = np.divide(together, alone, out=np.full(len(counts), overall), where=alone > 0.0)
        weight = counts / (counts + LEAST_CONSECUTIVE * 2)
        return np.clip(weight * own + (1.0 - weight) * overall, 0.0, HIGHEST_CORRELATION), overall


class Running:
    """The jobs that run now, as far as they tell about others."""

    def __init__(self, now: JobsNow, moment: float) -> None:
        self.requested = now.requested
        self.size = size_class(now.gpus)
        self.ratio = now.elapsed / now.requested
        """Of all jobs of the present, 0 for those that wait."""
        self.start = moment - now.elapsed
        runs = np.flatnonzero(now.elapsed > 0.0)
        self._runs = runs
        users = np.array(now.user, object)[runs]
        self._of_user = {name: runs[users == name] for name in set(users.tolist())}

    def like(self, group: Group) -> np.ndarray:
        """Return the indices of the running jobs that have in common what the jobs of `group` have."""
        found = self._runs if group.user is None else self._of_user.get(group.user, self._runs[:0])
        if len(found) and group.requested is not None:
            found = found[are_similar(self.requested[found], group.requested)]
        return found if group.size is None else found[self.size[found] == group.size]


def quantiles(ended: np.ndarray, still: np.ndarray) -> np.ndarray:
    """Return quantiles of the Kaplan-Meier distribution of run times `ended`, and of some that exceed `still`.

    All are ratios to requested times. What no run that ended tells about lies between the longest run and the requested
    time or, beyond that, twice the longest run, with a uniform logarithm, as the long run times of clusters do.
    """
    values = np.concatenate((ended, still))
    counts = np.concatenate((np.ones(len(ended)), np.zeros(len(still))))
    order = np.lexsort((-counts, values))
    values, counts = values[order], counts[order]
    survival = np.cumprod(1.0 - counts / np.arange(len(values), 0, -1))
    events = counts > 0.0
    reached = 1.0 - survival[events]
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    index = np.searchsorted(reached, levels - 1e-12)
    longest = float(values[-1])
    most = 1.0 if longest < 1.0 else 2.0 * longest
    known = float(reached[-1]) if len(reached) else 0.0
    share = np.clip((levels - known) / max(1e-12, 1.0 - known), 0.0, 1.0)
    beyond = longest * (most / longest) ** share
    return np.asarray(np.where(index < len(reached), np.append(values[events], 0.0)[index], beyond))


def _above(table: np.ndarray, least: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Return draws (futures, jobs) from distributions (jobs, QUANTILES), given that each exceeds its `least`."""
    below = np.where(least > 0.0, (table <= least[:, None]).sum(axis=1), 0)
    rank = below + np.floor(uniform * (QUANTILES - below)).astype(np.int64)
    drawn = table[np.arange(len(table)), np.minimum(rank, QUANTILES - 1)]
    # Jobs that ran longer than any like them: up to their request, or up to twice as long as yet.
    most = np.where(least < 1.0, 1.0 / np.maximum(least, 1e-9), 2.0)
    return np.asarray(np.where(below == QUANTILES, least * most**uniform, drawn))


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """Return the rank of each value, from 1 on; equal values get the mean of their ranks."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[index])
