"""How the processes of the `cpu` backend talk: fixed records over sockets, inputs and outputs in one shared memory.

The memory is a file without a name: it cannot outlive the processes that hold it open.
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

ORDER = struct.Struct("<iiiiq")
"""model, set of samples, sample, the thread that waits for the answer (0: it stays where it is), and for how many ns
the worker loops by itself: 0 is one run."""
REPLY = struct.Struct("<iiqq")
"""status, length of the output (of a loop: runs; of a failure: bytes of its text, which follows), began, ended."""
LONGEST_TEXT = 400
READY, DONE, FAILED, BROKEN = range(4)
"""What a reply says: the worker is ready, a run gave an output, a run failed, the worker cannot work."""

OUTPUT_NUMBERS = 4096
"""Numbers of an output that are handed on; a score for each class of any dataset fits."""
ALIGNMENT = 64
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Place:
    """Where an array lies in the shared memory."""

    offset: int
    shape: tuple[int, ...]
    dtype: str

    def view(self, memory: mmap.mmap) -> np.ndarray:
        """Return the array itself."""
        count = int(np.prod(self.shape))
        return np.frombuffer(memory, self.dtype, count, self.offset).reshape(self.shape)

    def to_dict(self) -> dict[str, Any]:
        """Return it for a message."""
        return asdict(self)


def lay_out(arrays: list[tuple[tuple[int, ...], str]]) -> tuple[list[Place], int]:
    """Return a place for each array, and the size of the memory."""
    places, offset = [], 0
    for shape, dtype in arrays:
        places.append(Place(offset, shape, dtype))
        offset += -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // ALIGNMENT) * ALIGNMENT
    return places, max(offset, mmap.PAGESIZE)


def shared_file(size: int) -> int:
    """Return the descriptor of a nameless file of `size` bytes, in memory where the system has such files.

    All of it is there from the start: a page that cannot be had when it is first written ends the process without a
    word. Memory without a mount point comes first, since containers make /dev/shm as small as 64 MB.

    Raises:
        DeviceError: One line: how much is needed, and that it is not there.
    """
    free = _free_memory()
    if free is not None and size > free:
        raise DeviceError(
            f"the inputs need {_mb(size)} of shared memory: {_mb(free)} are free: expected enough for them"
        )
    reason = "no place for it"
    for create in _PLACES:
        try:
            descriptor = create()
        except (OSError, AttributeError):  # a system without it
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


_PLACES: tuple[Callable[[], int], ...] = (_in_memory, lambda: _in_folder("/dev/shm"), lambda: _in_folder(None))
"""Where shared memory can lie, the best place first."""
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def _allocate(descriptor: int, size: int) -> None:
    """Give a file its size, with all of its pages."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
        return
    zeros = bytes(1 << 20)
    for start in range(0, size, len(zeros)):
        os.pwrite(descriptor, zeros[: size - start], start)


def _free_memory() -> int | None:
    """Return the bytes that the system can still give out, and a container may have; None where none of them says."""
    found = []
    with suppress(OSError, IndexError, ValueError):
        found.append(1024 * int(Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]))
    for limit in _CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # no such limit, or 'max'
            found.append(int(Path(limit).read_text()))
    return min(found, default=None)


def _mb(size: int) -> str:
    return f"{-(-size // 10**6):,} MB"


def send(to: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
    """Send a message, and open files with it."""
    content = json.dumps(message).encode()
    socket.send_fds(to, [_LENGTH.pack(len(content))], list(descriptors))
    to.sendall(content)


def receive(source: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next message and the files that came with it, None where nobody will send any more."""
    head, descriptors, _, _ = socket.recv_fds(source, _LENGTH.size, 4)
    if not head:
        return None
    content = receive_exactly(source, _LENGTH.unpack(head)[0])
    return None if content is None else (json.loads(content), descriptors)


def receive_exactly(source: socket.socket, size: int) -> bytes | None:
    """Return so many bytes, None where nobody will send them any more."""
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
