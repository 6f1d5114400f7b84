"""The process that loads the models once and forks the workers: a worker that died is replaced in milliseconds.

Started as `python -m slipstream.device.workers.forkserver DESCRIPTOR` by the `cpu` backend. It ends, and its
workers with it, when the other end of its socket is closed, whatever the reason.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import torch

from slipstream.device.models.addresses import Address
from slipstream.device.models.datasets import dataset_type
from slipstream.device.models.engines import PREPARE, Graph, finished, memory_mb
from slipstream.device.workers import worker
from slipstream.device.workers.ipc import Place, receive, send
from slipstream.errors import SlipstreamError


class Nursery:
    """The models, and one child per stream."""

    def __init__(self, control: socket.socket, setup: dict[str, Any], memory: mmap.mmap) -> None:
        self._control = control
        self._setup = setup
        self._memory = memory
        self._sets = [Place(**place) for place in setup["sets"]]
        self._children: dict[int, int] = {}
        # Loading in one thread leaves no thread behind that a fork would lose.
        torch.set_num_threads(1)
        prepare = PREPARE[setup["engine"]]
        self._models = [prepare(Address(**m["address"]), dataset_type(m["dataset"])) for m in setup["models"]]
        # What runs already runs now, so that workers are born warm; what waits for the fork is run after it.
        self._later = [pair for pair in setup["first"] if isinstance(self._models[pair[0]], Graph)]
        desk = worker.desk_of(self._models, memory, self._sets, Place(**setup["outputs"][0]))
        with torch.inference_mode():
            worker.warm_up(desk, [pair for pair in setup["first"] if pair not in self._later])

    def memory(self) -> list[float]:
        """Return what the weights of each model take, in megabytes."""
        return [memory_mb(model) for model in self._models]

    def replace(self, stream: int, orders: int) -> None:
        """End the worker of a stream, if there is one, and start another."""
        self.end(stream)
        child = os.fork()
        if child:
            os.close(orders)
            self._children[stream] = child
            return
        # From here on this is the worker; it must never return to the nursery's loop.
        status = 1
        try:
            self._control.close()
            self._work(stream, socket.socket(fileno=orders))
            status = 0
        finally:
            os._exit(status)

    def _work(self, stream: int, orders: socket.socket) -> None:
        with suppress(OSError), torch.inference_mode():  # whoever gave the orders may be gone
            try:
                worker.settle(self._setup["cores"][stream], self._setup["threads"])
                models = [finished(model, self._setup["threads"]) for model in self._models]
                desk = worker.desk_of(models, self._memory, self._sets, Place(**self._setup["outputs"][stream]))
                worker.warm_up(desk, self._later)
            except Exception as error:
                worker.break_down(orders, error)
                return
            worker.serve(orders, desk, self._setup["cores"][stream])

    def end(self, stream: int) -> None:
        """Kill the worker of a stream; it is still ours to reap, so its number cannot be somebody else's."""
        child = self._children.pop(stream, 0)
        if child:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def close(self) -> None:
        """End all workers."""
        for stream in list(self._children):
            self.end(stream)


def main() -> None:
    """Load, say so, then replace workers until the other end hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    received = receive(control)
    if received is None:
        return
    setup, (memory_file,) = received
    memory = mmap.mmap(memory_file, setup["bytes"])
    os.close(memory_file)
    try:
        nursery = Nursery(control, setup, memory)
    except Exception as error:
        told = str(error) if isinstance(error, SlipstreamError) else worker.one_line(error)
        with suppress(OSError):  # whoever waits for the models may be gone
            send(control, {"error": told})
        return
    try:
        with suppress(OSError):
            send(control, {"memory_mb": nursery.memory()})
        while (request := receive(control)) is not None:
            message, orders = request
            if not orders:
                continue  # no descriptor was left for it here: who asked finds its own end closed
            try:
                nursery.replace(message["stream"], orders[0])
            except OSError:  # no process or no memory is left for a worker: the same
                os.close(orders[0])
    finally:
        nursery.close()


if __name__ == "__main__":
    main()
