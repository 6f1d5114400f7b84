"""Reading files of an untrusted folder: no link leads out of it, and no read blocks.

Folders of runs, trainings, policies and libraries are copied between machines. A link in one of them could expose any
file of the reader's machine, and a pipe would block the reader.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from slipstream.errors import InputError

_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
"""Resolved paths have no links to follow; `O_NONBLOCK` keeps a pipe without a writer from blocking. Systems that lack a
flag lack what it guards against."""


class ConfinementError(InputError):
    """A file is refused: it lies outside the folder, is not a regular file, or is too large."""


def resolve_inside(folder: Path, name: str | Path) -> Path:
    """Return the path of the entry `name` of `folder` with all links resolved.

    Raises:
        ConfinementError: It lies outside the folder, by a link, by `..` or by an absolute name.
        OSError: There is no such entry, or it cannot be accessed.
    """
    root = folder.resolve()
    try:
        found = (root / name).resolve(strict=True)
    except (ValueError, RuntimeError) as error:  # a null character in the name; a cycle of links
        raise ConfinementError(f"{folder / name}: {error}: expected a file in {folder}") from None
    if not found.is_relative_to(root):
        raise ConfinementError(f"{folder / name}: leads out of the folder: expected a file in {folder}, not a link")
    return found


def refuse_links_out(folder: Path, names: Iterable[str]) -> None:
    """Raise a ConfinementError if one of the entries `names` of `folder` is a link that leads out of it."""
    for name in names:
        if (folder / name).is_symlink():
            try:
                resolve_inside(folder, name)
            except OSError as error:
                reason = (error.strerror or "unknown reason").lower()
                raise ConfinementError(
                    f"{folder / name}: is a link that leads nowhere ({reason}): expected a file in {folder}"
                ) from None


def open_inside(folder: Path, name: str | Path, largest: int | None = None) -> BinaryIO:
    """Open the entry `name` of `folder` for reading, if it is a regular file of at most `largest` bytes inside of it.

    Raises:
        ConfinementError: It lies outside, is not a regular file, or is larger.
        OSError: There is no such entry, or it cannot be opened.
    """
    found = resolve_inside(folder, name)
    if not stat.S_ISREG(found.stat().st_mode):  # before it is opened: opening a device can have side effects
        raise ConfinementError(f"{folder / name}: is not a regular file: expected one")
    file = os.fdopen(os.open(found, _FLAGS), "rb")
    try:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ConfinementError(f"{folder / name}: is not a regular file: expected one")
        if largest is not None and status.st_size > largest:
            raise ConfinementError(f"{folder / name}: has {status.st_size:,} bytes: expected at most {largest:,}")
    except BaseException:
        file.close()
        raise
    return file


def read_inside(folder: Path, name: str | Path, largest: int) -> bytes:
    """Return the content of the entry `name` of `folder`, if it is a regular file of at most `largest` bytes inside.

    Raises:
        ConfinementError: It lies outside, is not a regular file, or is larger.
        OSError: There is no such entry, or it cannot be read.
    """
    with open_inside(folder, name, largest) as file:
        content = file.read(largest + 1)
    if len(content) > largest:  # it grew since it was opened
        raise ConfinementError(f"{folder / name}: has more than {largest:,} bytes: expected at most that many")
    return content
