"""The `cuda` backend: streams of one GPU, with a CUDA graph for every model and stream.

This is the only file that touches `torch.cuda`. What each line is for:

- A graph is captured once per model and stream, since one graph must not run twice at a time. It reads and writes
  static device buffers; inputs and outputs cross in pinned host buffers, or the copies would block.
- Each stream captures into a memory pool of its own: graphs that share one must not run side by side.
- One thread waits for each stream, in a blocking event, and answers over a pipe. Nothing polls, so the controller's
  thread keeps the interpreter to itself.
- All work is launched on its own stream. The default stream would make the streams wait for each other.
- Device time comes from a pair of timed events around the graph; the end of a run is taken from the host's clock when
  the blocking wait returns, which is the clock that timers use.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch

from slipstream.device.backends.streams import Completion, Order, Streams, now
from slipstream.device.models.addresses import load
from slipstream.device.models.engines import memory_mb
from slipstream.device.workers.ipc import OUTPUT_NUMBERS
from slipstream.device.workers.polling import readable
from slipstream.device.workload import Workload
from slipstream.errors import DeviceError, ModelError

WARM_RUNS = 3
"""Runs of a model before it is captured: they choose algorithms and allocate what they need."""


@dataclass
class Captured:
    """A model as one stream runs it."""

    graph: Any
    host_input: torch.Tensor
    device_input: torch.Tensor
    device_output: torch.Tensor
    host_output: torch.Tensor


@dataclass
class _Lane:
    """A stream, what it runs, and the thread that waits for it."""

    stream: Any
    captured: list[Captured]
    began: Any
    ended: Any
    launched: SimpleQueue[int | None]
    """Models whose runs were launched; None ends the thread."""
    waiter: threading.Thread | None = None
    since: int = 0
    last: int = 0
    """The model that ran last, whose output can be read."""


class CudaStreams(Streams):
    """CUDA streams; see `streams.Streams`. A run that hangs cannot be taken from a GPU: the device is then given up."""

    def __init__(self, workload: Workload, count: int = 2, priorities: list[int] | None = None) -> None:
        if not torch.cuda.is_available():
            raise DeviceError("device 'cuda': no CUDA device is here: expected one, and a build of torch that knows it")
        if os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":
            raise DeviceError("CUDA_LAUNCH_BLOCKING is 1: every launch would wait for its end: expected it unset")
        self.count = count
        self.restarts = 0
        self._workload = workload
        self._inputs = [torch.from_numpy(np.ascontiguousarray(one.inputs)).pin_memory() for one in workload.sets]
        self._reader, self._writer = os.pipe()
        self._running = [False] * count
        self._completions: dict[int, Completion] = {}
        self._alarms: list[int] = []
        self._meter = _EnergyMeter()
        try:
            models = [self._on_device(index) for index in range(len(workload.models))]
            self.memory_mb = tuple(memory_mb(model) for model in models)
            self._lanes = [self._open(models, _priority(priorities, stream)) for stream in range(count)]
        except BaseException:
            os.close(self._reader)
            os.close(self._writer)
            raise
        for index, lane in enumerate(self._lanes):
            lane.waiter = threading.Thread(target=self._await, args=(index,), daemon=True, name=f"cuda-stream-{index}")
            lane.waiter.start()

    @property
    def device(self) -> str:
        """The GPU and its streams."""
        return f"{torch.cuda.get_device_name()}, {self.count} CUDA streams"

    # Starting

    def _on_device(self, index: int) -> torch.nn.Module:
        model = self._workload.models[index]
        loaded = load(model.address, model.dataset)
        if not isinstance(loaded, torch.nn.Module):
            raise ModelError(f"model '{model.address.text}': cannot be captured: expected a torch module on 'cuda'")
        return loaded.to("cuda")

    def _open(self, models: list[torch.nn.Module], priority: int) -> _Lane:
        stream = torch.cuda.Stream(priority=priority)  # type: ignore[no-untyped-call]
        pool = torch.cuda.graph_pool_handle()
        captured = [self._capture(model, index, stream, pool) for index, model in enumerate(models)]
        began = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        ended = torch.cuda.Event(enable_timing=True, blocking=True)  # type: ignore[no-untyped-call]
        return _Lane(stream, captured, began, ended, SimpleQueue())

    def _capture(self, model: torch.nn.Module, index: int, stream: Any, pool: Any) -> Captured:
        """Warm a model up on the stream, and capture it there."""
        samples = self._workload.sets[self._set_of(index)].inputs
        host_input = torch.from_numpy(np.ascontiguousarray(samples[:1])).pin_memory()
        try:
            with torch.inference_mode():
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    device_input = host_input.to("cuda", non_blocking=True)
                    for _ in range(WARM_RUNS):
                        output = model(device_input)
                stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
                    output = model(device_input).reshape(-1)[:OUTPUT_NUMBERS].float()
        except RuntimeError as error:
            address = self._workload.models[index].address.text
            raise ModelError(f"model '{address}': cannot be captured: {str(error).splitlines()[0][:200]}") from None
        host_output = torch.empty(output.shape, dtype=torch.float32, pin_memory=True)
        return Captured(graph, host_input, device_input, output, host_output)

    def _set_of(self, model: int) -> int:
        """Return a set of samples that a model takes."""
        for task, models in enumerate(self._workload.model_of):
            if model in models:
                return self._workload.set_of[task]
        raise AssertionError("a model that no task runs")

    # Running

    def submit(self, stream: int, order: Order) -> None:
        """Copy the input, replay the graph, copy the output: all on the stream, none of it waited for here."""
        assert not self._running[stream]
        lane = self._lanes[stream]
        captured = lane.captured[order.model]
        # The host buffer is free: the last run of this stream has ended.
        captured.host_input.copy_(self._inputs[order.samples][order.sample : order.sample + 1])
        self._running[stream] = True
        lane.since, lane.last = now(), order.model
        # The buffers were made in inference mode, and may only be written in it.
        with torch.inference_mode(), torch.cuda.stream(lane.stream):
            lane.began.record(lane.stream)
            captured.device_input.copy_(captured.host_input, non_blocking=True)
            captured.graph.replay()
            captured.host_output.copy_(captured.device_output, non_blocking=True)
            lane.ended.record(lane.stream)
        lane.launched.put(order.model)

    def _await(self, index: int) -> None:
        """Wait for the runs of one stream, one after the other, and hand each on when it has ended."""
        lane = self._lanes[index]
        while (model := lane.launched.get()) is not None:
            try:
                lane.ended.synchronize()
                ended = now()
                spent = round(lane.began.elapsed_time(lane.ended) * 1e6)
                finite = bool(np.isfinite(lane.captured[model].host_output.numpy()).all())
                error = "" if finite else "ArithmeticError: the output is not finite"
            except RuntimeError as fault:  # an error of the device, which torch tells like this
                ended, spent, error = now(), 0, f"{type(fault).__name__}: {str(fault).splitlines()[0][:200]}"
            self._completions[index] = Completion(index, ended, error, spent)
            with suppress(OSError):  # closed in the meantime
                os.write(self._writer, bytes([index]))

    def wait(self, seconds: float | None) -> list[Completion]:
        """Block until a run has ended or the time is up."""
        if self._reader not in readable([self._reader, *self._alarms], seconds):
            return []
        ended = [self._completions.pop(index) for index in os.read(self._reader, 4096)]
        for completion in ended:
            self._running[completion.stream] = False
        return ended

    def since(self, stream: int) -> int | None:
        """Return since when the stream works on its run."""
        return self._lanes[stream].since

    def wake_by(self, descriptor: int) -> None:
        """Let `wait` return for it too."""
        self._alarms.append(descriptor)

    def put(self, samples: int, sample: int, values: np.ndarray) -> None:
        """Replace a sample, in the memory that graphs copy theirs from."""
        self._inputs[samples][sample] = torch.from_numpy(values)

    def output(self, stream: int) -> np.ndarray:
        """Return what the last run of the stream gave."""
        lane = self._lanes[stream]
        return np.asarray(lane.captured[lane.last].host_output.numpy())

    def replace(self, stream: int) -> None:
        """Give up: a kernel that does not end cannot be stopped without the process that launched it."""
        raise DeviceError(f"stream {stream} of the GPU gives no answer: expected an end of its run; start again")

    def joules(self) -> float | None:
        """Return what the GPU's own meter shows, where NVML is there to read it."""
        return self._meter.joules()

    # Ending

    def close(self) -> None:
        """Let what runs end, end the threads, and give back the memory."""
        for lane in self._lanes:
            lane.launched.put(None)
        for lane in self._lanes:
            if lane.waiter is not None:
                lane.waiter.join(10.0)
        os.close(self._reader)
        os.close(self._writer)
        self._lanes = []
        torch.cuda.empty_cache()


class _EnergyMeter:
    """NVML's counter of the energy a GPU has taken; boards without one, as the Jetsons, have none to read."""

    def __init__(self) -> None:
        self._handle: Any = None
        with suppress(Exception):  # no NVML, or one that does not know this board
            import pynvml  # type: ignore[import-not-found, unused-ignore]

            pynvml.nvmlInit()
            # NVML counts boards in another order than CUDA, and hides none of them: the name is the same in both.
            board = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(board)
            self._read = pynvml.nvmlDeviceGetTotalEnergyConsumption

    def joules(self) -> float | None:
        """Return the counter in joules, None where it cannot be read."""
        if self._handle is None:
            return None
        try:
            return float(self._read(self._handle)) / 1e3
        except Exception:  # NVML tells what a board cannot do by an error of its own
            return None


def _priority(priorities: list[int] | None, stream: int) -> int:
    """Return a priority as CUDA counts it, the lower the sooner; a scenario's priorities count upward."""
    return 0 if priorities is None else -priorities[stream]
