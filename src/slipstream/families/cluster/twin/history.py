"""What past jobs say about those of the present: how long they run, and which jobs come next.

A run time is a requested time multiplied by the ratio of run time to requested time of a past job of the same user, or
where those are few, of past jobs of the same size, or of any. Nothing here knows the run time of a job that has not
ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from slipstream.errors import InputError
from slipstream.families.cluster.scenario import ClusterScenario, Listed
from slipstream.families.cluster.slurm.scenario import requested_s
from slipstream.families.cluster.slurm.snapshot import SlurmJob

DAY_S = 86_400.0
NEAR_S = 1800.0
"""Jobs to come are those that came after about the time of day that it is now."""
SIMILAR = 2.0
"""Greatest ratio of two requested times that are similar."""
LONGEST_RATIO = 100.0
MOST_CONSECUTIVE, LEAST_CONSECUTIVE = 512, 16
"""Past jobs of a user that a correlation is taken from."""
HIGHEST_CORRELATION = 0.95
LATEST = 5000
"""Past jobs among which similar ones are sought first: the last to end."""


@dataclass(frozen=True)
class HistorySettings:
    """How past jobs are read; chosen on the first parts of three traces (`benchmarks/slurm_twin.py`)."""

    recent: int = 64
    """Most past jobs that a distribution of run times is taken from, the last to end."""
    least: int = 8
    """Least past jobs of one user that are enough."""
    pooled: float = 0.1
    """Share of the draws that come from the jobs of all users."""
    shared: float | None = None
    """Correlation of the run times of one user's jobs; that of consecutive past jobs of the user if absent."""


DEFAULTS = HistorySettings()


@dataclass(frozen=True)
class History:
    """Jobs that ended, in the order in which they did; times in seconds."""

    submit: np.ndarray
    run: np.ndarray
    requested: np.ndarray
    gpus: np.ndarray
    """0 where accounting does not count them: such jobs tell run times, but are none to come."""
    user: np.ndarray
    """Index into `users`."""
    users: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.submit)

    @cached_property
    def ratio(self) -> np.ndarray:
        """Run times, as shares of the requested times."""
        return np.minimum(self.run / self.requested, LONGEST_RATIO)

    @cached_property
    def number(self) -> dict[str, int]:
        """Index of each user by name."""
        return {name: index for index, name in enumerate(self.users)}

    @cached_property
    def of_user(self) -> list[np.ndarray]:
        """The jobs of each user, in order."""
        order = np.argsort(self.user, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.user, minlength=len(self.users)))[:-1])

    @cached_property
    def correlations(self) -> tuple[np.ndarray, float]:
        """Correlation of the ratios of consecutive jobs of each user, and that over all users.

        It is that of normal scores, which a few very long jobs do not decide. Users with few jobs get one near that of
        all.
        """
        together, alone, counts = (np.zeros(len(self.users)) for _ in range(3))
        for user, jobs in enumerate(self.of_user):
            mine = jobs[np.argsort(self.submit[jobs], kind="stable")][-MOST_CONSECUTIVE:]
            if len(mine) >= LEAST_CONSECUTIVE:
                scores = ndtri((mean_ranks(self.ratio[mine]) - 0.5) / len(mine))
                together[user], alone[user] = float((scores[1:] * scores[:-1]).sum()), float((scores**2).sum())
                counts[user] = len(mine)
        overall = max(0.0, float(together.sum() / alone.sum())) if alone.sum() > 0.0 else 0.0
        own = np.divide(together, alone, out=np.full(len(counts), overall), where=alone > 0.0)
        weight = counts / (counts + LEAST_CONSECUTIVE * 2)
        return np.clip(weight * own + (1.0 - weight) * overall, 0.0, HIGHEST_CORRELATION), overall

    @cached_property
    def estimators(self) -> dict[HistorySettings, RunTimes]:
        """Distributions of run times by how they are read: they do not change with the queue."""
        return {}

    def run_times(self, settings: HistorySettings) -> RunTimes:
        """Return the distributions of run times."""
        return self.estimators.setdefault(settings, RunTimes(self, settings))

    @cached_property
    def by_submit(self) -> np.ndarray:
        """The jobs with GPUs, in the order in which they came."""
        counted = np.flatnonzero(self.gpus > 0)
        return counted[np.argsort(self.submit[counted], kind="stable")]


NO_HISTORY = History(*(np.zeros(0) for _ in range(4)), user=np.zeros(0, np.int64), users=())


