"""A piece of work that a worker process runs for a resource of a lane."""

from __future__ import annotations

from typing import NamedTuple

NO_PROGRAM = -1
"""In place of a program: a stand-in, which takes the drawn time."""


class Work(NamedTuple):
    """What a resource of a lane has to run; fields are whole numbers, as `contract.EngineLane` declares."""

    job: int
    """Number of the job."""
    part: int
    """Number of the stage, or of the task, within the job."""
    tasks: int
    """Number of tasks of that part; 0 for a move, which is no task."""
    planned: int
    """Drawn time in ns."""
    program: int = NO_PROGRAM
    """Index into the programs of the scenario."""
