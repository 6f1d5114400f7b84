"""The state of a cluster at one moment, as a scenario without any run time that is not known yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from slipstream.errors import InputError
from slipstream.families.cluster.scenario import ClusterScenario, Listed
from slipstream.families.cluster.slurm.scenario import LEAST_LEFT_S, live_scenario
from slipstream.families.cluster.slurm.snapshot import SlurmJob, Snapshot

WHY_NOT = {
    "JobHeldUser": "held by its user, until it is released",
    "JobHeldAdmin": "held by an administrator, until it is released",
    "Dependency": "waits for other jobs (dependency)",
    "DependencyNeverSatisfied": "waits for other jobs, and one of them will never fulfil the dependency",
    "BeginTime": "waits for its begin time",
}
"""Why a job waits that no free GPU would start, by Slurm's reason."""
USUAL = ("", "None", "Resources", "Priority", "Cleaning")
"""Reasons of Slurm that say no more than that a job waits for its turn."""


@dataclass(frozen=True)
class LeftOut:
    """A waiting job that the twin does not plan."""

    name: str
    user: str
    gpus: int
    why: str


@dataclass(frozen=True)
class Present:
    """Jobs that run and wait at one moment."""

    scenario: ClusterScenario
    """Rules and nodes, and the jobs, which run as long as they requested."""
    names: tuple[str, ...]
    """Of the jobs, by their index in the scenario's list."""
    slurm_reasons: tuple[str, ...]
    """Why each of them waits, as Slurm says; empty where it says no more than that."""
    now: float | None = None
    """The moment in seconds since 1970, in local time as Slurm prints it, if it is known."""
    left_out: tuple[LeftOut, ...] = ()

    @property
    def begins_s(self) -> float:
        """The moment, on the clock of the submit times."""
        assert self.scenario.begins_s is not None
        return self.scenario.begins_s


def live_present(
    snapshot: Snapshot, base: ClusterScenario | None = None, counts: Callable[[SlurmJob], bool] = lambda _: True
) -> Present:
    """Return the present of a Slurm cluster, with the rules of `base`; `counts` tells which waiting jobs to plan."""
    live = live_scenario(snapshot, base, chosen=counts)
    planned = {job.id for job in live.jobs}
    others = (job for job in snapshot.jobs if job.waits and job.id not in planned)
    left_out = tuple(LeftOut(job.id, job.user, job.gpus, _why_left_out(job)) for job in others)
    reasons = tuple("" if job.runs or job.reason in (*USUAL, *WHY_NOT) else job.reason for job in live.jobs)
    now = snapshot.now + time.localtime(snapshot.now).tm_gmtoff
    return Present(live.scenario, tuple(job.id for job in live.jobs), reasons, now, left_out)


def _why_left_out(job: SlurmJob) -> str:
    if not job.gpus:
        return "wants no GPU: only jobs with GPUs are planned here"
    return WHY_NOT.get(job.reason, f"is not planned: Slurm says {job.reason}")


def recorded_present(scenario: ClusterScenario, now: float | None = None) -> Present:
    """Return the present at the beginning of a recorded scenario; what came later, and true run times, are dropped.

    `now` is that moment in seconds since 1970, if it is known.
    """
    if scenario.begins_s is None or not isinstance(scenario.jobs, Listed):
        raise InputError(
            "the scenario does not begin in the middle: expected one with begins_s, as `slipstream import slurm` writes"
        )
    begins = scenario.begins_s
    names, jobs = [], []
    for number, job in enumerate(scenario.jobs.jobs):
        if job.submit_s > begins:
            continue
        requested = job.run_s if job.requested_s is None else job.requested_s
        run = requested if job.started_s is None else max(requested, begins - job.started_s + LEAST_LEFT_S)
        names.append(str(number))
        jobs.append(job.model_copy(update={"run_s": run, "requested_s": requested}))
    if not jobs:
        raise InputError("no job runs or waits when the scenario begins: expected one at least")
    found = scenario.model_copy(update={"jobs": Listed.model_construct(kind="list", jobs=jobs)})
    found._folder = scenario._folder
    return Present(found, tuple(names), ("",) * len(names), now)
