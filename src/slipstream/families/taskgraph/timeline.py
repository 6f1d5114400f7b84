"""Timeline of a taskgraph episode for plots: tasks on processors and transfers on links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slipstream.families.shared.timeline import NO_DEADLINE, ON_TIME, OPEN, Timeline
from slipstream.families.taskgraph.build import compiled_scenario
from slipstream.families.taskgraph.labels import TRANSFER, run_labels
from slipstream.families.taskgraph.metrics import Spans, end_of, tasks_of, transfers_of
from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.families.taskgraph.workload.templates import Template
from slipstream.sim.eventlog import ARRIVAL, DONE


def timeline(scenario: TaskgraphScenario, events: np.ndarray) -> Timeline:
    """Return the timeline of a whole episode.

    Bars are coloured by job; where there is only one, by kernel.
    """
    names = run_labels(scenario)
    tasks, transfers = tasks_of(events), transfers_of(events)
    end = end_of(events)
    arrivals = events[events["kind"] == ARRIVAL]
    release, count = arrivals["time"].astype(np.int64), len(arrivals)
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
    templates = compiled_scenario(scenario).library.templates
    template = arrivals["task"].astype(np.int64)
    parts, part = _parts(templates, template, tasks, transfers)
    groups, group = (
        _kernels(templates[int(template[0])], tasks, transfers) if count == 1 else ((), np.zeros_like(order))
    )
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
        nouns=names.nouns,
        links=names.links,
        groups=groups,
        slice_group=group[order],
        parts=parts,
        slice_part=part[order],
    )


def _parts(
    templates: Sequence[Template], template: np.ndarray, tasks: Spans, transfers: Spans
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the names of all tasks and tiles of `templates`, and the index of each span: tasks, then transfers."""
    names: list[str] = []
    first_task, first_tile = [], []
    for one in templates:
        first_task.append(len(names))
        names += one.task_names()
        first_tile.append(len(names))
        names += [f"tile {name}" for name in one.tile_names]
    of_task = np.array(first_task)[template[tasks.job]] + tasks.task
    of_tile = np.array(first_tile)[template[transfers.job]] + transfers.task
    return tuple(names), np.concatenate((of_task, of_tile))


def _kernels(template: Template, tasks: Spans, transfers: Spans) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the kernels of `template` as groups, and the group of each span: tasks, then transfers."""
    of_transfer = np.full(len(transfers.task), len(template.kernels))
    group = np.concatenate((template.kernel_of[tasks.task], of_transfer))
    return (*template.kernels, *((TRANSFER,) if len(of_transfer) else ())), group
