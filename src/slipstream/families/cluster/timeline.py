"""Timeline of a cluster episode for rendering: jobs of users, and the GPUs that each held when."""

from __future__ import annotations

import numpy as np

from slipstream.families.cluster.build import compiled_scenario
from slipstream.families.cluster.labels import run_labels
from slipstream.families.cluster.metrics import end_of, jobs_of
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.shared.runs import gpus_of_spans, spans_of, waits_of
from slipstream.families.shared.timeline import NO_DEADLINE, ON_TIME, OPEN, Timeline
from slipstream.files.wording import natural_key


def timeline(scenario: ClusterScenario, events: np.ndarray) -> Timeline:
    """Return the timeline of an episode."""
    jobs, spans = jobs_of(scenario, events), spans_of(events)
    count = len(jobs.submit)
    names, workload = run_labels(scenario), compiled_scenario(scenario).workload
    users = sorted(workload.users, key=natural_key)  # the workload's own order is part of digests
    position = {user: index for index, user in enumerate(users)}
    place_of = np.array([position[user] for user in workload.users], np.int64)
    flat = scenario.placement == "flat"
    sizes = [scenario.gpus] if flat else compiled_scenario(scenario).spec["nodes"]["gpus"].astype(int).tolist()
    span, gpu = gpus_of_spans(sizes, events, flat)
    # Pictures begin with the episode.
    submit = np.maximum(0, jobs.submit)
    wait_job, wait_start, wait_end = waits_of(submit, spans)
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
        slice_variant=spans.variant[span],
        slice_start=spans.start[span],
        slice_end=spans.end[span],
        nouns=names.nouns,
    )
