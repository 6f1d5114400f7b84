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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

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
    """Return the descriptor of a file of that size that has no name and lives in memory where there is such a place."""
    folder = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(size)
        return os.dup(file.fileno())


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
