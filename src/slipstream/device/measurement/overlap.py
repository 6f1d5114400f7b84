"""Overlap of runs, from an event log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.edge.metrics import jobs_of
from slipstream.families.edge.scenario import EdgeScenario

MOSTLY_ALONE = 0.2
"""Largest share of a run's time beside others for it to count as alone."""


@dataclass(frozen=True)
class Runs:
    """Every run that finished in an episode; times in ns."""

    task: np.ndarray
    number: np.ndarray
    """The job, within its task."""
    variant: np.ndarray
    stream: np.ndarray
    start: np.ndarray
    length: np.ndarray
    waited: np.ndarray
    """Time that the job waited although its stream was idle."""
    beside: list[list[tuple[int, int]]]
    """For each run, the runs that overlap with it (as indices) and the times of overlap."""

    @property
    def shared(self) -> np.ndarray:
        """Share of each run's time during which another ran."""
        together = np.array([sum(time for _, time in others) for others in self.beside], float)
        return np.asarray(together / np.maximum(self.length, 1))


def runs_of(scenario: EdgeScenario, events: np.ndarray) -> Runs:
    """Return the finished runs of an episode."""
    jobs = jobs_of(scenario, events)
    slices = jobs.slices
    done = jobs.finish[slices.job] == slices.end
    first = np.searchsorted(jobs.task, np.arange(len(scenario.tasks)))
    waited = _waited(slices.start, slices.end, slices.resource, jobs.release[slices.job])
    keep = np.flatnonzero(done)
    job = slices.job[keep]
    task = jobs.task[job]
    start, end, stream = slices.start[keep], slices.end[keep], slices.resource[keep]
    return Runs(
        task=task,
        number=job - first[task],
        variant=slices.variant[keep],
        stream=stream,
        start=start,
        length=end - start,
        waited=waited[keep],
        beside=_overlaps(start, end, stream),
    )


def _waited(start: np.ndarray, end: np.ndarray, stream: np.ndarray, release: np.ndarray) -> np.ndarray:
    """Return the time from release, or from the stream's previous end if later, to the start of each run."""
    free = np.zeros(len(start), np.int64)
    last: dict[int, int] = {}
    for index in range(len(start)):
        free[index] = last.get(int(stream[index]), 0)
        last[int(stream[index])] = int(end[index])
    return np.asarray(start - np.maximum(free, release))


def _overlaps(start: np.ndarray, end: np.ndarray, stream: np.ndarray) -> list[list[tuple[int, int]]]:
    """Return the overlaps of runs that are sorted by their start."""
    found: list[list[tuple[int, int]]] = [[] for _ in start]
    open_runs: list[int] = []
    for index in range(len(start)):
        open_runs = [other for other in open_runs if end[other] > start[index]]
        for other in open_runs:
            time = int(min(end[index], end[other]) - start[index])
            if stream[other] != stream[index] and time > 0:
                found[index].append((other, time))
                found[other].append((index, time))
        open_runs.append(index)
    return found
