"""Episode in hindsight: its jobs with their releases and run times, and bounds on rates and rewards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.families.edge.scenario import (
    EdgeScenario,
    ExponentialLatency,
    LognormalLatency,
    Matrix,
    NoInterference,
    Share,
    Task,
    Variant,
)
from slipstream.families.shared.schema import nanoseconds
from slipstream.sim.eventlog import ARRIVAL
from slipstream.sim.kernel.rng import SPLITS, episode_key, exponential, normal, stream_key


@dataclass(frozen=True)
class Job:
    """One job in hindsight; times in ns."""

    task: int
    index: int
    release: int
    deadline: int
    weight: float
    runs: tuple[int, ...]
    """Run time in each variant at rate 1; where there are batches, the least that any oldest job would give it."""
    shares: tuple[int, ...]
    """Least stream time in each variant: a job of a batch takes its share of the run."""
    accuracies: tuple[float, ...]


def jobs_of(scenario: EdgeScenario, events: np.ndarray, seed: int, split: str) -> list[Job]:
    """Return the jobs of an episode, by task and release; any event log of the episode has the same releases."""
    # A key returned to Python is an int; compiled functions need it as a 64-bit unsigned integer.
    key = np.uint64(episode_key(SPLITS[split], seed))
    jobs = []
    arrivals = events[events["kind"] == ARRIVAL]
    factors = {
        (number, index): _latency_factor(scenario, np.uint64(stream_key(key, 2 + 2 * number)), index)
        for number, index in zip(arrivals["task"].tolist(), arrivals["job"].tolist(), strict=True)
    }
    least: dict[int, float] = {}
    for (number, _), factor in factors.items():
        least[number] = min(factor, least.get(number, factor))
    for event in arrivals:
        number, index, release = int(event["task"]), int(event["job"]), int(event["time"])
        task = scenario.tasks[number]
        # The oldest job of a batch decides how long the run takes.
        factor = factors[number, index] if len(task.batch_sizes) == 1 else least[number]
        jobs.append(
            Job(
                number,
                index,
                release,
                release + nanoseconds(task.relative_deadline_ms),
                task.weight,
                tuple(math.ceil(nanoseconds(variant.solo_ms) * factor) for variant in task.ladder),
                tuple(_least_share(task, variant, factor) for variant in task.ladder),
                tuple(variant.accuracy for variant in task.ladder),
            )
        )
    return sorted(jobs, key=lambda job: (job.task, job.index))


def _least_share(task: Task, variant: Variant, factor: float) -> int:
    """Return the least stream time of a job at rate 1: alone, or in the batch that serves it best."""
    times = [math.ceil(nanoseconds(variant.solo_run_ms(run)) * factor) for run in variant.runs]
    return min(time // size for time, size in zip(times, task.batch_sizes, strict=True))


def _latency_factor(scenario: EdgeScenario, key: Any, index: int) -> float:
    latency = scenario.device.latency
    if isinstance(latency, LognormalLatency):
        variance = math.log(1.0 + latency.cv * latency.cv)
        return math.exp(math.sqrt(variance) * normal(key, index) - variance / 2)
    if isinstance(latency, ExponentialLatency):
        return float(exponential(key, index, 1.0))
    return 1.0


def runs_at_solo_speed(scenario: EdgeScenario) -> bool:
    """Return whether every run takes its solo time from its start on, on any stream: CP-SAT schedules these."""
    device = scenario.device
    return (
        isinstance(device.interference, NoInterference)
        and device.preemption.kind == "none"
        and device.memory_mb is None
        and not scenario.has_load_times
        and scenario.reward.energy == 0.0
        and scenario.most_jobs == 1
    )


def best_rate(scenario: EdgeScenario, task: int, variant: int) -> float:
    """Return the best possible rate of a run of `variant`; above 1 where a measured slowdown is below 1."""
    interference = scenario.device.interference
    if not isinstance(interference, Matrix):
        return 1.0
    # The matrix has a row for each task, or one for each variant in the order of tasks.
    by_task = len(interference.slowdowns) == len(scenario.tasks)
    row = task if by_task else sum(before.num_variants for before in scenario.tasks[:task]) + variant
    return float(max(1.0, 1.0 / min(interference.slowdowns[row])) ** (scenario.device.streams - 1))


def worst_rate(scenario: EdgeScenario, task: int, variant: int) -> float:
    """Return a guaranteed rate of a run of `variant` beside any co-runners; 0 if none is guaranteed."""
    device = scenario.device
    if device.preemption.kind != "none" or scenario.most_jobs > 1:
        return 0.0
    if isinstance(device.interference, NoInterference):
        return 1.0
    # A job that loads weights holds a stream without using the shared throughput, so load times rule out a guarantee.
    if isinstance(device.interference, Share) and device.stream_priorities is None and not scenario.has_load_times:
        demand = scenario.tasks[task].ladder[variant].demand
        most = max(variant.demand for task in scenario.tasks for variant in task.ladder)
        total = demand + (device.streams - 1) * most
        return min(1.0, device.interference.total_throughput * demand / total)
    return 0.0


def expires(scenario: EdgeScenario, job: Job) -> bool:
    """Return whether the job, if it never starts, is dropped by its deadline."""
    return scenario.device.late == "drop" and job.deadline <= nanoseconds(scenario.horizon_ms)


def on_time_value(scenario: EdgeScenario, job: Job, variant: int) -> float:
    """Return the reward of finishing on time in `variant`."""
    return scenario.reward.on_time_accuracy * job.weight * job.accuracies[variant]


def drop_cost(scenario: EdgeScenario, job: Job) -> float:
    """Return the cost of losing the job: dropped, expired or rejected."""
    return scenario.reward.drops * job.weight


def best_utilisation(scenario: EdgeScenario, time: int) -> float:
    """Return the largest utilisation reward in `time` ns."""
    return scenario.reward.utilisation * time / 1e9
