"""Names and expected durations of a scenario's tasks, variants and resources, for pictures of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slipstream.errors import printable


def printable_names(names: Any) -> Any:
    """Return `names`, a string or nested tuples of strings, with unprintable characters escaped."""
    return printable(names) if isinstance(names, str) else tuple(map(printable_names, names))


@dataclass(frozen=True)
class Nouns:
    """What a family calls the parts of a run, each in the singular."""

    resource: str = "resource"
    job: str = "job"
    task: str = "task"
    """What jobs are grouped by; the same as `job` where every job stands for itself."""
    bar: str = "job"
    """What a resource runs without a break: a bar of a Gantt chart."""
    part: str = "part"
    """What a job that is a graph consists of."""


@dataclass(frozen=True, kw_only=True)
class RunLabels:
    """The tasks, variants and resources of a scenario; times in ns."""

    scenario: str = ""
    """Family and name; `Family.run_labels` fills it in, and the unit."""
    unit: str = "s"
    nanoseconds_per_unit: int = 1_000_000_000
    """Nanoseconds in the unit in which times are displayed."""
    nouns: Nouns = Nouns()
    resources: tuple[str, ...]
    tasks: tuple[str, ...]
    variants: tuple[tuple[str, ...], ...]
    """Names of each task's variants; empty where there is only one, which needs no name."""
    expected: tuple[tuple[int, ...], ...]
    """Duration of each variant without contention."""
    deadline: tuple[int | None, ...] = ()
    """Relative deadline of each task, None where it has none; default: none has."""
    accuracy: tuple[tuple[float, ...], ...] | None = None
    """Accuracy of each variant; None in families without accuracies."""
    end: int
    """Latest end of an episode."""
    graphs: bool = False
    """Whether jobs are graphs that run on several resources at once; each job is then listed as a task."""
    batches: bool = False
    """Whether a resource runs batches of jobs, which start and end together."""
    known_lengths: bool = True
    """Whether a job that runs alone takes its expected time; else that is a mean over jobs that differ."""
    links: int = 0
    """Number of the last resources that are links, which carry data of jobs instead of running them."""
    kernels: tuple[str, ...] = ()
    """What bars stand for in a run of one graph: kernels, and transfers; else empty, and bars stand for jobs."""
    kernel_of: tuple[int, ...] = ()
    """Kernel of each task of that graph; transfers are the last kernel."""
    groups: tuple[int, ...] = ()
    """Number of resources of each node, in families whose log only counts the resources of a job; else empty."""

    def __post_init__(self) -> None:
        """Escape unprintable characters of names, because pictures show them; set absent deadlines to None each."""
        if not self.deadline:
            object.__setattr__(self, "deadline", (None,) * len(self.tasks))
        for field in ("scenario", "resources", "tasks", "variants", "kernels"):
            object.__setattr__(self, field, printable_names(getattr(self, field)))
