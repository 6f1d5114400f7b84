"""The answers of the twin: when jobs start, why they wait, and what other policies and machines would do."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from slipstream.errors import InputError
from slipstream.families.cluster.policies import SortedQueue
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.cluster.twin.futures import Futures, Machine, Outcome, draw_futures
from slipstream.families.cluster.twin.history import NO_HISTORY, NO_JOBS
from slipstream.families.cluster.twin.present import Present
from slipstream.families.cluster.twin.reasons import Reason, reasons
from slipstream.families.cluster.twin.run_times import RunTimes
from slipstream.families.cluster.twin.what_if import DEFAULT, PRESENT_RULES, changed, without_caps
from slipstream.families.cluster.twin.words import KIND
from slipstream.policies.base import Policy, find_for

POLICIES = ("fifo", "sjf", "saf", "wfp3", "unicep", "smallest", "finish-time-fair", "first-fit")
"""Policies that are asked about unless others are named; the first one is what holds now."""
MOST_TO_COME = 1000
"""Most jobs to come in a future."""
INTERVAL = 0.9
"""Share of the starts that an interval is to hold."""
WIDEN = 1.3
"""Factor of the intervals: the largest that the first parts of three traces needed (`benchmarks/slurm_twin.py`)."""
Z = 1.96
KNOWS_NOTHING = RunTimes(NO_HISTORY)


@dataclass(frozen=True)
class TwinSettings:
    """What to ask."""

    policies: Sequence[str] = POLICIES
    """The first is the rule that holds now."""
    what_ifs: Sequence[str] = DEFAULT
    futures: int = 32
    seed: int = 0
    most_to_come: int = MOST_TO_COME
    widen: float = WIDEN
    """Factor by which intervals are wider about their medians than those of the futures."""


@dataclass(frozen=True)
class Twin:
    """What the twin found out: arrays by job of the present scenario."""

    present: Present
    futures: Futures
    starts: np.ndarray
    """Seconds from now, (futures, jobs), under the present rules; NaN where a job never starts."""
    reasons: list[Reason]
    table: list[dict[str, Any]]
    compute_s: float
    widen: float = 1.0

    def interval(self, share: float = INTERVAL) -> np.ndarray:
        """Return the lower end, the median and the upper end of each job's start: (3, jobs), in seconds from now.

        Drawn futures and the true one are exchangeable if the draws are right; then the interval between two order
        statistics holds the true start with the share of ranks between them. As they are not quite, it is widened.
        """
        levels = [(1.0 - share) / 2.0, 0.5, (1.0 + share) / 2.0]
        found = np.quantile(np.maximum(self.starts, 0.0), levels, axis=0, method="weibull")
        return np.asarray(np.maximum(0.0, found[1] + self.widen * (found - found[1])))


def ask(present: Present, run_times: RunTimes = KNOWS_NOTHING, settings: TwinSettings | None = None) -> Twin:
    """Return what the twin says about the `present` state; run times, and the jobs to come, are drawn by `run_times`.

    Raises:
        InputError: One line: a policy or what-if that is not known, or does not apply.
    """
    settings = settings or TwinSettings()
    began = time.perf_counter()
    if present.scenario.slices > 1:
        raise InputError("nodes with slices: expected whole GPUs")
    what_ifs = {PRESENT_RULES: without_caps(present.scenario)}
    what_ifs |= {text: without_caps(changed(present.scenario, text)) for text in settings.what_ifs}
    policies = [find_for(name, what_ifs[PRESENT_RULES]) for name in settings.policies]
    if not policies:
        raise InputError("--policies: expected one at least")
    futures = draw_futures(present, run_times, settings.futures, settings.most_to_come, settings.seed)
    table: list[dict[str, Any]] = []
    first: Outcome | None = None
    machines = [Machine(scenario, futures) for scenario in what_ifs.values()]
    for text, outcomes in zip(what_ifs, _played(machines, policies), strict=True):
        first = first or outcomes[0]
        table += [
            _row(text, policy, outcome, first, futures) for policy, outcome in zip(policies, outcomes, strict=True)
        ]
    assert first is not None
    why = _reasons(what_ifs[PRESENT_RULES], futures, policies[0])
    return Twin(present, futures, first.start, why, table, time.perf_counter() - began, settings.widen)


def _played(machines: Sequence[Machine], policies: Sequence[Policy]) -> list[list[Outcome]]:
    """Return the outcomes of every policy on every machine: machines in threads, where all of it is compiled code."""
    if all(machine.plays_fast(policy) for machine in machines for policy in policies):
        with ThreadPoolExecutor(min(len(machines), os.cpu_count() or 1)) as pool:
            return list(pool.map(lambda machine: machine.play(policies), machines))
    return [machine.play(policies) for machine in machines]


def _reasons(scenario: ClusterScenario, futures: Futures, policy: Policy) -> list[Reason]:
    """Return why jobs wait; under rules that do not sort the queue, as if these were first come, first served."""
    expected = Futures(futures.present, NO_HISTORY, futures.raw.run[None, :], [NO_JOBS])
    order = policy.order if isinstance(policy, SortedQueue) else 0
    return reasons(Machine(scenario, expected), order, futures.present.names)


def _row(text: str, policy: Policy, outcome: Outcome, first: Outcome, futures: Futures) -> dict[str, Any]:
    """Return a row of the table: mean figures over futures, and the differences to the present rules.

    Waits and slowdowns are those of jobs that do not run yet, and that can run both here and under the present rules.
    """
    waits = np.isnan(np.asarray(futures.raw.started))
    counted = waits & ~np.isnan(first.start[0]) & ~np.isnan(outcome.start[0])
    row: dict[str, Any] = {"what_if": text, "policy": policy.name}
    names = ("wait_mean_s", "slowdown_mean", "energy_kwh")
    for name, values, others in zip(names, _figures(outcome, counted), _figures(first, counted), strict=True):
        row[name] = _finite(values.mean())
        row[f"{name}_difference"] = _difference(values - others)
    return {**row, "never_start": int((waits & np.isnan(outcome.start[0])).sum())}


def _figures(outcome: Outcome, counted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean wait, mean slowdown and energy by future, over the `counted` jobs and those to come."""
    waits = [_mean(present[counted], come) for present, come in zip(outcome.wait, outcome.waits_to_come, strict=True)]
    slowdowns = [
        _mean(present[counted], come) for present, come in zip(outcome.slowdown, outcome.slowdowns_to_come, strict=True)
    ]
    return np.array(waits), np.array(slowdowns), outcome.energy_kwh


