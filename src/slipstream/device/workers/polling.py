"""Waiting for descriptors, whatever their numbers are."""

from __future__ import annotations

import math
import select
from collections.abc import Sequence

FIRST_BEYOND_SELECT = 1024
"""The smallest descriptor that `select` cannot wait for: a process with a thousand connections has larger ones."""


def readable(descriptors: Sequence[int], seconds: float | None) -> list[int]:
    """Return those descriptors that can be read, after at most so long; None waits for ever.

    `select` wakes up on the microsecond, so it is taken wherever it can be; `poll` takes any descriptor, and may wake
    up a millisecond late.
    """
    limit = None if seconds is None else max(0.0, seconds)
    if max(descriptors, default=0) < FIRST_BEYOND_SELECT:
        return select.select(descriptors, (), (), limit)[0]
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(None if limit is None else math.ceil(limit * 1e3))]
