"""Fork server of the `cpu` backend: it has loaded the models of a workload.

The backend starts it as `python -m slipstream.device.workers.model_server DESCRIPTOR`.
"""

from __future__ import annotations

import gc
import mmap
import os
import socket
from typing import Any

import torch

from slipstream.device.models.addresses import Address
from slipstream.device.models.datasets import dataset_type
from slipstream.device.models.engines import PREPARE, Graph, finished, memory_mb
from slipstream.device.workers import process, worker
from slipstream.device.workers.forkserver import ForkServer, run_server
from slipstream.device.workers.ipc import BROKEN, SharedArray


class ModelServer(ForkServer):
    """Loaded models, and one forked worker per stream."""

    def __init__(self, control: socket.socket, setup: dict[str, Any], descriptors: list[int]) -> None:
        super().__init__(control)
        memory_file = descriptors[0]
        self._setup = setup
        self._memory = mmap.mmap(memory_file, setup["bytes"])
        os.close(memory_file)
        self._sets = [SharedArray(**array) for array in setup["sets"]]
        # Loading in one thread starts no thread that a fork would lose.
        torch.set_num_threads(1)
        prepare = PREPARE[setup["engine"]]
        self._models = [prepare(Address(**m["address"]), dataset_type(m["dataset"])) for m in setup["models"]]
        # Models that run before the fork are warmed up now; graphs, whose sessions start after the fork, later.
        self._warm_after_fork = [pair for pair in setup["first"] if isinstance(self._models[pair[0]], Graph)]
        context = worker.make_context(self._models, self._memory, self._sets, SharedArray(**setup["outputs"][0]))
        with torch.inference_mode():
            worker.warm_up(context, [pair for pair in setup["first"] if pair not in self._warm_after_fork])
        # A garbage collection in a worker would visit, and so copy, all objects of this process: 60 ms within a run.
        gc.collect()
        gc.freeze()

    @property
    def answer(self) -> dict[str, Any]:
        """The size of each model's weights in megabytes."""
        return {"memory_mb": [memory_mb(model) for model in self._models]}

    def work(self, stream: int, channel: socket.socket) -> None:
        """Warm up, then run models on request."""
        cores = self._setup["cores"][stream]
        with torch.inference_mode():
            try:
                process.configure(cores)
                torch.set_num_threads(self._setup["threads"])
                models = [finished(model, self._setup["threads"]) for model in self._models]
                context = worker.make_context(
                    models, self._memory, self._sets, SharedArray(**self._setup["outputs"][stream])
                )
                worker.warm_up(context, self._warm_after_fork)
            except Exception as error:
                process.send_failure(channel, BROKEN, error)
                return
            worker.serve(channel, context, cores)


if __name__ == "__main__":
    run_server(ModelServer)
