"""Atomic writes: a file appears complete under its name or not at all, and only regular files are replaced.

A file is written under a temporary name in the folder of its destination and then renamed. So concurrent writers of the
same file do not disturb each other: the last one wins. A symbolic link stays, and its target is replaced. Unfinished
files of a process are removed at its exit, also after an exception.
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
"""Prefix and suffix of temporary files: hidden, and distinct from any result."""
NO_LINKS = {getattr(errno, name, None) for name in ("EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK")}
"""Error codes of file systems without hard links."""

_unfinished: dict[Path, int] = {}
"""Unfinished files and folders with the id of the writing process: a forked child must not remove its parent's."""


def regular_target(path: Path) -> Path:
    """Return the file that writing to `path` creates or replaces, with links resolved.

    Raises:
        InputError: `path` exists and is not a regular file, but a folder, a device or a pipe.
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
    """Return the folder of the file that writing to `path` creates; its relative paths start there."""
    return regular_target(path).parent if path.is_symlink() else path.parent


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "folder"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"))
    return next((name for applies, name in kinds if applies(mode)), "device")


def cannot_write(path: Path, error: OSError) -> InputError:
    """Return the error, one line, that `path` cannot be written because of `error`."""
    return InputError(f"{path}: cannot be written ({unwritable(error)}): expected a writable place")


class AtomicFile:
    """A file that is written to `partial` until `commit` renames it or `discard` removes it."""

    def __init__(self, path: Path) -> None:
        """Create the temporary file for `path`.

        Raises:
            InputError: `path` exists and is not a regular file.
            OSError: It cannot be created.
        """
        self.path = path
        self._target = regular_target(path)
        self.partial = self._target.with_name(_new_name())
        _unfinished[self.partial] = os.getpid()  # before it exists: a signal may arrive between the two
        with _errors_name(path):
            try:
                self.partial.open("xb").close()
            except OSError:
                _unfinished.pop(self.partial)
                raise

    def write(self, content: bytes, durable: bool = False) -> None:
        """Write `content`; if `durable`, flush it to the disk."""
        with _errors_name(self.path), self.partial.open("wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())

    def commit(self, new: bool = False) -> None:
        """Rename the file to its destination; if `new`, only if that does not exist.

        Raises:
            FileExistsError: The destination exists, and `new` is true.
            OSError: It cannot be renamed.
        """
        with _errors_name(self.path):
            with suppress(FileNotFoundError):
                shutil.copymode(self._target, self.partial)
            if new and self._link():
                self.discard()
                return
            self.partial.replace(self._target)
            _unfinished.pop(self.partial, None)

    def _link(self) -> bool:
        """Link the file to its destination, which must not exist; return whether the file system supports links."""
        try:
            os.link(self.partial, self._target)
        except OSError as error:
            if error.errno in NO_LINKS:
                return False
            raise
        return True

    def discard(self) -> None:
        """Remove the temporary file."""
        _remove_own(self.partial)

    def __enter__(self) -> AtomicFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the temporary file unless it was committed."""
        self.discard()


def replace_file(path: Path, content: bytes, new: bool = False, inside: Path | None = None) -> None:
    """Write `content` to `path` atomically and durably; if `new`, only if there is no such file.

    `inside` is a folder that a link at `path` must not lead out of.

    Raises:
        InputError: `path` exists and is not a regular file, or is a link that leads out of the folder.
        FileExistsError: The file exists, and `new` is true.
        OSError: It cannot be written; the error's file name is `path`.
    """
    if inside is not None and not regular_target(path).is_relative_to(inside.resolve()):
        raise InputError(f"{path}: leads out of the folder: expected a file in {inside}, not a link")
    with AtomicFile(path) as file:
        file.write(content, durable=True)
        file.commit(new)


def refuse_existing(paths: Iterable[Path], overwrite: bool) -> None:
    """Raise an InputError if one of `paths` exists and is not a regular file, or may not be overwritten."""
    for path in paths:
        regular_target(path)
        if path.exists() and not overwrite:
            raise InputError(f"{path}: exists already: expected a new name, or --force to overwrite it")


def write_files(files: Mapping[Path, bytes], overwrite: bool) -> None:
    """Write `files` and their folders; if one cannot be written, none is.

    They appear in the order of the mapping: a file that refers to others must follow them.

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
        with interrupts.deferred():
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
    """Make `folder` and its missing parents; append each to `made` before it is created."""
    for one in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        made.append(one)
        one.mkdir(exist_ok=True)


def _remove_folders(made: Sequence[Path]) -> None:
    """Remove the folders `made`; one that is not empty has files of others and stays."""
    for folder in reversed(made):
        with suppress(OSError):
            folder.rmdir()


def open_growing(path: Path, append: bool = False) -> BinaryIO:
    """Open a file for writing in place, so that readers see it grow; unless `append`, it is truncated.

    Raises:
        InputError: `path` exists and is not a regular file.
        OSError: It cannot be opened; the error's file name is `path`.
    """
    target = regular_target(path)
    with _errors_name(path):
        return target.open("ab" if append else "wb")


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Yield a new temporary folder in `parent`; remove it at the end if it is still there."""
    folder = parent / _new_name()
    _unfinished[folder] = os.getpid()
    try:
        folder.mkdir()
        yield folder
    finally:
        _remove_own(folder)


def remove_unfinished_in(folder: Path) -> None:
    """Remove the unfinished files of killed writers below `folder`; there must be no active writer."""
    for path in folder.rglob(f"{PREFIX}*{SUFFIX}"):
        _remove(path)


def _new_name() -> str:
    return f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}"


@contextmanager
def _errors_name(path: Path) -> Iterator[None]:
    """Set the file name of an OSError to `path`, because errors such as a full disk do not name a file."""
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
    """Remove the unfinished `path` if this process created it."""
    if _unfinished.get(path) == os.getpid():
        _remove(path)
        _unfinished.pop(path, None)


@atexit.register
def _remove_all_unfinished() -> None:
    """Remove all unfinished files and folders of this process."""
    for path in list(_unfinished):
        _remove_own(path)
