"""Inter-process protocol of the `cpu` backend: fixed records over sockets, inputs and outputs in shared memory.

The memory is an unnamed file, which cannot outlive the processes that hold it open.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import DeviceError, unwritable

REQUEST = struct.Struct("<iiiiq")
"""model, sample set, sample, the controller thread to move to the worker's cores (0: none), and the duration of a loop
of runs in ns (0: one run)."""
REPLY = struct.Struct("<iiqq")
"""status, length of the output (of a loop: runs; of a failure: bytes of its text, which follows), began, ended."""
LONGEST_TEXT = 400
READY, DONE, FAILED, BROKEN = range(4)
"""Status of a reply: the worker is ready, a run gave an output, a run failed, the worker cannot run the models."""

OUTPUT_NUMBERS = 4096
"""Largest output in numbers; a score for each class of any dataset fits."""
ALIGNMENT = 64
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class SharedArray:
    """Offset, shape and type of an array in the shared memory."""

    offset: int
    shape: tuple[int, ...]
    dtype: str

    def view(self, memory: mmap.mmap) -> np.ndarray:
        """Return the array as a view of `memory`."""
        count = int(np.prod(self.shape))
        return np.frombuffer(memory, self.dtype, count, self.offset).reshape(self.shape)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for a message."""
        return asdict(self)


def allocate_arrays(arrays: list[tuple[tuple[int, ...], str]]) -> tuple[list[SharedArray], int]:
    """Return the allocation of each array of `arrays` (shape, dtype), and the size of the memory."""
    placed, offset = [], 0
    for shape, dtype in arrays:
        placed.append(SharedArray(offset, shape, dtype))
        offset += -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // ALIGNMENT) * ALIGNMENT
    return placed, max(offset, mmap.PAGESIZE)


def shared_file(size: int) -> int:
    """Return the descriptor of an unnamed file of `size` bytes, in memory where the system supports it.

    It is fully allocated: a page that cannot be allocated at its first write kills the process without a message.
    Memory without a mount point is tried first, since containers limit /dev/shm to 64 MB.

    Raises:
        DeviceError: One line: how much is needed, and that it is not available.
    """
    free = _free_memory()
    if free is not None and size > free:
        raise DeviceError(
            f"the inputs need {_mb(size)} of shared memory: {_mb(free)} are free: expected enough for them"
        )
    reason = "no file system for it"
    for create in _FILE_SOURCES:
        try:
            descriptor = create()
        except (OSError, AttributeError):  # not supported by the system
            continue
        try:
            _allocate(descriptor, size)
        except OSError as error:
            os.close(descriptor)
            reason = unwritable(error)
            continue
        return descriptor
    raise DeviceError(
        f"the inputs need {_mb(size)} of shared memory: cannot be written ({reason}): expected enough for them"
    )


def _in_memory() -> int:
    return os.memfd_create("slipstream")


def _in_folder(folder: str | None) -> int:
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.dup(file.fileno())


_FILE_SOURCES: tuple[Callable[[], int], ...] = (_in_memory, lambda: _in_folder("/dev/shm"), lambda: _in_folder(None))
"""Ways to create the file of the shared memory, the best first."""
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def _allocate(descriptor: int, size: int) -> None:
    """Allocate all `size` bytes of a file."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
        return
    zeros = bytes(1 << 20)
    for start in range(0, size, len(zeros)):
        os.pwrite(descriptor, zeros[: size - start], start)


def _free_memory() -> int | None:
    """Return the bytes that system and container can still allocate; None if neither reports it."""
    found = []
    with suppress(OSError, IndexError, ValueError):
        found.append(1024 * int(Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]))
    for limit in _CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # no limit, or 'max'
            found.append(int(Path(limit).read_text()))
    return min(found, default=None)


def _mb(size: int) -> str:
    return f"{-(-size // 10**6):,} MB"


def send(to: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
    """Send a message with open files as `descriptors`."""
    content = json.dumps(message).encode()
    socket.send_fds(to, [_LENGTH.pack(len(content))], list(descriptors))
    to.sendall(content)


def receive(source: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next message and its descriptors, None if the other end is closed."""
    head, descriptors, _, _ = socket.recv_fds(source, _LENGTH.size, 4)
    if not head:
        return None
    content = receive_exactly(source, _LENGTH.unpack(head)[0])
    return None if content is None else (json.loads(content), descriptors)


def receive_exactly(source: socket.socket, size: int) -> bytes | None:
    """Return `size` bytes, None if the other end is closed before."""
    content = b""
    while len(content) < size:
        try:
            part = source.recv(size - len(content))
        except ConnectionResetError:
            return None
        if not part:
            return None
        content = content + part if content else part
    return content
