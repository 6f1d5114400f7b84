"""The folder of compiled code: named by the content of all that compiled code can read, writable by no other user.

Its files are unpickled, which can execute anything. So the folder, and every file in it, is used only if it belongs to
the user or to the superuser, and if no other user can write to it.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import logging
import os
import re
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import llvmlite
import numba
import numpy as np

from slipstream.errors import InputError

LOG = logging.getLogger(__name__)

PACKAGE = Path(__file__).parents[1]
KERNELS = "kernels"
ABOVE_KERNELS = frozenset(
    {"library", "suite", "reports", "runs.py", "importers.py", "dashboard", "service", "cli", "engines", "interop"}
)
"""What stands above every module that compiles or is read by one: an edit there leaves compiled code as it is."""
KEY_DIGITS = 24
KEPT_KEYS = 8
"""Folders of compiled code that are kept, the last used: every edit of the package makes a new one."""
FLAGS = ("BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT")
"""Settings of the compiler, read from the environment, that change the code it makes."""
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

_warned: set[str] = set()


def warn_once(subject: str, text: str) -> None:
    """Log `text` as a warning (one line on standard error by default) unless there was one about `subject`."""
    if subject not in _warned:
        _warned.add(subject)
        LOG.warning("%s", text)


def has_warned(subject: str) -> bool:
    """Return whether there was a warning about `subject`."""
    return subject in _warned


def package_sources() -> list[Path]:
    """Return the files of all modules."""
    found = (Path(folder) / name for folder, _, names in os.walk(PACKAGE) for name in names if name.endswith(".py"))
    return sorted(path for path in found if path.is_file())  # an editor's lock is a dangling link


def kernel_sources() -> list[Path]:
    """Return the files that compiled code can depend on: it contains constants of modules that compile nothing."""
    return [path for path in package_sources() if path.relative_to(PACKAGE).parts[0] not in ABOVE_KERNELS]


def _digest(sources: list[Path]) -> str:
    """Return a hash of the modules `sources`, of Python, the compiler and its settings."""
    content = hashlib.sha256()
    for path in sources:
        source = path.read_bytes()
        content.update(f"{path.relative_to(PACKAGE).as_posix()}\0{len(source)}\0".encode() + source)
    versions = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__)
    content.update(repr((versions, [getattr(numba.config, name, None) for name in FLAGS])).encode())
    return content.hexdigest()[:KEY_DIGITS]


@functools.cache
def cache_key() -> str:
    """Return the name of the folder: a hash of all that compiled code can depend on."""
    return _digest(kernel_sources())


@functools.cache
def code_digest() -> str:
    """Return a hash of the whole package: results of equal digests are comparable."""
    return _digest(package_sources())


@functools.cache
def cache_folder() -> Path:
    """Return the folder of compiled code; it need not exist yet."""
    folder = _root() / KERNELS / cache_key()
    with suppress(OSError):
        os.utime(folder)  # so that the least recently used folder is known
    return folder


def _root() -> Path:
    chosen = os.environ.get("SLIPSTREAM_CACHE_DIR")
    if chosen:
        folder: Path | None = Path(chosen).absolute()
    else:
        folder = _home_cache()
        if folder is not None and not _writable(folder):
            folder = None  # a read-only home is usual in containers: no warning
    problem = None if folder is None else _distrust(folder)
    if folder is not None and problem is None:
        return folder
    other = _temporary_root()
    if problem is not None:
        warn_once("folder", f"{problem}: compiled code is kept in {other}")
    return other


def _home_cache() -> Path | None:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "slipstream"
    except RuntimeError:
        return None  # this user has no home


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def trusted_owner(found: os.stat_result) -> bool:
    """Return whether a file or folder belongs to the user or to the superuser."""
    return not hasattr(os, "geteuid") or found.st_uid in (0, os.geteuid())


def _distrust(root: Path) -> str | None:
    """Return why compiled code must not be read from below `root`, None if it may."""
    if not hasattr(os, "geteuid"):
        return None
    for folder in (root, root / KERNELS, root / KERNELS / cache_key()):
        try:
            found = folder.stat() if folder == root else folder.lstat()
        except OSError:
            return None  # nothing exists that could be read
        problem = _distrust_folder(folder, found, is_root=folder == root)
        if problem is not None:
            return f"{folder}: {problem}"
    return None


def _distrust_folder(folder: Path, found: os.stat_result, is_root: bool) -> str | None:
    if not stat.S_ISDIR(found.st_mode):
        return "is not a folder"
    if not trusted_owner(found):
        return "belongs to another user"
    if is_root:
        # The user's choice: a group may share it, since each folder and file below is checked.
        open_to_all = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
        return "can be written by every user" if open_to_all else None
    if found.st_mode & OTHERS_WRITE:
        try:
            folder.chmod(found.st_mode & ~OTHERS_WRITE & 0o777)
        except OSError:
            return "can be written by other users"
    return None


def _temporary_root() -> Path:
    """Return the user's folder among temporary files, a new one if another user may have made the usual one."""
    user = os.geteuid() if hasattr(os, "geteuid") else "cache"
    try:
        folder = Path(tempfile.gettempdir()) / f"slipstream-{user}"
    except FileNotFoundError:
        raise InputError("no folder for compiled code or temporary files: expected SLIPSTREAM_CACHE_DIR") from None
    with suppress(OSError):
        folder.mkdir(mode=0o700)
    try:
        found = folder.lstat()
    except OSError:
        return folder  # it cannot be made: the first write fails with a warning
    if not hasattr(os, "geteuid"):
        return folder
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & OTHERS_WRITE:
        folder.chmod(0o700)
        return folder
    private = Path(tempfile.mkdtemp(prefix="slipstream-"))
    atexit.register(_remove, private, os.getpid())
    warn_once("temporary", f"{folder}: is not a folder that only this user can write to: {private} is used, this once")
    return private


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Make a folder inside the root of the cache, and its parents; other users can write to none of them."""
    if folder.is_dir():
        return
    if folder.name == KERNELS:
        folder.parent.mkdir(parents=True, exist_ok=True)
    else:
        make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o755)
    if folder.parent.name == KERNELS:
        _remove_oldest(folder)


def stored_sizes() -> dict[str, tuple[int, int]]:
    """Return number and bytes of the files in each folder of compiled code, by the folder's name."""
    sizes = {}
    for folder in _key_folders(cache_folder().parent):
        files = [path.lstat().st_size for path in folder.rglob("*") if path.is_file()]
        sizes[folder.name] = (len(files), sum(files))
    return sizes


def _key_folders(kernels: Path) -> list[Path]:
    """Return the folders of compiled code in `kernels` that are the user's own, last used first."""
    found: list[tuple[float, Path]] = []
    with suppress(OSError):
        for folder in kernels.iterdir():
            status = folder.lstat()
            is_key = re.fullmatch(f"[0-9a-f]{{{KEY_DIGITS}}}", folder.name) is not None
            if is_key and stat.S_ISDIR(status.st_mode) and trusted_owner(status):
                found.append((status.st_mtime, folder))
    return [folder for _, folder in sorted(found, reverse=True)]


def _remove_oldest(newest: Path) -> None:
    """Remove the least recently used folders of compiled code, all but KEPT_KEYS with `newest`."""
    others = [folder for folder in _key_folders(newest.parent) if folder != newest]
    for other in others[KEPT_KEYS - 1 :]:
        shutil.rmtree(other, ignore_errors=True)
