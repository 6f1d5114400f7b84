"""Whole episodes of policies that take from a queue what came first, compiled: nobody looks at long queues for that."""

from __future__ import annotations

from slipstream.families.taskgraph.kernel.state import CHOOSE_QUEUED
from slipstream.jit.decorators import entry
from slipstream.sim.kernel.lanes import ASKING, CHOICE, LOG_FULL, act, choose, resume

FIRST = 0
"""The row of what came first, in a queue."""


@entry
def run_in_order(spec, state, lane, buffer, address):
    """Play under the compiled policy at `address` until the episode ends or the log is full; queues go in their order.

    Rows of a queue are not written: there may be hundreds of them, at every choice.
    """
    header = state.lanes[lane]
    midway = header.status == LOG_FULL
    while midway or header.status == ASKING:
        if not midway:
            action = FIRST
            if header.phase != CHOOSE_QUEUED:
                action = choose(spec, state, lane, buffer, CHOICE, address)
            act(spec, state, lane, action)
        midway = False
        resume(spec, state, lane)
    return header.status
