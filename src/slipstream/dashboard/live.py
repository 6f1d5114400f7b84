"""Files that grow, told line by line as server-sent events: the curve of a training, what a device does."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from slipstream.errors import InputError
from slipstream.files.inputs import checked_json, open_regular

PAUSE_S = 0.5
"""Time between two looks at the file."""
SILENCE = 20
"""Looks without news after which a sign of life is sent, so that nobody on the way hangs up."""
MOST_BYTES = 1 << 20
"""Read at a time."""


async def follow(path: Path, folder: Path, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """Yield the lines of a file as events, first those that are there, then each new one, until the reader is gone.

    The file lies in `folder`: where a link leads out of it, nothing is read.

    A line counts when it is complete and JSON. A file that became shorter was begun again: the event `again` says so.
    """
    place, rest, quiet = 0, b"", 0
    while not await gone():
        size = _size(path)
        if size < place:
            place, rest = 0, b""
            yield "event: again\ndata: {}\n\n"
        if size > place:
            try:
                with open_regular(path, "a file that grows", folder=folder) as file:
                    file.seek(place)
                    piece = file.read(MOST_BYTES)
            except InputError:
                piece = b""  # it has just gone: the next look tells
            if not piece:
                await asyncio.sleep(PAUSE_S)
                continue
            place += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            rest = rest[-MOST_BYTES:]  # no line is as long
            quiet = 0
            told = [text for line in lines if (text := _checked(line))]
            if told:
                yield f"data: [{','.join(told)}]\n\n"
            continue
        quiet += 1
        if quiet % SILENCE == 0:
            yield ": still here\n\n"
        await asyncio.sleep(PAUSE_S)


def _checked(line: bytes) -> str:
    """Return a line as JSON without line breaks, or nothing."""
    try:
        return json.dumps(checked_json(line, "line"))
    except InputError:
        return ""


def _size(path: Path) -> int:
    """Return the size of a regular file; 0 where there is none."""
    try:
        status = path.stat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
