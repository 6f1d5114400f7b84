"""Fork server of worker processes that run tasks: programs, or stand-ins that take a given time.

`tasks.processes.TaskProcesses` starts it as `python -m slipstream.device.workers.task_server DESCRIPTOR`.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import socket
import struct
import sys
import time
from pathlib import Path
from time import monotonic_ns
from typing import Any

from slipstream.device.tasks.networks import NetworkProgram
from slipstream.device.tasks.programs import Address, Program, load_program
from slipstream.device.tasks.task import Task
from slipstream.device.workers import process
from slipstream.device.workers.forkserver import ForkServer, run_server
from slipstream.device.workers.ipc import DONE, FAILED, READY, receive_exactly

TASK_REQUEST = struct.Struct("<iiiiiiq")
"""program (-1: a stand-in), job, part, number, tasks, attempt, and the time of a stand-in in ns."""
PR_SET_TIMERSLACK = 29


class TaskServer(ForkServer):
    """Loaded programs, and one forked worker per resource."""

    def __init__(self, control: socket.socket, setup: dict[str, Any], descriptors: list[int]) -> None:
        super().__init__(control)
        self._cores: list[list[int]] = setup["cores"]
        self._spins: bool = setup["spins"]
        self._folder = Path(setup["folder"])
        self._programs: list[Program] = [load_program(Address(**address)) for address in setup["programs"]]
        self._runs_networks = any(isinstance(program, NetworkProgram) for program in self._programs)
        if self._runs_networks:
            import torch

            # One thread starts no thread that a fork would lose.
            torch.set_num_threads(1)
        self._tiles = self._memory = None
        if setup["tiles"] is not None:
            from slipstream.device.tasks.tiles import TileSetup

            self._tiles = TileSetup(**setup["tiles"])
            self._memory = mmap.mmap(descriptors[0], self._tiles.bytes)
            os.close(descriptors[0])
        gc.collect()
        gc.freeze()

    def work(self, stream: int, channel: socket.socket) -> None:
        """Run tasks on request."""
        process.configure(self._cores[stream])
        if sys.platform == "linux":
            # A sleep may then end a microsecond late, not fifty.
            ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1000)
        if self._runs_networks:
            import torch

            torch.set_num_threads(len(self._cores[stream]))
        if self._tiles is not None and self._memory is not None:
            from slipstream.device.tasks.tiles import TileProgram

            self._programs = [TileProgram(self._tiles, self._memory, stream)]
        process.send_reply(channel, READY, 0, 0, monotonic_ns())
        while (message := receive_exactly(channel, TASK_REQUEST.size)) is not None:
            began = monotonic_ns()
            try:
                self._run(*TASK_REQUEST.unpack(message))
            except (Exception, SystemExit) as error:  # a program may raise anything: only its task fails
                process.send_failure(channel, FAILED, error, began)
                continue
            process.send_reply(channel, DONE, 0, began, monotonic_ns())

    def _run(self, program: int, job: int, part: int, number: int, tasks: int, attempt: int, duration: int) -> None:
        if program < 0:
            stand_in(duration, self._spins)
            return
        folder = self._folder / f"job-{job}"
        folder.mkdir(exist_ok=True)
        self._programs[program](Task(job, part, number, tasks, attempt, folder))


def stand_in(duration: int, spins: bool) -> None:
    """Sleep for `duration` ns, or keep a core busy for as long."""
    if not spins:
        time.sleep(duration / 1e9)
        return
    until = monotonic_ns() + duration
    while monotonic_ns() < until:
        pass


if __name__ == "__main__":
    run_server(TaskServer)
