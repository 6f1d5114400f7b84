"""The slots of the event heap, compiled: one for each source of events.

They stand in the order in which simultaneous events are applied: the end of each accelerator's batch or load, its
timer, the sample, the plan, the next request of each model.
"""

from __future__ import annotations

from slipstream.jit.decorators import inlined


@inlined
def timer_slot(spec, accelerator):
    """Timer of an accelerator."""
    return spec.machine[0].accelerators + accelerator


@inlined
def sample_slot(spec):
    """Next sample of the rates."""
    return 2 * spec.machine[0].accelerators


@inlined
def plan_slot(spec):
    """Next plan."""
    return 2 * spec.machine[0].accelerators + 1


@inlined
def arrival_slot(spec, model):
    """Next request of a model."""
    return 2 * spec.machine[0].accelerators + 2 + model
