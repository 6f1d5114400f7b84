"""What pictures need of an episode, in the same shape from every family."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.families.shared.labels import printable_names

OPEN, ON_TIME, LATE, DROPPED, OVERDUE, FAILED = range(6)
FATES = ("not finished at the end", "on time", "late", "dropped", "past its deadline, not finished", "failed")
"""What became of a job, in the order of the codes."""


@dataclass(frozen=True)
class Timeline:
    """Every job of an episode, and every stretch of time in which a resource worked on one; times in ns."""

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
    finish: np.ndarray  # (jobs) -1 where it never did
    fate: np.ndarray  # (jobs) index into FATES

    wait_job: np.ndarray  # (waits) index into the jobs, ascending
    wait_start: np.ndarray  # (waits) its release, or when it was interrupted
    wait_end: np.ndarray  # (waits) when it stopped waiting: a start, its drop, or the end

    slice_job: np.ndarray  # (slices) index into the jobs
    slice_resource: np.ndarray  # (slices)
    slice_variant: np.ndarray  # (slices)
    slice_start: np.ndarray  # (slices) ascending
    slice_end: np.ndarray  # (slices)

    by_task: bool = False
    """Whether bars have the colour of their task, as where jobs have no deadlines and tasks are their owners."""

    def __post_init__(self) -> None:
        """Escape what is not printable in names: pictures show them."""
        for field in ("tasks", "variants", "resources"):
            object.__setattr__(self, field, printable_names(getattr(self, field)))

    def waiting(self, jobs: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return when the number of waiting jobs, of all or of some, changed, and what it was from then on."""
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
