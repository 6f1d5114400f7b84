"""Worker processes that run tasks, one per resource of a scenario."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import NamedTuple

from slipstream.device.backends.cpu import counted, processor_name
from slipstream.device.backends.streams import Machine
from slipstream.device.tasks.programs import Address
from slipstream.device.tasks.tiles import TileSpace
from slipstream.device.workers.pool import WorkerPool
from slipstream.device.workers.task_server import TASK_REQUEST
from slipstream.errors import DeviceError

MOST_PROCESSES = 256
"""Most worker processes of one machine."""


class TaskRequest(NamedTuple):
    """A task to be run; fields as in `programs.Task`, with the program, or the time of a stand-in."""

    program: int
    job: int
    part: int
    number: int
    tasks: int
    attempt: int
    duration_ns: int


class TaskProcesses(WorkerPool, Machine):
    """Worker processes that run tasks; a context manager that ends them."""

    engine = "device"
    server = "slipstream.device.workers.task_server"
    does = "run tasks"

    def __init__(
        self,
        count: int,
        programs: Sequence[Address] = (),
        noun: str = "executor",
        spins: bool = False,
        tiles: TileSpace | None = None,
    ) -> None:
        if count > MOST_PROCESSES:
            raise DeviceError(f"{count} {noun}s: expected at most {MOST_PROCESSES} worker processes on one machine")
        self.noun = noun
        self._programs = programs
        self.tiles = tiles
        """Matrices on which tasks run kernels; None for programs and stand-ins."""
        self._folder = tempfile.TemporaryDirectory(prefix="slipstream-")
        try:
            super().__init__(count)
        except BaseException:
            self._folder.cleanup()
            if tiles is not None:
                tiles.close()
            raise
        addresses = [asdict(address) for address in programs]
        try:
            self._start_workers(
                {
                    "cores": self._cores,
                    "spins": spins,
                    "folder": self._folder.name,
                    "programs": addresses,
                    "tiles": None if tiles is None else tiles.to_dict(),
                },
                () if tiles is None else (tiles.descriptor,),
            )
        except OSError as error:
            self.close()
            raise DeviceError(f"{count} worker processes: cannot be started: {os.strerror(error.errno or 0)}") from None
        except BaseException:
            self.close()
            raise

    @property
    def device(self) -> str:
        """Return the number of worker processes, and what they run."""
        runs = "kernels on tiles" if self.tiles is not None else "programs" if self._programs else "stand-ins"
        processes = f"{self.count} worker process{'' if self.count == 1 else 'es'}"
        return f"{processes}, {runs}"

    @property
    def hardware(self) -> str:
        """Return the processor and its cores."""
        return f"{processor_name()}, {counted(os.cpu_count() or 1, 'core')}"

    @contextmanager
    def controller_migration(self) -> Iterator[None]:
        """Do nothing: workers of tasks do not move the controller."""
        yield

    def submit(self, resource: int, request: TaskRequest) -> None:
        """Have the worker of an idle resource run a task; return at once."""
        self._begin(resource, TASK_REQUEST.pack(*request))

    def close(self) -> None:
        """End all workers and what they started; delete the data of jobs."""
        super().close()
        self._folder.cleanup()
        if self.tiles is not None:
            self.tiles.close()
