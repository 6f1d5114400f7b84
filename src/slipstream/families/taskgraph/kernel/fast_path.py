"""Compiled episode loop for policies that serve queues in FIFO order, without writing the rows of queues."""

from __future__ import annotations

from slipstream.families.taskgraph.kernel.state import CHOOSE_QUEUED
from slipstream.jit.decorators import entry
from slipstream.sim.kernel.lanes import ASKING, CHOICE, LOG_FULL, act, choose, resume

FIRST = 0
"""Row of the first task of a queue."""


@entry
def run_fast_path(spec, state, lane, buffer, address):
    """Run the compiled policy at `address` until the episode ends or the log is full; queues are served in FIFO order.

    Rows of queues are not written: there may be hundreds at every decision.
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
