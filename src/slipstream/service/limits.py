"""How many connections a process can hold: what the system's limit of open files leaves."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MOST_CONNECTIONS = 16_384
MOST_SPARE = 64
RESERVED_FILES = 64
"""For workers that are replaced, logs and reports; less where few files may be open at all."""
MOST_FILES = MOST_CONNECTIONS + 2 * MOST_SPARE + 1024


class Limits(NamedTuple):
    """Connections at a time."""

    connections: int
    spare: int
    """Beyond these: they are told that the service is full, or how it is."""


def raise_file_limit() -> None:
    """Raise the soft limit of open files as far as the hard one and our own use of it go."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # where the system allows less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connection_limits() -> Limits:
    """Return how many connections there may be beside the files that are open now, a reserve left aside."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = MOST_FILES if soft == resource.RLIM_INFINITY else max(0, soft - len(list(Path("/dev/fd").iterdir())))
    reserved = min(RESERVED_FILES, free // 3)
    spare = max(1, min(MOST_SPARE, free // 8))
    return Limits(max(1, min(MOST_CONNECTIONS, free - reserved - 2 * spare)), spare)
