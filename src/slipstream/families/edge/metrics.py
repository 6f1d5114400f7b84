"""Metrics of the edge family, all from the event log of one episode.

A job counts as *judged* when its outcome is known: it finished, it was dropped, or its deadline had passed when the
episode ended. Jobs that are still in time at the end are neither hits nor misses. Miss rates are over judged jobs,
never only over executed ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slipstream.families.edge.scenario import BatchRun, EdgeScenario, Variant
from slipstream.families.shared import runs
from slipstream.families.shared.runs import Jobs
from slipstream.families.shared.schema import NANOSECONDS_PER_MS, nanoseconds
from slipstream.families.shared.timeline import DROPPED, FAILED, LATE, ON_TIME, OPEN
from slipstream.sim.eventlog import PREEMPT

WEAKLY_HARD_WINDOW = 10
"""Consecutive jobs of a task in a window of the weakly-hard metric, the most misses in any such window."""


def jobs_of(scenario: EdgeScenario, events: np.ndarray) -> Jobs:
    """Return the jobs of an episode from its event log."""
    return runs.jobs_of(events, [nanoseconds(task.relative_deadline_ms) for task in scenario.tasks])


def metrics(scenario: EdgeScenario, events: np.ndarray) -> dict[str, float]:
    """Return the metrics of one episode, by name."""
    jobs = jobs_of(scenario, events)
    weight = np.array([task.weight for task in scenario.tasks])[jobs.task]
    first, batch = _runs(scenario, jobs)
    table = _by_run(scenario, lambda variant, run: (variant.accuracy, variant.solo_ms, variant.solo_run_ms(run)))
    last_batch = np.zeros(len(jobs.task), np.int64)
    last_batch[jobs.slices.job] = batch
    accuracy, solo_ms, run_ms = table[jobs.task, np.maximum(jobs.variant, 0), last_batch].T

    judged = jobs.fate != OPEN
    missed = judged & (jobs.fate != ON_TIME)
    on_time = jobs.fate == ON_TIME
    done = jobs.finish >= 0
    seconds = jobs.end / 1e9
    response_ms = (jobs.finish - jobs.release)[done] / NANOSECONDS_PER_MS
    held = np.bincount(jobs.slices.job, jobs.slices.length, minlength=len(jobs.task))
    service_ms = held[done] / NANOSECONDS_PER_MS
    tardiness = np.maximum(jobs.finish - jobs.deadline, 0)[done] / NANOSECONDS_PER_MS
    busy = float(jobs.slices.length[first].sum() / 1e9)
    energy = _energy(scenario, jobs, first, batch)
    terms = {
        "on_time_accuracy": float((weight * accuracy)[on_time].sum()),
        "lateness": float((weight * _lateness(jobs))[jobs.fate == LATE].sum()),
        "drops": float(weight[np.isin(jobs.fate, (DROPPED, FAILED))].sum()),
        "utilisation": busy / scenario.device.streams,
    }
    slowdown = service_ms / run_ms[done] if done.any() else np.zeros(0)
    figures = {
        "reward": scenario.reward.on_time_accuracy * terms["on_time_accuracy"]
        - scenario.reward.lateness * terms["lateness"]
        - scenario.reward.drops * terms["drops"]
        + scenario.reward.utilisation * terms["utilisation"]
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
        "jobs_per_run": _ratio(len(first), first.sum()),
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
    for class_ in sorted({task.criticality for task in scenario.tasks}):
        own = criticality == class_
        figures[f"miss_rate/class-{class_}"] = _ratio((missed & own).sum(), (judged & own).sum())
    return figures


def unmodelled(scenario: EdgeScenario) -> set[str]:
    """Return the names of the metrics that say nothing about `scenario`."""
    device, tasks = scenario.device, scenario.tasks
    found = {"fail_rate"}  # only the models of a real device fail
    if not any((device.idle_w, *(device.power_of(variant) for task in tasks for variant in task.ladder))):
        found |= {"energy_j", "energy_per_job_j", "power_mean_w"}
    if device.preemption.kind == "none":
        found.add("preemptions")
    if scenario.most_jobs == 1:
        found.add("jobs_per_run")
    if not device.decision_time_ms:
        found.add("decision_time_ms")
    if len({task.weight for task in tasks}) == 1:
        found.add("weighted_miss_rate")
    classes = {task.criticality for task in tasks}
    return found | {f"miss_rate/class-{class_}" for class_ in classes if len(classes) == 1}


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else 0.0


def _percentile(values: np.ndarray, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0


def _lateness(jobs: Jobs) -> np.ndarray:
    return np.asarray(np.minimum(1.0, (jobs.finish - jobs.deadline) / (jobs.deadline - jobs.release)))


def _runs(scenario: EdgeScenario, jobs: Jobs) -> tuple[np.ndarray, np.ndarray]:
    """Return for each slice whether it is the first of its run, and the index of the run's size among the sizes."""
    slices = jobs.slices
    if scenario.most_jobs == 1:
        return np.ones(len(slices.job), bool), np.zeros(len(slices.job), np.int64)
    run = slices.run
    most = max(len(task.batch_sizes) for task in scenario.tasks)
    sizes = np.array([task.batch_sizes + [0] * (most - len(task.batch_sizes)) for task in scenario.tasks])
    found = sizes[jobs.task[slices.job]] == np.bincount(run)[run][:, None]
    return np.diff(run, prepend=-1) > 0, np.asarray(found.argmax(axis=1))


def _by_run(scenario: EdgeScenario, values: Callable[[Variant, BatchRun | Variant], tuple[float, ...]]) -> np.ndarray:
    """Return the values of every kind of run: an array of shape (tasks, variants, batch sizes, values)."""
    rows = [[[values(variant, run) for run in variant.runs] for variant in task.ladder] for task in scenario.tasks]
    shape = (len(rows), max(map(len, rows)), max(len(row[0]) for row in rows), len(rows[0][0][0]))
    table = np.zeros(shape)
    for task, row in enumerate(rows):
        table[task, : len(row), : len(row[0])] = row
    return table


def _energy(scenario: EdgeScenario, jobs: Jobs, first: np.ndarray, batch: np.ndarray) -> float:
    """Return the energy of the device in joules: idle power, and the power of every run while it held a stream."""
    device, slices = scenario.device, jobs.slices
    watts = _by_run(scenario, lambda variant, run: (device.power_of(variant, run),))[..., 0]
    added = (watts[jobs.task[slices.job], slices.variant, batch] * slices.length)[first]
    return float((device.idle_w * jobs.end + added.sum()) / 1e9)


def _covered_seconds(jobs: Jobs) -> float:
    """Return the seconds during which at least one stream ran."""
    begin, end = jobs.slices.start, jobs.slices.end
    if not len(begin):
        return 0.0
    reach = np.maximum.accumulate(end)
    before = np.concatenate(([begin[0]], reach[:-1]))
    return float(np.maximum(0, end - np.maximum(begin, before)).sum() / 1e9)


def _worst_window(jobs: Jobs, missed: np.ndarray) -> int:
    """Return the most misses among WEAKLY_HARD_WINDOW consecutive jobs of any one task."""
    worst = 0
    for task in np.unique(jobs.task):
        sums = np.concatenate(([0], np.cumsum(missed[jobs.task == task])))
        span = min(WEAKLY_HARD_WINDOW, len(sums) - 1)
        worst = max(worst, int((sums[span:] - sums[:-span]).max()))
    return worst
