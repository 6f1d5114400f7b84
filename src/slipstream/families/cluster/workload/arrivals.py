"""The workload of a scenario as columns: sorted, without duplicates, without jobs that can never run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from slipstream.errors import ScenarioError
from slipstream.families.cluster.beginning import pieces_of_beginning
from slipstream.families.cluster.scenario import LONGEST_S, ClusterScenario, Cut, Helios, Openb, Philly, Swf
from slipstream.families.shared.schema import NANOSECONDS_PER_S
from slipstream.files.inputs import reading_key


@dataclass(frozen=True)
class RawJobs:
    """Jobs as read from a source, in its order; times in seconds."""

    key: Sequence[Any]
    """Identity of each job: a repeated key is a duplicate."""
    submit: np.ndarray
    run: np.ndarray
    requested: np.ndarray
    """NaN where no time was requested."""
    gpus: np.ndarray
    """Whole numbers, or fractions of one."""
    user: Sequence[str]
    dropped: dict[str, int] = field(default_factory=dict)
    """Number of jobs that the reader left out, by reason."""
    started: np.ndarray | None = None
    """When jobs that run at the beginning started, NaN for others; none run at the beginning if absent."""


@dataclass(frozen=True)
class Workload:
    """Jobs by submit time; ties in the order of the source."""

    submit: np.ndarray
    """ns since the first."""
    run: np.ndarray
    requested: np.ndarray
    gpus: np.ndarray
    user: np.ndarray
    """Index into the users."""
    submitted_s: np.ndarray
    """Submit times as the source counts them."""
    users: tuple[str, ...]
    """By name."""
    dropped: dict[str, int]
    """Jobs left out, by reason."""
    started: np.ndarray
    """ns since the first submission at which jobs that run at the beginning started, -1 for others."""
    row: np.ndarray
    """Position of each job in its source."""

    def __len__(self) -> int:
        return len(self.submit)


def workload_of(scenario: ClusterScenario) -> Workload:
    """Return the jobs of a scenario; raise an error where none is left."""
    from slipstream.families.cluster.workload.sources import read_jobs

    path = scenario.jobs.path if isinstance(scenario.jobs, Swf | Philly | Helios | Openb) else None
    with nullcontext() if path is None else reading_key("jobs.path"):
        raw = read_jobs(scenario.jobs, scenario._folder)
    found = cleaned(raw, scenario)
    if not len(found):
        why = "; ".join(f"{count:,} {reason}" for reason, count in found.dropped.items()) or "the source is empty"
        where = "jobs" if path is None else f"jobs.path: {scenario._folder / path}"
        raise ScenarioError(f"{where}: no job is left ({why}): expected at least one")
    return found


def cleaned(raw: RawJobs, scenario: ClusterScenario) -> Workload:
    """Return the jobs that can run on the cluster of a scenario, sorted, with the number of dropped ones by reason."""
    dropped = dict(raw.dropped)
    keep = np.ones(len(raw.submit), bool)

    def drop(wrong: np.ndarray, reason: str) -> None:
        count = int((keep & wrong).sum())
        if count:
            dropped[reason] = dropped.get(reason, 0) + count
            keep[wrong] = False

    drop(~((raw.submit >= -LONGEST_S * 10) & (raw.submit <= LONGEST_S * 10)), "without a submit time")
    drop(~(raw.run > 0.0), "without a run time")
    drop(raw.run > LONGEST_S, f"that run longer than {LONGEST_S:g} s")
    drop(~(raw.gpus > 0), "without GPUs")
    drop(_duplicates(raw.key), "that come twice")
    if scenario.slices == 1:
        drop(raw.gpus != np.floor(raw.gpus), "that share a GPU with others")
    raw = replace(raw, gpus=_units(raw.gpus, scenario.slices))
    drop(raw.gpus > _largest(scenario), f"that want more than the {_largest(scenario)} GPUs they can get at once")
    # What runs already does, whatever the rules for starts are.
    waits = np.ones(len(raw.submit), bool) if raw.started is None else np.isnan(raw.started)
    if scenario.quotas:
        limits = np.array([scenario.limits.get(name, scenario.gpus) for name in raw.user])
        drop(waits & (raw.gpus > limits), "that want more than their user's quota")
    budget = scenario.power.budget_w
    if budget is not None:
        drop(waits & (_least_watts(raw.gpus, scenario) > budget), "that need more than the power budget")
    chosen = np.flatnonzero(keep)
    chosen = chosen[np.argsort(raw.submit[chosen], kind="stable")]
    if isinstance(scenario.jobs, Cut):
        last = None if scenario.jobs.most_jobs is None else scenario.jobs.skip_jobs + scenario.jobs.most_jobs
        chosen = chosen[scenario.jobs.skip_jobs : last]
    return _columns(raw, chosen, dropped)


def _columns(raw: RawJobs, chosen: np.ndarray, dropped: dict[str, int]) -> Workload:
    submitted = raw.submit[chosen].astype(np.float64)
    first = submitted[0] if len(chosen) else 0.0
    if len(chosen) and submitted[-1] - first > LONGEST_S:
        raise ScenarioError(f"jobs: they span {submitted[-1] - first:g} s: expected at most {LONGEST_S:g}")
    run = _nanoseconds(raw.run[chosen])
    stated = raw.requested[chosen]
    requested = np.where(stated > 0.0, _nanoseconds(np.where(stated > 0.0, np.minimum(stated, LONGEST_S), 1.0)), run)
    names = [raw.user[index] for index in chosen.tolist()]
    users = tuple(sorted(set(names)))
    numbers = {name: number for number, name in enumerate(users)}
    started = np.full(len(chosen), np.nan) if raw.started is None else raw.started[chosen]
    since_first = np.where(np.isnan(started), 0.0, started) - first
    return Workload(
        submit=np.rint((submitted - first) * NANOSECONDS_PER_S).astype(np.int64),
        run=run,
        requested=requested,
        gpus=raw.gpus[chosen].astype(np.int64),
        user=np.array([numbers[name] for name in names], np.int64),
        submitted_s=submitted,
        users=users,
        dropped=dropped,
        started=np.where(np.isnan(started), -1, np.rint(since_first * NANOSECONDS_PER_S)).astype(np.int64),
        row=chosen,
    )


def _units(gpus: np.ndarray, slices: int) -> np.ndarray:
    """Return GPUs in slices, fractions rounded up; rounding errors of exact fractions do not count."""
    return np.asarray(np.ceil(np.round(gpus * slices, 6)), np.int64)


def _nanoseconds(seconds: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(1, np.rint(seconds * NANOSECONDS_PER_S)), np.int64)


def _duplicates(keys: Sequence[Any]) -> np.ndarray:
    """Return a mask of the jobs whose key occurred before."""
    seen: set[Any] = set()
    duplicate = np.zeros(len(keys), bool)
    for index, key in enumerate(keys):
        if key in seen:
            duplicate[index] = True
        seen.add(key)
    return duplicate


def _largest(scenario: ClusterScenario) -> int:
    """Return the GPUs of the largest job that fits an idle cluster."""
    if scenario.placement not in ("consolidate", "fgd"):
        return scenario.gpus
    from slipstream.families.cluster.build import largest_consolidated

    return largest_consolidated(scenario)


def _least_watts(gpus: np.ndarray, scenario: ClusterScenario) -> np.ndarray:
    """Return the power of the cluster with one job alone, at its most frugal cap, on the hungriest nodes."""
    from slipstream.families.cluster.build import idle_milliwatts, level_milliwatts

    more = level_milliwatts(scenario).max(axis=0).min()
    return np.asarray((idle_milliwatts(scenario) + gpus * more) / 1e3)


def digest_of_jobs(scenario: ClusterScenario) -> dict[str, Any]:
    """Return the number of jobs and a digest of their content."""
    found = workload_of(scenario)
    content = hashlib.sha256(repr(found.users).encode())
    for column in (found.submit, found.run, found.requested, found.gpus, found.user):
        content.update(column.astype("<i8").tobytes())
    content.update(found.submitted_s.astype("<f8").tobytes())
    if scenario.begins_s is not None:
        content.update(found.started.astype("<i8").tobytes())
        content.update(repr(list(pieces_of_beginning(scenario, found))).encode())
    return {"jobs": len(found), "sha256": content.hexdigest()}
