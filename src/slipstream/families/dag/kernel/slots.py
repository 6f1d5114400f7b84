"""The slots of the event heap, compiled: one for each source of events.

They stand in the order in which simultaneous events are applied: what each executor comes to next, the end of its task
or of its way; the next job; the horizon.
"""

from __future__ import annotations

from slipstream.jit.decorators import kernel


@kernel
def arrival_slot(spec):
    """Arrival of the next job."""
    return spec.machine[0].executors


@kernel
def horizon_slot(spec):
    """End of the episode."""
    return spec.machine[0].executors + 1
