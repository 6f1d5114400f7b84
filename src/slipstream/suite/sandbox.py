"""Where code that was handed in decides: in a process of its own, which is shown rows and answers with an index.

The process knows neither scenario nor seed, and it holds no simulator to look into. Before every episode it goes back
to how it was when the policy had just been loaded, so that nobody can count episodes or carry anything from one to the
next. Run as a program, this module is that process.
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
"""A command, and for a choice how many globals, rows and columns follow."""
REPLY = struct.Struct("<cq")
"""Whether it went well, and how many bytes follow."""
BEGIN, CHOOSE, FINISH = b"B", b"C", b"F"
FINE, FAILED = b"+", b"!"
DONE = 37
"""Exit code of a process that played its episode to the end."""


class CagedPolicy:
    """A policy in a process of its own."""

    def __init__(self, source: str, folder: Path) -> None:
        """Load what an entry point names, such as `mine.py:policy`, as seen from a folder."""
        self.source = source
        self._process = subprocess.Popen(
            # By its path, and without the folder of that: as a module it would bring the whole suite with it.
            [sys.executable, "-P", __file__, source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            bufsize=0,
            # A Ctrl-C in the terminal is for whoever started it, and who ends it.
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
        """Go back to how the policy was when it had just been loaded."""
        self._send(HEADER.pack(BEGIN, 0, 0, 0))

    def finish(self) -> None:
        """Let the episode be over."""
        self._send(HEADER.pack(FINISH, 0, 0, 0))
        self._reply()

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Return the index of the row that the policy takes."""
        parts = (np.ascontiguousarray(global_row, "<f8"), np.ascontiguousarray(rows, "<f8"))
        shown = b"".join([*(part.tobytes() for part in parts), np.ascontiguousarray(mask, "i1").tobytes()])
        self._send(HEADER.pack(CHOOSE, len(global_row), *rows.shape) + shown)
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
    """Return so many bytes, or nothing where the other end has gone."""
    content = bytearray()
    while len(content) < length:
        piece = os.read(pipe, length - len(content))
        if not piece:
            return None
        content += piece
    return bytes(content)


# The process itself


def entry_module(source: str, folder: Path) -> Path:
    """Return the file that an entry point is read from: `mine.py:policy`, or `package.module:policy`."""
    place, found, attribute = source.rpartition(":")
    if not found or not attribute.isidentifier():
        raise PolicyError(f"policy '{source}': expected a file or module and a name in it, such as mine.py:policy")
    if place.endswith(".py"):
        path = folder / place
        if not path.is_file():
            raise PolicyError(f"policy '{source}': no file {path}: expected one")
        return path
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.find_spec(place)
    except (ImportError, ValueError):
        spec = None
    finally:
        sys.path.remove(str(folder))
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise PolicyError(f"policy '{source}': no module '{place}': expected one that can be imported")
    return Path(spec.origin)


def load_entry(source: str) -> Any:
    """Return the policy that an entry point names, made if it is a class."""
    place, _, attribute = source.rpartition(":")
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location(Path(place).stem, place)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, str(Path.cwd()))
        module = importlib.import_module(place)
    found = getattr(module, attribute)
    return found() if isinstance(found, type) else found


def main() -> None:
    """Serve the policy named on the command line to whoever started this process."""
    requests, replies = os.dup(0), os.dup(1)
    # What a policy prints, or asks for, must not be taken for our own talk.
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
        answer(FAILED, f"cannot be loaded ({_told(error)}): expected an object with 'name' and 'choose'".encode())
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
    """Answer the choices of one episode."""
    while (head := _read(requests, HEADER.size)) is not None:
        command, globals_count, rows, columns = HEADER.unpack(head)
        if command != CHOOSE:
            answer(FINE, b"")
            return
        shown = _read(requests, 8 * (globals_count + rows * columns) + rows)
        assert shown is not None
        numbers = np.frombuffer(shown, "<f8", globals_count + rows * columns).copy()
        mask = np.frombuffer(shown, "i1", rows, 8 * len(numbers)).copy()
        try:
            rest = numbers[globals_count:].reshape(rows, columns)
            index = operator.index(policy.choose(numbers[:globals_count], rest, mask))
            answer(FINE, index.to_bytes(8, "little", signed=True))
        except Exception as error:
            answer(FAILED, f"failed to choose ({_told(error)}): expected the index of a row".encode())


def _told(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


if __name__ == "__main__":
    main()
