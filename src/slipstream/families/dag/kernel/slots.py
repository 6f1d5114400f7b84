"""Compiled event slots of the heap: one for each source of events.

Simultaneous events are applied in the order of their slots: the end of each executor's task or move, the next arrival,
the horizon.
"""

from __future__ import annotations

from slipstream.jit.decorators import kernel


@kernel
def arrival_slot(spec):
    """Return the event slot of the next arrival."""
    return spec.machine[0].executors


@kernel
def horizon_slot(spec):
    """Return the event slot of the horizon."""
    return spec.machine[0].executors + 1
