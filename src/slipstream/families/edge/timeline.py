"""Timeline of an edge episode for rendering: jobs, waits, and slices of the streams."""

from __future__ import annotations

import numpy as np

from slipstream.families.edge.labels import run_labels
from slipstream.families.edge.metrics import jobs_of, jobs_of_rows, rows_of
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared.timeline import Timeline
from slipstream.sim.eventlog import ARRIVAL, DROP, EXPIRE, PREEMPT, REJECT, START


def timeline(scenario: EdgeScenario, events: np.ndarray) -> Timeline:
    """Return the timeline of a whole episode."""
    jobs = jobs_of(scenario, events)
    first = np.searchsorted(jobs.task, np.arange(len(scenario.tasks)))
    # A job waits from its release, and again from each preemption, until it starts, is dropped, or the episode ends.
    wait_job, wait_start = _by_job(events, rows_of(events["kind"], ARRIVAL, PREEMPT), first)
    end_job, wait_end = _by_job(events, rows_of(events["kind"], START, EXPIRE, REJECT, DROP), first)
    # Starts and ends of a job's waits alternate, so at most its last wait has no end.
    still = np.bincount(wait_job, minlength=len(jobs.task)) > np.bincount(end_job, minlength=len(jobs.task))
    order = np.argsort(np.concatenate((end_job, np.flatnonzero(still))), kind="stable")
    wait_end = np.concatenate((wait_end, np.full(int(still.sum()), jobs.end)))[order]
    labels = run_labels(scenario)
    return Timeline(
        tasks=labels.tasks,
        variants=labels.variants,
        resources=labels.resources,
        end=jobs.end,
        task=jobs.task,
        number=np.arange(len(jobs.task)) - first[jobs.task],
        release=jobs.release,
        deadline=jobs.deadline,
        wait_job=wait_job,
        wait_start=wait_start,
        wait_end=wait_end,
        finish=jobs.finish,
        fate=jobs.fate,
        slice_job=jobs.slices.job,
        slice_resource=jobs.slices.resource,
        slice_variant=jobs.slices.variant,
        slice_start=jobs.slices.start,
        slice_end=jobs.slices.end,
    )


def _by_job(events: np.ndarray, rows: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the jobs and times of `rows`, sorted by job, then by time."""
    job = jobs_of_rows(events, rows, first)
    order = np.argsort(job, kind="stable")
    return np.asarray(job[order]), np.asarray(events["time"][rows[order]])
