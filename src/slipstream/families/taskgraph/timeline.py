"""Timeline of a taskgraph episode for plots: tasks on processors and transfers on links."""

from __future__ import annotations

import numpy as np

from slipstream.families.shared.runs import NO_DEADLINE
from slipstream.families.shared.timeline import ON_TIME, OPEN, Timeline
from slipstream.families.taskgraph.labels import run_labels
from slipstream.families.taskgraph.metrics import end_of, tasks_of, transfers_of
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.sim.eventlog import ARRIVAL, DONE


def timeline(scenario: TaskgraphScenario, events: np.ndarray) -> Timeline:
    """Return the timeline of a whole episode."""
    names = run_labels(scenario)
    tasks, transfers = tasks_of(events), transfers_of(events)
    end = end_of(events)
    release = events[events["kind"] == ARRIVAL]["time"].astype(np.int64)
    count = len(release)
    done = np.full(count, -1, np.int64)
    rows = events[events["kind"] == DONE]
    done[rows["job"]] = rows["time"]
    began = np.full(count, end, np.int64)
    np.minimum.at(began, tasks.job, tasks.start)
    # Among the variants, kinds of links follow the kinds of processors.
    kinds = len(scenario.processors)
    job, resource, start, stop = (
        np.concatenate((getattr(tasks, name), getattr(transfers, name))) for name in ("job", "resource", "start", "end")
    )
    variant = np.concatenate((tasks.variant, transfers.variant + kinds))
    order = np.argsort(start, kind="stable")
    return Timeline(
        tasks=names.tasks,
        variants=names.variants,
        resources=names.resources,
        end=end,
        task=np.arange(count),
        number=np.zeros(count, np.int64),
        release=release,
        deadline=np.full(count, NO_DEADLINE),
        finish=done,
        fate=np.where(done >= 0, ON_TIME, OPEN),
        wait_job=np.arange(count),
        wait_start=release,
        wait_end=np.maximum(began, release),
        slice_job=job[order],
        slice_resource=resource[order],
        slice_variant=variant[order],
        slice_start=start[order],
        slice_end=stop[order],
    )
