"""The schedule of a step, compiled: running requests first, then waiting ones, within budget, seats and blocks.

The rules are those of vLLM's scheduler. `docs/llm-machine.md` specifies them.
"""

from __future__ import annotations

from slipstream.families.llm.kernel.blocks import allocate, blocks_for, cached_blocks, needs_blocks, take_cached
from slipstream.families.llm.kernel.queues import finish, leave_queue, preempt, take_seat, usual_victim
from slipstream.families.llm.kernel.state import DONE, INPUT_WEIGHT, MOST_HITS, OUTPUT_WEIGHT, RUNNING
from slipstream.families.llm.kernel.timing import step_time
from slipstream.jit.decorators import inlined, kernel
from slipstream.sim.eventlog import DONE as STEP_DONE
from slipstream.sim.eventlog import READY
from slipstream.sim.kernel.heap import NEVER, schedule
from slipstream.sim.kernel.lanes import record

LONE_UNCUT = 32
"""Minor version of vLLM from which on `long_prefill_tokens` does not cut the prompt of the only request."""


@kernel
def begin_schedule(spec, state, lane, engine):
    """Begin the schedule of an engine's next step; later versions do not cut the prompt of a request that is alone."""
    machine, own = spec.machine[0], state.engines[lane, engine]
    alone = machine.version >= LONE_UNCUT and own.running + own.waiting <= 1
    own.long_prefill = 0 if alone else machine.long_prefill
    own.left = own.budget
    own.index = 0
    own.sequences = 0
    own.preempted = 0


@inlined
def tokens_to_run(spec, own, request):
    """Return the tokens that a running request computes in this step, 0 if none.

    A request whose last token is under way computes none, if the engine knows that it is the last.
    """
    machine = spec.machine[0]
    if not machine.eos and request.pending > 0 and request.known - request.prompt + request.pending >= request.output:
        return 0
    tokens = request.known + request.pending - request.computed
    if 0 < own.long_prefill < tokens:
        tokens = own.long_prefill
    return min(tokens, own.left)


@kernel
def schedule_running(spec, state, lane, engine):
    """Schedule running requests in the order of the batch; return whether a request to preempt must be chosen.

    Where blocks run out, requests are preempted until there are enough, or the request itself is.
    """
    machine, own = spec.machine[0], state.engines[lane, engine]
    while own.index < own.running and own.left > 0:
        number = state.running[lane, engine, own.index]
        request = state.requests[lane, number]
        tokens = tokens_to_run(spec, own, request)
        if tokens > 0:
            length = request.computed + tokens
            if needs_blocks(spec, request, length) and blocks_for(spec, length) - request.blocks > own.free:
                if machine.decides_evict and own.running > 1:
                    return True
                preempt(spec, state, lane, engine, usual_victim(spec, state, lane, engine))
                continue
            allocate(spec, state, lane, engine, number, length)
            request.scheduled = tokens
            own.left -= tokens
            own.sequences += 1
        own.index += 1
    return False


@inlined
def may_admit(spec, own):
    """Return whether the step has budget and a seat for a waiting request, and nothing was preempted in it."""
    return own.preempted == 0 and own.left > 0 and own.running < spec.machine[0].seats and own.waiting > 0


@inlined
def free_for_admission(own):
    """Return the blocks that an admission may take: all free ones if nothing runs."""
    return own.free - (own.headroom if own.running > 0 else 0)


@kernel
def admission_blocks(spec, state, lane, engine, number):
    """Return the free blocks that all known tokens of a waiting request take, and its blocks in the cache."""
    hits, free = cached_blocks(spec, state, lane, engine, number)
    return blocks_for(spec, state.requests[lane, number].known) - hits + free, hits


@kernel
def try_admit(spec, state, lane, engine, place):
    """Admit the waiting request at `place` if its known tokens fit; return whether they do."""
    machine, own = spec.machine[0], state.engines[lane, engine]
    number = state.waiting[lane, engine, own.first + place]
    request = state.requests[lane, number]
    needed, hits = admission_blocks(spec, state, lane, engine, number)
    if needed > free_for_admission(own):
        return False
    take_cached(spec, state, lane, engine, number, hits)
    request.hits = hits
    request.computed = hits * machine.block_tokens
    tokens = request.known - request.computed
    if 0 < own.long_prefill < tokens:
        tokens = own.long_prefill
    tokens = min(tokens, own.left)
    allocate(spec, state, lane, engine, number, request.computed + tokens)
    request.scheduled = tokens
    own.left -= tokens
    own.sequences += 1
    leave_queue(state, lane, engine, place)
    state.running[lane, engine, own.running] = number
    own.running += 1
    request.status = RUNNING
    request.shown = 0
    take_seat(spec, state, lane, engine, number)
    if request.started == 0:
        request.started = 1
        state.clients[lane, request.group].service += INPUT_WEIGHT * request.prompt
    return True


@kernel
def launch(spec, state, lane, engine):
    """Begin the scheduled step: it runs after the one before it; record which requests get a token at its end."""
    header, own = state.lanes[lane], state.engines[lane, engine]
    slot = (own.oldest + own.flight) % 2
    step = state.steps[lane, engine, slot]
    total, chunk, context, pairs, decodes, decode_context, longest, members = 0, 0, 0, 0, 0, 0, 0, 0
    for place in range(own.running):
        number = state.running[lane, engine, place]
        request = state.requests[lane, number]
        tokens = request.scheduled
        if tokens == 0:
            continue
        total += tokens
        if tokens > 1:
            chunk += tokens
            context += request.computed
            pairs += tokens * (2 * request.computed + tokens)
        else:
            decodes += 1
            decode_context += request.computed + 1
            longest = max(longest, request.computed + 1)
        request.scheduled = 0
        request.computed += tokens
        if request.computed == request.known + request.pending:
            request.pending += 1
            state.members[lane, engine, slot, members] = number
            members += 1
    own.duration = step_time(spec, total, own.sequences, chunk, context, pairs, decodes, decode_context, longest)
    own.ended = max(header.now, own.ended) + own.duration
    step.end, step.tokens, step.members, step.sequences = own.ended, total, members, own.sequences
    step.used = spec.machine[0].blocks - own.free
    if own.flight == 0:
        schedule(state.heap, lane, engine, own.ended)
    own.flight += 1


@kernel
def end_oldest_step(spec, state, lane, engine):
    """Apply the end of the oldest step in flight: its requests get a token, and some finish."""
    header, own = state.lanes[lane], state.engines[lane, engine]
    slot = own.oldest
    step = state.steps[lane, engine, slot]
    own.oldest = 1 - slot
    own.flight -= 1
    own.due = 1
    schedule(state.heap, lane, engine, state.steps[lane, engine, own.oldest].end if own.flight > 0 else NEVER)
    for member in range(step.members):
        number = state.members[lane, engine, slot, member]
        request = state.requests[lane, number]
        if request.status == DONE:
            continue
        request.pending -= 1
        request.known += 1
        request.last = header.now
        state.clients[lane, request.group].service += OUTPUT_WEIGHT
        if request.first < 0:
            request.first = header.now
        if request.shown == 0:
            request.shown = 1
            record(state, lane, READY, request.group, request.number, min(request.hits, MOST_HITS), request.seat)
        if request.known - request.prompt >= request.output:
            finish(spec, state, lane, engine, number)
    record(state, lane, STEP_DONE, step.used, step.tokens, step.sequences, engine)
