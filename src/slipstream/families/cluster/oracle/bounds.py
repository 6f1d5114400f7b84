"""Bounds that no policy exceeds, all arrivals known: each job's own run time, and the GPUs as one fast machine."""

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
class BestCaseJobs:
    """The jobs of an episode with their shortest run times; times in ns."""

    submit: np.ndarray
    """Or the beginning of the episode, if later."""
    run: np.ndarray
    """On the fastest GPUs at the fastest level, together on one node; of jobs that run at the beginning what is left.
    """
    gpus: np.ndarray
    bound_s: np.ndarray
    """max(run, 10 s) at speed 1."""


def best_case_of(scenario: ClusterScenario, jobs: Jobs) -> BestCaseJobs:
    """Return the jobs of an episode with their shortest run times."""
    factor = float(compiled_scenario(scenario).spec["levels"]["factor"].min())
    run = jobs.run if factor == 1.0 else np.maximum(1, np.ceil(jobs.run * factor)).astype(np.int64)
    left = np.maximum(1, run - jobs.served_before)
    return BestCaseJobs(np.maximum(0, jobs.submit), left, jobs.gpus, np.maximum(jobs.run / 1e9, BOUND_S))


def weighted_completion(jobs: BestCaseJobs, total: int, weights: np.ndarray) -> float:
    """Return a lower bound of the sum of weighted completion times, in ns.

    The schedule seen as one machine that does a job's area, over all GPUs, has mean busy times no better than those of
    the preemptive rule of the greatest weight over area (Goemans, 1997); a job ends half its run time after its own.
    """
    area = jobs.run * jobs.gpus / total
    order = np.argsort(jobs.submit, kind="stable").tolist()
    waiting: list[tuple[float, int, float]] = []
    busy = np.zeros(len(order))
    now, next_job = 0.0, 0
    while next_job < len(order) or waiting:
        if not waiting:
            now = max(now, float(jobs.submit[order[next_job]]))
        while next_job < len(order) and jobs.submit[order[next_job]] <= now:
            job = order[next_job]
            heapq.heappush(waiting, (-weights[job] / area[job], job, float(area[job])))
            next_job += 1
        key, job, left = heapq.heappop(waiting)
        until = float(jobs.submit[order[next_job]]) if next_job < len(order) else np.inf
        passed = min(left, until - now)
        # The share of the job done in this interval, times the middle of the interval.
        busy[job] += passed / area[job] * (now + passed / 2.0)
        now += passed
        if left > passed:
            heapq.heappush(waiting, (key, job, left - passed))
    return float((weights * (busy + jobs.run / 2.0)).sum())


def least_makespan(jobs: BestCaseJobs, total: int) -> float:
    """Return a lower bound of the makespan, in ns: the longest single job, or the sum of areas over all GPUs."""
    return max(float((jobs.submit + jobs.run).max()), float((jobs.run * jobs.gpus).sum()) / total)


def best_terms(scenario: ClusterScenario, jobs: Jobs) -> dict[str, float]:
    """Return for each reward term a value that no policy improves on."""
    if scenario.reward.utilisation and scenario.preemption is not None:
        raise InputError("oracle: with preemption, no bound of the reward term 'utilisation' is known")
    least = best_case_of(scenario, jobs)
    count, total = len(jobs.submit), scenario.gpus
    by_bound = 1e-9 / least.bound_s
    slowdown = weighted_completion(least, total, by_bound) - float((by_bound * jobs.submit).sum())
    alone = float(np.maximum(1.0, (least.run + (least.submit - jobs.submit)) * by_bound).sum())
    waiting = 0.0
    if scenario.preemption is None:
        ends = weighted_completion(least, total, np.ones(count))
        waiting = ends - float((least.submit + _longest(scenario, jobs) - jobs.served_before).sum())
    return {
        "slowdown": max(alone, slowdown),
        "waiting": max(0.0, waiting / HOUR_NS),
        "throughput": float(count),
        "utilisation": float((_longest(scenario, jobs) * jobs.gpus).sum()) / total / HOUR_NS,
        "energy": _least_energy(scenario, jobs, least),
        "unfairness": 0.0,
    }


def _longest(scenario: ClusterScenario, jobs: Jobs) -> np.ndarray:
    """Return the longest run times: on the slowest GPUs, at the slowest level, spread out."""
    factor = float(compiled_scenario(scenario).spec["levels"]["factor"].max())
    if scenario.placement != "flat":
        factor *= max(scenario.locality.nodes, scenario.locality.racks)
    return np.asarray(np.maximum(jobs.run, np.ceil(jobs.run * factor)))


def _least_energy(scenario: ClusterScenario, jobs: Jobs, least: BestCaseJobs) -> float:
    """Return a lower bound in kWh: an idle cluster until the least makespan, and each job where it takes least."""
    levels = compiled_scenario(scenario).spec["levels"]
    if (levels["power"] < 0).any():
        # Busy GPUs that draw less than idle ones have no lower bound.
        return 0.0
    fresh = jobs.served_before == 0
    work = float((jobs.run * jobs.gpus)[fresh].sum()) * float((levels["factor"] * levels["power"]).min())
    return (idle_milliwatts(scenario) * least_makespan(least, scenario.gpus) + work) / 1e6 / HOUR_NS
