"""Small mistakes that could have been made in the kernel of LLM engines: the comparison must notice each.

A mutant that no longer applies (its old text is gone) makes a test fail, so the list follows the code.
"""

from __future__ import annotations

from tests.mutation import Mutant

ARRIVALS = "families/llm/kernel/arrivals.py"
BLOCKS = "families/llm/kernel/blocks.py"
EVENTS = "families/llm/kernel/events.py"
OBSERVATION = "families/llm/kernel/observation.py"
QUEUES = "families/llm/kernel/queues.py"
ROUTING = "families/llm/kernel/routing.py"
SCHEDULE = "families/llm/kernel/schedule.py"
TIMING = "families/llm/kernel/timing.py"

MUTANTS = [
    # Requests
    Mutant("all gaps are the same", ARRIVALS, "uniform(header.gap_key, number)", "uniform(header.gap_key, 0)"),
    Mutant("classes forget their shares", ARRIVALS, "lot >= spec.classes[group].until", "lot >= 0.5"),
    Mutant(
        "pairs are torn apart",
        ARRIVALS,
        "scaled_index(header.prompt_key, number, spec.prompts.shape[0])]\n    return",
        "scaled_index(header.output_key, number, spec.prompts.shape[0])]\n    return",
    ),
    Mutant("predictions are too high", ARRIVALS, "- 0.5 * machine.spread * machine.spread", "+ 0.0"),
    Mutant(
        "the wasted token is forgotten at the door",
        EVENTS,
        "request.output + machine.eos > machine.longest",
        "request.output > machine.longest",
    ),
    Mutant(
        "a returning class is not lifted",
        EVENTS,
        "= max(state.clients[lane, group].service, least)",
        "= state.clients[lane, group].service",
    ),
    # Blocks
    Mutant("the whole prompt may be found", BLOCKS, "(request.known - 1) // spec", "request.known // spec", quick=True),
    Mutant("a block in use follows any other", BLOCKS, "elif entry.parent != before:", "elif entry.parent == -7:"),
    Mutant(
        "found blocks in use count as free",
        BLOCKS,
        "            if entry.users == 0:\n                free += 1",
        "            if entry.users >= 0:\n                free += 1",
    ),
    Mutant(
        "pieces do not tell their blocks apart",
        BLOCKS,
        "np.uint64(index - number_of_piece * machine.piece_blocks)",
        "np.uint64(0)",
    ),
    Mutant("blocks of guessed tokens are entered", BLOCKS, "known = min(tokens, request.known)", "known = tokens"),
    Mutant("the cache forgets nothing", BLOCKS, "        if entry.key != NO_KEY:\n", "        if entry.users > 0:\n"),
    Mutant("blocks without content are used last", BLOCKS, "version >= UNKEYED_FIRST", "version > 99"),
    Mutant("later copies are found", BLOCKS, "            found = block\n", "            return block\n"),
    Mutant("a lone prompt is cut", SCHEDULE, "machine.version >= LONE_UNCUT", "machine.version > 99"),
    Mutant("partial blocks are free", BLOCKS, "(tokens + spec.machine[0].block_tokens - 1) //", "tokens //"),
    Mutant("blocks are shared beyond the prompt", BLOCKS, "min(request.prompt, tokens) //", "tokens //"),
    # Schedules
    Mutant(
        "the last token is scheduled twice",
        SCHEDULE,
        "request.pending >= request.output",
        "request.pending > request.output",
    ),
    Mutant(
        "long prompts are not cut when they run",
        SCHEDULE,
        "    if 0 < own.long_prefill < tokens:\n        tokens = own.long_prefill\n    return",
        "    if 0 > own.long_prefill:\n        tokens = own.long_prefill\n    return",
    ),
    Mutant(
        "admissions follow preemptions", SCHEDULE, "own.preempted == 0 and own.left > 0", "own.left > 0", quick=True
    ),
    Mutant("the headroom always counts", SCHEDULE, "if own.running > 0 else 0)", "if own.running >= 0 else 0)"),
    Mutant(
        "found tokens are computed again",
        SCHEDULE,
        "request.computed = hits * machine.block_tokens",
        "request.computed = 0",
    ),
    Mutant(
        "chunks must fit, not prompts",
        SCHEDULE,
        "blocks_for(spec, state.requests[lane, number].known) - hits",
        "blocks_for(spec, min(state.requests[lane, number].known, 4)) - hits",
    ),
    Mutant(
        "a resumed request pays its prompt again",
        SCHEDULE,
        "        request.started = 1\n",
        "        request.started = 0\n",
    ),
    Mutant(
        "steps overlap", SCHEDULE, "max(header.now, own.ended) + own.duration", "header.now + own.duration", quick=True
    ),
    Mutant(
        "unfinished prompts get tokens",
        SCHEDULE,
        "if request.computed == request.known + request.pending:",
        "if request.computed >= request.prompt:",
    ),
    Mutant(
        "tokens of finished requests count",
        SCHEDULE,
        "        if request.status == DONE:\n",
        "        if request.status < 0:\n",
    ),
    Mutant("every token is the first", SCHEDULE, "            request.shown = 1\n", "            request.shown = 0\n"),
    Mutant("the newest step ends first", SCHEDULE, "own.oldest = 1 - slot", "own.oldest = slot"),
    Mutant(
        "a decoding sequence does not see its token",
        SCHEDULE,
        "decode_context += request.computed + 1",
        "decode_context += request.computed",
    ),
    # Queues
    Mutant(
        "preempted requests go to the end",
        QUEUES,
        "enqueue(state, lane, engine, number, True)",
        "enqueue(state, lane, engine, number, False)",
        quick=True,
    ),
    Mutant("preempted tokens are lost to the budget", QUEUES, "own.left += request.scheduled", "own.left += 0"),
    Mutant(
        "the schedule skips one after a preemption",
        QUEUES,
        "        own.index -= 1\n    elif",
        "        own.index -= 0\n    elif",
    ),
    Mutant("the highest priority is preempted", QUEUES, "if priority > lowest or", "if priority < lowest or"),
    Mutant("the last block is not entered", QUEUES, "        if spec.machine[0].prefix:\n", "        if False:\n"),
    Mutant("the oldest is preempted", QUEUES, "== lowest and other > worst", "== lowest and other < worst"),
    Mutant(
        "slow requests keep their limit", QUEUES, "group.tpot * (request.output - 1)", "group.tpot * request.output"
    ),
    # Events
    Mutant("a third step is begun", EVENTS, "if own.flight >= machine.depth:", "if own.flight > machine.depth:"),
    Mutant("idle engines are not asked again", EVENTS, "own.parked != header.events", "own.parked < 0"),
    Mutant(
        "waiting is always allowed", EVENTS, "    return False\n\n\n# Decisions", "    return True\n\n\n# Decisions"
    ),
    Mutant(
        "a new budget counts from the next step",
        EVENTS,
        "            own.left = own.budget\n        own.phase",
        "        own.phase",
    ),
    Mutant("the first of the batch is evicted", EVENTS, "own.running - 1 - index", "index"),
    # Routing
    Mutant("affinity ignores the load", ROUTING, "(hits == most and less)", "(hits == most and engine < 0)"),
    Mutant("those that wait weigh as those that run", ROUTING, "QUEUE_WEIGHT = 4", "QUEUE_WEIGHT = 1"),
    # Step time
    Mutant(
        "lines end at the last point",
        TIMING,
        "    low, high = 0, last\n",
        "    low, high = 0, last\n    value = min(value, points[last])\n",
    ),
    Mutant(
        "context costs the same beside a prefill",
        TIMING,
        "machine.per_mixed_context if chunk > 0",
        "machine.per_mixed_context if chunk < 0",
    ),
    Mutant("steps have no constant", TIMING, "time = machine.step + interpolated", "time = interpolated"),
    # Observation
    Mutant(
        "slack goes on after the first token", OBSERVATION, "group.ttft > 0 and request.first < 0", "group.ttft > 0"
    ),
    Mutant(
        "the peak forgets the request itself",
        OBSERVATION,
        "count, total, peak, index = 0, 0, 0,",
        "count, total, peak, index = -1, 0, 0,",
    ),
    Mutant(
        "what is generated counts as left",
        OBSERVATION,
        "request.predicted - (request.known - request.prompt)",
        "request.predicted",
    ),
]
