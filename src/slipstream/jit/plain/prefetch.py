"""No prefetch hint: Numba documents none, and it changes nothing but the time a loop takes."""

from __future__ import annotations

from slipstream.jit.decorators import kernel


@kernel
def prefetch(array, index, line):
    """Do nothing."""
