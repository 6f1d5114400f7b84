"""Slots of the event heap, compiled: one for each source of events.

Simultaneous events are applied in slot order: the end of each accelerator's batch or load, its timer, the sample, the
plan, the next request of each model.
"""

from __future__ import annotations

from slipstream.jit.decorators import inlined


@inlined
def timer_slot(spec, accelerator):
    """Return the event slot of an accelerator's timer."""
    return spec.machine[0].accelerators + accelerator


@inlined
def sample_slot(spec):
    """Return the event slot of the next sample of the rates."""
    return 2 * spec.machine[0].accelerators


@inlined
def plan_slot(spec):
    """Return the event slot of the next plan."""
    return 2 * spec.machine[0].accelerators + 1


@inlined
def arrival_slot(spec, model):
    """Return the event slot of a model's next request."""
    return 2 * spec.machine[0].accelerators + 2 + model