def _mean(*parts: np.ndarray) -> float:
    values = np.concatenate(parts)
    return float(values.mean()) if len(values) else 0.0


def _difference(values: np.ndarray) -> dict[str, float | None]:
    """Return the mean of paired differences with its 95% interval over the futures; no interval for one future."""
    mean = float(values.mean())
    if len(values) < 2:
        return {"mean": _finite(mean), "low": None, "high": None}
    error = Z * float(values.std(ddof=1)) / math.sqrt(len(values))
    return {"mean": _finite(mean), "low": _finite(mean - error), "high": _finite(mean + error)}


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


# The answer as data


def to_dict(twin: Twin, settings: TwinSettings, source: str, job: str | None = None) -> dict[str, Any]:
    """Return the answer as JSON-ready data; with `job`, only that job is listed.

    Raises:
        InputError: There is no job of that name.
    """
    present = twin.present
    jobs = [one for one in _jobs(twin) if job in (None, one["job"])]
    left_out = [asdict(one) for one in present.left_out if job in (None, one.name)]
    if job is not None and not jobs and not left_out:
        raise InputError(f"--job {job[:80]}: no such job runs or waits")
    raw = twin.futures.raw
    runs = ~np.isnan(np.asarray(raw.started))
    return {
        "kind": KIND,
        "source": source,
        "taken_at": None if present.now is None else _moment(present.now),
        "policy": settings.policies[0],
        "futures": len(twin.futures),
        "seed": settings.seed,
        "interval": INTERVAL,
        "history": {"jobs": len(twin.futures.history), "users": len(twin.futures.history.users)},
        "cluster": {
            "gpus": present.scenario.gpus,
            "gpus_in_use": int(raw.gpus[runs].sum()),
            "running": int(runs.sum()),
            "waiting": int((~runs).sum()),
        },
        "jobs": jobs,
        "left_out": [{"job" if key == "name" else key: value for key, value in one.items()} for one in left_out],
        "what_if": twin.table,
        "compute_s": round(twin.compute_s, 6),
    }


def _moment(now: float) -> str:
    """Return a local time, without a zone, as Slurm prints it."""
    return datetime.fromtimestamp(now, UTC).replace(tzinfo=None).isoformat(timespec="seconds")


def _jobs(twin: Twin) -> list[dict[str, Any]]:
    """Return the waiting jobs, in the order of their median start."""
    raw, present = twin.futures.raw, twin.present
    bounds = twin.interval()
    found = []
    for row in np.flatnonzero(np.isnan(np.asarray(raw.started))).tolist():
        why = twin.reasons[row]
        low, median, high = (_finite(value) for value in bounds[:, row].tolist())
        found.append(
            {
                "job": present.names[row],
                "user": raw.user[row],
                "gpus": int(raw.gpus[row]),
                "requested_s": float(raw.requested[row]),
                "waited_s": present.begins_s - float(raw.submit[row]),
                "starts_in_s": None if median is None else {"low": low, "median": median, "high": high},
                "reason": why.kind,
                "why": why.text,
                "ahead": why.ahead,
                "slurm_reason": present.slurm_reasons[row],
            }
        )
    return sorted(found, key=lambda one: math.inf if one["starts_in_s"] is None else one["starts_in_s"]["median"])
