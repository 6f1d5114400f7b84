"""What is known of a run before it begins: the names that pictures show, and what to expect of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slipstream.errors import printable


def printable_names(names: Any) -> Any:
    """Return a name, or tuples of names inside each other, with all that is not printable escaped."""
    return printable(names) if isinstance(names, str) else tuple(map(printable_names, names))


@dataclass(frozen=True, kw_only=True)
class RunLabels:
    """The tasks, variants and resources of a scenario; times in ns."""

    scenario: str = ""
    """Family and name; `Family.run_labels` fills it in, and the unit."""
    unit: str = "s"
    nanoseconds_per_unit: int = 1_000_000_000
    """The unit in which people read times."""
    resources: tuple[str, ...]
    tasks: tuple[str, ...]
    variants: tuple[tuple[str, ...], ...]
    """Names of each task's variants."""
    expected: tuple[tuple[int, ...], ...]
    """How long each variant takes with the machine to itself."""
    deadline: tuple[int | None, ...] = ()
    """From release to deadline, of each task, None where it has none; default: none has."""
    accuracy: tuple[tuple[float, ...], ...] | None = None
    """Of each variant; None in families that know no accuracy."""
    end: int
    """The latest end of an episode."""
    graphs: bool = False
    """Whether jobs are graphs of stages on several resources at once: each job is then a task of its own here."""
    batches: bool = False
    """Whether a resource works on several jobs at once, which begin and end together."""
    groups: tuple[int, ...] = ()
    """Resources of each node, where a job takes several of them at once and the log only counts them; else none."""

    def __post_init__(self) -> None:
        """Escape what is not printable in names, since pictures show them; fill in that tasks have no deadlines."""
        if not self.deadline:
            object.__setattr__(self, "deadline", (None,) * len(self.tasks))
        for field in ("scenario", "resources", "tasks", "variants"):
            object.__setattr__(self, field, printable_names(getattr(self, field)))
