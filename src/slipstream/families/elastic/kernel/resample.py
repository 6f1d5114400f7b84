"""Compiled redraw of what a policy cannot know: the jobs to come."""

from __future__ import annotations

from slipstream.families.elastic.kernel.lifecycle import arrival_slot
from slipstream.jit.decorators import kernel
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.job_stream import limit_stream, resample_stream


@kernel
def resample(spec, state, lane, key):
    """Redraw the jobs to come; throughputs and the work of jobs that have arrived are known."""
    schedule(state.heap, lane, arrival_slot(state), resample_stream(spec, state.lanes[lane], key))


@kernel
def limit_arrivals(spec, state, lane, count):
    """Limit the jobs to come to `count`: the episode ends when these are done."""
    if not limit_stream(state.lanes[lane], count):
        schedule(state.heap, lane, arrival_slot(state), NEVER)
