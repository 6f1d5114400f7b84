"""Wait for descriptors of any number."""

from __future__ import annotations

import math
import select
from collections.abc import Sequence

FIRST_BEYOND_SELECT = 1024
"""Smallest descriptor that `select` does not support; a process with a thousand connections has larger ones."""


def readable(descriptors: Sequence[int], seconds: float | None) -> list[int]:
    """Return the readable ones of `descriptors`, waiting for at most `seconds`; None waits without limit.

    `select` has microsecond timeouts, so it is preferred; `poll` supports any descriptor, but may wake up a millisecond
    late.
    """
    limit = None if seconds is None else max(0.0, seconds)
    if max(descriptors, default=0) < FIRST_BEYOND_SELECT:
        return select.select(descriptors, (), (), limit)[0]
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(None if limit is None else math.ceil(limit * 1e3))]
