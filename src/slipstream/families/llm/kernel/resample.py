"""Compiled redraw of what a policy cannot know: requests to come, and the outputs of those that have not finished.

Distributions of the scenario are known, and how many requests an episode has. Of a list or a trace only the past is
known: the rest of it repeats a block of the requests seen. The output of a request is at least what it has generated.
It follows the prediction where there is one, else the outputs that are drawn, or those of a trace that have finished.
"""

from __future__ import annotations

import math

from slipstream.families.llm.kernel.arrivals import derive_keys, drawn_gap, next_arrival, scaled_index
from slipstream.families.llm.kernel.events import arrival_slot
from slipstream.families.llm.kernel.state import DONE, REDRAWN, REJECTED
from slipstream.jit.decorators import kernel
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.rng import exponential, normal, stream_key, uniform

TRIES = 64
"""Most draws of a rejection."""
BLOCKS, RESIDUALS = 2**42, 2**43
"""First counters of the draws of blocks and of the present gap."""


@kernel
def resample(spec, state, lane, key):
    """Redraw everything unknown: outputs of unfinished requests, and all requests to come."""
    header = state.lanes[lane]
    header.seed = 0
    header.key = key
    derive_keys(header)
    header.redrawn, header.seen, header.block = 1, header.arrived, 0
    stream = stream_key(key, REDRAWN)
    for number in range(header.arrived):
        request = state.requests[lane, number]
        if request.status != DONE and request.status != REJECTED:
            request.output = redrawn_output(spec, state, lane, number, stream)
    schedule(state.heap, lane, arrival_slot(spec), redrawn_arrival(spec, state, lane, stream))


@kernel
def limit_arrivals(spec, state, lane, count):
    """Limit the requests to come to `count`: the episode ends when these are done."""
    header = state.lanes[lane]
    header.to_come = min(header.to_come, header.arrived + count)
    if header.arrived >= header.to_come:
        schedule(state.heap, lane, arrival_slot(spec), NEVER)


# Outputs


@kernel
def redrawn_output(spec, state, lane, number, stream):
    """Return an output length of an unfinished request, given what it has generated and what is under way."""
    machine, header, request = spec.machine[0], state.lanes[lane], state.requests[lane, number]
    least = request.known - request.prompt + (1 if machine.eos else max(1, request.pending))
    most = max(least, machine.longest - machine.eos - request.prompt)
    listed = machine.listed == 1 and spec.listed[request.source].predicted > 0
    if machine.predicts or listed:
        if machine.spread == 0.0:
            return min(most, max(least, request.predicted))
        for attempt in range(TRIES):
            factor = math.exp(machine.spread * normal(stream, TRIES * number + attempt) - 0.5 * machine.spread**2)
            output = int(round(min(request.predicted / factor, 1e9)))
            if least <= output <= most:
                return output
        return least
    for attempt in range(TRIES):
        output = 0
        if not machine.listed:
            output = spec.outputs[scaled_index(stream, TRIES * number + attempt, spec.outputs.shape[0])]
        else:
            other = state.requests[lane, scaled_index(stream, TRIES * number + attempt, header.arrived)]
            if other.status == DONE:
                output = other.output
        if least <= output <= most:
            return output
    return min(most, least + int(exponential(stream, BLOCKS + number, float(machine.mean_output))))


# Arrivals


@kernel
def redrawn_arrival(spec, state, lane, stream):
    """Return the redrawn time of the next request, given how long there has been none."""
    header = state.lanes[lane]
    if header.arrived >= header.to_come:
        return NEVER
    last = state.requests[lane, header.arrived - 1].arrival if header.arrived > 0 else 0
    for attempt in range(TRIES):
        if not spec.machine[0].listed:
            time = last + drawn_gap(spec, header, RESIDUALS + attempt)
        elif header.arrived < 2:
            break
        else:
            header.block = 1 + int(uniform(stream, BLOCKS + TRIES * TRIES + attempt) * (header.arrived - 1))
            row = header.first + header.block
            time = last + max(1, spec.listed[row].time - spec.listed[row - 1].time)
        if time > header.now:
            return time
    return max(header.now + 1, next_arrival(spec, header))
