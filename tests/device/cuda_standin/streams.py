"""Streams, events and graphs of the stand-in, with the methods of `torch.cuda` that the backend uses."""

from __future__ import annotations

import threading
from typing import Any

from tests.device.cuda_standin.machine import HIGHEST, LOWEST, Capture, CudaError, Gpu, Mark, WorkQueue, now


class Stream:
    """`torch.cuda.Stream`."""

    gpu: Gpu

    def __init__(self, device: Any = None, priority: int = 0, queue: WorkQueue | None = None) -> None:
        self.queue = queue if queue is not None else self.gpu.new_queue(priority)
        self.priority = self.queue.priority

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the least and the greatest priority."""
        return LOWEST, HIGHEST

    @property
    def cuda_stream(self) -> int:
        """Address of the stream: equal for streams that are the same queue."""
        return id(self.queue)

    def wait_stream(self, other: Stream) -> None:
        """Order what is enqueued here after what `other` has so far."""
        event = type(self)._event()
        event.record(other, internal=True)
        event.wait(self)

    @classmethod
    def _event(cls) -> Event:
        return type("Event", (Event,), {"gpu": cls.gpu})()

    def synchronize(self) -> None:
        """Block until everything enqueued here has run."""
        self.gpu.synchronize([self.queue], "Stream.synchronize")


class StreamContext:
    """`torch.cuda.stream`: the current stream of this thread within the context."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        self._stream.gpu.stack.append(self._stream)

    def __exit__(self, *_: object) -> None:
        self._stream.gpu.stack.pop()


class Record:
    """One recording of an event."""

    def __init__(self, queue: WorkQueue) -> None:
        self.time = 0.0
        self.done = threading.Event()
        self.seen = dict(queue.seen)
        self.mark = queue.put(self._stamp, always=True)

    def _stamp(self) -> None:
        self.time = now()
        self.done.set()


class Event:
    """`torch.cuda.Event`."""

    gpu: Gpu

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._timed, self._blocking = enable_timing, blocking
        self._last: Record | None = None

    def record(self, stream: Stream | None = None, internal: bool = False) -> None:
        """Record the event after everything that `stream` has so far."""
        self.gpu.check_no_capture("cudaEventRecord")
        self.gpu.check_error()
        queue = self.gpu.current if stream is None else stream.queue
        if queue is self.gpu.default and not internal:
            self.gpu.refuse("an event is recorded on the default stream: expected that of the work")
        if self._last is not None and not self.gpu.is_known(self._last.mark):
            self.gpu.refuse("an event is recorded again before the host has waited for it: expected one per run")
        with self.gpu.lock:
            self._last = Record(queue)

    def wait(self, stream: Stream) -> None:
        """Make `stream` wait for the event."""
        last = self._recorded()
        with self.gpu.lock:
            stream.queue.put(lambda: (last.done.wait(), None)[1])
            for queue, number in {**last.seen, last.mark.queue: last.mark.number}.items():
                stream.queue.seen[queue] = max(stream.queue.seen.get(queue, 0), number)

    def synchronize(self) -> None:
        """Block until the event has happened."""
        self.gpu.check_no_capture("cudaEventSynchronize")
        if not self._blocking:
            self.gpu.refuse("waiting for this event keeps a core busy: expected one with blocking=True")
        last = self._recorded()
        last.done.wait()
        self.gpu.know(last.mark, last.seen)
        self.gpu.check_error()

    def elapsed_time(self, other: Event) -> float:
        """Return the ms between this event and `other`."""
        if not (self._timed and other._timed):
            raise CudaError("Both events must be created with argument 'enable_timing=True'.")
        one, last = self._recorded(), other._recorded()
        if not (self.gpu.is_known(one.mark) and self.gpu.is_known(last.mark)):
            self.gpu.refuse("the time of an event is read before it was waited for: expected synchronize first")
        return (last.time - one.time) * 1e3

    def _recorded(self) -> Record:
        if self._last is None:
            raise CudaError("Both events must be recorded before calculating elapsed time.")
        return self._last


class Pool:
    """A memory pool of graphs."""

    def __init__(self) -> None:
        self.graphs: list[CUDAGraph] = []


class CUDAGraph:
    """`torch.cuda.CUDAGraph`."""

    gpu: Gpu

    def __init__(self, keep_graph: bool = False) -> None:
        self._captured: Capture | None = None
        self._last: Mark | None = None

    def captured(self, capture: Capture) -> None:
        """Take what was captured."""
        self._captured = capture
        capture.pool.graphs.append(self)

    def replay(self) -> None:
        """Enqueue all kernels of the graph on the current stream."""
        gpu, captured = self.gpu, self._captured
        if captured is None:
            raise CudaError("Called CUDAGraph::replay without a preceding successful capture.")
        gpu.check_no_capture("cudaGraphLaunch")
        queue = gpu.current
        if self._last is not None and not gpu.is_before(self._last, queue):
            gpu.refuse("one graph is launched on two streams at a time: expected a graph for each")
        for graph in captured.pool.graphs:
            if graph._last is not None and not gpu.is_before(graph._last, queue):
                gpu.refuse("graphs that share a memory pool run side by side: expected a pool for each stream")
        if any(reference() is None for reference in captured.external):
            gpu.refuse("a graph uses memory that was freed after its capture: expected it to be kept")
        nodes = captured.nodes

        def run() -> None:
            for node in nodes:
                node()

        self._last = gpu.launch("a graph", run, captured.read, captured.written)
        queue.replayed = queue.issued


class graph:  # noqa: N801
    """`torch.cuda.graph`: captures what is launched within the context."""

    gpu: Gpu
    stream_type: type[Stream]

    def __init__(
        self, cuda_graph: CUDAGraph, pool: Pool | None = None, stream: Any = None, capture_error_mode: str = "global"
    ) -> None:
        if capture_error_mode not in ("global", "thread_local", "relaxed"):
            raise CudaError(f'Unknown capture error mode. Expected "global", ..., got {capture_error_mode}')
        self._graph, self._pool, self._mode = cuda_graph, pool if pool is not None else Pool(), capture_error_mode
        self._stream = stream if stream is not None else self.stream_type()

    def __enter__(self) -> None:
        gpu = self.gpu
        gpu.synchronize(gpu.queues, "torch.cuda.synchronize")
        gpu.stack.append(self._stream)
        gpu.capture = Capture(self._graph, self._stream.queue, self._pool, self._mode)

    def __exit__(self, kind: object, *_: object) -> None:
        gpu = self.gpu
        capture, gpu.capture = gpu.capture, None
        gpu.stack.pop()
        if kind is None:
            assert capture is not None
            if not capture.nodes:
                gpu.refuse("the captured graph is empty: expected the kernels of a model")
            self._graph.captured(capture)
