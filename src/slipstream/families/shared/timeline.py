"""Jobs, waits and runs of an episode as arrays, the input of pictures for every family."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.shared.labels import printable_names

OPEN, ON_TIME, LATE, DROPPED, OVERDUE, FAILED = range(6)
FATES = ("not finished at the end", "on time", "late", "dropped", "past its deadline, not finished", "failed")
"""Outcomes of a job, in the order of the codes."""


@dataclass(frozen=True)
class Timeline:
    """Every job of an episode, its waits, and the intervals in which resources ran it; times in ns."""

    tasks: tuple[str, ...]
    variants: tuple[tuple[str, ...], ...]
    """Names of each task's variants."""
    resources: tuple[str, ...]
    end: int
    """When the episode ended."""

    task: np.ndarray  # (jobs)
    number: np.ndarray  # (jobs) counts within the task
    release: np.ndarray  # (jobs)
    deadline: np.ndarray  # (jobs)
    finish: np.ndarray  # (jobs) -1 where it did not finish
    fate: np.ndarray  # (jobs) index into FATES

    wait_job: np.ndarray  # (waits) index into the jobs, ascending
    wait_start: np.ndarray  # (waits) release or preemption
    wait_end: np.ndarray  # (waits) start, drop, or end of the episode

    slice_job: np.ndarray  # (slices) index into the jobs
    slice_resource: np.ndarray  # (slices)
    slice_variant: np.ndarray  # (slices)
    slice_start: np.ndarray  # (slices) ascending
    slice_end: np.ndarray  # (slices)

    by_task: bool = False
    """Whether bars are coloured by task, as for jobs without deadlines whose tasks are their users."""

    def __post_init__(self) -> None:
        """Escape unprintable characters of names, because pictures show them."""
        for field in ("tasks", "variants", "resources"):
            object.__setattr__(self, field, printable_names(getattr(self, field)))

    def waiting(self, jobs: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the step function of the number of waiting jobs, of all or of `jobs`: times and values."""
        begins, ends = self.wait_start, self.wait_end
        if jobs is not None:
            chosen = np.isin(self.wait_job, jobs)
            begins, ends = begins[chosen], ends[chosen]
        begins, ends = np.sort(begins), np.sort(ends)
        times = np.sort(np.concatenate(([0], begins, ends)))
        moments = times[np.concatenate(([True], times[1:] != times[:-1]))]
        counts = np.searchsorted(begins, moments, side="right") - np.searchsorted(ends, moments, side="right")
        changed = np.concatenate(([True], counts[1:] != counts[:-1]))
        return moments[changed], counts[changed]
