"""The GPU of the stand-in: queues on threads, what was issued and what the host knows to be done, and all rules."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, NamedTuple

import torch

QUEUES_PER_PRIORITY = 32
"""Streams that torch creates for each priority; the next stream is the first again."""
LOWEST, HIGHEST = 0, -3
"""Priorities that torch tells apart; a lower number is more urgent, and one below the range is taken for its end."""


class CudaError(RuntimeError):
    """What CUDA or torch refuses."""


class Misuse(Exception):  # noqa: N818
    """What CUDA accepts, and what then goes wrong or waits without a word."""


class Mark(NamedTuple):
    """A position in a queue."""

    queue: WorkQueue
    number: int


class WorkQueue:
    """A queue of the GPU: what is enqueued runs in order on a thread of its own."""

    def __init__(self, gpu: Gpu, name: str, priority: int) -> None:
        self.gpu, self.name, self.priority = gpu, name, priority
        self.issued = 0
        """Number of items enqueued so far."""
        self.seen: dict[WorkQueue, int] = {}
        """By other queue: number of its items that are ordered before what is enqueued here next."""
        self.replayed = 0
        """Number of the last replay of a graph among the items."""
        self._items: SimpleQueue[tuple[Callable[[], None], bool] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True, name=f"gpu-{name}")
        self._thread.start()

    def put(self, work: Callable[[], None], always: bool = False) -> Mark:
        """Enqueue `work`; after an error of the device only what is marked `always` still runs."""
        self.issued += 1
        self._items.put((work, always))
        return Mark(self, self.issued)

    def drained(self) -> None:
        """Block until everything enqueued so far has run."""
        done = threading.Event()
        self._items.put((done.set, True))
        done.wait()

    def end(self) -> None:
        """End the thread."""
        self._items.put(None)
        self._thread.join(10.0)
        assert not self._thread.is_alive(), f"queue '{self.name}' still works"

    def _work(self) -> None:
        with torch.inference_mode():
            while (item := self._items.get()) is not None:
                work, always = item
                self.gpu.gate.wait()
                if always or not self.gpu.error:
                    try:
                        work()
                    except Exception as error:
                        self.gpu.error = f"CUDA error: device-side assert triggered ({error})"
                del item, work  # they hold memory


class Memory:
    """An allocation on the device or of pinned memory, and the last accesses to it."""

    def __init__(self, gpu: Gpu, size: int, home: WorkQueue | None) -> None:
        self.gpu, self.size, self.home = gpu, size, home
        self.written: Mark | None = None
        self.reads: dict[WorkQueue, int] = {}

    def __del__(self) -> None:
        if self.home is None:  # pinned memory is returned when the copies that use it have ended
            return
        self.gpu.allocated -= self.size
        uses = [Mark(queue, number) for queue, number in self.reads.items()]
        uses += [self.written] if self.written is not None else []
        if any(use.queue is not self.home and not self.gpu.is_known(use) for use in uses):
            self.gpu.violations.append("memory is freed while another stream uses it: expected record_stream")


class Capture:
    """A capture in progress."""

    def __init__(self, graph: Any, queue: WorkQueue, pool: Any, mode: str) -> None:
        self.graph, self.queue, self.pool, self.mode = graph, queue, pool, mode
        self.thread = threading.get_ident()
        self.nodes: list[Callable[[], None]] = []
        self.own: weakref.WeakSet[Memory] = weakref.WeakSet()
        """What is allocated during the capture, in the pool of the graph."""
        self.read: weakref.WeakSet[Memory] = weakref.WeakSet()
        self.written: weakref.WeakSet[Memory] = weakref.WeakSet()
        self.external: list[weakref.ref[Memory]] = []
        """What was allocated before: it has to live as long as the graph."""


class Gpu:
    """State of the stand-in; see the package."""

    def __init__(self, memory_mb: float = 4096.0) -> None:
        self.violations: list[str] = []
        """Every misuse, also of threads whose exceptions nobody sees."""
        self.error = ""
        """Error of the device, which every later call reports."""
        self.memory_bytes = int(memory_mb * 1e6)
        self.allocated = 0
        self.gate = threading.Event()
        self.gate.set()
        self.capture: Capture | None = None
        self.warm: set[str] = set()
        """Kernels that have run outside a capture."""
        self.pinned: dict[int, tuple[Memory, torch.Tensor]] = {}
        """By address; kept until the end, so that no other memory gets the address."""
        self.lock = threading.RLock()
        self.default = WorkQueue(self, "default", LOWEST)
        self._known: dict[WorkQueue, int] = {}
        """By queue: number of its items that the host has waited for."""
        self._pools: dict[int, list[WorkQueue]] = {}
        self._handed_out: dict[int, int] = {}
        self._local = threading.local()

    # Order

    def refuse(self, text: str) -> None:
        """Record a misuse and raise it."""
        self.violations.append(text)
        raise Misuse(text)

    def is_known(self, mark: Mark) -> bool:
        """Return whether the host has waited for the work at `mark`."""
        return self._known.get(mark.queue, 0) >= mark.number

    def is_before(self, mark: Mark, queue: WorkQueue) -> bool:
        """Return whether the work at `mark` is ordered before what `queue` is given next."""
        return mark.queue is queue or queue.seen.get(mark.queue, 0) >= mark.number or self.is_known(mark)

    def know(self, mark: Mark, seen: dict[WorkQueue, int]) -> None:
        """Note that the host has waited for `mark`, and so for everything `seen` before it."""
        with self.lock:
            for queue, number in {**seen, mark.queue: mark.number}.items():
                self._known[queue] = max(self._known.get(queue, 0), number)

    def check_error(self) -> None:
        """Raise the error of the device, if there is one."""
        if self.error:
            raise CudaError(self.error)

    def check_no_capture(self, what: str) -> None:
        """Raise the error of CUDA for a call that may not be made while a graph is captured."""
        capture = self.capture
        if capture is not None and (capture.mode == "global" or capture.thread == threading.get_ident()):
            raise CudaError(f"CUDA error: operation not permitted when stream is capturing ({what})")

    def check_not_serving(self, what: str, queues: Iterable[WorkQueue]) -> None:
        """Refuse a blocking call while graphs run on `queues`."""
        for queue in queues:
            if not self.is_known(Mark(queue, queue.replayed)):
                self.refuse(f"{what} blocks until a running graph has ended: expected an event")

    # Streams

    @property
    def queues(self) -> list[WorkQueue]:
        """All queues."""
        return [self.default, *(queue for pool in self._pools.values() for queue in pool)]

    def new_queue(self, priority: int) -> WorkQueue:
        """Return the next queue of `priority` from the pool of torch."""
        if priority > LOWEST:
            raise CudaError(f"Expected cuda stream priority to be less than or equal to 0, got {priority}")
        if priority < HIGHEST:
            self.refuse(f"priority {priority} is taken for {HIGHEST}: expected one that differs from it")
        pool = self._pools.setdefault(priority, [])
        number = self._handed_out.get(priority, 0)
        self._handed_out[priority] = number + 1
        if len(pool) <= number % QUEUES_PER_PRIORITY:
            pool.append(WorkQueue(self, f"{priority}/{number}", priority))
        return pool[number % QUEUES_PER_PRIORITY]

    @property
    def stack(self) -> list[Any]:
        """Streams of the contexts that this thread is in."""
        if not hasattr(self._local, "stack"):
            self._local.stack = []
        return self._local.stack

    @property
    def current(self) -> WorkQueue:
        """Queue of the current stream of this thread."""
        return self.stack[-1].queue if self.stack else self.default

    def synchronize(self, queues: list[WorkQueue], what: str) -> None:
        """Block until everything on `queues` has run."""
        self.check_no_capture(what)
        self.check_not_serving(what, queues)
        for queue in queues:
            mark, seen = Mark(queue, queue.issued), dict(queue.seen)
            queue.drained()
            self.know(mark, seen)
        self.check_error()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep all queues from starting any work, so that what is issued within is certainly unfinished."""
        self.gate.clear()
        try:
            yield
        finally:
            self.gate.set()

    def close(self) -> None:
        """End all threads."""
        self.gate.set()
        for queue in self.queues:
            queue.end()

    # Memory

    def allocate(self, size: int) -> Memory:
        """Return `size` bytes of device memory, in the pool of the graph while one is captured."""
        if self.allocated + size > self.memory_bytes:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size / 2**20:.2f} MiB.")
        self.allocated += size
        memory = Memory(self, size, self.current)
        if self.is_capturing:
            self.capture.own.add(memory)
        return memory

    @property
    def is_capturing(self) -> bool:
        """Whether this thread captures a graph."""
        return self.capture is not None and self.capture.thread == threading.get_ident()

    def pin(self, tensor: torch.Tensor) -> None:
        """Register the memory of `tensor` as pinned."""
        self.check_no_capture("cudaHostAlloc")
        self.pinned[tensor.untyped_storage().data_ptr()] = (Memory(self, 0, None), tensor)

    def pinned_memory(self, tensor: torch.Tensor) -> Memory | None:
        """Return the pinned memory of `tensor`, None if it is not pinned."""
        found = self.pinned.get(tensor.untyped_storage().data_ptr())
        return None if found is None else found[0]

    def check_host_access(self, memory: Memory, write: bool) -> None:
        """Refuse that the host reads what a copy has yet to write, or overwrites what a copy has yet to read."""
        if memory.written is not None and not self.is_known(memory.written):
            self.refuse("the host uses results before the event after their copy: expected to wait for it")
        if write and not all(self.is_known(Mark(queue, number)) for queue, number in memory.reads.items()):
            self.refuse("the host overwrites a buffer that a copy has yet to read: expected to wait for its event")

    # Work

    def launch(
        self, name: str, work: Callable[[], None], reads: Iterable[Memory] = (), writes: Iterable[Memory] = ()
    ) -> Mark | None:
        """Enqueue a kernel on the current stream; while one captures, add it to the graph and return None."""
        with self.lock:
            self.check_error()
            queue, reads, writes = self.current, list(reads), list(writes)
            if self.is_capturing:
                self._add_to_capture(name, work, queue, reads, writes)
                return None
            if queue is self.default:
                self.refuse(f"{name} is launched on the default stream: expected a stream of its own")
            for memory in (*reads, *writes):
                if memory.written is not None and not self.is_before(memory.written, queue):
                    self.refuse(f"{name} uses what another stream has yet to write: expected an event between them")
            for memory in writes:
                if not all(self.is_before(Mark(*use), queue) for use in memory.reads.items()):
                    self.refuse(f"{name} overwrites what another stream has yet to read: expected an event")
            self.warm.add(name)
            mark = queue.put(work)
            for memory in reads:
                memory.reads[queue] = mark.number
            for memory in writes:
                memory.written, memory.reads = mark, {}
            return mark

    def _add_to_capture(
        self, name: str, work: Callable[[], None], queue: WorkQueue, reads: list[Memory], writes: list[Memory]
    ) -> None:
        capture = self.capture
        assert capture is not None
        if queue is not capture.queue:
            raise CudaError("CUDA error: operation would make the legacy stream depend on a capturing blocking stream")
        if name not in self.warm:
            self.refuse(f"{name} runs for the first time while a graph is captured: expected warm-up runs before")
        capture.nodes.append(work)
        capture.read.update(reads)
        capture.written.update(writes)
        known = {reference() for reference in capture.external}
        capture.external += [weakref.ref(m) for m in (*reads, *writes) if m not in capture.own and m not in known]

    def copy_and_wait(self, work: Callable[[], None]) -> None:
        """Make a blocking copy on the current stream."""
        self.check_no_capture("a blocking copy")
        self.check_error()
        queue = self.current
        self.check_not_serving("a blocking copy", self.queues if queue is self.default else [queue])
        mark, seen = Mark(queue, queue.issued), dict(queue.seen)
        queue.drained()
        self.know(mark, seen)
        with torch.inference_mode():
            work()


now = time.perf_counter
