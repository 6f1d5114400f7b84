"""What is known of a run before it begins: the names that pictures show, and what to expect of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cast:
    """The tasks, variants and resources of a scenario; times in ns."""

    scenario: str
    """Family and name."""
    unit: str
    nanoseconds_per_unit: int
    """The unit in which people read times."""
    resources: tuple[str, ...]
    tasks: tuple[str, ...]
    variants: tuple[tuple[str, ...], ...]
    """Names of each task's variants."""
    expected: tuple[tuple[int, ...], ...]
    """How long each variant takes with the machine to itself."""
    deadline: tuple[int | None, ...]
    """From release to deadline, of each task; None where it has none."""
    accuracy: tuple[tuple[float, ...], ...] | None
    """Of each variant; None in families that know no accuracy."""
    end: int
    """The latest end of an episode."""
    graphs: bool = False
    """Whether jobs are graphs of stages on several resources at once: each job is then a task of its own here."""
    batches: bool = False
    """Whether a resource works on several jobs at once, which begin and end together."""
    groups: tuple[int, ...] = ()
    """Resources of each node, where a job takes several of them at once and the log only counts them; else none."""
