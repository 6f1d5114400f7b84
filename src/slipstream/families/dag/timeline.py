"""Timeline of a dag episode for plots: jobs, and the intervals in which executors ran their stages."""

from __future__ import annotations

import numpy as np

from slipstream.families.dag.build import compiled_scenario
from slipstream.families.dag.labels import run_labels, stage_title
from slipstream.families.dag.metrics import jobs_of, tasks_of
from slipstream.families.dag.scenario import DagScenario
from slipstream.families.shared.timeline import NO_DEADLINE, ON_TIME, OPEN, Timeline


def timeline(scenario: DagScenario, events: np.ndarray) -> Timeline:
    """Return the timeline of a whole episode.

    Consecutive tasks of one stage on an executor are one slice, because an episode has too many tasks to draw each.
    """
    jobs, tasks = jobs_of(events), tasks_of(events)
    order = np.lexsort((tasks.start, tasks.executor))
    job, stage, executor, wave, start, end = (
        column[order] for column in (tasks.job, tasks.stage, tasks.executor, tasks.wave, tasks.start, tasks.end)
    )
    goes_on = np.zeros(len(job), bool)
    goes_on[1:] = (
        (executor[1:] == executor[:-1]) & (job[1:] == job[:-1]) & (stage[1:] == stage[:-1]) & (start[1:] == end[:-1])
    )
    first = np.flatnonzero(~goes_on)
    last = np.append(first[1:], len(job)) - 1 if len(first) else first
    by_time = np.argsort(start[first], kind="stable")
    first, last = first[by_time], last[by_time]
    count = len(jobs.arrival)
    began = np.full(count, jobs.end, np.int64)
    np.minimum.at(began, job, start)
    names = run_labels(scenario)
    templates = compiled_scenario(scenario).library.templates
    parts = tuple(f"{one.name}, {stage_title(stage.name)}" for one in templates for stage in one.stages)
    before = np.cumsum([0, *(len(one.stages) for one in templates)])
    return Timeline(
        tasks=names.tasks,
        variants=names.variants,
        resources=names.resources,
        end=jobs.end,
        task=np.arange(count),
        number=np.zeros(count, np.int64),
        release=jobs.arrival,
        deadline=np.full(count, NO_DEADLINE),
        finish=jobs.done,
        fate=np.where(jobs.done >= 0, ON_TIME, OPEN),
        wait_job=np.arange(count),
        wait_start=jobs.arrival,
        wait_end=np.maximum(began, jobs.arrival),
        slice_job=job[first],
        slice_resource=executor[first],
        slice_variant=wave[first],
        slice_start=start[first],
        slice_end=end[last],
        nouns=names.nouns,
        parts=parts,
        slice_part=before[jobs.template[job[first]]] + stage[first],
    )
