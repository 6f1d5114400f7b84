"""Invariants of the event log of an edge episode, under any policy."""

from __future__ import annotations

import numpy as np

from slipstream.errors import InvariantError
from slipstream.families.edge.labels import run_labels
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared import runs


def check(events: np.ndarray, scenario: EdgeScenario) -> None:
    """Raise an InvariantError if the log of an episode violates an invariant or names tasks that the scenario lacks."""
    labels = run_labels(scenario)
    runs.check(labels, events, scenario.device.queue_limit)
    if labels.batches:
        _check_batches(events, scenario, runs.jobs_of(events, labels.deadline))


def _check_batches(events: np.ndarray, scenario: EdgeScenario, jobs: runs.Jobs) -> None:
    """Check that every run has as many jobs as one of its task may have, which leave together."""
    slices = jobs.slices
    sizes = np.bincount(slices.run)
    leads = np.searchsorted(slices.run, np.arange(len(sizes)))
    for lead, size in zip(leads.tolist(), sizes.tolist(), strict=True):
        task = scenario.tasks[int(jobs.task[slices.job[lead]])]
        where = f"the run of task '{task.name}' on stream {slices.resource[lead]} at {slices.start[lead]} ns"
        if size not in task.batch_sizes:
            known = ", ".join(map(str, task.batch_sizes))
            raise InvariantError(f"{where} has {size} jobs: expected one of {known}")
        if (slices.end[lead : lead + size] != slices.end[lead]).any():
            raise InvariantError(f"{where}: its jobs leave at different times: expected them together")
