"""The `cuda` backend: streams of one GPU, with a CUDA graph for every model and stream.

This is the only module that uses `torch.cuda`. Its design:

- A graph is captured once per model and stream, since one graph must not run twice at the same time. It reads and
  writes static device buffers; copies use pinned host buffers, since others would block.
- Each stream captures into its own memory pool: graphs that share one must not run concurrently.
- One thread per stream waits for a blocking event and writes to a pipe. Nothing polls, so the controller's thread
  rarely competes for the interpreter.
- All work is launched on its own stream. The default stream would synchronise the streams.
- Weights are kept as long as the graphs: a graph holds addresses, and does not keep the memory there from being freed.
- Streams are checked to be different: torch has 32 of each priority, and the next one is the first again.
- Device time comes from a pair of timed events around the graph; the end of a run is taken from the host's clock when
  the blocking wait returns, which is the clock that timers use.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch

from slipstream.device.backends.streams import Completion, RunRequest, Streams, now
from slipstream.device.models.addresses import load
from slipstream.device.models.engines import memory_mb
from slipstream.device.workers.ipc import OUTPUT_NUMBERS
from slipstream.device.workers.polling import readable
from slipstream.device.workload import Workload
from slipstream.errors import DeviceError, ModelError

WARM_RUNS = 3
"""Runs of a model before it is captured: they load kernels, select algorithms and allocate memory."""
LONGEST_CLOSE_S = 10.0
"""Time limit for running jobs to end when the streams are closed."""


@dataclass
class Captured:
    """A model captured for one stream."""

    graph: Any
    host_input: torch.Tensor
    device_input: torch.Tensor
    device_output: torch.Tensor
    host_output: torch.Tensor


@dataclass
class _CudaStream:
    """A CUDA stream, its captured models, and the thread that waits for its runs."""

    stream: Any
    captured: list[Captured]
    began: Any
    ended: Any
    launched: SimpleQueue[int | None]
    """Models whose runs were launched; None ends the thread."""
    thread: threading.Thread | None = None
    since: int = 0
    last: int = 0
    """The model that ran last, whose output can be read."""


class CudaStreams(Streams):
    """CUDA streams; see `streams.Streams`. A run that hangs on a GPU cannot be aborted: it is a DeviceError."""

    def __init__(self, workload: Workload, count: int = 2, priorities: list[int] | None = None) -> None:
        if not torch.cuda.is_available():
            raise DeviceError("device 'cuda': no CUDA device is here: expected one, and a build of torch that knows it")
        if os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":
            raise DeviceError("CUDA_LAUNCH_BLOCKING is 1: every launch would wait for its end: expected it unset")
        self.count = count
        self.restarts = 0
        self._workload = workload
        self._reader, self._writer = os.pipe()
        self._running = [False] * count
        self._completions: dict[int, Completion] = {}
        self._wake_descriptors: list[int] = []
        self._meter = _EnergyMeter()
        try:
            with _device_errors("the models cannot be loaded", "a GPU with enough memory for them"):
                self._inputs = [_pinned(samples.inputs) for samples in workload.sets]
                self._models = [self._on_device(index) for index in range(len(workload.models))]
                self.memory_mb = tuple(memory_mb(model) for model in self._models)
                self._cuda_streams = [self._open(stream) for stream in _distinct_streams(count, priorities)]
        except BaseException:
            os.close(self._reader)
            os.close(self._writer)
            raise
        for index, cuda_stream in enumerate(self._cuda_streams):
            cuda_stream.thread = threading.Thread(
                target=self._wait_for_runs, args=(index,), daemon=True, name=f"cuda-stream-{index}"
            )
            cuda_stream.thread.start()

    @property
    def device(self) -> str:
        """Return the name of the GPU and the number of streams."""
        return f"{torch.cuda.get_device_name()}, {self.count} CUDA streams"

    @property
    def hardware(self) -> str:
        """Return the name and memory of the GPU, the number of streams, and the versions of torch and CUDA."""
        memory = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory / 1e9
        return f"{self.device}, {memory:.0f} GB, torch {torch.__version__}, CUDA {torch.version.cuda}"

    # Starting

    def _on_device(self, index: int) -> torch.nn.Module:
        model = self._workload.models[index]
        loaded = load(model.address, model.dataset)
        if not isinstance(loaded, torch.nn.Module):
            raise ModelError(f"model '{model.address.text}': cannot be captured: expected a torch module on 'cuda'")
        return loaded.to("cuda")

    def _open(self, stream: Any) -> _CudaStream:
        pool = torch.cuda.graph_pool_handle()
        captured = [self._capture(model, index, stream, pool) for index, model in enumerate(self._models)]
        began = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        ended = torch.cuda.Event(enable_timing=True, blocking=True)  # type: ignore[no-untyped-call]
        return _CudaStream(stream, captured, began, ended, SimpleQueue())

    def _capture(self, model: torch.nn.Module, index: int, stream: Any, pool: Any) -> Captured:
        """Warm a model up on `stream`, and capture it there."""
        host_input = _pinned(self._workload.sets[self._set_of(index)].inputs[:1])

        def run(batch: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = model(batch)
            return result.reshape(-1)[:OUTPUT_NUMBERS].float()

        try:
            with torch.inference_mode():
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    device_input = host_input.to("cuda", non_blocking=True)
                    for _ in range(WARM_RUNS):
                        output = run(device_input)
                stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
                    output = run(device_input)
        except RuntimeError as error:
            address = self._workload.models[index].address.text
            raise ModelError(f"model '{address}': cannot be captured: {_first_line(error)}") from None
        host_output = torch.empty(output.shape, dtype=torch.float32, pin_memory=True)
        return Captured(graph, host_input, device_input, output, host_output)

    def _set_of(self, model: int) -> int:
        """Return the index of a sample set that `model` takes."""
        for task, models in enumerate(self._workload.model_of):
            if model in models:
                return self._workload.set_of[task]
        raise AssertionError("a model that no task runs")

    # Running

    def submit(self, stream: int, request: RunRequest) -> None:
        """Enqueue input copy, graph replay and output copy on the stream; return at once."""
        assert not self._running[stream]
        cuda_stream = self._cuda_streams[stream]
        captured = cuda_stream.captured[request.model]
        # The host buffer is free: the stream's last run has ended.
        captured.host_input.copy_(self._inputs[request.samples][request.sample : request.sample + 1])
        self._running[stream] = True
        cuda_stream.since, cuda_stream.last = now(), request.model
        # The buffers were made in inference mode, and may only be written in it.
        with _device_errors(*LOST), torch.inference_mode(), torch.cuda.stream(cuda_stream.stream):
            cuda_stream.began.record(cuda_stream.stream)
            captured.device_input.copy_(captured.host_input, non_blocking=True)
            captured.graph.replay()
            captured.host_output.copy_(captured.device_output, non_blocking=True)
            cuda_stream.ended.record(cuda_stream.stream)
        cuda_stream.launched.put(request.model)

    def _wait_for_runs(self, index: int) -> None:
        """Wait for the runs of one stream in turn, and report each completion."""
        cuda_stream = self._cuda_streams[index]
        while (model := cuda_stream.launched.get()) is not None:
            try:
                cuda_stream.ended.synchronize()
                ended = now()
                spent = round(cuda_stream.began.elapsed_time(cuda_stream.ended) * 1e6)
                finite = bool(np.isfinite(cuda_stream.captured[model].host_output.numpy()).all())
                error = "" if finite else "ArithmeticError: the output is not finite"
            except RuntimeError as fault:  # how torch reports an error of the device
                ended, spent, error = now(), 0, f"{type(fault).__name__}: {_first_line(fault)}"
            self._completions[index] = Completion(index, ended, error, spent)
            with suppress(OSError):  # closed in the meantime
                os.write(self._writer, bytes([index]))

    def wait(self, seconds: float | None) -> list[Completion]:
        """Block until a run has ended or `seconds` have passed; return the runs that have ended."""
        if self._reader not in readable([self._reader, *self._wake_descriptors], seconds):
            return []
        ended = [self._completions.pop(index) for index in os.read(self._reader, 4096)]
        for completion in ended:
            self._running[completion.stream] = False
        return ended

    def since(self, stream: int) -> int | None:
        """Return when the stream began its run."""
        return self._cuda_streams[stream].since

    def watch_descriptor(self, descriptor: int) -> None:
        """Make `wait` return also when `descriptor` is readable."""
        self._wake_descriptors.append(descriptor)

    def put(self, samples: int, sample: int, values: np.ndarray) -> None:
        """Replace a sample in the pinned host memory."""
        self._inputs[samples][sample] = torch.from_numpy(values)

    def output(self, stream: int) -> np.ndarray:
        """Return the flat output of the stream's last run."""
        cuda_stream = self._cuda_streams[stream]
        return np.asarray(cuda_stream.captured[cuda_stream.last].host_output.numpy())

    def replace(self, stream: int) -> None:
        """Raise a DeviceError: a kernel that hangs can only be stopped with the process that launched it."""
        raise DeviceError(f"stream {stream} of the GPU gives no answer: expected an end of its run; start again")

    def joules(self) -> float | None:
        """Return the energy counter of the GPU, None if NVML cannot read it."""
        return self._meter.joules()

    # Ending

    def close(self) -> None:
        """Wait for the running jobs and threads to end, and free the memory.

        Where a run hangs, everything is kept until the process ends: to free memory would wait for the run.
        """
        until = now() + int(LONGEST_CLOSE_S * 1e9)
        threads = [cuda_stream.thread for cuda_stream in self._cuda_streams if cuda_stream.thread is not None]
        for cuda_stream in self._cuda_streams:
            cuda_stream.launched.put(None)
        for thread in threads:
            thread.join(max(0.0, (until - now()) / 1e9))
        if any(thread.is_alive() for thread in threads):
            _HANGING.append(self)
            return
        os.close(self._reader)
        os.close(self._writer)
        self._cuda_streams, self._models, self._inputs = [], [], []
        with suppress(RuntimeError):  # after an error of the device
            torch.cuda.empty_cache()


