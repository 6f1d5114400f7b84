"""Event slots of the heap, compiled: one for each source of events.

Their order is that of simultaneous events: next event of each stream's job, expiry of each task's oldest job, release
of each task, horizon, effect of a decision, end of each task's wait for a fuller batch.
"""

from __future__ import annotations

from slipstream.jit.decorators import kernel


@kernel
def expiry_slot(spec, task):
    """Return the event slot for the expiry of the oldest waiting job of `task`."""
    return spec.device[0].streams + task


@kernel
def arrival_slot(spec, task):
    """Return the event slot for the next release of `task`."""
    return spec.device[0].streams + spec.tasks.shape[0] + task


@kernel
def horizon_slot(spec):
    """Return the event slot for the end of the episode."""
    return spec.device[0].streams + 2 * spec.tasks.shape[0]


@kernel
def effect_slot(spec):
    """Return the event slot for the effect of a decision after the decision time."""
    return horizon_slot(spec) + 1


@kernel
def fill_slot(spec, task):
    """Return the event slot for the end of the wait of `task` for a fuller batch; only where there are batches."""
    return effect_slot(spec) + 1 + task
