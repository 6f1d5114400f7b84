"""What must hold in every case: success or one printable line, files of its own only, bounded memory and time."""

from __future__ import annotations

import os
import resource
import signal
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy

import slipstream
from slipstream.errors import InputError
from slipstream.jit.cache_folder import cache_folder

SECONDS = 10.0
"""After which a case counts as hanging."""
GROWTH = 500 * 2**20
"""Memory by which a case may raise the most that its process ever had."""
HIDDEN = "the content of another folder"
"""Stands in files outside the case's folder; no output may hold it."""

_BIDIRECTIONAL = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod"}
_CHANGES |= {"os.chown", "os.utime", "shutil.rmtree", "shutil.move", "shutil.copyfile", "sqlite3.connect"}
_FORBIDDEN = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect"}


class HangError(BaseException):
    """A case took too long; no reader may catch it."""


class BrokenError(Exception):
    """A case broke a rule; the message says which."""


def is_control(character: str) -> bool:
    """Return whether a character steers a terminal or reorders text: C0 but newline and tab, DEL, C1, bidirectional."""
    code = ord(character)
    return (code < 0x20 and character not in "\n\t") or 0x7F <= code < 0xA0 or code in _BIDIRECTIONAL


class Watch:
    """Notes which files a case opens; one for the process, since a hook of Python's stays for good."""

    def __init__(self) -> None:
        self.folder: str | None = None
        """That of the case under way; None between cases."""
        self.broken: list[str] = []
        own = [Path(slipstream.__file__).parent, Path(__file__).parents[2], cache_folder().parent]
        own += [Path(path) for path in sysconfig.get_paths().values()]
        own += [Path(module.__file__ or "").parents[1] for module in (numba, numpy)]
        own += [Path(sys.prefix), Path(sys.base_prefix), Path("/proc"), Path("/sys"), Path("/usr/share/zoneinfo")]
        self._readable = tuple(os.path.realpath(path) for path in own)
        self._writable = (os.path.realpath(cache_folder().parents[1]),)
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None or not (event == "open" or event in _CHANGES or event in _FORBIDDEN):
            return
        if event in _FORBIDDEN:
            self.broken.append(f"{event} {arguments[:1]}")
            return
        path = arguments[0]
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a descriptor, which was opened before
        writes = event in _CHANGES
        if event == "open":
            mode, flags = arguments[1], arguments[2]
            writes = bool(flags & _WRITES) if isinstance(flags, int) else any(one in (mode or "r") for one in "wax+")
        self._judge(os.fsdecode(path), event, writes)

    def _judge(self, path: str, event: str, writes: bool) -> None:
        folder, self.folder = self.folder, None  # what is done here is not the case's
        try:
            found = os.path.realpath(path)
            allowed = (os.path.realpath(folder or ""), *(self._writable if writes else self._readable))
            if found != os.devnull and not any(found == one or found.startswith(f"{one}{os.sep}") for one in allowed):
                self.broken.append(f"{event} {'writes' if writes else 'reads'} {path!r}, outside of the folder")
        finally:
            self.folder = folder

    @contextmanager
    def over(self, folder: Path) -> Iterator[None]:
        """Watch a case that has a folder of its own."""
        self.broken, self.folder = [], str(folder)
        try:
            yield
        finally:
            self.folder = None
        if self.broken:
            raise BrokenError(self.broken[0])


_watch: Watch | None = None


def watch() -> Watch:
    """Return the watch of this process."""
    global _watch
    if _watch is None:
        _watch = Watch()
    return _watch


def check_output(text: str) -> None:
    """Raise unless a text can be shown anywhere."""
    found = next((one for one in text if is_control(one)), None)
    if found is not None:
        raise BrokenError(f"control character {found!r} in output: {text[:300]!r}")
    if HIDDEN in text:
        raise BrokenError(f"shows a file outside of the folder: {text[:300]!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BrokenError(f"output is no valid Unicode: {text[:300]!r}") from None


def check_case(run: Callable[[], list[str]], folder: Path, seconds: float = SECONDS) -> tuple[bool, str | None]:
    """Run a case; return whether its input was accepted, and which rule it broke, if any."""
    before = _peak()
    previous = signal.signal(signal.SIGALRM, _hang)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    accepted = False
    try:
        with watch().over(folder):
            try:
                output, accepted = run(), True
            except InputError as error:
                output = [str(error)]
                if not output[0] or "\n" in output[0]:
                    raise BrokenError(f"not one line: {output[0][:300]!r}") from None
        for text in output:
            check_output(text)
    except BrokenError as error:
        return accepted, str(error)
    except HangError:
        return False, f"took more than {seconds:g} s"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        last = "".join(traceback.format_exception(error)[-4:]).strip()
        return False, f"{type(error).__name__}: {last}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    grown = _peak() - before
    return accepted, f"took {grown >> 20} MB more than any case before" if grown > GROWTH else None


def _hang(*_: object) -> None:
    raise HangError


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_memory(more: int = 6 * 2**30) -> None:
    """Let this process have so much more address space, so that what goes wrong does not take the machine with it."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def work_folder() -> str | None:
    """Return a folder in memory, where there is one: cases write many small files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