class _EnergyMeter:
    """Energy counter of NVML; boards such as the Jetsons have none."""

    def __init__(self) -> None:
        self._handle: Any = None
        with suppress(Exception):  # no NVML, or one that does not know this board
            import pynvml  # type: ignore[import-not-found, unused-ignore]

            pynvml.nvmlInit()
            # NVML and CUDA number boards differently; the UUID identifies the same board in both.
            board = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(board)
            self._read = pynvml.nvmlDeviceGetTotalEnergyConsumption

    def joules(self) -> float | None:
        """Return the counter in joules, None where it cannot be read."""
        if self._handle is None:
            return None
        try:
            return float(self._read(self._handle)) / 1e3
        except Exception:  # NVML reports an unsupported query by its own exception
            return None


_HANGING: list[CudaStreams] = []
"""Closed streams with runs that do not end."""
LOST = ("the GPU refuses work", "another start")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]


@contextmanager
def _device_errors(problem: str, expected: str) -> Iterator[None]:
    """Raise what torch reports as an error of the device as a DeviceError: `problem`, torch's words, `expected`."""
    try:
        yield
    except RuntimeError as error:
        raise DeviceError(f"{problem}: {type(error).__name__}: {_first_line(error)}: expected {expected}") from None


def _pinned(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).pin_memory()


def _distinct_streams(count: int, priorities: list[int] | None) -> list[Any]:
    """Return `count` CUDA streams, the most urgent ones for the highest of `priorities`.

    Raises:
        DeviceError: torch has no more streams of a priority.
    """
    ranks = sorted(set(priorities or []))
    least, greatest = torch.cuda.current_stream().priority_range()
    # CUDA's range is small and beyond its end all are equal, so ranks are used rather than the numbers themselves.
    urgency = [0] * count if priorities is None else [ranks.index(number) for number in priorities]
    streams = [
        torch.cuda.Stream(priority=max(greatest, least - rank))  # type: ignore[no-untyped-call]
        for rank in urgency
    ]
    if len({stream.cuda_stream for stream in streams}) < count:
        raise DeviceError(f"{count} streams: torch runs some of them as one: expected at most 32 of each priority")
    return streams
