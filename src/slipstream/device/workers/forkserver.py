"""Fork server: loads what workers need once and forks them, so that a worker that died is replaced in milliseconds.

A `pool.WorkerPool` starts one as `python -m MODULE DESCRIPTOR`. It ends, and its workers with it, when the other end of
its socket is closed.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from slipstream.device.workers.ipc import receive, send
from slipstream.device.workers.process import one_line
from slipstream.errors import SlipstreamError


class ForkServer(ABC):
    """One forked worker per stream."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, int] = {}

    @property
    def answer(self) -> dict[str, Any]:
        """The answer to the pool when everything is loaded."""
        return {}

    @abstractmethod
    def work(self, stream: int, channel: socket.socket) -> None:
        """Be the worker of `stream`, until the other end of `channel` is closed."""

    def replace(self, stream: int, channel: int) -> None:
        """End the worker of `stream`, if there is one, and fork another."""
        self.end(stream)
        child = os.fork()
        if child:
            with suppress(OSError):  # the worker has done it itself, or ended
                os.setpgid(child, child)
            os.close(channel)
            self._children[stream] = child
            return
        # From here on this is the worker; it must never return to the server's loop.
        status = 1
        try:
            os.setpgid(0, 0)
            self._control.close()
            with suppress(OSError):  # the controller may have ended
                self.work(stream, socket.socket(fileno=channel))
            status = 0
        finally:
            os._exit(status)

    def end(self, stream: int) -> None:
        """Kill the worker of a stream and what it started; not waited for before, so its process id is not reused."""
        child = self._children.pop(stream, 0)
        if child:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def close(self) -> None:
        """Kill all workers."""
        for stream in list(self._children):
            self.end(stream)


def run_server(make: Callable[[socket.socket, dict[str, Any], list[int]], ForkServer]) -> None:
    """Make a server from its setup, answer, then replace workers on request until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    received = receive(control)
    if received is None:
        return
    try:
        server = make(control, *received)
    except Exception as error:
        text = str(error) if isinstance(error, SlipstreamError) else one_line(error)
        with suppress(OSError):  # the controller may have ended
            send(control, {"error": text})
        return
    try:
        with suppress(OSError):
            send(control, server.answer)
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