def history_of(
    submit: np.ndarray,
    end: np.ndarray,
    run: np.ndarray,
    requested: np.ndarray,
    gpus: np.ndarray,
    user: Sequence[str],
) -> History:
    """Return the jobs as a history; times in seconds, all arrays in any one order."""
    order = np.argsort(end, kind="stable")
    users, index = np.unique(np.asarray(user, object).astype(str), return_inverse=True)
    columns = (column[order].astype(np.float64) for column in (submit, run, requested, gpus))
    return History(*columns, user=index[order].astype(np.int64), users=tuple(users.tolist()))


def accounted_history(jobs: Sequence[SlurmJob], now: float | None = None) -> History:
    """Return the jobs of accounting that ran and ended, by `now` if that is known."""
    ended = [job for job in jobs if job.start and job.end > job.start and (now is None or job.end <= now)]
    if jobs and not ended:
        raise InputError("--history: no job ran and ended: expected accounting of jobs that did")
    columns = np.array([(job.submit, job.end, job.end - job.start, requested_s(job), job.gpus) for job in ended])
    columns = columns.reshape(-1, 5)
    return history_of(*columns.T, user=[job.user for job in ended])


def law_of(scenario: ClusterScenario) -> History:
    """Return the jobs that a scenario draws from as a history without users; none if it lists its jobs.

    They are those of training episodes, in the order of their submission.
    """
    if isinstance(scenario.jobs, Listed):
        return NO_HISTORY
    from slipstream.families.cluster.build import compiled_scenario

    parts = compiled_scenario(scenario)
    known = slice(0, int(parts.spec["splits"][0]["high"]) + parts.sizes.jobs)
    found = parts.workload
    times = (found.submitted_s[known], found.submitted_s[known], found.run[known] / 1e9, found.requested[known] / 1e9)
    return history_of(*times, gpus=found.gpus[known], user=[""] * len(times[0]))


@dataclass(frozen=True)
class JobsNow:
    """Jobs of the present whose run times are drawn, as columns; times in seconds."""

    requested: np.ndarray
    gpus: np.ndarray
    user: Sequence[str]
    elapsed: np.ndarray
    """Time for which each has run already; 0 if it waits."""


