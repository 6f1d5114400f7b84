"""The slots of the event heap, compiled: one for each source of events.

They stand in the order in which simultaneous events are applied: what each stream's job comes to next, expiry of each
task's oldest job, release of each task, horizon, effect of a choice.
"""

from __future__ import annotations

from slipstream.jit.decorators import kernel


@kernel
def expiry_slot(spec, task):
    """Expiry of the oldest waiting job of a task."""
    return spec.device[0].streams + task


@kernel
def arrival_slot(spec, task):
    """Next release of a task."""
    return spec.device[0].streams + spec.tasks.shape[0] + task


@kernel
def horizon_slot(spec):
    """End of the episode."""
    return spec.device[0].streams + 2 * spec.tasks.shape[0]


@kernel
def effect_slot(spec):
    """Effect of a choice after the decision time."""
    return horizon_slot(spec) + 1
