"""Isolation of submitted policies: a subprocess that receives observations and replies with actions.

The process knows neither scenario nor seed and has no access to a simulator. Every episode runs in a fork of the
process as it was after loading the policy, so a policy cannot count episodes or keep state between them. Run as a
program, this module is that process.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import operator
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import PolicyError

HEADER = struct.Struct("<cqqq")
"""A command, and for an observation the numbers of globals, rows and columns that follow."""
REPLY = struct.Struct("<cq")
"""Status, and the number of bytes that follow."""
BEGIN, CHOOSE, FINISH = b"B", b"C", b"F"
FINE, FAILED = b"+", b"!"
DONE = 37
"""Exit code of a process that completed its episode."""


class SandboxedPolicy:
    """A policy that runs in a subprocess."""

    def __init__(self, source: str, folder: Path) -> None:
        """Start a process in `folder` that loads the entry point `source`, such as `mine.py:policy`."""
        self.source = source
        self._process = subprocess.Popen(
            # By its path and without its folder in sys.path: as a module it would import the whole suite.
            [sys.executable, "-P", __file__, source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            bufsize=0,
            # A Ctrl-C in the terminal goes to the parent only, which ends this process.
            start_new_session=True,
        )
        try:
            about = json.loads(self._reply())
        except BaseException:
            self.close()
            raise
        self.name: str = about["name"]
        self.family: str | None = about["family"]

    def begin(self) -> None:
        """Start an episode with the policy in its state after loading."""
        self._send(HEADER.pack(BEGIN, 0, 0, 0))

    def finish(self) -> None:
        """End the episode."""
        self._send(HEADER.pack(FINISH, 0, 0, 0))
        self._reply()

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Return the index of the row that the policy chooses."""
        parts = (np.ascontiguousarray(global_row, "<f8"), np.ascontiguousarray(rows, "<f8"))
        content = b"".join([*(part.tobytes() for part in parts), np.ascontiguousarray(mask, "i1").tobytes()])
        self._send(HEADER.pack(CHOOSE, len(global_row), *rows.shape) + content)
        return int.from_bytes(self._reply(), "little", signed=True)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _send(self, content: bytes) -> None:
        assert self._process.stdin is not None
        try:
            _write(self._process.stdin.fileno(), content)
        except BrokenPipeError:
            raise PolicyError(f"policy '{self.source}': its process has ended: expected it to answer") from None

    def _reply(self) -> bytes:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        head = _read(pipe, REPLY.size)
        if head is None:
            raise PolicyError(f"policy '{self.source}': its process has ended: expected it to answer")
        status, length = REPLY.unpack(head)
        content = _read(pipe, length) or b""
        if status == FAILED:
            raise PolicyError(f"policy '{self.source}': {content.decode()}")
        return content


def _write(pipe: int, content: bytes) -> None:
    view = memoryview(content)
    while len(view):
        view = view[os.write(pipe, view) :]


def _read(pipe: int, length: int) -> bytes | None:
    """Return `length` bytes from `pipe`, or None if its other end was closed."""
    content = bytearray()
    while len(content) < length:
        piece = os.read(pipe, length - len(content))
        if not piece:
            return None
        content += piece
    return bytes(content)


# The subprocess


def entry_module(source: str, folder: Path) -> Path:
    """Return the source file of an entry point: `mine.py:policy`, or `package.module:policy`."""
    location, found, attribute = source.rpartition(":")
    if not found or not attribute.isidentifier():
        raise PolicyError(f"policy '{source}': expected a file or module and a name in it, such as mine.py:policy")
    if location.endswith(".py"):
        path = folder / location
        if not path.is_file():
            raise PolicyError(f"policy '{source}': no file {path}: expected one")
        return path
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.find_spec(location)
    except (ImportError, ValueError):
        spec = None
    finally:
        sys.path.remove(str(folder))
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise PolicyError(f"policy '{source}': no module '{location}': expected one that can be imported")
    return Path(spec.origin)


def load_entry(source: str) -> Any:
    """Return the policy of the entry point `source`; a class is instantiated."""
    location, _, attribute = source.rpartition(":")
    if location.endswith(".py"):
        spec = importlib.util.spec_from_file_location(Path(location).stem, location)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, str(Path.cwd()))
        module = importlib.import_module(location)
    found = getattr(module, attribute)
    return found() if isinstance(found, type) else found


def main() -> None:
    """Serve the policy named on the command line to the parent process."""
    requests, replies = os.dup(0), os.dup(1)
    # Output and input of the policy must not mix with the protocol on the pipes.
    os.dup2(2, 1)
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)

    def answer(status: bytes, content: bytes) -> None:
        _write(replies, REPLY.pack(status, len(content)) + content)

    try:
        policy = load_entry(sys.argv[1])
        name = str(getattr(policy, "name", type(policy).__name__))
        if not callable(getattr(policy, "choose", None)):
            raise TypeError(f"'{name}' has no method 'choose'")
        answer(FINE, json.dumps({"name": name, "family": getattr(policy, "family", None)}).encode())
    except Exception as error:
        answer(FAILED, f"cannot be loaded ({_describe(error)}): expected an object with 'name' and 'choose'".encode())
        return
    while _read(requests, HEADER.size) is not None:
        worker = os.fork()
        if worker == 0:
            _play(policy, requests, answer)
            os._exit(DONE)
        _, status = os.waitpid(worker, 0)
        if os.waitstatus_to_exitcode(status) != DONE:
            answer(FAILED, b"its process has ended in the middle of an episode: expected it to answer")
            return


def _play(policy: Any, requests: int, answer: Any) -> None:
    """Answer the decisions of one episode."""
    while (head := _read(requests, HEADER.size)) is not None:
        command, globals_count, rows, columns = HEADER.unpack(head)
        if command != CHOOSE:
            answer(FINE, b"")
            return
        content = _read(requests, 8 * (globals_count + rows * columns) + rows)
        assert content is not None
        numbers = np.frombuffer(content, "<f8", globals_count + rows * columns).copy()
        mask = np.frombuffer(content, "i1", rows, 8 * len(numbers)).copy()
        try:
            rest = numbers[globals_count:].reshape(rows, columns)
            index = operator.index(policy.choose(numbers[:globals_count], rest, mask))
            answer(FINE, index.to_bytes(8, "little", signed=True))
        except Exception as error:
            answer(FAILED, f"failed to choose ({_describe(error)}): expected the index of a row".encode())


def _describe(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


if __name__ == "__main__":
    main()
