"""The `cpu` and `onnxruntime` backends: one pinned worker process per stream, inputs and outputs in shared memory.

Processes, not threads: beside a busy Python thread, eager inference is an order of magnitude slower. The controller
blocks while it waits, for the same reason.
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
from pathlib import Path

import numpy as np

from slipstream.device.backends.streams import Completion, Order, Streams, now
from slipstream.device.workers.ipc import (
    BROKEN,
    DONE,
    ORDER,
    OUTPUT_NUMBERS,
    READY,
    REPLY,
    Place,
    lay_out,
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
"""For which the models may load and warm up before we give up."""
ENERGY_METER = Path("/sys/class/powercap/intel-rapl:0/energy_uj")
MOST_EARLY_DEATHS = 3
"""Workers of one stream that may die before they are ready, one after the other, while no other stream has one."""
RETRY_NS = 500_000_000
"""After which a worker is asked for again that could not be made."""
SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""What the system says when it has no means for another socket now."""


def cores_for(streams: int) -> list[list[int]]:
    """Return the processor cores of each stream: an equal share, or one of those there are where streams are many."""
    own = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else list(range(os.cpu_count() or 1))
    share = max(1, len(own) // streams)
    return [[own[(stream * share + core) % len(own)] for core in range(share)] for stream in range(streams)]


class CpuStreams(Streams):
    """Streams that are worker processes; see `streams.Streams`."""

    def __init__(self, workload: Workload, count: int = 2, engine: str = "torch") -> None:
        self.count = count
        self.restarts = 0
        self._engine = engine
        self._cores = cores_for(count)
        self._workers: dict[int, socket.socket] = {}
        self._running = [False] * count
        self._since = [0] * count
        """When a stream's worker took up its run; while it is not ready, when it was asked for."""
        self._lengths = [0] * count
        self._ready = [False] * count
        self._early_deaths = [0] * count
        self._retry_at: dict[int, int] = {}
        """By stream without a worker: when to ask for one again."""
        self._missed: set[int] = set()
        """Streams of which it was said that they have no worker."""
        self._held_orders: dict[int, bytes] = {}
        """By stream without a worker: the run that its next worker is to make."""
        self._alarms: list[int] = []
        self._asker = 0
        """The thread that workers may move to their own cores when they have an answer for it; 0: none."""
        shapes = [(samples.inputs.shape, str(samples.inputs.dtype)) for samples in workload.sets]
        places, size = lay_out([*shapes, *[((OUTPUT_NUMBERS,), "float32")] * count])
        sets, outputs = places[: len(shapes)], places[len(shapes) :]
        memory_file = shared_file(size)
        self._memory = mmap.mmap(memory_file, size)
        self._outputs = [place.view(self._memory) for place in outputs]
        self._samples = [place.view(self._memory) for place in sets]
        for view, samples in zip(self._samples, workload.sets, strict=True):
            view.reshape(-1).view(np.uint8)[:] = bytes_of(samples)
        self._control, other = socket.socketpair()
        self._reserve = -1
        try:
            self._process = self._start_nursery(other)
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
        """The processor, and what runs the models on it."""
        return f"{processor_name()}, {self.count} streams of {len(self._cores[0])} core(s), {self._engine}"

    # Starting

    def _start_nursery(self, control: socket.socket) -> subprocess.Popen[bytes]:
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        return subprocess.Popen(
            [sys.executable, "-m", "slipstream.device.workers.forkserver", str(control.fileno())],
            pass_fds=[control.fileno()],
            env={**os.environ, **one_thread, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            # A Ctrl-C in the terminal is for the controller, which lets running jobs end.
            start_new_session=True,
        )

    def _setup(self, workload: Workload, sets: list[Place], outputs: list[Place], size: int) -> dict[str, object]:
        first: dict[int, int] = {}
        for task, models in enumerate(workload.model_of):
            first |= dict.fromkeys(models, workload.set_of[task])
        return {
            "engine": self._engine,
            "models": [{"address": asdict(m.address), "dataset": m.dataset.name} for m in workload.models],
            "sets": [place.to_dict() for place in sets],
            "outputs": [place.to_dict() for place in outputs],
            "first": [list(pair) for pair in first.items()],
            "bytes": size,
            "cores": self._cores,
            "threads": len(self._cores[0]),
        }

    def _loaded(self) -> tuple[float, ...]:
        """Wait for the models; return their sizes."""
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
        """Have a worker made for a stream; it may take orders at once, and reads them when it is ready.

        Raises:
            OSError: The system has no means for it now.
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
        self._listen()
        self._since[stream] = now()

    def _take_reserve(self) -> None:
        """Keep a descriptor for the next worker: its socket takes one more than the one that its predecessor frees."""
        with suppress(OSError):
            self._reserve = os.dup(self._control.fileno())

    def _listen(self) -> None:
        self._stream_at = {worker.fileno(): stream for stream, worker in self._workers.items()}
        self._listening = [*self._stream_at, *self._alarms]

    def _await_ready(self) -> None:
        until = now() + int(LONGEST_START_S * 1e9)
        while not all(self._ready):
            self.wait(1.0)
            if now() > until:
                raise DeviceError(f"the workers were not ready within {LONGEST_START_S:g} s")

    # Running

    def submit(self, stream: int, order: Order) -> None:
        """Begin a run; a worker that is just being replaced takes it as soon as it can."""
        self._send(stream, order, 0)

    def loop(self, order: Order, seconds: float) -> list[tuple[int, int]]:
        """Let every worker run a model again and again by itself; return their runs, and how many ns those took.

        The runtime is measured by it.
        """
        for stream in range(self.count):
            self._send(stream, order, round(seconds * 1e9))
        made = [(0, 0)] * self.count
        while any(self._running):
            for completion in self.wait(None):
                if completion.error:
                    raise DeviceError(f"the loop of stream {completion.stream} failed: {completion.error}")
                made[completion.stream] = (self._lengths[completion.stream], completion.device_ns)
        return made

    def _send(self, stream: int, order: Order, loop_ns: int) -> None:
        assert not self._running[stream]
        self._running[stream] = True
        if self._ready[stream]:
            self._since[stream] = now()
        message = ORDER.pack(*order, self._asker, loop_ns)
        if stream in self._retry_at:
            self._held_orders[stream], self._since[stream] = message, now()
            return
        self._hand_over(stream, message)

    def _hand_over(self, stream: int, message: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # a worker that died is found out by `wait`
            self._workers[stream].sendall(message)

    def wait(self, seconds: float | None) -> list[Completion]:
        """Block until a run has ended or the time is up."""
        if self._retry_at:
            seconds = self._ask_again(seconds)
        stream_at, ended = self._stream_at, []  # as they are before hearing, which may replace a worker
        for descriptor in readable(self._listening, seconds):
            if descriptor in stream_at and (completion := self._hear(stream_at[descriptor])) is not None:
                ended.append(completion)  # any other descriptor is an alarm, which only wakes
        return ended

    def _hear(self, stream: int) -> Completion | None:
        message = receive_exactly(self._workers[stream], REPLY.size)
        if message is None:
            return self._bury(stream)
        status, length, began, ended = REPLY.unpack(message)
        if status == DONE:
            self._running[stream] = False
            self._lengths[stream] = length
            return Completion(stream, ended, "", ended - began)
        if status == READY:
            self._ready[stream], self._early_deaths[stream] = True, 0
            if stream in self._missed:
                self._missed.discard(stream)
                LOG.warning("stream %d: a worker has been started again", stream)
            self._since[stream] = ended
            return None
        text = receive_exactly(self._workers[stream], length)
        if text is None:
            return self._bury(stream)
        told = text.decode(errors="replace")
        if status == BROKEN:
            lost, self._running[stream] = self._running[stream], False
            self._give_up_worker(stream, f"the worker cannot run the models: {told}")
            return Completion(stream, ended, told) if lost else None
        self._running[stream], self._lengths[stream] = False, 0
        return Completion(stream, ended, told, ended - began)

    @contextmanager
    def attended(self) -> Iterator[None]:
        """Let workers that have an answer for this thread move it to their own cores, idle by then."""
        if sys.platform != "linux":
            yield
            return
        before, self._asker = os.sched_getaffinity(0), threading.get_native_id()
        try:
            yield
        finally:
            self._asker = 0
            os.sched_setaffinity(0, before)

    def _bury(self, stream: int) -> Completion | None:
        """Replace a worker that died; its run, if it had one, has failed."""
        lost = self._running[stream]
        self._running[stream] = False
        if not self._ready[stream]:
            self._early_deaths[stream] += 1
        if self._early_deaths[stream] < MOST_EARLY_DEATHS:
            self.replace(stream)
        else:
            self._give_up_worker(stream, f"{MOST_EARLY_DEATHS} workers died before they were ready")
        return Completion(stream, now(), "the worker died") if lost else None

    def _give_up_worker(self, stream: int, reason: str) -> None:
        """Leave a stream without its worker, which cannot work.

        Raises:
            DeviceError: No other stream has a worker that can.
        """
        self._workers.pop(stream).close()
        self._ready[stream] = False
        if not any(self._ready):
            raise DeviceError(f"stream {stream}: {reason}")
        self._do_without(stream, reason)

    def _do_without(self, stream: int, reason: str) -> None:
        """Leave a stream without a worker for a while, and say so once."""
        self._ready[stream] = False
        self._listen()
        if stream not in self._missed:
            self._missed.add(stream)
            LOG.warning("stream %d: no worker can be started (%s): the others go on", stream, reason)
        self._retry_at[stream] = now() + RETRY_NS

    def _ask_again(self, seconds: float | None) -> float | None:
        """Ask again for workers that could not be made, where it is time to; return for how long to wait at most."""
        for stream, due in list(self._retry_at.items()):
            if due <= now():
                self._start_worker(stream)
        if not self._retry_at:
            return seconds
        left = (min(self._retry_at.values()) - now()) / 1e9
        return left if seconds is None else min(seconds, left)

    def since(self, stream: int) -> int | None:
        """Return since when the stream works on its run, None while its worker starts, unless that takes for ever.

        Of a stream that has no worker, since when its run waits for one: it is given up like one that hangs.
        """
        if self._ready[stream] or stream in self._retry_at or now() - self._since[stream] > LONGEST_START_S * 1e9:
            return self._since[stream]
        return None

    def wake_by(self, descriptor: int) -> None:
        """Let `wait` return for it too."""
        self._alarms.append(descriptor)
        self._listening.append(descriptor)

    def put(self, samples: int, sample: int, values: np.ndarray) -> None:
        """Replace a sample, in the memory that the workers read."""
        self._samples[samples][sample] = values

    def output(self, stream: int) -> np.ndarray:
        """Return what the last run of the stream gave."""
        return self._outputs[stream][: self._lengths[stream]]

    def replace(self, stream: int) -> None:
        """Kill the worker of a stream and start another, now or when the system has the means for it."""
        worker = self._workers.pop(stream, None)
        if worker is not None:
            worker.close()
            self.restarts += 1
        self._running[stream] = False
        self._held_orders.pop(stream, None)
        if stream not in self._retry_at:
            self._start_worker(stream)

    def _start_worker(self, stream: int) -> None:
        """Start a worker for a stream that has none, or put it off."""
        try:
            self._fork(stream)
        except OSError as error:
            if error.errno not in SCARCE:
                raise
            self._take_reserve()
            self._do_without(stream, os.strerror(error.errno).lower())
            return
        self._retry_at.pop(stream, None)
        order = self._held_orders.pop(stream, None)
        if order is not None:
            self._hand_over(stream, order)

    def joules(self) -> float | None:
        """Return what the processor's own meter shows, where the system lets us read it."""
        try:
            return int(ENERGY_METER.read_text()) / 1e6
        except (OSError, ValueError):
            return None

    # Ending

    def close(self) -> None:
        """Hang up: the nursery ends its workers and itself."""
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
        with suppress(BufferError):  # somebody still looks at an output: the memory goes with the last look
            self._memory.close()


def processor_name() -> str:
    """Return what the machine calls its processor."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()
