"""Fork server: loads the models once and forks the workers, so that a worker that died is replaced in milliseconds.

The `cpu` backend starts it as `python -m slipstream.device.workers.forkserver DESCRIPTOR`. It ends, and its workers
with it, when the other end of its socket is closed.
"""

from __future__ import annotations

import gc
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
from slipstream.device.workers.ipc import SharedArray, receive, send
from slipstream.errors import SlipstreamError


class ForkServer:
    """Loaded models, and one forked worker per stream."""

    def __init__(self, control: socket.socket, setup: dict[str, Any], memory: mmap.mmap) -> None:
        self._control = control
        self._setup = setup
        self._memory = memory
        self._sets = [SharedArray(**array) for array in setup["sets"]]
        self._children: dict[int, int] = {}
        # Loading in one thread starts no thread that a fork would lose.
        torch.set_num_threads(1)
        prepare = PREPARE[setup["engine"]]
        self._models = [prepare(Address(**m["address"]), dataset_type(m["dataset"])) for m in setup["models"]]
        # Models that run before the fork are warmed up now; graphs, whose sessions start after the fork, later.
        self._warm_after_fork = [pair for pair in setup["first"] if isinstance(self._models[pair[0]], Graph)]
        context = worker.make_context(self._models, memory, self._sets, SharedArray(**setup["outputs"][0]))
        with torch.inference_mode():
            worker.warm_up(context, [pair for pair in setup["first"] if pair not in self._warm_after_fork])
        # A garbage collection in a worker would visit, and so copy, all objects of this process: 60 ms within a run.
        gc.collect()
        gc.freeze()

    def memory(self) -> list[float]:
        """Return the size of each model's weights in megabytes."""
        return [memory_mb(model) for model in self._models]

    def replace(self, stream: int, channel: int) -> None:
        """End the worker of `stream`, if there is one, and fork another."""
        self.end(stream)
        child = os.fork()
        if child:
            os.close(channel)
            self._children[stream] = child
            return
        # From here on this is the worker; it must never return to the server's loop.
        status = 1
        try:
            self._control.close()
            self._work(stream, socket.socket(fileno=channel))
            status = 0
        finally:
            os._exit(status)

    def _work(self, stream: int, channel: socket.socket) -> None:
        with suppress(OSError), torch.inference_mode():  # the controller may have ended
            try:
                worker.configure_process(self._setup["cores"][stream], self._setup["threads"])
                models = [finished(model, self._setup["threads"]) for model in self._models]
                context = worker.make_context(
                    models, self._memory, self._sets, SharedArray(**self._setup["outputs"][stream])
                )
                worker.warm_up(context, self._warm_after_fork)
            except Exception as error:
                worker.report_broken(channel, error)
                return
            worker.serve(channel, context, self._setup["cores"][stream])

    def end(self, stream: int) -> None:
        """Kill the worker of a stream; it has not been waited for, so its process id is not reused."""
        child = self._children.pop(stream, 0)
        if child:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def close(self) -> None:
        """Kill all workers."""
        for stream in list(self._children):
            self.end(stream)


def main() -> None:
    """Load the models, report it, then replace workers on request until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    received = receive(control)
    if received is None:
        return
    setup, (memory_file,) = received
    memory = mmap.mmap(memory_file, setup["bytes"])
    os.close(memory_file)
    try:
        server = ForkServer(control, setup, memory)
    except Exception as error:
        text = str(error) if isinstance(error, SlipstreamError) else worker.one_line(error)
        with suppress(OSError):  # the controller may have ended
            send(control, {"error": text})
        return
    try:
        with suppress(OSError):
            send(control, {"memory_mb": server.memory()})
        while (request := receive(control)) is not None:
            message, channels = request
            if not channels:
                continue  # no descriptor was free here: the controller finds its own end closed
            try:
                server.replace(message["stream"], channels[0])
            except OSError:  # no process or memory for a worker: the same
                os.close(channels[0])
    finally:
        server.close()


if __name__ == "__main__":
    main()
