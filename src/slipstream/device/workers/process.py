"""What worker processes of every kind do: replies, and settings of the process."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic_ns

from slipstream.device.workers.ipc import LONGEST_TEXT, REPLY

PR_SET_PDEATHSIG = 1
THREAD_ERRORS = suppress(OSError)
"""Errors of moving a thread that has ended or belongs to another user; created once, since every run enters it."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_KEPT_BYTES = 32 << 20
"""Largest freed block that the C library keeps for the process; larger ones are returned to the system."""


def one_line(error: BaseException) -> str:
    """Return the type and first line of an error's message."""
    text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__


def move_thread(thread: int, cores: Sequence[int]) -> None:
    """Move the waiting controller thread to `cores`, which have just become idle.

    Elsewhere it would delay the run of another stream, or have to wake a sleeping core.
    """
    with THREAD_ERRORS:
        os.sched_setaffinity(thread, cores)


def send_reply(to: socket.socket, status: int, length: int, began: int, ended: int) -> None:
    """Send a reply with its status, length and times."""
    to.sendall(REPLY.pack(status, length, began, ended))


def send_failure(to: socket.socket, status: int, error: BaseException, began: int = 0) -> None:
    """Send a reply of a failed status with the text of `error`."""
    ended, text = monotonic_ns(), one_line(error).encode()[:LONGEST_TEXT]
    to.sendall(REPLY.pack(status, len(text), began, ended) + text)


def configure(cores: Sequence[int]) -> None:
    """Configure this process as a worker: pinned to `cores`, ignoring Ctrl-C, killed when its parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        die_with_parent()
        os.sched_setaffinity(0, cores)
        # A crashed worker is reported and replaced; a core dump of all weights would delay that.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        retain_freed_memory()


def die_with_parent() -> None:
    """Have the system kill this process when its parent dies, where it can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def retain_freed_memory() -> None:
    """Make the C library keep freed memory for the next run.

    Otherwise large activations are new pages in every run, which the system clears at first touch: hundreds of page
    faults, a tenth of the time of a large network, and more of its jitter.
    """
    with suppress(AttributeError):  # a C library without these settings
        allocator = ctypes.CDLL(None)
        allocator.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT_BYTES)
        allocator.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
