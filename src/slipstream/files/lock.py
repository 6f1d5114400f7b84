"""Locks of folders: one process at a time works in a folder, and the lock ends with its process."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from slipstream.errors import InputError
from slipstream.files.atomic import cannot_write

try:
    import fcntl
except ImportError:  # a system without advisory locks: folders are not locked there
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
"""File in a folder that its user holds locked; it contains the id of the process."""
_FLAGS = os.O_RDWR | os.O_CREAT | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))


class FolderLock:
    """Exclusive lock of `folder`, from its creation until `release` or the end of the process."""

    def __init__(self, folder: Path, activity: str) -> None:
        """Lock `folder`, which is created if it does not exist.

        Raises:
            InputError: One line: another process, named by its id, is busy with `activity` there, or the folder cannot
                be written.
        """
        self.folder = folder
        self._made = [path for path in (folder, *folder.parents) if not path.exists()]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = self._open(activity)
        except OSError as error:
            if folder.exists() and not folder.is_dir():
                raise InputError(f"{folder}: is a file: expected the name of a folder") from None
            raise cannot_write(folder, error) from None

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _open(self, activity: str) -> int:
        path = self.folder / LOCK
        while True:
            if path.is_symlink():
                raise InputError(f"{path}: is a link: expected a file of this folder")
            descriptor = os.open(path, _FLAGS, 0o644)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise InputError(f"{path}: is not a regular file: expected one, or none")
                if fcntl is not None:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The holder before may have removed the file between the two calls: then another one is to be locked.
                if path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor)):
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}\n".encode())
                    return descriptor
            except BlockingIOError:
                holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
                os.close(descriptor)
                raise InputError(
                    f"{self.folder}: process {holder} is {activity} there: expected another folder, or that one to end"
                ) from None
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def release(self) -> None:
        """Release the lock; remove the folders that were made for it if they hold nothing else."""
        if self._descriptor < 0:
            return
        if self._made and [entry.name for entry in self.folder.iterdir()] == [LOCK]:
            with suppress(OSError):
                (self.folder / LOCK).unlink()
                for path in self._made:
                    path.rmdir()
        else:
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
        self._descriptor = -1
