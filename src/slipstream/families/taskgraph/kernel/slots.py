"""The slots of the event heap, compiled: one for each source of events.

They stand in the order in which simultaneous events are applied: the end of each processor's task, of each link's
transfer, the next job.
"""

from __future__ import annotations

from slipstream.jit.decorators import kernel


@kernel
def link_slot(spec, link):
    """End of what a link carries."""
    return spec.machine[0].processors + link


@kernel
def arrival_slot(spec, state):
    """Arrival of the next job."""
    return spec.machine[0].processors + state.links.shape[1]
