"""Immutable folders, each named by a hash of what is in it: written aside, then put in place in one step.

A folder that can be seen under its name is whole, whenever a writer stopped; one whose files were changed later no
longer has the content that its name says.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from slipstream.errors import LibraryError
from slipstream.files.atomic import scratch_folder
from slipstream.files.inputs import LARGEST_FILE_BYTES, read_bytes, unreadable


def content_hash(files: Mapping[str, bytes]) -> str:
    """Return the hash of files and their names."""
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(os.fsencode(name) + f"\0{hashlib.sha256(files[name]).hexdigest()}\n".encode())
    return whole.hexdigest()


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name."""
    try:
        paths = sorted(folder.iterdir())
        for path in paths:
            if not path.is_file() or path.is_symlink() or path.stat().st_size > LARGEST_FILE_BYTES:
                raise LibraryError(f"{path}: expected a plain file of at most {LARGEST_FILE_BYTES >> 20} MB")
    except OSError as error:
        raise LibraryError(f"{error.filename or folder}: {unreadable(error)}: expected a policy") from None
    expected = f"a plain file of at most {LARGEST_FILE_BYTES >> 20} MB"
    return {path.name: read_bytes(path, expected, LibraryError, LARGEST_FILE_BYTES, folder=folder) for path in paths}


def fault(folder: Path, expected: str) -> str | None:
    """Return what is wrong with a folder that should have a certain content; None if nothing is."""
    if folder.is_symlink():
        return "is a link: expected a folder"
    if not folder.is_dir():
        return "is not there"
    try:
        found = content_hash(read_files(folder))
    except LibraryError as error:
        return str(error)
    return None if found == expected else f"its files are not those that were published: expected sha256 {expected}"


def sync_folder(folder: Path) -> None:
    """Let the names in a folder outlast a power failure, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows does not open folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def put_in_place(files: Mapping[str, bytes], incoming: Path, home: Path) -> tuple[str, Path]:
    """Write files as one folder below `home`; return its hash and its place. What is there already stays."""
    sha256 = content_hash(files)
    place = home / sha256[:24]
    if place.exists() and fault(place, sha256) is None:
        return sha256, place
    for folder in (incoming, home):  # a copy of a library may have lost what was empty
        folder.mkdir(parents=True, exist_ok=True)
    with scratch_folder(incoming) as aside:
        try:
            for name, content in files.items():
                with (aside / name).open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as problem:
            problem.filename = str(home)
            raise
        sync_folder(aside)
        if place.exists() and fault(place, sha256) is not None:
            # The same content heals a folder that was damaged after it had been published.
            place.rename(Path(tempfile.mkdtemp(prefix="damaged-", dir=incoming)) / place.name)
        try:
            aside.rename(place)
        except OSError:
            if fault(place, sha256) is not None:
                raise  # else another writer of the same content was faster
    sync_folder(home)
    return sha256, place
