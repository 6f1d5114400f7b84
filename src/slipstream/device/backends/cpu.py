"""The `cpu` and `onnxruntime` backends: one pinned worker process per stream, inputs and outputs in shared memory.

Processes, not threads: eager inference is an order of magnitude slower beside a busy Python thread. For the same reason
the controller blocks while it waits.
"""

from __future__ import annotations

import errno
import logging
import mmap
import os
import platform
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np

from slipstream.device.backends.streams import Completion, RunRequest, Streams, now
from slipstream.device.workers.ipc import (
    BROKEN,
    DONE,
    OUTPUT_NUMBERS,
    READY,
    REPLY,
    REQUEST,
    SharedArray,
    allocate_arrays,
    receive,
    receive_exactly,
    send,
    shared_file,
)
from slipstream.device.workers.polling import readable
from slipstream.device.workload import Workload, bytes_of
from slipstream.errors import DeviceError, ModelError

LOG = logging.getLogger(__name__)

LONGEST_START_S = 600.0
"""Time limit for loading and warming up the models."""
ENERGY_METER = Path("/sys/class/powercap/intel-rapl:0/energy_uj")
MOST_EARLY_DEATHS = 3
"""Consecutive workers of one stream that may die before they are ready; then the next start is postponed."""
RETRY_NS = 500_000_000
"""Time before starting a worker is tried again."""
SCARCE_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of a system that has no resources for another socket at present."""


def cores_for(streams: int) -> list[list[int]]:
    """Return the processor cores of each stream: an equal share, or one shared core where streams outnumber cores."""
    own = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else list(range(os.cpu_count() or 1))
    share = max(1, len(own) // streams)
    return [[own[(stream * share + core) % len(own)] for core in range(share)] for stream in range(streams)]


def engines_of(workload: Workload, engine: str) -> tuple[str, ...]:
    """Return the engines that run the models of `workload`: ONNX files run in ONNX Runtime under any `engine`."""
    found = {"onnxruntime" if model.address.kind == "onnx" else engine for model in workload.models}
    return tuple(sorted(found, reverse=True))


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class CpuStreams(Streams):
    """Streams that are worker processes; see `streams.Streams`."""

    def __init__(self, workload: Workload, count: int = 2, engine: str = "torch") -> None:
        self.count = count
        self.restarts = 0
        self._engine = engine
        self._engines = engines_of(workload, engine)
        self._cores = cores_for(count)
        self._workers: dict[int, socket.socket] = {}
        self._running = [False] * count
        self._since = [0] * count
        """When the stream's worker began its run; when the worker was requested, while it is not ready."""
        self._lengths = [0] * count
        self._ready = [False] * count
        self._early_deaths = [0] * count
        self._retry_at: dict[int, int] = {}
        """By stream without a worker: when to start one again."""
        self._reported_missing: set[int] = set()
        """Streams whose missing worker has been logged."""
        self._held_requests: dict[int, bytes] = {}
        """By stream without a worker: the request for its next worker."""
        self._wake_descriptors: list[int] = []
        self._controller_thread = 0
        """Thread that workers may move to their own cores when they reply; 0: none."""
        shapes = [(samples.inputs.shape, str(samples.inputs.dtype)) for samples in workload.sets]
        arrays, size = allocate_arrays([*shapes, *[((OUTPUT_NUMBERS,), "float32")] * count])
        sets, outputs = arrays[: len(shapes)], arrays[len(shapes) :]
        memory_file = shared_file(size)
        self._memory = mmap.mmap(memory_file, size)
        self._outputs = [array.view(self._memory) for array in outputs]
        self._samples = [array.view(self._memory) for array in sets]
        for view, samples in zip(self._samples, workload.sets, strict=True):
            view.reshape(-1).view(np.uint8)[:] = bytes_of(samples)
        self._control, other = socket.socketpair()
        self._reserve = -1
        try:
            self._process = self._start_forkserver(other)
        finally:
            other.close()
        try:
            send(self._control, self._setup(workload, sets, outputs, size), (memory_file,))
            self.memory_mb = self._loaded()
            for stream in range(count):
                self._fork(stream)
            self._await_ready()
        except BaseException:
            self.close()
            raise
        finally:
            os.close(memory_file)

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

    def _start_forkserver(self, control: socket.socket) -> subprocess.Popen[bytes]:
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        return subprocess.Popen(
            [sys.executable, "-m", "slipstream.device.workers.forkserver", str(control.fileno())],
            pass_fds=[control.fileno()],
            env={**os.environ, **one_thread, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            # A Ctrl-C in the terminal must reach only the controller, which lets running jobs end.
            start_new_session=True,
        )

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

    def _loaded(self) -> tuple[float, ...]:
        """Wait until the models are loaded; return their sizes."""
        self._control.settimeout(LONGEST_START_S)
        try:
            received = receive(self._control)
        except TimeoutError:
            raise DeviceError(f"the models did not load and run within {LONGEST_START_S:g} s") from None
        if received is None:
            raise DeviceError("the process that loads the models died: expected models that load and run")
        self._control.settimeout(None)
        if "error" in received[0]:
            raise ModelError(received[0]["error"])
        return tuple(received[0]["memory_mb"])

    def _fork(self, stream: int) -> None:
        """Have the fork server start a worker for `stream`; it reads requests, sent at any time, when it is ready.

        Raises:
            OSError: The system has no resources for it at present.
        """
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1
        ours, theirs = socket.socketpair()
        try:
            send(self._control, {"stream": stream}, (theirs.fileno(),))
        except OSError:
            ours.close()
            raise DeviceError("the process that starts the workers died") from None
        finally:
            theirs.close()
            self._take_reserve()
        self._workers[stream], self._ready[stream] = ours, False
        self._update_descriptors()
        self._since[stream] = now()

    def _take_reserve(self) -> None:
        """Reserve a descriptor for the next worker, whose socket needs one more than its predecessor frees."""
        with suppress(OSError):
            self._reserve = os.dup(self._control.fileno())

    def _update_descriptors(self) -> None:
        self._stream_at = {worker.fileno(): stream for stream, worker in self._workers.items()}
        self._descriptors = [*self._stream_at, *self._wake_descriptors]

    def _await_ready(self) -> None:
        until = now() + int(LONGEST_START_S * 1e9)
        while not all(self._ready):
            self.wait(1.0)
            if now() > until:
                raise DeviceError(f"the workers were not ready within {LONGEST_START_S:g} s")

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
        assert not self._running[stream]
        self._running[stream] = True
        if self._ready[stream]:
            self._since[stream] = now()
        message = REQUEST.pack(*request, self._controller_thread, loop_ns)
        if stream in self._retry_at:
            self._held_requests[stream], self._since[stream] = message, now()
            return
        self._write_request(stream, message)

    def _write_request(self, stream: int, message: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # `wait` detects a worker that died
            self._workers[stream].sendall(message)

    def wait(self, seconds: float | None) -> list[Completion]:
        """Block until a run has ended or `seconds` have passed; return the runs that have ended."""
        if self._retry_at:
            seconds = self._retry_workers(seconds)
        stream_at, ended = self._stream_at, []  # the present mapping: a reply may replace a worker
        for descriptor in readable(self._descriptors, seconds):
            if descriptor in stream_at and (completion := self._receive_reply(stream_at[descriptor])) is not None:
                ended.append(completion)  # any other descriptor only wakes this thread
        return ended

    def _receive_reply(self, stream: int) -> Completion | None:
        message = receive_exactly(self._workers[stream], REPLY.size)
        if message is None:
            return self._replace_dead_worker(stream)
        status, length, began, ended = REPLY.unpack(message)
        if status == DONE:
            self._running[stream] = False
            self._lengths[stream] = length
            return Completion(stream, ended, "", ended - began)
        if status == READY:
            self._ready[stream], self._early_deaths[stream] = True, 0
            if stream in self._reported_missing:
                self._reported_missing.discard(stream)
                LOG.warning("stream %d: a worker has been started again", stream)
            self._since[stream] = ended
            return None
        text = receive_exactly(self._workers[stream], length)
        if text is None:
            return self._replace_dead_worker(stream)
        error = text.decode(errors="replace")
        if status == BROKEN:
            had_run, self._running[stream] = self._running[stream], False
            self._drop_worker(stream, f"the worker cannot run the models: {error}")
            return Completion(stream, ended, error) if had_run else None
        self._running[stream], self._lengths[stream] = False, 0
        return Completion(stream, ended, error, ended - began)

    @contextmanager
    def controller_migration(self) -> Iterator[None]:
        """Allow workers to move this thread to their own cores, then idle, when they reply."""
        if sys.platform != "linux":
            yield
            return
        before, self._controller_thread = os.sched_getaffinity(0), threading.get_native_id()
        try:
            yield
        finally:
            self._controller_thread = 0
            os.sched_setaffinity(0, before)

    def _replace_dead_worker(self, stream: int) -> Completion | None:
        """Replace a worker that died; return its run, if it had one, as failed."""
        had_run = self._running[stream]
        self._running[stream] = False
        if not self._ready[stream]:
            self._early_deaths[stream] += 1
        if self._early_deaths[stream] < MOST_EARLY_DEATHS:
            self.replace(stream)
        else:
            self._drop_worker(stream, f"{MOST_EARLY_DEATHS} workers died before they were ready")
        return Completion(stream, now(), "the worker died") if had_run else None

    def _drop_worker(self, stream: int, reason: str) -> None:
        """Close the worker of a stream, which cannot run the models, and try again later.

        Raises:
            DeviceError: No other stream has a worker that is ready.
        """
        self._workers.pop(stream).close()
        self._ready[stream] = False
        if not any(self._ready):
            raise DeviceError(f"stream {stream}: {reason}")
        self._postpone_worker(stream, reason)

    def _postpone_worker(self, stream: int, reason: str) -> None:
        """Leave a stream without a worker until the next try, and log it once."""
        self._ready[stream] = False
        self._update_descriptors()
        if stream not in self._reported_missing:
            self._reported_missing.add(stream)
            LOG.warning("stream %d: no worker can be started (%s): the others go on", stream, reason)
        self._retry_at[stream] = now() + RETRY_NS

    def _retry_workers(self, seconds: float | None) -> float | None:
        """Start the workers that are due for another try; return the seconds to wait at most."""
        for stream, due in list(self._retry_at.items()):
            if due <= now():
                self._start_worker(stream)
        if not self._retry_at:
            return seconds
        left = (min(self._retry_at.values()) - now()) / 1e9
        return left if seconds is None else min(seconds, left)

    def since(self, stream: int) -> int | None:
        """Return when the stream began its run, None while its worker starts, unless that exceeds its time limit.

        For a stream without a worker, return when its run began to wait: the watchdog treats it like a hanging run.
        """
        if self._ready[stream] or stream in self._retry_at or now() - self._since[stream] > LONGEST_START_S * 1e9:
            return self._since[stream]
        return None

    def watch_descriptor(self, descriptor: int) -> None:
        """Make `wait` return also when `descriptor` is readable."""
        self._wake_descriptors.append(descriptor)
        self._descriptors.append(descriptor)

    def put(self, samples: int, sample: int, values: np.ndarray) -> None:
        """Replace a sample in the shared memory."""
        self._samples[samples][sample] = values

    def output(self, stream: int) -> np.ndarray:
        """Return the flat output of the stream's last run."""
        return self._outputs[stream][: self._lengths[stream]]

    def replace(self, stream: int) -> None:
        """Kill the worker of a stream and start another, now or when the system has the resources."""
        worker = self._workers.pop(stream, None)
        if worker is not None:
            worker.close()
            self.restarts += 1
        self._running[stream] = False
        self._held_requests.pop(stream, None)
        if stream not in self._retry_at:
            self._start_worker(stream)

    def _start_worker(self, stream: int) -> None:
        """Start a worker for a stream that has none, or postpone it."""
        try:
            self._fork(stream)
        except OSError as error:
            if error.errno not in SCARCE_ERRNOS:
                raise
            self._take_reserve()
            self._postpone_worker(stream, os.strerror(error.errno).lower())
            return
        self._retry_at.pop(stream, None)
        request = self._held_requests.pop(stream, None)
        if request is not None:
            self._write_request(stream, request)

    def joules(self) -> float | None:
        """Return the energy counter of the processor, None if it cannot be read."""
        try:
            return int(ENERGY_METER.read_text()) / 1e6
        except (OSError, ValueError):
            return None

    # Ending

    def close(self) -> None:
        """Close all sockets, at which the fork server ends its workers and itself."""
        for worker in self._workers.values():
            worker.close()
        self._workers = {}
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1
        self._control.close()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._outputs, self._samples = [], []
        with suppress(BufferError):  # an output is still referenced: the memory is freed with it
            self._memory.close()


def processor_name() -> str:
    """Return the name of the processor."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()
