"""Past jobs of a cluster, and which jobs may come next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slipstream.errors import InputError
from slipstream.families.cluster.scenario import ClusterScenario, Listed
from slipstream.families.cluster.slurm.scenario import requested_s
from slipstream.families.cluster.slurm.snapshot import SlurmJob

DAY_S = 86_400.0
NEAR_S = 1800.0
"""Jobs to come are those that came after about the time of day that it is now."""
LONGEST_RATIO = 100.0


@dataclass(frozen=True)
class History:
    """Jobs that ended, in the order in which they started; times in seconds."""

    submit: np.ndarray
    start: np.ndarray
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
        return np.asarray(np.minimum(self.run / self.requested, LONGEST_RATIO))

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
    def by_submit(self) -> np.ndarray:
        """The jobs with GPUs, in the order in which they came."""
        counted = np.flatnonzero(self.gpus > 0)
        return counted[np.argsort(self.submit[counted], kind="stable")]


NONE = np.zeros(0)
NO_HISTORY = History(NONE, NONE, NONE, NONE, NONE, user=np.zeros(0, np.int64), users=())


def history_of(
    submit: np.ndarray,
    start: np.ndarray,
    run: np.ndarray,
    requested: np.ndarray,
    gpus: np.ndarray,
    user: Sequence[str],
) -> History:
    """Return the jobs as a history; times in seconds, all arrays in any one order."""
    order = np.argsort(start, kind="stable")
    users, index = np.unique(np.asarray(user, object).astype(str), return_inverse=True)
    return History(
        submit=submit[order],
        start=start[order],
        run=run[order],
        requested=requested[order],
        gpus=gpus[order].astype(np.float64),
        user=index[order].astype(np.int64),
        users=tuple(users.tolist()),
    )


def accounted_history(jobs: Sequence[SlurmJob], now: float | None = None) -> History:
    """Return the jobs of accounting that ran and ended, by `now` if that is known."""
    ended = [job for job in jobs if job.start and job.end > job.start and (now is None or job.end <= now)]
    if jobs and not ended:
        raise InputError("--history: no job ran and ended: expected accounting of jobs that did")
    rows = [(job.submit, job.start, job.end - job.start, requested_s(job), job.gpus) for job in ended]
    submit, start, run, requested, gpus = np.array(rows, np.float64).reshape(-1, 5).T
    return history_of(submit, start, run, requested, gpus, [job.user for job in ended])


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
    submitted, run, requested = found.submitted_s[known], found.run[known] / 1e9, found.requested[known] / 1e9
    return history_of(submitted, submitted, run, requested, found.gpus[known], [""] * len(run))


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


NO_JOBS = Coming(NONE, NONE, NONE, NONE, np.zeros(0, np.int64))


def coming(
    history: History,
    now: float | None,
    most: int,
    futures: int,
    rng: np.random.Generator,
    days: float | None = None,
) -> list[Coming]:
    """Return the jobs to come in each future: those that came after a random past moment, at most `most`.

    The moment is one of the last `days` of the history, if that is given.

    The moment has about the time of day of `now`, if that is known and the history is of two days or more.
    """
    order = history.by_submit
    times = history.submit[order]
    if days is not None and len(times):
        order = order[times >= times[-1] - days * DAY_S]
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
