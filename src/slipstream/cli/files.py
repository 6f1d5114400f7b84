"""Files that appear together or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from slipstream.errors import InputError, unwritable


def refuse_existing(paths: Iterable[Path], overwrite: bool) -> None:
    """End with one line where a file cannot be written because something is there already."""
    for path in paths:
        if path.is_dir():
            raise InputError(f"{path}: is a folder: expected the name of a file to write")
        if path.exists() and not overwrite:
            raise InputError(f"{path}: exists already: expected a new name, or --force to overwrite it")


def write_files(files: Mapping[Path, bytes], overwrite: bool) -> None:
    """Write files, with the folders they need; where one cannot be written, none is.

    They appear in the order of the mapping: a file that names others belongs behind them.
    """
    refuse_existing(files, overwrite)
    made: list[Path] = []
    partials: dict[Path, Path] = {}
    try:
        for path, content in files.items():
            for folder in reversed([one for one in (path.parent, *path.parent.parents) if not one.exists()]):
                folder.mkdir()
                made.append(folder)
            if path.exists() and not path.is_file():
                path.write_bytes(content)  # a pipe or a device, which has a reader: nothing to put in its place
                continue
            partial = path.with_name(path.name + ".partial")
            partials[path] = partial
            partial.write_bytes(content)
        for path, partial in partials.items():
            partial.replace(path)
    except BaseException as problem:
        _remove(partials.values(), made)
        if isinstance(problem, OSError):
            raise InputError(f"{path}: cannot be written ({unwritable(problem)}): expected a writable place") from None
        raise


def _remove(files: Iterable[Path], folders: Sequence[Path]) -> None:
    """Remove what was begun; what cannot be removed was never there, or is no longer ours alone."""
    for file in files:
        with suppress(OSError):
            file.unlink()
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()
