"""An episode of the edge family as pictures show it: jobs, and slices of the streams."""

from __future__ import annotations

import numpy as np

from slipstream.core import laws
from slipstream.core.eventlog import DROP, EXPIRE, REJECT
from slipstream.core.timeline import Timeline
from slipstream.edge.metrics import jobs_of
from slipstream.edge.scenario import EdgeScenario
from slipstream.errors import LawError


def timeline(scenario: EdgeScenario, events: np.ndarray) -> Timeline:
    """Return the timeline of a whole episode; a log that cannot be of this scenario is a LawError."""
    laws.check(events, scenario.device.streams)
    if events["task"].max() >= len(scenario.tasks):
        raise LawError(f"task {events['task'].max()}: expected numbers below {len(scenario.tasks)}, as in the scenario")
    jobs = jobs_of(scenario, events)
    first = np.searchsorted(jobs.task, np.arange(len(scenario.tasks)))
    left = np.where(jobs.start >= 0, jobs.start, jobs.end)
    drops = events[np.isin(events["kind"], (EXPIRE, REJECT, DROP))]
    left[first[drops["task"]] + drops["job"]] = drops["time"]
    return Timeline(
        tasks=tuple(task.name for task in scenario.tasks),
        variants=tuple(
            tuple(v.name or f"variant {rank}" for rank, v in enumerate(task.ladder)) for task in scenario.tasks
        ),
        resources=tuple(f"stream {stream}" for stream in range(scenario.device.streams)),
        end=jobs.end,
        task=jobs.task,
        number=np.arange(len(jobs.task)) - first[jobs.task],
        release=jobs.release,
        deadline=jobs.deadline,
        left=left,
        finish=jobs.finish,
        fate=jobs.fate,
        slice_job=jobs.slices.job,
        slice_resource=jobs.slices.resource,
        slice_variant=jobs.slices.variant,
        slice_start=jobs.slices.start,
        slice_end=jobs.slices.end,
    )
