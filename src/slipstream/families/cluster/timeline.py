"""Timeline of a cluster episode for rendering: jobs of users, and the GPUs that each held when."""

from __future__ import annotations

import heapq

import numpy as np

from slipstream.families.cluster.build import compiled_scenario
from slipstream.families.cluster.labels import run_labels
from slipstream.families.cluster.metrics import end_of, jobs_of, spans_of
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.shared.timeline import NO_DEADLINE, ON_TIME, OPEN, Timeline
from slipstream.files.wording import natural_key
from slipstream.sim.eventlog import FINISH, PREEMPT, START, TAKE


def timeline(scenario: ClusterScenario, events: np.ndarray) -> Timeline:
    """Return the timeline of an episode."""
    jobs, spans = jobs_of(scenario, events), spans_of(events)
    count = len(jobs.submit)
    names, workload = run_labels(scenario), compiled_scenario(scenario).workload
    users = sorted(workload.users, key=natural_key)  # the workload's own order is part of digests
    position = {user: index for index, user in enumerate(users)}
    place_of = np.array([position[user] for user in workload.users], np.int64)
    span, gpu = gpus_of_spans(scenario, events)
    # Pictures begin with the episode.
    submit = np.maximum(0, jobs.submit)
    wait_job, wait_start, wait_end = _waits(submit, spans.job, spans.start, spans.end, jobs.finish)
    return Timeline(
        tasks=tuple(users),
        variants=names.variants[:1] * len(users),
        resources=names.resources,
        end=end_of(events),
        task=place_of[jobs.user],
        number=np.arange(count),  # as in the log, and in the names of candidates
        release=submit,
        deadline=np.full(count, NO_DEADLINE),
        finish=jobs.finish,
        fate=np.where(jobs.finish >= 0, ON_TIME, OPEN),
        wait_job=wait_job,
        wait_start=wait_start,
        wait_end=wait_end,
        slice_job=spans.job[span],
        slice_resource=gpu,
        slice_variant=spans.level[span],
        slice_start=spans.start[span],
        slice_end=spans.end[span],
        nouns=names.nouns,
    )


def _waits(
    submit: np.ndarray, job: np.ndarray, start: np.ndarray, end: np.ndarray, finish: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return when jobs waited: before each start, since the submission or the interruption before it."""
    order = np.lexsort((start, job))
    job, start, end = job[order], start[order], end[order]
    again = np.concatenate(([False], job[1:] == job[:-1]))
    since = np.where(again, np.concatenate(([0], end[:-1])), submit[job])
    return job, since, start


def gpus_of_spans(scenario: ClusterScenario, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of a span and a GPU, by start: a job gets the free GPUs with the lowest numbers of each node.

    The machine counts the GPUs of nodes, or of the whole cluster, without numbering them; rendering needs numbers.
    """
    sizes = compiled_scenario(scenario).spec["nodes"]["gpus"].astype(int).tolist()
    groups = [scenario.gpus] if scenario.placement == "flat" else sizes
    firsts = np.concatenate(([0], np.cumsum(groups))).tolist()
    free = [list(range(firsts[group], firsts[group + 1])) for group in range(len(groups))]
    held: dict[int, list[tuple[int, int]]] = {}
    spans: list[int] = []
    gpus: list[int] = []
    span = -1
    columns = (events[name].tolist() for name in ("kind", "job", "task", "resource"))
    for kind, job, count, resource in zip(*columns, strict=True):
        if kind == START:
            span += 1
            held[job] = []
        if kind == TAKE or (kind == START and scenario.placement == "flat"):
            group = 0 if scenario.placement == "flat" else resource
            taken = [heapq.heappop(free[group]) for _ in range(count)]
            held[job] += [(group, gpu) for gpu in taken]
            spans += [span] * count
            gpus += taken
        elif kind in (FINISH, PREEMPT):
            for group, gpu in held.pop(job):
                heapq.heappush(free[group], gpu)
    return np.array(spans, np.int64), np.array(gpus, np.int64)
