"""State of an engine that is not simulated, compiled: a decision reads it and is reported, and changes nothing.

A real engine owns its queue, batch and blocks. Before a decision they are written into the arrays of a lane, whose rows
and globals are then those of the simulator, for any policy. Which blocks of a request the engine has in its cache is
given by `found` rather than looked up.
"""

from __future__ import annotations

from numba import types

from slipstream.families.llm import features as f
from slipstream.families.llm.kernel import observation
from slipstream.families.llm.kernel.blocks import blocks_for
from slipstream.families.llm.kernel.events import may_wait
from slipstream.families.llm.kernel.schedule import free_for_admission
from slipstream.families.llm.kernel.state import ADMITS, LlmSpecType
from slipstream.jit.decorators import kernel
from slipstream.jit.structs import struct
from slipstream.sim.kernel.lanes import PENDING, PLAIN_RULE, KernelFunctions, clear_lane
from slipstream.sim.kernel.observation import put
from slipstream.sim.kernel.window import candidate_of, is_wait


@struct(
    *("lanes", "requests", "engines", "seats", "running", "waiting", "steps", "members", "clients", "blocks"),
    *("buckets", "sorted", "heap", "terms", "log", "found", "chosen"),
)
class MirrorStateType(types.StructRef):
    """State of an engine that is not simulated.

    The arrays of `LlmStateType`; found (L, N, 2), the blocks of a waiting request that are in the cache and how many of
    these are free; chosen (L), the candidate of the last decision, -1 if it was to wait.
    """


@kernel
def begin(spec, state, lane, seed, split):
    """Clear the lane, and set the key of its random numbers."""
    clear_lane(state, lane, seed, split)


@kernel
def act(spec, state, lane, action):
    """Report the candidate of `action`; an illegal one waits or, where waiting is illegal, is the first."""
    header = state.lanes[lane]
    index = candidate_of(spec, state, lane, action)
    waits = index < 0 and may_wait(spec, state, lane)
    header.illegal = 0 if index >= 0 or (waits and is_wait(spec.machine[0], action)) else 1
    header.mistakes += header.illegal
    state.chosen[lane] = -1 if waits else max(index, 0)


@kernel
def resume(spec, state, lane):
    """Return to the engine."""
    state.lanes[lane].status = PENDING


@kernel
def list_legal(spec, state, lane, buffer, slot, form):
    """Write the rows of all candidates; those of waiting requests with what the engine found in its cache."""
    observation.list_legal(spec, state, lane, buffer, slot, form)
    machine, header = spec.machine[0], state.lanes[lane]
    if header.kind != ADMITS or form == PLAIN_RULE:
        return
    own = state.engines[lane, header.engine]
    last, first = buffer.mask.shape[1] - 1, machine.rows + 1
    listed = header.shown
    behind = header.candidates - listed if last > machine.rows else 0
    for index in range(listed + behind):
        number = state.waiting[lane, header.engine, own.first + index]
        hits = state.found[lane, number, 0]
        if hits > 0:
            row = buffer.rows[slot, index if index < listed else first + index - listed]
            needed = blocks_for(spec, state.requests[lane, number].known) - hits + state.found[lane, number, 1]
            put(row, buffer.row_image, f.CACHED, hits * machine.block_tokens)
            put(row, buffer.row_image, f.BLOCKS, needed / machine.blocks)
            put(row, buffer.row_image, f.FITS, 1.0 if needed <= free_for_admission(own) else 0.0)


MIRROR = KernelFunctions(
    spec_type=LlmSpecType,
    state_type=MirrorStateType,
    begin=begin,
    act=act,
    resume=resume,
    prepare=observation.prepare,
    list_legal=list_legal,
    summarise=observation.summarise,
)
