"""Limits of connections, from the system's limit of open files."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MOST_CONNECTIONS = 16_384
MOST_SPARE = 64
RESERVED_FILES = 64
"""Descriptors reserved for replaced workers, logs and reports; fewer if the limit is low."""
MOST_FILES = MOST_CONNECTIONS + 2 * MOST_SPARE + 1024


class Limits(NamedTuple):
    """Most simultaneous connections."""

    connections: int
    spare: int
    """Connections beyond the limit, which get a refusal or a status response only."""


def raise_file_limit() -> None:
    """Raise the soft limit of open files to MOST_FILES, or to the hard limit if that is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # the system may allow less than the hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connection_limits() -> Limits:
    """Return the limits of connections beside the files that are open now and a reserve."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = MOST_FILES if soft == resource.RLIM_INFINITY else max(0, soft - len(list(Path("/dev/fd").iterdir())))
    reserved = min(RESERVED_FILES, free // 3)
    spare = max(1, min(MOST_SPARE, free // 8))
    return Limits(max(1, min(MOST_CONNECTIONS, free - reserved - 2 * spare)), spare)
