"""Files that grow, told line by line as server-sent events: the curve of a training, what a device does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

PAUSE_S = 0.5
"""Time between two looks at the file."""
SILENCE = 20
"""Looks without news after which a sign of life is sent, so that nobody on the way hangs up."""
MOST_BYTES = 1 << 20
"""Read at a time."""


async def follow(path: Path, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """Yield the lines of a file as events, first those that are there, then each new one, until the reader is gone.

    A line counts when it is complete and JSON. A file that became shorter was begun again: the event `again` says so.
    """
    place, rest, quiet = 0, b"", 0
    while not await gone():
        size = path.stat().st_size if path.exists() else 0
        if size < place:
            place, rest = 0, b""
            yield "event: again\ndata: {}\n\n"
        if size > place:
            with path.open("rb") as file:
                file.seek(place)
                piece = file.read(MOST_BYTES)
            place += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
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
        return json.dumps(json.loads(line), allow_nan=False)
    except ValueError:
        return ""
