"""Hints that request memory before it is needed; they change nothing but the time a loop takes."""

from __future__ import annotations

from slipstream.jit.decorators import inlined
from slipstream.jit.mode import PRIVATE
from slipstream.jit.structs import CACHE_LINE

if PRIVATE:
    from slipstream.jit.private.prefetch import prefetch
else:
    from slipstream.jit.plain.prefetch import prefetch

__all__ = ["prefetch", "prefetch_record"]

MOST_LINES = 16
"""Lines of one record that are requested: a processor keeps few requests open, more would only queue up."""


@inlined
def prefetch_record(array, index, size):
    """Request the first `size` bytes of `array[index]`, at most MOST_LINES cache lines."""
    for line in range(min((size + CACHE_LINE - 1) // CACHE_LINE, MOST_LINES)):
        prefetch(array, index, line)
