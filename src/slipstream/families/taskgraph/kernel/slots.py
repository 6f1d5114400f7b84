"""Compiled event slots of the heap: one for each source of events.

Simultaneous events are applied in the order of their slots: the end of each processor's task, the end of each link's
transfer, the next arrival.
"""

from __future__ import annotations

from slipstream.jit.decorators import kernel


@kernel
def link_slot(spec, link):
    """Return the event slot of the end of a link's transfer."""
    return spec.machine[0].processors + link


@kernel
def arrival_slot(spec, state):
    """Return the event slot of the next arrival."""
    return spec.machine[0].processors + state.links.shape[1]
