"""Rules that send a request to an engine, compiled."""

from __future__ import annotations

from slipstream.families.llm.kernel.blocks import cached_blocks
from slipstream.families.llm.kernel.state import LEAST_LOAD, ROUND_ROBIN
from slipstream.jit.decorators import inlined, kernel

QUEUE_WEIGHT = 4
"""What a waiting request counts in the load of an engine, as in vLLM's data parallel router; a running one counts 1."""


@inlined
def load_of(own):
    """Return the load of an engine."""
    return QUEUE_WEIGHT * own.waiting + own.running


@kernel
def usual_engine(spec, state, lane, number):
    """Return the engine to which the scenario's rule sends a request; ties go to the engine with the lowest number.

    By prefix affinity it goes where most of its blocks are in the cache, then to the least load.
    """
    machine = spec.machine[0]
    if machine.router == ROUND_ROBIN:
        return number % machine.engines
    best, most = 0, -1
    for engine in range(machine.engines):
        hits = 0
        if machine.router != LEAST_LOAD:
            hits = cached_blocks(spec, state, lane, engine, number)[0]
        less = load_of(state.engines[lane, engine]) < load_of(state.engines[lane, best])
        if hits > most or (hits == most and less):
            best, most = engine, hits
    return best
