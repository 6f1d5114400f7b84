"""Jobs, waits and runs of an episode as arrays, the input of pictures for every family."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slipstream.families.shared.labels import Nouns, printable_names

NO_DEADLINE = 2**62
"""The deadline, in ns, of a job that has none."""

OPEN, ON_TIME, LATE, DROPPED, OVERDUE, FAILED = range(6)
FATES = ("not finished at the end", "on time", "late", "dropped", "past its deadline, not finished", "failed")
"""Outcomes of a job, in the order of the codes."""
FATES_WITHOUT_DEADLINES = ("not finished at the end", "finished", "late", "dropped", "not finished", "failed")
"""The same outcomes in the words for runs whose jobs have no deadlines."""


def _no_indices() -> np.ndarray:
    return np.empty(0, np.int64)


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
    number: np.ndarray  # (jobs) distinct within the task
    release: np.ndarray  # (jobs)
    deadline: np.ndarray  # (jobs) NO_DEADLINE where it has none
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

    nouns: Nouns = field(default_factory=Nouns)
    links: int = 0
    """Number of the last resources that are links, which carry data of jobs instead of running them."""
    groups: tuple[str, ...] = ()
    """What bars are coloured by; default: the tasks."""
    slice_group: np.ndarray = field(default_factory=_no_indices)
    """(slices) Index into the groups; default: the task of the job."""
    parts: tuple[str, ...] = ()
    """Names of the parts of jobs that slices run, such as stages; empty where a slice runs the job itself."""
    slice_part: np.ndarray = field(default_factory=_no_indices)
    """(slices) Index into the parts, where there are any."""

    def __post_init__(self) -> None:
        """Escape unprintable characters of names, because pictures show them; without groups colour by task."""
        if not self.groups:
            object.__setattr__(self, "groups", self.tasks)
            object.__setattr__(self, "slice_group", self.task[self.slice_job])
        for name in ("tasks", "variants", "resources", "groups", "parts"):
            object.__setattr__(self, name, printable_names(getattr(self, name)))

    @property
    def has_deadlines(self) -> bool:
        """Whether a job has a deadline."""
        return bool((self.deadline < NO_DEADLINE).any())

    @property
    def fates(self) -> tuple[str, ...]:
        """Outcomes of a job in words, in the order of the codes; "on time" only where there are deadlines."""
        return FATES if self.has_deadlines else FATES_WITHOUT_DEADLINES

    @property
    def per_job(self) -> bool:
        """Whether every job stands for itself instead of belonging to a task with others."""
        return self.nouns.task == self.nouns.job

    @property
    def missed(self) -> np.ndarray:
        """Whether each job missed: it was late, dropped, failed, or past its deadline at the end."""
        return np.isin(self.fate, (LATE, DROPPED, OVERDUE, FAILED))

    def job_name(self, job: int) -> str:
        """Return the name of the job of index `job`."""
        task = self.tasks[int(self.task[job])]
        return task if self.per_job else f"{task}, {self.nouns.job} {int(self.number[job])}"

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
