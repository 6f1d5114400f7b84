"""A task as a program gets it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Task(NamedTuple):
    """A task that a program runs."""

    job: int
    """Number of the job within the run."""
    part: int
    """Number of the stage within the job."""
    number: int
    """Number of the task within the stage, from 0."""
    tasks: int
    """Number of tasks of the stage."""
    attempt: int
    """How often this task failed before."""
    folder: Path
    """Folder of the job, for data that its stages exchange; deleted after the run."""
