"""Growing files as server-sent events, line by line: training curves, state of a device."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from slipstream.errors import InputError
from slipstream.files.inputs import checked_json, open_regular

PAUSE_S = 0.5
"""Polling period of the file."""
SILENCE = 20
"""Polls without new data after which a comment is sent, so that proxies keep the connection open."""
MOST_BYTES = 1 << 20
"""Read at a time."""


async def follow(path: Path, folder: Path, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """Yield the lines of a file as events, first the existing ones, then each new one, until the reader disconnects.

    The file lies in `folder`: where a link leads out of it, nothing is read.

    Only complete lines of JSON count. A file that became shorter was restarted, which the event `again` reports.
    """
    offset, rest, quiet = 0, b"", 0
    while not await gone():
        size = _size(path)
        if size < offset:
            offset, rest = 0, b""
            yield "event: again\ndata: {}\n\n"
        if size > offset:
            try:
                with open_regular(path, "a file that grows", folder=folder) as file:
                    file.seek(offset)
                    piece = file.read(MOST_BYTES)
            except InputError:
                piece = b""  # removed since: the next poll finds its size 0
            if not piece:
                await asyncio.sleep(PAUSE_S)
                continue
            offset += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            rest = rest[-MOST_BYTES:]  # no line is as long
            quiet = 0
            events = [text for line in lines if (text := _checked(line))]
            if events:
                yield f"data: [{','.join(events)}]\n\n"
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
