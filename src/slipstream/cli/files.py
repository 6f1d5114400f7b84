"""Files that appear together or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from slipstream.errors import InputError


def refuse_existing(paths: Iterable[Path], overwrite: bool) -> None:
    """End with one line where a file cannot be written because something is there already."""
    for path in paths:
        if path.is_dir():
            raise InputError(f"{path}: is a folder: expected the name of a file to write")
        if path.exists() and not overwrite:
            raise InputError(f"{path}: exists already: expected a new name, or --force to overwrite it")


def write_files(files: Mapping[Path, bytes], overwrite: bool) -> None:
    """Write files, in the order in which they appear; where one cannot be written, none is.

    Folders that do not exist are made.
    """
    refuse_existing(files, overwrite)
    partials = {path: path.with_name(path.name + ".partial") for path in files}
    made: list[Path] = []
    try:
        for path, content in files.items():
            made += _make_folder(path.parent)
            partials[path].write_bytes(content)
        for path, partial in partials.items():
            partial.replace(path)
    except BaseException as problem:
        for partial in partials.values():
            partial.unlink(missing_ok=True)
        for folder in reversed(made):
            folder.rmdir()
        if isinstance(problem, OSError):
            reason = (problem.strerror or "unknown reason").lower()
            raise InputError(f"{path}: cannot be written ({reason}): expected a writable place") from None
        raise


def _make_folder(folder: Path) -> list[Path]:
    """Make a folder with its parents; return those that were made, outermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]
