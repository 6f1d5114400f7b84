"""What no policy can do better, all arrivals known: each job's own time, and the GPUs as one fast machine."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from slipstream.errors import InputError
from slipstream.families.cluster.build import compiled_scenario, idle_milliwatts
from slipstream.families.cluster.kernel.state import BOUND_S
from slipstream.families.cluster.metrics import HOUR_NS, Jobs
from slipstream.families.cluster.scenario import ClusterScenario


@dataclass(frozen=True)
class Least:
    """The jobs of an episode at their best; times in ns."""

    submit: np.ndarray
    run: np.ndarray
    """On the fastest GPUs at the fastest level, together on one node."""
    gpus: np.ndarray
    bound_s: np.ndarray
    """max(run, 10 s) at speed 1."""


def least_of(scenario: ClusterScenario, jobs: Jobs) -> Least:
    """Return what the jobs of an episode take at least."""
    factor = float(compiled_scenario(scenario).spec["levels"]["factor"].min())
    run = jobs.run if factor == 1.0 else np.maximum(1, np.ceil(jobs.run * factor)).astype(np.int64)
    return Least(jobs.submit, run, jobs.gpus, np.maximum(jobs.run / 1e9, BOUND_S))


def weighted_completion(jobs: Least, total: int, weights: np.ndarray) -> float:
    """Return a bound of the sum of weighted completion times, in ns.

    The schedule seen as one machine that does a job's area, over all GPUs, has mean busy times no better than those of
    the preemptive rule of the greatest weight over area (Goemans, 1997); a job ends half its run time after its own.
    """
    area = jobs.run * jobs.gpus / total
    order = np.argsort(jobs.submit, kind="stable").tolist()
    waiting: list[tuple[float, int, float]] = []
    busy = np.zeros(len(order))
    now, coming = 0.0, 0
    while coming < len(order) or waiting:
        if not waiting:
            now = max(now, float(jobs.submit[order[coming]]))
        while coming < len(order) and jobs.submit[order[coming]] <= now:
            job = order[coming]
            heapq.heappush(waiting, (-weights[job] / area[job], job, float(area[job])))
            coming += 1
        key, job, left = heapq.heappop(waiting)
        until = float(jobs.submit[order[coming]]) if coming < len(order) else np.inf
        passed = min(left, until - now)
        # The share of the job that is done now, times the middle of the time in which it is.
        busy[job] += passed / area[job] * (now + passed / 2.0)
        now += passed
        if left > passed:
            heapq.heappush(waiting, (key, job, left - passed))
    return float((weights * (busy + jobs.run / 2.0)).sum())


def least_makespan(jobs: Least, total: int) -> float:
    """Return a bound of when all jobs have ended, in ns: the longest course of a job, or all areas."""
    return max(float((jobs.submit + jobs.run).max()), float((jobs.run * jobs.gpus).sum()) / total)


def best_terms(scenario: ClusterScenario, jobs: Jobs) -> dict[str, float]:
    """Return for each term of the reward a value that no policy can improve on."""
    if scenario.reward.utilisation and scenario.preemption is not None:
        raise InputError("oracle: with preemption, no bound of the reward term 'utilisation' is known")
    least = least_of(scenario, jobs)
    count, total = len(jobs.submit), scenario.gpus
    by_bound = 1e-9 / least.bound_s
    slowdown = weighted_completion(least, total, by_bound) - float((by_bound * least.submit).sum())
    alone = float(np.maximum(1.0, least.run * by_bound).sum())
    waiting = 0.0
    if scenario.preemption is None:
        ends = weighted_completion(least, total, np.ones(count))
        waiting = ends - float((least.submit + _longest(scenario, jobs)).sum())
    return {
        "slowdown": max(alone, slowdown),
        "waiting": max(0.0, waiting / HOUR_NS),
        "throughput": float(count),
        "utilisation": float((_longest(scenario, jobs) * jobs.gpus).sum()) / total / HOUR_NS,
        "energy": _least_energy(scenario, jobs, least),
        "unfairness": 0.0,
    }


def _longest(scenario: ClusterScenario, jobs: Jobs) -> np.ndarray:
    """Return what jobs take at most: on the slowest GPUs, at the slowest level, spread out."""
    factor = float(compiled_scenario(scenario).spec["levels"]["factor"].max())
    if scenario.placement != "flat":
        factor *= max(scenario.locality.nodes, scenario.locality.racks)
    return np.asarray(np.maximum(jobs.run, np.ceil(jobs.run * factor)))


def _least_energy(scenario: ClusterScenario, jobs: Jobs, least: Least) -> float:
    """Return kilowatt-hours: an idle cluster until the earliest end, and each job where it takes least."""
    levels = compiled_scenario(scenario).spec["levels"]
    if (levels["power"] < 0).any():
        # GPUs that draw less at work than idle could save without end.
        return 0.0
    work = float((jobs.run * jobs.gpus).sum()) * float((levels["factor"] * levels["power"]).min())
    return (idle_milliwatts(scenario) * least_makespan(least, scenario.gpus) + work) / 1e6 / HOUR_NS
