"""Writing files: each appears whole under its name or not at all, and only regular files are ever replaced.

A file is written under a name of its own in the folder of its destination, and then put in place in one step. So
writers of the same file do not disturb each other: the last one counts. Through a link the file that it leads to is
replaced, and the link stays. What a process has not finished is removed when it ends, however an exception ended it.
"""

from __future__ import annotations

import atexit
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from slipstream import interrupts
from slipstream.errors import InputError, unwritable

PREFIX, SUFFIX = ".slipstream-", ".partial"
"""How the names of unfinished files begin and end: hidden, and never those of a result."""
NO_LINKS = {getattr(errno, name, None) for name in ("EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK")}
"""What file systems without hard links answer."""

_unfinished: dict[Path, int] = {}
"""Files and folders that are being written, by the process that does: a forked one must leave those of its parent."""


def regular_target(path: Path) -> Path:
    """Return the file that writing to `path` creates or replaces: the one that a link leads to, there or not yet.

    Raises:
        InputError: There is something else than a regular file, such as a folder, a device or a pipe.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return Path(os.path.realpath(path))
    except OSError as error:
        raise cannot_write(path, error) from None
    if not stat.S_ISREG(mode):
        raise InputError(f"{path}: is a {_kind(mode)}: expected the name of a file to write")
    return Path(os.path.realpath(path))


def folder_of(path: Path) -> Path:
    """Return the folder in which writing to `path` puts a file; what the file names by relative paths belongs there."""
    return regular_target(path).parent if path.is_symlink() else path.parent


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "folder"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"))
    return next((name for applies, name in kinds if applies(mode)), "device")


def cannot_write(path: Path, error: OSError) -> InputError:
    """Return the error that says in one line why nothing can be written at `path`."""
    return InputError(f"{path}: cannot be written ({unwritable(error)}): expected a writable place")


class AtomicFile:
    """A file that is being written aside: `partial` is where, until `commit` puts it in place or `discard` ends it."""

    def __init__(self, path: Path) -> None:
        """Begin a file that is to appear at `path`.

        Raises:
            InputError: There is something else than a regular file.
            OSError: The system refuses.
        """
        self.path = path
        self._target = regular_target(path)
        self.partial = self._target.with_name(_new_name())
        _unfinished[self.partial] = os.getpid()  # before it is there: between the two an interrupt may strike
        with _blamed_on(path):
            try:
                self.partial.open("xb").close()
            except OSError:
                _unfinished.pop(self.partial)
                raise

    def write(self, content: bytes, durable: bool = False) -> None:
        """Write the whole content; if `durable`, so that it outlasts a machine that stops."""
        with _blamed_on(self.path), self.partial.open("wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())

    def commit(self, new: bool = False) -> None:
        """Put the file in place; if `new`, only where there is none.

        Raises:
            FileExistsError: There is one, and the file is to be new.
            OSError: The system refuses.
        """
        with _blamed_on(self.path):
            with suppress(FileNotFoundError):
                shutil.copymode(self._target, self.partial)
            if new and self._link():
                self.discard()
                return
            self.partial.replace(self._target)
            _unfinished.pop(self.partial, None)

    def _link(self) -> bool:
        """Give the file its name, which must be new; return whether the file system can do that."""
        try:
            os.link(self.partial, self._target)
        except OSError as error:
            if error.errno in NO_LINKS:
                return False
            raise
        return True

    def discard(self) -> None:
        """Remove what was written aside."""
        _remove_own(self.partial)

    def __enter__(self) -> AtomicFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove what was not put in place."""
        self.discard()


def replace_file(path: Path, content: bytes, new: bool = False, inside: Path | None = None) -> None:
    """Write a file whole or not at all, also if the machine stops in the middle; if `new`, only where there is none.

    `inside` is a folder that the file must not leave by way of a link.

    Raises:
        InputError: There is something else than a regular file, or a link that leads out of the folder.
        FileExistsError: There is one, and the file is to be new.
        OSError: The system refuses; its file name is `path`.
    """
    if inside is not None and not regular_target(path).is_relative_to(inside.resolve()):
        raise InputError(f"{path}: leads out of the folder: expected a file in {inside}, not a link")
    with AtomicFile(path) as file:
        file.write(content, durable=True)
        file.commit(new)


def refuse_existing(paths: Iterable[Path], overwrite: bool) -> None:
    """Raise an InputError where a file cannot be written because something is there already."""
    for path in paths:
        regular_target(path)
        if path.exists() and not overwrite:
            raise InputError(f"{path}: exists already: expected a new name, or --force to overwrite it")


def write_files(files: Mapping[Path, bytes], overwrite: bool) -> None:
    """Write files, with the folders they need; where one cannot be written, none is.

    They appear in the order of the mapping: a file that names others belongs behind them.

    Raises:
        InputError: One line: which file cannot be written, and why.
    """
    refuse_existing(files, overwrite)
    made: list[Path] = []
    begun: list[AtomicFile] = []
    path = Path()
    try:
        for path, content in files.items():
            _make_folders(path.parent, made)
            begun.append(AtomicFile(path))
            begun[-1].write(content)
        with interrupts.held():
            for file in begun:
                path = file.path
                file.commit()
    except BaseException as problem:
        for file in begun:
            file.discard()
        _remove_folders(made)
        if isinstance(problem, OSError):
            raise cannot_write(path, problem) from None
        raise


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it that are missing; note them in `made`, before they are there."""
    for one in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        made.append(one)
        one.mkdir(exist_ok=True)


def _remove_folders(made: Sequence[Path]) -> None:
    """Remove folders that were made; what is not empty is no longer ours alone."""
    for folder in reversed(made):
        with suppress(OSError):
            folder.rmdir()


def open_growing(path: Path, append: bool = False) -> BinaryIO:
    """Open a file to which lines are added while others read it; if not `append`, it begins empty.

    Raises:
        InputError: There is something else than a regular file.
        OSError: The system refuses; its file name is `path`.
    """
    target = regular_target(path)
    with _blamed_on(path):
        return target.open("ab" if append else "wb")


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Give a new folder in `parent` to fill; what is still there in the end is removed."""
    folder = parent / _new_name()
    _unfinished[folder] = os.getpid()
    try:
        folder.mkdir()
        yield folder
    finally:
        _remove_own(folder)


def remove_unfinished_in(folder: Path) -> None:
    """Remove what writers that were killed left in a folder and below; nobody may be writing there."""
    for path in folder.rglob(f"{PREFIX}*{SUFFIX}"):
        _remove(path)


def _new_name() -> str:
    return f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}"


@contextmanager
def _blamed_on(path: Path) -> Iterator[None]:
    """Let errors of the system name the file that was asked for: a disk that fills up does not say for whom."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        error.filename2 = None
        raise


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _remove_own(path: Path) -> None:
    """Remove what is unfinished, if it is this process that began it."""
    if _unfinished.get(path) == os.getpid():
        _remove(path)
        _unfinished.pop(path, None)


@atexit.register
def _remove_all_unfinished() -> None:
    """Remove all that this process began to write and did not finish."""
    for path in list(_unfinished):
        _remove_own(path)