def size_class(gpus: np.ndarray) -> np.ndarray:
    """Return the whole part of the binary logarithm of each number of GPUs, -1 for none."""
    return np.asarray(np.floor(np.log2(np.maximum(gpus, 0.5))), np.int64)


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """Return the rank of each value, from 1 on; equal values get the mean of their ranks."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[index])


class RunTimes:
    """Distributions of run times, from past jobs."""

    def __init__(self, history: History, settings: HistorySettings) -> None:
        self.history, self.settings = history, settings
        self._class = size_class(history.gpus)
        self._ratios: list[np.ndarray] = [np.zeros(0)]
        """Sorted ratios of the groups of past jobs that were asked for; the first is empty."""
        self._of_user: dict[tuple[str, float, int], int] = {}
        self._of_all: dict[tuple[float, int], int] = {}

    def groups(self, user: str, requested: float, size: int) -> tuple[int, int]:
        """Return the groups of past jobs that are like a job: those of its user, and those of all users.

        A group is a number of `ratios`. Where the user has few past jobs, both are those of all.
        """
        pool = self._of_all.get((requested, size))
        if pool is None:
            pool = self._of_all[requested, size] = self._keep(self._pool(requested, size), 4 * self.settings.recent)
        own = self._of_user.get((user, requested, size))
        if own is None:
            found = self._own(user, requested, size)
            own = pool if found is None else self._keep(found, self.settings.recent)
            self._of_user[user, requested, size] = own
        return own, pool

    def ratios(self, group: int) -> np.ndarray:
        """Return the sorted ratios of a group."""
        return self._ratios[group]

    def _keep(self, jobs: np.ndarray, most: int) -> int:
        self._ratios.append(np.sort(self.history.ratio[jobs[-most:]]))
        return len(self._ratios) - 1

    def _own(self, user: str, requested: float, size: int) -> np.ndarray | None:
        number = self.history.number.get(user)
        if number is None:
            return None
        mine = self.history.of_user[number]
        alike = mine[self._is_similar(mine, requested)]
        return self._first_large((alike[self._class[alike] == size], alike, mine))

    def _pool(self, requested: float, size: int) -> np.ndarray:
        for last in (LATEST, len(self.history)):
            jobs = np.arange(max(0, len(self.history) - last), len(self.history))
            alike = jobs[self._is_similar(jobs, requested)]
            same = alike[self._class[alike] == size]
            if len(same) >= 4 * self.settings.recent:
                return same
        found = self._first_large((same, jobs[self._class[jobs] == size], alike))
        return jobs if found is None else found

    def _first_large(self, choices: Sequence[np.ndarray]) -> np.ndarray | None:
        """Return the first of the sets of jobs that is large enough."""
        return next((jobs for jobs in choices if len(jobs) >= self.settings.least), None)

    def _is_similar(self, jobs: np.ndarray, requested: float) -> np.ndarray:
        others = self.history.requested[jobs] / requested
        return np.asarray((others >= 1.0 / SIMILAR) & (others <= SIMILAR))

    def draw(self, now: JobsNow, futures: int, rng: np.random.Generator) -> np.ndarray:
        """Return run times in seconds (futures, jobs), each longer than its job has run already.

        The draws of a user's jobs in one future are correlated: jobs that one user sends together are often alike.
        Without past jobs, a run time is the requested one.
        """
        if not len(self.history):
            return np.tile(np.maximum(now.requested, now.elapsed + 1.0), (futures, 1))
        uniform = self._uniform(now.user, futures, rng)
        pooled = rng.random(uniform.shape) < self.settings.pooled
        keys = zip(now.user, now.requested.tolist(), size_class(now.gpus).tolist(), strict=True)
        groups = np.array([self.groups(*key) for key in keys], np.int64).reshape(-1, 2)
        least = now.elapsed / now.requested
        own, pool = (self._quantiles_above(groups[:, one], least, uniform) for one in (0, 1))
        ratio = np.where(pooled | np.isnan(own), pool, own)
        # Jobs that ran longer than any past job: up to their request, or up to twice as long as yet.
        most = np.where(least < 1.0, 1.0, 2.0 * least)
        ratio = np.where(np.isnan(ratio), least + uniform * (most - least), ratio)
        return np.asarray(np.maximum(ratio * now.requested, now.elapsed + 1.0))

    def _uniform(self, users: Sequence[str], futures: int, rng: np.random.Generator) -> np.ndarray:
        """Return uniform numbers (futures, jobs), those of one user correlated."""
        numbers = {name: index for index, name in enumerate(dict.fromkeys(users))}
        common = rng.standard_normal((futures, len(numbers)))[:, [numbers[name] for name in users]]
        own = rng.standard_normal((futures, len(users)))
        share = self._shared(users)
        return np.asarray(ndtr(np.sqrt(share) * common + np.sqrt(1.0 - share) * own))

    def _shared(self, users: Sequence[str]) -> np.ndarray:
        """Return the correlation of each job with others of its user."""
        if self.settings.shared is not None:
            return np.full(len(users), self.settings.shared)
        own, overall = self.history.correlations
        numbers = (self.history.number.get(name) for name in users)
        return np.array([overall if number is None else own[number] for number in numbers])

    def _quantiles_above(self, groups: np.ndarray, least: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Return quantiles of the ratios of each job's group that exceed its `least`; NaN where none does."""
        sizes = np.array([len(ratios) for ratios in self._ratios], np.int64)
        offset = np.cumsum(sizes) - sizes
        first = np.zeros(len(groups), np.int64)
        for job in np.flatnonzero(least > 0.0).tolist():
            first[job] = np.searchsorted(self._ratios[groups[job]], least[job], side="right")
        left = sizes[groups] - first
        rank = np.minimum((uniform * left).astype(np.int64), left - 1)
        flat = np.append(np.concatenate(self._ratios), np.nan)
        return np.asarray(flat[np.where(left > 0, offset[groups] + first + rank, len(flat) - 1)])


# Jobs to come


@dataclass(frozen=True)
class Coming:
    """Jobs to come of one future; times in seconds from now."""

    submit: np.ndarray
    run: np.ndarray
    requested: np.ndarray
    gpus: np.ndarray
    user: np.ndarray
    """Index into the users of the history."""


NO_JOBS = Coming(*(np.zeros(0) for _ in range(4)), user=np.zeros(0, np.int64))


def coming(history: History, now: float | None, most: int, futures: int, rng: np.random.Generator) -> list[Coming]:
    """Return the jobs to come in each future: those that came after a random past moment, at most `most`.

    The moment has about the time of day of `now`, if that is known and the history is of two days or more.
    """
    order = history.by_submit
    times = history.submit[order]
    if not len(times) or most < 1:
        return [NO_JOBS] * futures
    span = float(times[-1] - times[0])
    found = []
    for _ in range(futures):
        begin = times[0] + rng.random() * max(0.0, span - min(DAY_S, span / 2))
        if now is not None and span >= 2 * DAY_S:
            begin += (now - begin + DAY_S / 2) % DAY_S - DAY_S / 2 + (2.0 * rng.random() - 1.0) * NEAR_S
            begin = max(begin, float(times[0]))
        first = int(np.searchsorted(times, begin))
        chosen = order[first : first + most]
        found.append(
            Coming(
                history.submit[chosen] - begin,
                history.run[chosen],
                history.requested[chosen],
                history.gpus[chosen],
                history.user[chosen],
            )
        )
    return found
