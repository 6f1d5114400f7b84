"""Files that commands write: their kinds, the check before anything is overwritten, and the folders they need.

A file of another kind than a command writes (a scenario, a policy, a text) is overwritten only with --force.
Missing folders are made; those that are still empty when the command ends are removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.cli.help_text import OUTPUT

HEAD_BYTES = 4096
"""Bytes at the beginning of a page, picture or list of lines that tell what it is."""

ForceOption = Annotated[
    bool,
    typer.Option("--force", "-f", help="Overwrite existing files, whatever they hold.", rich_help_panel=OUTPUT),
]


@dataclass(frozen=True)
class Kind:
    """A kind of files that commands write."""

    name: str
    """What an error calls it, with its article."""
    matches: Callable[[Path], bool]
    """Whether an existing file is of this kind."""


def check_outputs(*files: tuple[Path | None, Kind], force: bool) -> None:
    """Check that each of `files` that is not None can be written, and make its folder.

    Raises:
        InputError: One line: it is not a regular file, its folder cannot be made, or it is of another kind and `force`
            is not set.
    """
    from slipstream.errors import InputError

    for path, kind in files:
        if path is None:
            continue
        writable(path)
        if not force and _holds_something(path) and not kind.matches(path):
            raise InputError(
                f"{path}: exists and is not {kind.name}: expected another name, or --force to overwrite it"
            )


def writable(path: Path) -> Path:
    """Return `path`, after a check that a file can be created or replaced there; its folder is made if missing."""
    from slipstream.errors import InputError
    from slipstream.files.atomic import cannot_write, folder_of, regular_target

    regular_target(path)
    folder = folder_of(path)
    if folder.is_dir():
        return path
    if path.is_symlink():
        raise InputError(f"{path}: the folder {folder} does not exist: expected a writable place")
    for one in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        _made.append(one)
        try:
            one.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(path, error) from None
    if not folder.is_dir():
        raise InputError(f"{path}: {folder} is not a folder: expected a writable place")
    return path


_made: list[Path] = []
"""Folders made for the files of this command, outer ones first."""


def remove_empty_folders() -> None:
    """Remove the folders that were made and are still empty: the command that needed them has written nothing."""
    while _made:
        with suppress(OSError):
            _made.pop().rmdir()


def _holds_something(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _head(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as file:
        return file.read(HEAD_BYTES)
    return b""


def _made_here(magic: bytes, mark: bytes = b"Slipstream") -> Callable[[Path], bool]:
    """Return a test for files that begin with `magic` and say by `mark` that Slipstream made them."""
    return lambda path: _head(path).startswith(magic) and mark in _head(path)


def _object(content: bytes, keys: Collection[str]) -> bool:
    """Return whether `content` is a JSON object that has all `keys`."""
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and set(keys) <= found.keys()


def _json(*keys: str) -> Callable[[Path], bool]:
    """Return a test for JSON files whose object has all `keys`."""

    def matches(path: Path) -> bool:
        try:
            return _object(path.read_bytes(), keys)
        except OSError:
            return False

    return matches


def _lines(*keys: str) -> Callable[[Path], bool]:
    """Return a test for files of JSON lines, the first of which has all `keys`."""
    return lambda path: _object(_first_line(path), keys)


def _first_line(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as file:
        return file.readline(1 << 20)
    return b""


def signed_gif(content: bytes) -> bytes:
    """Return the GIF image `content` with a comment, behind its header and colours, that Slipstream made it."""
    colours = 3 << ((content[10] & 7) + 1) if content[10] & 0x80 else 0
    begin = 13 + colours
    return content[:begin] + b"\x21\xfe\x0aSlipstream\x00" + content[begin:]


def _is_event_log(path: Path) -> bool:
    from slipstream.errors import SlipstreamError
    from slipstream.sim.eventlog import read_about

    try:
        return bool(read_about(path))
    except SlipstreamError:
        return False


def _is_trace(path: Path) -> bool:
    return _head(path).startswith(b'{"traceEvents":')


EVENT_LOG = Kind("an event log", _is_event_log)
PAGE = Kind("a page written by slipstream", _made_here(b"<!doctype html>", b'name="generator" content="Slipstream"'))
PICTURE = Kind("a picture drawn by slipstream", _made_here(b"\x89PNG"))
ANIMATION = Kind("an animation drawn by slipstream", _made_here(b"GIF8"))
TRACE = Kind("a trace for Perfetto", _is_trace)
SUITE_RESULTS = Kind("a file of suite results", _json("suite", "players", "families"))
PROFILE = Kind("a measured profile", _json("device", "noise", "variants", "slowdowns"))
TWIN = Kind("an answer of a twin", _json("kind", "futures", "jobs", "what_if"))
LIVE_STATE = Kind("a live file of a device", _lines("time_s", "streams", "tasks"))
