"""Metrics of one episode, computed from its event log.

The completion time of a job runs from its arrival to the end of its last task. Jobs that are not done when an episode
is truncated count in the reward, but not in averages over jobs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slipstream.families.dag.scenario import DagScenario
from slipstream.sim.eventlog import ARRIVAL, DONE, END, FAIL, FINISH, MOVE, READY, START


@dataclass(frozen=True)
class Jobs:
    """Jobs of an episode by arrival; times in ns."""

    template: np.ndarray
    arrival: np.ndarray
    done: np.ndarray
    """-1 if it is not done."""
    end: int
    """End of the episode."""

    @property
    def completion_s(self) -> np.ndarray:
        """Completion times of finished jobs, in seconds."""
        is_done = self.done >= 0
        return np.asarray((self.done[is_done] - self.arrival[is_done]) / 1e9)


@dataclass(frozen=True)
class Spans:
    """Time intervals in which executors ran tasks or moved; times in ns."""

    job: np.ndarray
    stage: np.ndarray
    executor: np.ndarray
    wave: np.ndarray
    """Wave of a task; -1 for moves."""
    start: np.ndarray
    end: np.ndarray
    """End of the episode if the interval was not over by then."""

    @property
    def total_s(self) -> float:
        """Sum of all intervals, in seconds."""
        return float((self.end - self.start).sum() / 1e9)


def jobs_of(events: np.ndarray) -> Jobs:
    """Return the jobs of an episode from its event log."""
    arrivals = events[events["kind"] == ARRIVAL]
    done = np.full(len(arrivals), -1, np.int64)
    ends = events[events["kind"] == DONE]
    done[ends["job"]] = ends["time"]
    return Jobs(arrivals["task"].astype(np.int64), arrivals["time"].astype(np.int64), done, _end(events))


def spans_of(events: np.ndarray, begin: int, finish: int) -> Spans:
    """Return the intervals between events of kind `begin` and `finish`: START and FINISH, or MOVE and READY.

    An attempt of a task that failed, which only happens on an engine, is an interval of its own.
    """
    failed = (events["kind"] == FAIL) & (events["resource"] >= 0) & (begin == START)
    rows = events[np.isin(events["kind"], (begin, finish)) | failed]
    order = np.argsort(rows["resource"], kind="stable")
    rows = rows[order]
    starts = np.flatnonzero(rows["kind"] == begin)
    follows = np.minimum(starts + 1, max(0, len(rows) - 1))
    same = (follows > starts) & (rows["resource"][follows] == rows["resource"][starts]) if len(rows) else follows > 0
    stop = np.where(same, rows["time"][follows] if len(rows) else 0, _end(events))
    taken = rows[starts]
    by_time = np.argsort(taken["time"], kind="stable")
    taken, stop = taken[by_time], stop[by_time]
    job, stage, executor, wave, start = (
        taken[name].astype(np.int64) for name in ("job", "task", "resource", "variant", "time")
    )
    return Spans(job, stage, executor, wave, start, stop.astype(np.int64))


def tasks_of(events: np.ndarray) -> Spans:
    """Return the tasks of an episode."""
    return spans_of(events, START, FINISH)


def moves_of(events: np.ndarray) -> Spans:
    """Return the moves of executors to jobs."""
    return spans_of(events, MOVE, READY)


def _end(events: np.ndarray) -> int:
    ends = events[events["kind"] == END]
    return int(ends["time"][-1]) if len(ends) else int(events["time"][-1]) if len(events) else 0


def jobs_in_system(jobs: Jobs) -> tuple[np.ndarray, np.ndarray]:
    """Return the times in ns at which the number of jobs in the system changes, and the number from each time on."""
    leaves = jobs.done[jobs.done >= 0]
    times = np.concatenate(([0], jobs.arrival, leaves))
    steps = np.concatenate(([0], np.ones(len(jobs.arrival), np.int64), -np.ones(len(leaves), np.int64)))
    moments, index = np.unique(times, return_inverse=True)
    return moments, np.cumsum(np.bincount(index, weights=steps)).astype(np.int64)


def metrics(scenario: DagScenario, events: np.ndarray) -> dict[str, float]:
    """Return the metrics of one episode by name."""
    jobs, tasks, moves = jobs_of(events), tasks_of(events), moves_of(events)
    completion = jobs.completion_s
    seconds = jobs.end / 1e9
    capacity = seconds * scenario.executors
    stayed = np.where(jobs.done >= 0, jobs.done, jobs.end) - jobs.arrival
    job_seconds = float(stayed.sum() / 1e9)
    counts = jobs_in_system(jobs)[1]
    reward = -scenario.reward.job_seconds * job_seconds - scenario.reward.makespan * seconds
    return {
        "reward": reward if scenario.reward.discount_per_s == 0.0 else math.nan,
        "avg_jct_s": float(completion.mean()) if len(completion) else 0.0,
        "jct_p50_s": _percentile(completion, 50),
        "jct_p95_s": _percentile(completion, 95),
        "jct_p99_s": _percentile(completion, 99),
        "makespan_s": seconds,
        "job_seconds": job_seconds,
        "utilisation": tasks.total_s / capacity if capacity else 0.0,
        "moving_share": moves.total_s / capacity if capacity else 0.0,
        "moves": float(len(moves.job)),
        "jobs_in_system_mean": job_seconds / seconds if seconds else 0.0,
        "jobs_in_system_max": float(counts.max(initial=0)),
        "tasks": float(len(tasks.job)),
        "fresh_share": float((tasks.wave == 0).mean()) if len(tasks.job) else 0.0,
        "stage_failures": float(((events["kind"] == FAIL) & (events["resource"] < 0)).sum()),
        "jobs_arrived": float(len(jobs.arrival)),
        "jobs_done": float((jobs.done >= 0).sum()),
    }


def unmodelled(scenario: DagScenario) -> set[str]:
    """Return the names of the metrics that say nothing about `scenario`."""
    found = {"stage_failures"} if scenario.failures is None else set()
    if not scenario.moving_delay_s:
        found.add("moving_share")
    if scenario.reward.discount_per_s:
        found.add("reward")  # the log has no decisions, from which the discount starts
    return found


def _percentile(values: np.ndarray, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0
