"""Timeline of an episode of elastic jobs for rendering: jobs by model, and the GPUs that each held when."""

from __future__ import annotations

import numpy as np

from slipstream.families.elastic.build import compiled_scenario
from slipstream.families.elastic.labels import NOUNS, gpu_names, sizes_of
from slipstream.families.elastic.metrics import jobs_of
from slipstream.families.elastic.scenario import ElasticScenario
from slipstream.families.shared.runs import gpus_of_spans, waits_of
from slipstream.families.shared.timeline import NO_DEADLINE, ON_TIME, OPEN, Timeline


def timeline(scenario: ElasticScenario, events: np.ndarray) -> Timeline:
    """Return the timeline of an episode; a slice's variant is the number of GPUs that its job has."""
    parts, jobs = compiled_scenario(scenario), jobs_of(events)
    spans, count = jobs.spans, len(jobs.arrival)
    models = parts.workload.models
    model_of = parts.spec["templates"]["model"]
    span, gpu = gpus_of_spans([kind.gpus for kind in scenario.kinds], events)
    sizes, names = sizes_of(scenario)
    wait_job, wait_start, wait_end = waits_of(jobs.arrival, spans)
    return Timeline(
        tasks=models,
        variants=(names,) * len(models),
        resources=gpu_names(scenario),
        end=jobs.end,
        task=model_of[jobs.template],
        number=np.arange(count),  # as in the log, and in the names of candidates
        release=jobs.arrival,
        deadline=np.full(count, NO_DEADLINE),
        finish=jobs.finish,
        fate=np.where(jobs.finish >= 0, ON_TIME, OPEN),
        wait_job=wait_job,
        wait_start=wait_start,
        wait_end=wait_end,
        slice_job=spans.job[span],
        slice_resource=gpu,
        slice_variant=np.searchsorted(sizes, spans.gpus[span]),
        slice_start=spans.start[span],
        slice_end=spans.end[span],
        nouns=NOUNS,
    )
