"""Timeline of a serving episode for rendering: requests, and batches on accelerators."""

from __future__ import annotations

import numpy as np

from slipstream.families.serving import metrics as m
from slipstream.families.serving.labels import run_labels
from slipstream.families.serving.scenario import ServingScenario
from slipstream.families.shared.timeline import DROPPED, LATE, ON_TIME, OPEN, OVERDUE, Timeline


def timeline(scenario: ServingScenario, events: np.ndarray) -> Timeline:
    """Return the timeline of an episode.

    A batch is one slice, named after its first request, or after its first late one.
    """
    names, requests = run_labels(scenario), m.requests_of(scenario, events)
    on_time = requests.on_time
    fate = np.select(
        [on_time, requests.fate == m.FINISHED, requests.fate != m.OPEN, requests.deadline <= requests.end],
        [ON_TIME, LATE, DROPPED, OVERDUE],
        OPEN,
    )
    waited = np.select([requests.start >= 0, requests.left >= 0], [requests.start, requests.left], requests.end)
    started = np.flatnonzero(requests.start >= 0)
    late = fate[started] != ON_TIME
    order = started[np.lexsort((started, ~late, requests.accelerator[started], requests.start[started]))]
    start, accelerator = requests.start[order], requests.accelerator[order]
    leads = np.ones(len(order), bool)
    leads[1:] = (start[1:] != start[:-1]) | (accelerator[1:] != accelerator[:-1])
    lead = order[leads]
    size = np.diff(np.append(np.flatnonzero(leads), len(order)))
    return Timeline(
        tasks=names.tasks,
        variants=names.variants,
        resources=names.resources,
        end=requests.end,
        task=requests.model,
        number=requests.number,
        release=requests.arrival,
        deadline=requests.deadline,
        finish=requests.finish,
        fate=fate,
        wait_job=np.arange(len(requests.model)),
        wait_start=requests.arrival,
        wait_end=waited,
        slice_job=lead,
        slice_resource=requests.accelerator[lead],
        slice_variant=requests.variant[lead],
        slice_start=requests.start[lead],
        slice_end=requests.finish[lead],
        nouns=names.nouns,
        parts=tuple(f"batch of {number}" for number in range(int(size.max(initial=0)) + 1)),
        slice_part=size,
    )
