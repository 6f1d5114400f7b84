"""The figures this field reports, all from the event log of one episode.

A job counts as *judged* when its fate is known: it finished, it was dropped, or its deadline had passed when the
episode ended. Jobs still in time at the end are neither hits nor misses. Miss rates are over judged jobs, never only
over executed ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slipstream.core.eventlog import ARRIVAL, DROP, END, EXPIRE, FAIL, FINISH, PREEMPT, REJECT, START
from slipstream.core.parts import NANOSECONDS_PER_MS, nanoseconds
from slipstream.edge.scenario import EdgeScenario

WINDOW = 10
"""Jobs in a window of the weakly-hard metric: the most misses among any so many consecutive jobs of a task."""

UNKNOWN, ON_TIME, LATE, DROPPED, OVERDUE, FAILED = range(6)


@dataclass(frozen=True)
class Jobs:
    """Every job of an episode, sorted by task and release; times in ns, -1 where the thing never happened."""

    task: np.ndarray
    release: np.ndarray
    deadline: np.ndarray
    start: np.ndarray
    """When it first started."""
    finish: np.ndarray
    variant: np.ndarray
    """As it was started last."""
    fate: np.ndarray
    end: int
    """When the episode ended."""
    slices: Slices


@dataclass(frozen=True)
class Slices:
    """The times for which jobs held streams: one of each job, or several where it was interrupted; times in ns."""

    job: np.ndarray
    """Index into the jobs."""
    variant: np.ndarray
    resource: np.ndarray
    start: np.ndarray
    """Ascending."""
    end: np.ndarray
    """The end of the episode where the job still held its stream then."""

    @property
    def length(self) -> np.ndarray:
        """How long each lasted."""
        return np.asarray(self.end - self.start)


def jobs_of(scenario: EdgeScenario, events: np.ndarray) -> Jobs:
    """Return the jobs of an episode from its event log."""
    arrivals = events[events["kind"] == ARRIVAL]
    order = np.lexsort((arrivals["job"], arrivals["task"]))
    arrivals = arrivals[order]
    task, count = arrivals["task"].astype(np.int64), len(arrivals)
    first = np.searchsorted(task, np.arange(len(scenario.tasks)))
    relative = np.array([nanoseconds(task.relative_deadline_ms) for task in scenario.tasks])
    deadline = arrivals["time"] + relative[task]
    ends = events[events["kind"] == END]
    end = int(ends["time"][-1]) if len(ends) else int(events["time"][-1]) if len(events) else 0

    def place(rows: np.ndarray) -> np.ndarray:
        return np.asarray(first[rows["task"]] + rows["job"])

    slices = _slices(events, place, end, count)
    start, finish, variant = (np.full(count, -1, np.int64) for _ in range(3))
    fate = np.where(deadline <= end, OVERDUE, UNKNOWN)
    # Of several values for one place the last stays: so the first start, and the last variant.
    start[slices.job[::-1]] = slices.start[::-1]
    variant[slices.job] = slices.variant
    finishes = events[events["kind"] == FINISH]
    finish[place(finishes)] = finishes["time"]
    fate[place(finishes)] = np.where(finishes["time"] <= deadline[place(finishes)], ON_TIME, LATE)
    fate[place(events[np.isin(events["kind"], (EXPIRE, REJECT, DROP))])] = DROPPED
    fate[place(events[events["kind"] == FAIL])] = FAILED
    return Jobs(task, arrivals["time"], deadline, start, finish, variant, fate, end, slices)


def _slices(events: np.ndarray, place: Callable[[np.ndarray], np.ndarray], end: int, count: int) -> Slices:
    if not (events["kind"] == PREEMPT).any():
        return _whole_slices(events, place, end, count)
    rows = events[np.isin(events["kind"], (START, FINISH, FAIL, PREEMPT))]
    job = place(rows)
    order = np.argsort(job, kind="stable")
    rows, job = rows[order], job[order]
    starts = np.flatnonzero(rows["kind"] == START)
    after = np.minimum(starts + 1, max(0, len(rows) - 1))
    left = (after > starts) & (job[after] == job[starts])
    stop = np.where(left, rows["time"][after], end)
    by_time = np.argsort(order[starts])
    starts, stop = starts[by_time], stop[by_time]
    taken = rows[starts]
    return Slices(
        job[starts],
        taken["variant"].astype(np.int64),
        taken["resource"].astype(np.int64),
        taken["time"].astype(np.int64),
        stop.astype(np.int64),
    )


def _whole_slices(events: np.ndarray, place: Callable[[np.ndarray], np.ndarray], end: int, count: int) -> Slices:
    """Return the slices where nobody is interrupted: every job has at most one, and nothing need be sorted."""
    starts, leaves = events[events["kind"] == START], events[np.isin(events["kind"], (FINISH, FAIL))]
    left = np.full(count, end, np.int64)
    left[place(leaves)] = leaves["time"]
    job = place(starts)
    return Slices(
        job,
        starts["variant"].astype(np.int64),
        starts["resource"].astype(np.int64),
        starts["time"].astype(np.int64),
        left[job],
    )


def metrics(scenario: EdgeScenario, events: np.ndarray) -> dict[str, float]:
    """Return the metrics of one episode by name."""
    jobs = jobs_of(scenario, events)
    weight = np.array([task.weight for task in scenario.tasks])[jobs.task]
    ladders = [[(v.accuracy, v.solo_ms) for v in task.ladder] for task in scenario.tasks]
    longest = max(len(ladder) for ladder in ladders)
    table = np.array([ladder + [(0.0, 0.0)] * (longest - len(ladder)) for ladder in ladders])
    accuracy = table[jobs.task, np.maximum(jobs.variant, 0), 0]
    solo_ms = table[jobs.task, np.maximum(jobs.variant, 0), 1]

    judged = jobs.fate != UNKNOWN
    missed = judged & (jobs.fate != ON_TIME)
    on_time = jobs.fate == ON_TIME
    done = jobs.finish >= 0
    seconds = jobs.end / 1e9
    response_ms = (jobs.finish - jobs.release)[done] / NANOSECONDS_PER_MS
    held = np.bincount(jobs.slices.job, jobs.slices.length, minlength=len(jobs.task))
    service_ms = held[done] / NANOSECONDS_PER_MS
    tardiness = np.maximum(jobs.finish - jobs.deadline, 0)[done] / NANOSECONDS_PER_MS
    busy = float(jobs.slices.length.sum() / 1e9)
    energy = _energy(scenario, jobs)
    gains = {
        "on_time_accuracy": float((weight * accuracy)[on_time].sum()),
        "lateness": float((weight * _lateness(jobs))[jobs.fate == LATE].sum()),
        "drops": float(weight[np.isin(jobs.fate, (DROPPED, FAILED))].sum()),
        "utilisation": busy / scenario.device.streams,
    }
    slowdown = service_ms / solo_ms[done] if done.any() else np.zeros(0)
    figures = {
        "reward": scenario.reward.on_time_accuracy * gains["on_time_accuracy"]
        - scenario.reward.lateness * gains["lateness"]
        - scenario.reward.drops * gains["drops"]
        + scenario.reward.utilisation * gains["utilisation"]
        - scenario.reward.energy * energy,
        "miss_rate": _ratio(missed.sum(), judged.sum()),
        "weighted_miss_rate": _ratio(weight[missed].sum(), weight[judged].sum()),
        "effective_accuracy": _ratio(accuracy[on_time].sum(), judged.sum()),
        "executed_accuracy": _ratio(accuracy[done].sum(), done.sum()),
        "late_rate": _ratio((jobs.fate == LATE).sum(), judged.sum()),
        "drop_rate": _ratio((jobs.fate == DROPPED).sum(), judged.sum()),
        "fail_rate": _ratio((jobs.fate == FAILED).sum(), judged.sum()),
        "tardiness_mean_ms": float(tardiness.mean()) if done.any() else 0.0,
        "tardiness_p99_ms": _percentile(tardiness, 99),
        "response_p50_ms": _percentile(response_ms, 50),
        "response_p95_ms": _percentile(response_ms, 95),
        "response_p99_ms": _percentile(response_ms, 99),
        "latency_increase": float(slowdown.mean()) if done.any() else 0.0,
        "antt": float((response_ms / solo_ms[done]).mean()) if done.any() else 0.0,
        "stp": _ratio(solo_ms[done].sum() / 1e3, _covered_seconds(jobs)),
        "throughput_hz": _ratio(done.sum(), seconds),
        "utilisation": _ratio(busy, seconds * scenario.device.streams),
        "energy_j": energy,
        "energy_per_job_j": _ratio(energy, done.sum()),
        "power_mean_w": _ratio(energy, seconds),
        "preemptions": float((events["kind"] == PREEMPT).sum()),
        "decision_time_ms": scenario.device.decision_time_ms,
        "worst_window_misses": float(_worst_window(jobs, missed)),
        "released": float(len(jobs.task)),
        "judged": float(judged.sum()),
    }
    for index, task in enumerate(scenario.tasks):
        own = jobs.task == index
        figures[f"miss_rate/{task.name}"] = _ratio((missed & own).sum(), (judged & own).sum())
        figures[f"effective_accuracy/{task.name}"] = _ratio(accuracy[on_time & own].sum(), (judged & own).sum())
    criticality = np.array([task.criticality for task in scenario.tasks])[jobs.task]
    for level in sorted({task.criticality for task in scenario.tasks}):
        own = criticality == level
        figures[f"miss_rate/class-{level}"] = _ratio((missed & own).sum(), (judged & own).sum())
    return figures


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else 0.0


def _percentile(values: np.ndarray, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0


def _lateness(jobs: Jobs) -> np.ndarray:
    return np.asarray(np.minimum(1.0, (jobs.finish - jobs.deadline) / (jobs.deadline - jobs.release)))


def _energy(scenario: EdgeScenario, jobs: Jobs) -> float:
    """Return the joules that the device took: idle all the time, and for every job while it held a stream."""
    device = scenario.device
    watts = [[device.power_of(variant) for variant in task.ladder] for task in scenario.tasks]
    longest = max(len(row) for row in watts)
    table = np.array([row + [0.0] * (longest - len(row)) for row in watts])
    slices = jobs.slices
    added = table[jobs.task[slices.job], slices.variant] * slices.length
    return float((device.idle_w * jobs.end + added.sum()) / 1e9)


def _covered_seconds(jobs: Jobs) -> float:
    """Return the time during which at least one stream ran."""
    begin, end = jobs.slices.start, jobs.slices.end
    if not len(begin):
        return 0.0
    reach = np.maximum.accumulate(end)
    before = np.concatenate(([begin[0]], reach[:-1]))
    return float(np.maximum(0, end - np.maximum(begin, before)).sum() / 1e9)


def _worst_window(jobs: Jobs, missed: np.ndarray) -> int:
    """Return the most misses among WINDOW consecutive jobs of any one task (weakly-hard view)."""
    worst = 0
    for task in np.unique(jobs.task):
        sums = np.concatenate(([0], np.cumsum(missed[jobs.task == task])))
        span = min(WINDOW, len(sums) - 1)
        worst = max(worst, int((sums[span:] - sums[:-span]).max()))
    return worst
