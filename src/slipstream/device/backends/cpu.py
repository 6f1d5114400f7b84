"""The `cpu` and `onnxruntime` backends: one pinned worker process per stream, inputs and outputs in shared memory.

Processes, not threads: eager inference is an order of magnitude slower beside a busy Python thread. For the same reason
the controller blocks while it waits.
"""

from __future__ import annotations

import mmap
import os
import platform
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np

from slipstream.device.backends.streams import RunRequest, Streams
from slipstream.device.workers.ipc import OUTPUT_NUMBERS, REQUEST, SharedArray, allocate_arrays, shared_file
from slipstream.device.workers.pool import WorkerPool
from slipstream.device.workload import Workload, bytes_of
from slipstream.errors import DeviceError

ENERGY_METER = Path("/sys/class/powercap/intel-rapl:0/energy_uj")


def engines_of(workload: Workload, engine: str) -> tuple[str, ...]:
    """Return the engines that run the models of `workload`: ONNX files run in ONNX Runtime under any `engine`."""
    found = {"onnxruntime" if model.address.kind == "onnx" else engine for model in workload.models}
    return tuple(sorted(found, reverse=True))


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class CpuStreams(WorkerPool, Streams):
    """Streams that are worker processes; see `streams.Streams`."""

    server = "slipstream.device.workers.model_server"

    def __init__(self, workload: Workload, count: int = 2, engine: str = "torch") -> None:
        self._engine = engine
        self._engines = engines_of(workload, engine)
        shapes = [(samples.inputs.shape, str(samples.inputs.dtype)) for samples in workload.sets]
        arrays, size = allocate_arrays([*shapes, *[((OUTPUT_NUMBERS,), "float32")] * count])
        sets, outputs = arrays[: len(shapes)], arrays[len(shapes) :]
        memory_file = shared_file(size)
        self._memory = mmap.mmap(memory_file, size)
        self._outputs = [array.view(self._memory) for array in outputs]
        self._samples = [array.view(self._memory) for array in sets]
        for view, samples in zip(self._samples, workload.sets, strict=True):
            view.reshape(-1).view(np.uint8)[:] = bytes_of(samples)
        try:
            super().__init__(count)
            try:
                answer = self._start_workers(self._setup(workload, sets, outputs, size), (memory_file,))
            except BaseException:
                self.close()
                raise
        finally:
            os.close(memory_file)
        self.memory_mb: tuple[float, ...] = tuple(answer["memory_mb"])

    @property
    def device(self) -> str:
        """Return the processor, the number of streams and cores, and the engines."""
        streams = f"{self.count} streams of {counted(len(self._cores[0]), 'core')}"
        return f"{processor_name()}, {streams}, {' and '.join(self._engines)}"

    @property
    def hardware(self) -> str:
        """Return the processor and its cores, the threads of each stream, and the versions of the engines."""
        streams = f"{counted(self.count, 'stream')} of {counted(len(self._cores[0]), 'thread')}"
        versions = " and ".join(f"{engine} {version(engine)}" for engine in self._engines)
        return f"{processor_name()}, {counted(os.cpu_count() or 1, 'core')}, {streams}, {versions}"

    # Starting

    def _setup(
        self, workload: Workload, sets: list[SharedArray], outputs: list[SharedArray], size: int
    ) -> dict[str, object]:
        first_samples: dict[int, int] = {}
        for task, models in enumerate(workload.model_of):
            first_samples |= dict.fromkeys(models, workload.set_of[task])
        return {
            "engine": self._engine,
            "models": [{"address": asdict(m.address), "dataset": m.dataset.name} for m in workload.models],
            "sets": [array.to_dict() for array in sets],
            "outputs": [array.to_dict() for array in outputs],
            "first": [list(pair) for pair in first_samples.items()],
            "bytes": size,
            "cores": self._cores,
            "threads": len(self._cores[0]),
        }

    # Running

    def submit(self, stream: int, request: RunRequest) -> None:
        """Begin a run; a worker that is being replaced takes it as soon as it is ready."""
        self._send(stream, request, 0)

    def loop(self, request: RunRequest, seconds: float) -> list[tuple[int, int]]:
        """Run a model in a loop for `seconds` in every worker; return the runs and their time in ns, by stream.

        It is the baseline for the overhead of the runtime.
        """
        for stream in range(self.count):
            self._send(stream, request, round(seconds * 1e9))
        results = [(0, 0)] * self.count
        while any(self._running):
            for completion in self.wait(None):
                if completion.error:
                    raise DeviceError(f"the loop of stream {completion.stream} failed: {completion.error}")
                results[completion.stream] = (self._lengths[completion.stream], completion.device_ns)
        return results

    def _send(self, stream: int, request: RunRequest, loop_ns: int) -> None:
        self._begin(stream, REQUEST.pack(*request, self._controller_thread, loop_ns))

    def put(self, samples: int, sample: int, values: np.ndarray) -> None:
        """Replace a sample in the shared memory."""
        self._samples[samples][sample] = values

    def output(self, stream: int) -> np.ndarray:
        """Return the flat output of the stream's last run."""
        return self._outputs[stream][: self._lengths[stream]]

    def joules(self) -> float | None:
        """Return the energy counter of the processor, None if it cannot be read."""
        try:
            return int(ENERGY_METER.read_text()) / 1e6
        except (OSError, ValueError):
            return None

    # Ending

    def close(self) -> None:
        """Stop all workers, and free the shared memory."""
        super().close()
        self._outputs, self._samples = [], []
        with suppress(BufferError):  # an output is still referenced: the memory is freed with it
            self._memory.close()


def processor_name() -> str:
    """Return the name of the processor."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()
