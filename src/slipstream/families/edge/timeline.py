"""Timeline of an edge episode for rendering: jobs, and runs on streams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slipstream.families.edge.labels import run_labels
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared import runs
from slipstream.families.shared.timeline import Timeline


def timeline(scenario: EdgeScenario, events: np.ndarray) -> Timeline:
    """Return the timeline of an episode; a batch is one slice, named after its oldest job, or its first that missed."""
    line = runs.timeline_of(run_labels(scenario), events)
    if scenario.most_jobs == 1:
        return line
    run = runs.jobs_of(events, run_labels(scenario).deadline).slices.run
    missed = line.missed[line.slice_job]
    order = np.lexsort((np.arange(len(run)), ~missed, run))
    lead = order[np.searchsorted(run, np.arange(run[-1] + 1))] if len(run) else order
    sizes = np.bincount(run)
    return replace(
        line,
        slice_job=line.slice_job[lead],
        slice_resource=line.slice_resource[lead],
        slice_variant=line.slice_variant[lead],
        slice_start=line.slice_start[lead],
        slice_end=line.slice_end[lead],
        slice_group=line.slice_group[lead],
        parts=tuple(f"batch of {number}" if number != 1 else "alone" for number in range(scenario.most_jobs + 1)),
        slice_part=sizes,
    )
