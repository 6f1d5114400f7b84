"""Immutable folders named by a hash of their content: written to a temporary folder, then renamed.

A folder under its final name is complete even if a writer was killed; later changes of its files no longer match the
hash in its name.
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
    """Return the hash of names and contents of `files`."""
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(os.fsencode(name) + f"\0{hashlib.sha256(files[name]).hexdigest()}\n".encode())
    return whole.hexdigest()


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files in `folder` by name."""
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
    """Return what is wrong with `folder`, whose content should have the hash `expected`; None if nothing is."""
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
    """Flush the directory entries of `folder` to the disk, if the system supports it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows does not open folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def publish_folder(files: Mapping[str, bytes], incoming: Path, home: Path) -> tuple[str, Path]:
    """Write `files` as one folder in `home`; return hash and path. An intact folder of the same hash is kept."""
    sha256 = content_hash(files)
    target = home / sha256[:24]
    if target.exists() and fault(target, sha256) is None:
        return sha256, target
    for folder in (incoming, home):  # a copy of a library may lack empty folders
        folder.mkdir(parents=True, exist_ok=True)
    with scratch_folder(incoming) as temporary:
        try:
            for name, content in files.items():
                with (temporary / name).open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as problem:
            problem.filename = str(home)
            raise
        sync_folder(temporary)
        if target.exists() and fault(target, sha256) is not None:
            # Publishing the same content repairs a folder that was damaged later.
            target.rename(Path(tempfile.mkdtemp(prefix="damaged-", dir=incoming)) / target.name)
        try:
            temporary.rename(target)
        except OSError:
            if fault(target, sha256) is not None:
                raise  # else another writer of the same content was faster
    sync_folder(home)
    return sha256, target
