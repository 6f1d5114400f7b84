"""Worker processes of an engine, one per resource: requests and replies over sockets, dead and hanging ones replaced.

A fork server, a process of its own, has loaded what workers need, and forks them, so that a replacement takes some
milliseconds. Subclasses say which server that is, what their setup holds, and what is in a request.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from slipstream.device.backends.streams import Completion, now
from slipstream.device.workers.ipc import BROKEN, DONE, READY, REPLY, receive, receive_exactly, send
from slipstream.device.workers.polling import readable
from slipstream.errors import DeviceError, ModelError

LOG = logging.getLogger(__name__)

LONGEST_START_S = 600.0
"""Time limit for loading and warming up what workers run."""
MOST_EARLY_DEATHS = 3
"""Consecutive workers of one resource that may die before they are ready; then the next start is postponed."""
RETRY_NS = 500_000_000
"""Time before starting a worker is tried again."""
SCARCE_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of a system that has no resources for another socket at present."""


def cores_for(workers: int) -> list[list[int]]:
    """Return the processor cores of each worker: an equal share, or one shared core where workers outnumber cores."""
    own = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else list(range(os.cpu_count() or 1))
    share = max(1, len(own) // workers)
    return [[own[(worker * share + core) % len(own)] for core in range(share)] for worker in range(workers)]


class WorkerPool:
    """Worker processes by the number of their resource, called streams here as on a device."""

    server: ClassVar[str]
    """Module of the fork server."""
    noun: str = "stream"
    """What a resource is called in messages."""
    does: ClassVar[str] = "run the models"
    """What workers do, in messages."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.restarts = 0
        self._cores = cores_for(count)
        self._workers: dict[int, socket.socket] = {}
        self._running = [False] * count
        self._since = [0] * count
        """When the worker began its run; when the worker was requested, while it is not ready."""
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
        self._control, other = socket.socketpair()
        self._reserve = -1
        try:
            self._process = self._start_forkserver(other)
        finally:
            other.close()

    # Starting

    def _start_workers(self, setup: dict[str, Any], descriptors: tuple[int, ...] = ()) -> dict[str, Any]:
        """Give the fork server its `setup`, start all workers, and return what the server answered.

        Raises:
            ModelError: One line of the server: what cannot be loaded.
        """
        send(self._control, setup, descriptors)
        answer = self._loaded()
        for stream in range(self.count):
            self._fork(stream)
        self._await_ready()
        return answer

    def _start_forkserver(self, control: socket.socket) -> subprocess.Popen[bytes]:
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        return subprocess.Popen(
            [sys.executable, "-m", self.server, str(control.fileno())],
            pass_fds=[control.fileno()],
            env={**os.environ, **one_thread, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            # A Ctrl-C in the terminal must reach only the controller, which lets running jobs end.
            start_new_session=True,
        )

    def _loaded(self) -> dict[str, Any]:
        """Wait until the fork server has loaded what workers need; return its answer."""
        self._control.settimeout(LONGEST_START_S)
        try:
            received = receive(self._control)
        except TimeoutError:
            raise DeviceError(f"what workers run did not load and run within {LONGEST_START_S:g} s") from None
        if received is None:
            raise DeviceError("the process that loads what workers run died: expected it to load and run")
        self._control.settimeout(None)
        if "error" in received[0]:
            raise ModelError(received[0]["error"])
        return received[0]

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

    def _begin(self, stream: int, message: bytes) -> None:
        """Send a request; a worker that is being replaced takes it as soon as it is ready."""
        assert not self._running[stream]
        self._running[stream] = True
        if self._ready[stream]:
            self._since[stream] = now()
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
                LOG.warning("%s %d: a worker has been started again", self.noun, stream)
            self._since[stream] = ended
            return None
        text = receive_exactly(self._workers[stream], length)
        if text is None:
            return self._replace_dead_worker(stream)
        error = text.decode(errors="replace")
        if status == BROKEN:
            had_run, self._running[stream] = self._running[stream], False
            self._drop_worker(stream, f"the worker cannot {self.does}: {error}")
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
        """Close the worker of a stream, which cannot do its work, and try again later.

        Raises:
            DeviceError: No other stream has a worker that is ready.
        """
        self._workers.pop(stream).close()
        self._ready[stream] = False
        if not any(self._ready):
            raise DeviceError(f"{self.noun} {stream}: {reason}")
        self._postpone_worker(stream, reason)

    def _postpone_worker(self, stream: int, reason: str) -> None:
        """Leave a stream without a worker until the next try, and log it once."""
        self._ready[stream] = False
        self._update_descriptors()
        if stream not in self._reported_missing:
            self._reported_missing.add(stream)
            LOG.warning("%s %d: no worker can be started (%s): the others go on", self.noun, stream, reason)
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
