"""Small mistakes that could have been made in the kernel: each must be noticed by the comparison with the reference.

A mutant that no longer applies (its old text is gone) makes a test fail, so the list follows the code.
"""

from __future__ import annotations

from tests.mutation import Mutant

KERNEL = "families/edge/kernel/events.py"
LANES = "sim/kernel/lanes.py"
QUEUES = "families/edge/kernel/queues.py"
SLOTS = "families/edge/kernel/slots.py"
STREAMS = "families/edge/kernel/streams.py"
MEMORY = "families/edge/kernel/memory.py"
OBSERVATION = "families/edge/kernel/observation.py"
LOOKAHEAD = "families/edge/kernel/lookahead.py"
RATES = "families/edge/kernel/rates.py"
HEAP = "sim/kernel/heap.py"
RNG = "sim/kernel/rng.py"
DEQUEUED_FIRST = """\
        dequeue(spec, state, lane, task)
        if header.in_flight == DROPPING:
            discard(spec, state, lane, task, header.dequeued_job, DROP)
        else:
            switch_cost = 0
            if header.in_flight == PREEMPTING:
                preempt(spec, state, lane, stream)
"""
"""A job is dequeued before the preempted one returns to its queue."""


MUTANTS = [
    # Random numbers
    Mutant("a shift of the mixer", RNG, "(z ^ (z >> U30))", "(z ^ (z >> U27))"),
    Mutant("splits share their keys", RNG, " + np.uint64(split) + GOLDEN", " + GOLDEN"),
    Mutant("the counter starts at 0", RNG, "(np.uint64(counter) + U1) * GOLDEN", "np.uint64(counter) * GOLDEN"),
    Mutant("uniform at the edge of its cell", RNG, ">> U12) + 0.5)", ">> U12) + 0.0)"),
    Mutant("normal from one number", RNG, "uniform(key, 2 * counter + 1)", "uniform(key, 2 * counter)"),
    Mutant("the next seed keeps 63 bits", RNG, ">> U2)", ">> U1)"),
    # The heap
    Mutant(
        "later times are not noticed", HEAP, "elif before == heap[lane, block]:", "elif before < heap[lane, block]:"
    ),
    Mutant(
        "a block's first slot counts twice",
        HEAP,
        "least = min(least, members[offset])",
        "least = min(least, members[0])",
    ),
    Mutant("the last slot of a block is not looked at", HEAP, "in range(1, BLOCK):", "in range(1, BLOCK - 1):"),
    Mutant("a block never gets later", HEAP, "        heap[lane, block] = least\n", "        pass\n"),
    Mutant("ties go to the highest slot", HEAP, "in range(BLOCK - 2, -1, -1):", "in range(BLOCK):", True),
    Mutant(
        "the lowest slot of a block is not found", HEAP, "in range(BLOCK - 2, -1, -1):", "in range(BLOCK - 2, 0, -1):"
    ),
    Mutant("only the first block is looked at", HEAP, "in range(1, heap.shape[1] // (1 + BLOCK)):", "in range(1, 1):"),
    # Order of events
    Mutant(
        "an effect comes before the horizon",
        SLOTS,
        "2 * spec.tasks.shape[0]\n\n\n@kernel\ndef effect_slot(spec):\n"
        '    """Return the event slot for the effect of a decision after the decision time."""\n'
        "    return horizon_slot(spec) + 1",
        "2 * spec.tasks.shape[0] + 1\n\n\n@kernel\ndef effect_slot(spec):\n    return horizon_slot(spec) - 1",
    ),
    Mutant(
        "a choice before the events of its instant",
        KERNEL,
        "if time > header.now and",
        "if time >= header.now and",
        True,
    ),
    # Releases
    Mutant("gaps are rounded down", QUEUES, "int(math.ceil(gap))", "int(math.floor(gap))"),
    Mutant("first spell by the other share", QUEUES, "share = task.burst_spell /", "share = task.calm_spell /"),
    Mutant("spells do not alternate", QUEUES, "task_state.burst = 1 - task_state.burst", "task_state.burst = 1"),
    Mutant("a spell ends as if begun at 0", QUEUES, "spell_end = time + draw_gap(", "spell_end = draw_gap("),
    Mutant("a silent source is sought for ever", QUEUES, " or time >= horizon:", ":"),
    Mutant(
        "the first period is skipped",
        QUEUES,
        "release = task.phase + task_state.released * task.period",
        "release = task.phase + (task_state.released + 1) * task.period",
    ),
    Mutant(
        "jitter is drawn once",
        QUEUES,
        "            task_state.draws += 1\n        return release",
        "        return release",
    ),
    Mutant(
        "a trace is read past its end",
        QUEUES,
        "[index] if index < task.trace_end",
        "[index] if index <= task.trace_end",
    ),
    Mutant(
        "a release at the horizon", QUEUES, "if time < spec.device[0].horizon:", "if time <= spec.device[0].horizon:"
    ),
    Mutant(
        "silent sources are not counted", QUEUES, "state.lanes[lane].exhausted += 1", "state.lanes[lane].exhausted += 0"
    ),
    Mutant("retry replaces think time", QUEUES, "max(closed.think, closed.retry)", "closed.retry"),
    Mutant(
        "a finish counts as a drop in a closed loop",
        STREAMS,
        "free_stream(spec, state, lane, stream, False)",
        "free_stream(spec, state, lane, stream, True)",
    ),
    Mutant("the last release is forgotten", KERNEL, "    counts.last_release = state.lanes[lane].now\n", ""),
    # Queues
    Mutant("a full ring wraps to its start", QUEUES, "position -= state.queue.shape[1]", "position = 0"),
    Mutant(
        "the ring has one place more",
        QUEUES,
        "if position >= state.queue.shape[1]:",
        "if position > state.queue.shape[1]:",
    ),
    Mutant(
        "the head runs out of the ring",
        QUEUES,
        "queue.head = position + 1 if position + 1 < state.queue.shape[1] else 0",
        "queue.head = position + 1",
    ),
    Mutant(
        "one job more may wait",
        KERNEL,
        "counts.length < spec.device[0].queue_limit",
        "counts.length <= spec.device[0].queue_limit",
    ),
    Mutant(
        "expiry one nanosecond late",
        QUEUES,
        "queue.head, task].release + spec.tasks[task].deadline",
        "queue.head, task].release + spec.tasks[task].deadline + 1",
    ),
    Mutant("the first job of a queue never expires", QUEUES, "if queue.length == 1:", "if queue.length == 2:"),
    Mutant(
        "the next job's expiry is not planned",
        QUEUES,
        "        queue.head = 0\n    follow_head(spec, state, lane, task)\n",
        "        queue.head = 0\n",
    ),
    Mutant(
        "dropped jobs weigh the same",
        QUEUES,
        "state.terms[lane, DROPS] += spec.tasks[task].weight",
        "state.terms[lane, DROPS] += 1.0",
    ),
    Mutant(
        "dropped jobs are not missed",
        QUEUES,
        "state.lanes[lane].missed += 1",
        "state.lanes[lane].missed += 0",
    ),
    # Runs and rates
    Mutant(
        "latency from the stream of arrivals",
        STREAMS,
        "normal(task_state.latency_key, job)",
        "normal(task_state.arrival_key, job)",
    ),
    Mutant(
        "the factor of the next job",
        STREAMS,
        "exponential(task_state.latency_key, job, 1.0)",
        "exponential(task_state.latency_key, job + 1, 1.0)",
    ),
    Mutant(
        "latency and arrivals share a stream",
        KERNEL,
        "stream_key(header.key, 2 + 2 * task)",
        "stream_key(header.key, 1 + 2 * task)",
    ),
    Mutant("two co-runners do not share", STREAMS, "state.lanes[lane].busy > 1", "state.lanes[lane].busy > 2"),
    Mutant("demands are counted, not added", STREAMS, "total += state.streams[lane, stream].demand", "total += 1.0"),
    Mutant(
        "rates above 1",
        STREAMS,
        "min(1.0, device.throughput * running.demand / total)",
        "device.throughput * running.demand / total",
    ),
    Mutant("finishes are never priced again", STREAMS, "if rate != running.rate:", "if running.rate == 0.0:", True),
    Mutant(
        "work done is not subtracted",
        STREAMS,
        "running.work = max(0.0, running.work - done)",
        "running.work = max(0.0, running.work)",
    ),
    Mutant(
        "expected work is not brought up to date",
        STREAMS,
        "running.expected = max(0.0, running.expected - done)",
        "running.expected = running.expected + 0.0 * done",
    ),
    Mutant("the time of the update is forgotten", STREAMS, "    running.updated = now\n", ""),
    Mutant("a run starts with the rate before it", STREAMS, "    running.rate = 0.0\n", ""),
    Mutant(
        "deadlines count from the start",
        STREAMS,
        "running.release = header.dequeued_release",
        "running.release = header.now",
    ),
    Mutant(
        "rates are not changed by a finish",
        STREAMS,
        "    remove_job(spec, state, lane, stream)\n    update_rates(spec, state, lane)\n",
        "    remove_job(spec, state, lane, stream)\n",
    ),
    Mutant("a finish at the deadline is late", STREAMS, "if tardiness <= 0:", "if tardiness < 0:", True),
    Mutant("lateness has no cap", STREAMS, "min(1.0, tardiness / deadline)", "(tardiness / deadline)"),
    Mutant("finished jobs are not counted", STREAMS, "    state.tasks[lane, task].finished += 1\n", ""),
    Mutant("finished jobs still run", STREAMS, "    counts.running -= 1\n", ""),
    Mutant("late jobs are not missed", STREAMS, "        header.missed += 1\n", ""),
    # Choices
    Mutant(
        "idle streams count as busy",
        KERNEL,
        "header.busy_time += header.busy * (time - header.now)",
        "header.busy_time += time - header.now",
    ),
    Mutant(
        "an effect is an event of the world",
        KERNEL,
        "    if slot == effect_slot(spec):\n",
        "    if slot == effect_slot(spec):\n        header.events += 1\n",
        True,
    ),
    Mutant("the end while a job runs", KERNEL, " and header.busy == 0", ""),
    Mutant(
        "the end when one source is silent", KERNEL, "header.exhausted == spec.tasks.shape[0]", "header.exhausted >= 1"
    ),
    Mutant("a wait parks no stream", KERNEL, "].parked = header.events", "].parked = header.events - 1"),
    Mutant("a wait is never stale", KERNEL, "valid = header.events == header.chosen_events", "valid = True", True),
    Mutant(
        "a dispatch takes the present head of the queue",
        KERNEL,
        "queue.head, header.chosen_task].index == header.chosen_job",
        "queue.head, header.chosen_task].index >= 0",
    ),
    Mutant(
        "variants beyond the ladder",
        KERNEL,
        "variant >= spec.tasks[task].variants:",
        "variant > spec.tasks[task].variants:",
    ),
    Mutant(
        "a wait is illegal",
        KERNEL,
        "header.in_flight == WAITING and action != device.first_drop + tasks",
        "header.in_flight == WAITING",
    ),
    Mutant("a choice takes a nanosecond", KERNEL, "header.now + spec.device[0].decision_time", "header.now + 1"),
    Mutant(
        "streams are asked by number, whatever their priority",
        KERNEL,
        " and spec.streams[stream].rank == rank:",
        ":",
    ),
    Mutant("parked streams are asked", KERNEL, " and candidate.parked != header.events and", " and"),
    Mutant(
        "two choices in flight", KERNEL, "header.waiting == 0 or header.in_flight != NOTHING:", "header.waiting == 0:"
    ),
    # Reward
    Mutant("utilisation since the beginning", KERNEL, "(header.busy_time - header.step_busy_time)", "header.busy_time"),
    Mutant("drops are a gain", KERNEL, "- device.drops * terms[DROPS]", "+ device.drops * terms[DROPS]"),
    Mutant(
        "what came before the first choice is lost", KERNEL, "if header.choices > 1:", "if header.choices >= 1:", True
    ),
    Mutant("steps begin at 0", KERNEL, "    header.step_began = header.now\n", ""),
    # Reset
    Mutant("draws go on after a reset", KERNEL, "        counts.draws = 0\n", ""),
    Mutant("events outlive a reset", KERNEL, "    clear(state.heap, lane)\n", ""),
    Mutant("waiting jobs outlive a reset", KERNEL, "    header.waiting = 0\n", ""),
    # Observation
    Mutant("time is taken for work", LOOKAHEAD, "(now - running.updated) * running.rate", "(now - running.updated)"),
    Mutant(
        "a pair at the inverse rate",
        LOOKAHEAD,
        "chosen.latency / my_rate, their_time",
        "chosen.latency * my_rate, their_time",
    ),
    Mutant("full rate beside a group", LOOKAHEAD, "mine.work -= first_time * mine.rate", "mine.work -= first_time"),
    Mutant("the first to finish stays", LOOKAHEAD, "            corunners[first].active = 0\n", ""),
    Mutant(
        "a lookahead leaves its traces", LOOKAHEAD, "    load_corunner(spec, state, lane, stream)\n    put(", "    put("
    ),
    Mutant(
        "the next release is the last",
        OBSERVATION,
        "counts.released * source.period",
        "(counts.released - 1) * source.period",
    ),
    Mutant("bursts have a memory", OBSERVATION, " or source.arrival == BURSTY:", ":"),
    Mutant("arrivals beyond the horizon", OBSERVATION, "min(max(gap, 0), spec.device[0].horizon - now)", "max(gap, 0)"),
    Mutant(
        "slack from time 0",
        OBSERVATION,
        "spec.tasks[task].deadline - state.lanes[lane].now",
        "spec.tasks[task].deadline",
    ),
    Mutant(
        "drop rows are not written",
        OBSERVATION,
        "        if form == RULE_ON_ALL:\n            put_timing(drop",
        "        if form != RULE_ON_ALL:\n            put_timing(drop",
    ),
    Mutant(
        "plain rules see no slack",
        OBSERVATION,
        "            rows[row_index][f.SLACK] = slack",
        "            rows[row_index][f.SLACK] = 0.0",
    ),
    Mutant(
        "remaining work is taken for time",
        OBSERVATION,
        "left /= running.rate if device.simple or state.runs[lane, stream].active else 1.0",
        "left /= 1.0",
    ),
    Mutant(
        "a task stops waiting with its first job",
        QUEUES,
        "if queue.length == (1 if change > 0 else 0):",
        "if change < 0 or queue.length == 1:",
    ),
    Mutant(
        "the backlog keeps what left it",
        QUEUES,
        "header.backlog += change * spec",
        "header.backlog += max(0, change) * spec",
    ),
    Mutant("the coin of the next choice", LANES, "header.choices - 1)", "header.choices)"),
    Mutant(
        "slower variants first",
        OBSERVATION,
        "listed] = row_index\n                    listed += 1\n        task",
        "listed] = (2 * task * variants + spec.tasks[task].variants - 1) - row_index\n"
        "                    listed += 1\n        task",
    ),
    Mutant(
        "only the first waiting task is listed",
        OBSERVATION,
        "            unlisted -= 1\n",
        "            unlisted = 0\n",
    ),
    Mutant(
        "drop rows in reverse",
        OBSERVATION,
        "buffer.legal[index, listed] = device.first_drop + task\n",
        "buffer.legal[index, listed] = device.first_drop + tasks - 1 - task\n",
    ),
    Mutant("the wait row forgets the soonest", OBSERVATION, "        if time < soonest:\n", "        if True:\n"),
    Mutant("the wait row takes the last of equals", OBSERVATION, "if time < soonest:", "if time <= soonest:"),
    Mutant(
        "the co-runner of a pair is not slowed down",
        LOOKAHEAD,
        "theirs = mine + max(0.0, work - mine * their_rate)",
        "theirs = mine + max(0.0, work - mine)",
    ),
    Mutant(
        "the margin of a pair is the newcomer's",
        LOOKAHEAD,
        "their_slack - np.ceil(theirs)",
        "their_slack - np.ceil(mine)",
    ),
    Mutant(
        "the margin of a group is its last",
        LOOKAHEAD,
        "margin = min(margin, slack_of(spec, state, lane, first) - np.ceil(elapsed))",
        "margin = slack_of(spec, state, lane, first) - np.ceil(elapsed)",
    ),
    Mutant("a finished newcomer still claims its share", LOOKAHEAD, "            mine.active = 0\n", ""),
    Mutant("the last of a group is not alone", RATES, "if running < 2 or", "if running < 1 or"),
    Mutant(
        "an undisturbed margin counts from now",
        LOOKAHEAD,
        "slack_of(spec, state, lane, stream) - left)",
        "slack_of(spec, state, lane, stream))",
    ),
    Mutant(
        "rows of idle tasks keep their slack", OBSERVATION, "            put_timing(rows[row_index], 0.0, 0.0)\n", ""
    ),
    Mutant("idle tasks still foresee", OBSERVATION, "            clear_corun_estimates(rows[row_index])\n", ""),
    Mutant(
        "all variants of a pair have the demand of the first",
        LOOKAHEAD,
        "if chosen.demand != demand:",
        "if demand < 0.0:",
    ),
    # What an agent sees is written only where it changed
    Mutant(
        "a release goes unseen",
        KERNEL,
        "    counts.released += 1\n    counts.stale = 1\n",
        "    counts.released += 1\n",
    ),
    Mutant(
        "a finish goes unseen", STREAMS, "    counts.running -= 1\n    counts.stale = 1\n", "    counts.running -= 1\n"
    ),
    Mutant(
        "a departure goes unseen",
        QUEUES,
        "    queue.length += change\n    queue.stale = 1\n",
        "    queue.length += change\n",
    ),
    Mutant(
        "a new episode shows the old one",
        KERNEL,
        "        counts.stale = 1\n        for variant",
        "        for variant",
    ),
    Mutant(
        "time stands still for those who wait",
        OBSERVATION,
        "if afresh or counts.length > 0 or (",
        "if afresh or (",
    ),
    Mutant(
        "an empty queue looks as before",
        OBSERVATION,
        "if afresh or counts.length > 0 or (counts.stale and buffer.mask[index, spec.device[0].first_drop + task]):",
        "if afresh or counts.length > 0:",
    ),
    # Rates on all kinds of devices
    Mutant(
        "a lower level may come to a halt",
        RATES,
        "max(least, min(1.0, left * corunners[stream].demand / total))",
        "min(1.0, left * corunners[stream].demand / total)",
    ),
    Mutant(
        "the highest level has a least rate too",
        RATES,
        "least = LEAST_RATE if rank > 0 else 0.0",
        "least = LEAST_RATE",
    ),
    Mutant("every level has the whole throughput", RATES, "        left = max(0.0, left - taken)\n", ""),
    Mutant(
        "a level takes what it demands", RATES, "taken += corunners[stream].rate", "taken += corunners[stream].demand"
    ),
    Mutant(
        "the demands of all levels are added",
        RATES,
        "if corunners[stream].active and spec.streams[stream].rank == rank:\n                total +=",
        "if corunners[stream].active:\n                total +=",
    ),
    Mutant("arithmetic sets no limit", RATES, "rate = min(rate, compute_left / compute)", "rate = min(rate, 1.0)"),
    Mutant("bandwidth sets no limit", RATES, "rate = min(rate, bandwidth_left / bandwidth)", "rate = min(rate, 1.0)"),
    Mutant(
        "every level has all the arithmetic",
        RATES,
        "        compute_left = max(0.0, compute_left - rate * compute)\n",
        "",
    ),
    Mutant(
        "slow jobs take all their bandwidth", RATES, "bandwidth_left - rate * bandwidth)", "bandwidth_left - bandwidth)"
    ),
    Mutant("a roofline without a least rate", RATES, "rate = max(LEAST_RATE, rate)", "rate = max(0.0, rate)"),
    Mutant(
        "the matrix is turned round",
        RATES,
        "spec.slowdowns[row, corunners[other].task * variants + corunners[other].variant]",
        "spec.slowdowns[corunners[other].task * variants + corunners[other].variant, row]",
        True,
    ),
    Mutant(
        "a job slows itself down",
        RATES,
        "if other != stream and corunners[other].active:",
        "if corunners[other].active:",
    ),
    Mutant("the last co-runner decides", RATES, "rate /= spec.slowdowns[", "rate = 1.0 / spec.slowdowns["),
    Mutant(
        "jobs in their set-up claim a share",
        STREAMS,
        "corunners[stream].active = state.runs[lane, stream].active",
        "corunners[stream].active = 1 if state.streams[lane, stream].task >= 0 else 0",
    ),
    # Set-ups and memory
    Mutant(
        "to take a stream costs nothing",
        KERNEL,
        "switch_cost = spec.device[0].switch_cost\n",
        "switch_cost = 0\n",
    ),
    Mutant("loading takes no time", STREAMS, "        setup += loading\n", ""),
    Mutant("weights come after the switch", STREAMS, "header.now + loading)", "header.now + switch_cost + loading)"),
    Mutant("a job runs from its start", STREAMS, "run.active = 1 if setup == 0 else 0", "run.active = 1"),
    Mutant(
        "a job that is ready changes no rates",
        STREAMS,
        "    running.updated = state.lanes[lane].now\n    update_rates(spec, state, lane)\n",
        "    running.updated = state.lanes[lane].now\n    set_rate(spec, state, lane, stream, 1.0)\n",
    ),
    Mutant(
        "weights in use do not count",
        MEMORY,
        "in_use + spec.variants[task, variant].memory <= limit",
        "spec.variants[task, variant].memory <= limit",
    ),
    Mutant(
        "weights that just fit do not",
        MEMORY,
        "spec.variants[task, variant].memory <= limit",
        "spec.variants[task, variant].memory < limit",
    ),
    Mutant(
        "weights that are there must fit again",
        MEMORY,
        "if limit == NEVER or state.weights[lane, task, spec.variants[task, variant].rank].resident:",
        "if limit == NEVER:",
    ),
    Mutant(
        "shared weights make room with one victim",
        MEMORY,
        "leaving.variant].rank].users == 1:",
        "leaving.variant].rank].users >= 1:",
    ),
    Mutant(
        "the weights of a victim make no room",
        MEMORY,
        "in_use -= spec.variants[leaving.task, leaving.variant].memory",
        "in_use -= 0",
    ),
    Mutant(
        "weights on their way are there",
        MEMORY,
        "return max(0, weights.ready - state.lanes[lane].now)",
        "return 0",
        True,
    ),
    Mutant(
        "weights are loaded for every job",
        MEMORY,
        "    if weights.resident:\n        return max(0, weights.ready - state.lanes[lane].now)\n",
        "",
    ),
    Mutant(
        "a full memory is too full",
        MEMORY,
        "header.memory_resident + size > spec.device[0].memory",
        "header.memory_resident + size >= spec.device[0].memory",
    ),
    Mutant(
        "shared weights count twice",
        MEMORY,
        "    if weights.users == 0:\n        header.memory_in_use += size\n",
        "    header.memory_in_use += size\n",
    ),
    Mutant(
        "shared weights are free with their first job",
        MEMORY,
        "    if weights.users == 0:\n        header.memory_in_use -= ",
        "    header.memory_in_use -= ",
    ),
    Mutant(
        "a job that leaves does not use its weights",
        MEMORY,
        "variant].memory\n    mark_used(header, weights)\n",
        "variant].memory\n",
    ),
    Mutant(
        "weights in use are evicted",
        MEMORY,
        "weights.resident and weights.users == 0 and older",
        "weights.resident and older",
    ),
    Mutant(
        "those used last make room",
        MEMORY,
        "weights.last_use < state.weights",
        "weights.last_use > state.weights",
        True,
    ),
    Mutant(
        "evicted weights keep their place",
        MEMORY,
        "    state.lanes[lane].memory_resident -= spec.variants[oldest_task, oldest_variant].memory\n",
        "",
    ),
    Mutant("weights outlive a reset", KERNEL, "            state.weights[lane, task, variant].resident = 0\n", ""),
    Mutant("memory outlives a reset", KERNEL, "    header.memory_resident = 0\n", ""),
    # Preemption
    Mutant("an interrupted job goes to the head", QUEUES, "after, task].index > job:", "after, task].index >= 0:"),
    Mutant(
        "what older jobs kept is left behind",
        QUEUES,
        "        copy_checkpoint(state.checkpoints[lane, after, task], state.checkpoints[lane, position, task])\n",
        "",
    ),
    Mutant(
        "a restart keeps its run",
        QUEUES,
        "checkpoint.variant = -1 if spec.device[0].preemption == RESTART else running.variant",
        "checkpoint.variant = running.variant",
    ),
    Mutant(
        "the stages behind are forgotten",
        QUEUES,
        "checkpoint.stage = state.runs[lane, stream].stage",
        "checkpoint.stage = 0",
    ),
    Mutant(
        "an interrupted run has all its work left",
        QUEUES,
        "checkpoint.work = running.work",
        "checkpoint.work = state.runs[lane, stream].total",
    ),
    Mutant(
        "an interrupted run is expected whole",
        QUEUES,
        "checkpoint.expected = running.expected",
        "checkpoint.expected = float(spec.variants[task, running.variant].latency)",
    ),
    Mutant(
        "the last stretch before an interruption is lost",
        STREAMS,
        "    update_progress(running, state.lanes[lane].now)\n    record_jobs(",
        "    record_jobs(",
    ),
    Mutant(
        "a new job finds what another kept",
        QUEUES,
        "        state.checkpoints[lane, position, task].variant = -1\n",
        "        pass\n",
    ),
    Mutant(
        "another variant goes on with the run",
        STREAMS,
        "header.dequeued_variant == variant:",
        "header.dequeued_variant >= 0:",
    ),
    Mutant("a run that goes on begins with stage 0", STREAMS, "        run.stage = header.dequeued_stage\n", ""),
    Mutant(
        "stages are parts of what is left",
        STREAMS,
        "        run.stage = header.dequeued_stage\n",
        "        run.stage = header.dequeued_stage\n        run.total = running.work\n",
    ),
    Mutant(
        "a job can be interrupted where it begins",
        STREAMS,
        "run.active == 1 and run.began < now",
        "run.active == 1 and run.began <= now",
    ),
    Mutant("every border stays open", STREAMS, "return run.boundary == now", "return run.boundary >= 0"),
    Mutant("a border outlives its run", STREAMS, "    run.boundary = -1\n", ""),
    Mutant(
        "borders lie where the work done is",
        STREAMS,
        "run.total * (stages - run.stage - 1) / stages",
        "run.total * (run.stage + 1) / stages",
    ),
    Mutant("a border leaves the work as it was", STREAMS, "    running.work = run.boundary_work\n", "", True),
    Mutant(
        "a border leaves the expected work of the stage",
        STREAMS,
        "chosen.latency * (chosen.stages - run.stage) / chosen.stages",
        "chosen.latency * (chosen.stages - run.stage + 1) / chosen.stages",
    ),
    Mutant(
        "a run takes as long as profiled", STREAMS, "chosen.actual * latency_factor", "chosen.latency * latency_factor"
    ),
    Mutant(
        "what is expected of a run is what it really takes",
        STREAMS,
        "    running.expected = chosen.latency\n",
        "    running.expected = chosen.actual\n",
    ),
    Mutant(
        "a border shows what the stages to come really take",
        STREAMS,
        "    running.expected = chosen.latency * (",
        "    running.expected = chosen.actual * (",
    ),
    Mutant("an arrival raises no alert", KERNEL, "    state.lanes[lane].alert = 1\n", "", True),
    Mutant("a border raises no alert", STREAMS, "    header.alert = 1\n", ""),
    Mutant("a wait leaves the alert up", KERNEL, "        header.alert = 0\n        if stream", "        if stream"),
    Mutant(
        "an alert without a victim stays up",
        KERNEL,
        "            if header.in_flight == NOTHING:\n                header.alert = 0\n",
        "",
    ),
    Mutant(
        "a choice in flight lowers the alert",
        KERNEL,
        "            if header.in_flight == NOTHING:\n                header.alert = 0\n",
        "            header.alert = 0\n",
    ),
    Mutant(
        "the device is asked for ever",
        KERNEL,
        " and header.alert and header.busy == device.streams:",
        " and header.busy == device.streams:",
    ),
    Mutant(
        "a preemption of a job that is gone",
        KERNEL,
        "valid and victim.task == header.victim_task and victim.job",
        "valid and victim.job",
    ),
    Mutant(
        "a job takes the stream from itself",
        KERNEL,
        DEQUEUED_FIRST,
        "        if header.in_flight == PREEMPTING:\n            preempt(spec, state, lane, stream)\n"
        + DEQUEUED_FIRST.replace("                preempt(spec, state, lane, stream)\n", ""),
    ),
    Mutant("an expiry in the past", QUEUES, "time = max(deadline, state.lanes[lane].now)", "time = deadline"),
    Mutant(
        "the device dispatches",
        KERNEL,
        "state.lanes[lane].asked < device.streams\n        and state.tasks",
        "state.tasks",
    ),
    Mutant("a dispatch need not fit", KERNEL, " and weights_fit(spec, state, lane, task, variant, np.int64(-1))", ""),
    Mutant(
        "a preemption need not fit", KERNEL, "        and weights_fit(spec, state, lane, task, variant, stream)\n", ""
    ),
    Mutant(
        "any job can be interrupted",
        KERNEL,
        "        and is_preemptible(spec, state, lane, stream)\n",
        "        and state.streams[lane, stream].task >= 0\n",
    ),
    Mutant(
        "preempt rows in the reverse order of streams",
        KERNEL,
        "stream = (action - tasks * variants) - pair * device.streams",
        "stream = (pair + 1) * device.streams - 1 - (action - tasks * variants)",
    ),
    # Power
    Mutant(
        "the device draws nothing for itself",
        STREAMS,
        "    power = spec.device[0].idle_power\n    for",
        "    power = 0.0\n    for",
    ),
    Mutant(
        "a start leaves the power as it was",
        STREAMS,
        "    if not device.simple:\n        update_power(spec, state, lane)\n",
        "",
    ),
    Mutant(
        "a finish leaves the power as it was",
        STREAMS,
        "    if not spec.device[0].simple:\n        update_power(spec, state, lane)\n",
        "",
    ),
    Mutant(
        "energy since the beginning",
        KERNEL,
        "terms[ENERGY] = header.joules - header.step_joules",
        "terms[ENERGY] = header.joules",
        True,
    ),
    Mutant("energy is a gain", KERNEL, "- device.energy * terms[ENERGY]", "+ device.energy * terms[ENERGY]"),
    Mutant("power outlives a reset", KERNEL, "    header.power = spec.device[0].idle_power\n", ""),
    Mutant("energy outlives a reset", KERNEL, "    header.joules = 0.0\n", ""),
    # What is seen of all this
    Mutant(
        "preempt rows of slower variants are not counted",
        OBSERVATION,
        "range(first, first + spec.tasks[task].variants * device.streams):\n            put_counts",
        "range(first, first + device.streams):\n            put_counts",
    ),
    Mutant(
        "a victim's slack is what it has left to do",
        OBSERVATION,
        "f.VICTIM_SLACK, slack_of(spec, state, lane, stream))",
        "f.VICTIM_SLACK, expected_remaining(spec, state, lane, stream))",
    ),
    Mutant(
        "a victim is as it was when last updated",
        OBSERVATION,
        "f.VICTIM_LEFT, expected_remaining(spec, state, lane, stream))",
        "f.VICTIM_LEFT, state.streams[lane, stream].expected)",
    ),
    Mutant(
        "a victim weighs what the other does",
        OBSERVATION,
        "spec.tasks[victim.task].weight",
        "spec.tasks[task].weight",
    ),
    Mutant(
        "victims are still shown when gone",
        OBSERVATION,
        "        clear_victim(row)\n",
        "        pass\n",
    ),
    Mutant(
        "progress is what is left", OBSERVATION, "progress = 1.0 - expected / latency", "progress = expected / latency"
    ),
    Mutant(
        "the cost of a preemption is not shown",
        OBSERVATION,
        "variant, spec.device[0].switch_cost, row, image)",
        "variant, 0, row, image)",
    ),
    Mutant(
        "the cost of a preemption is not foreseen",
        OBSERVATION,
        "stream, spec.device[0].switch_cost, row, image)",
        "stream, 0, row, image)",
    ),
    Mutant(
        "load times are not shown",
        OBSERVATION,
        "            setup += loading_time(spec, state, lane, task, variant)\n",
        "",
    ),
    Mutant(
        "load times are not foreseen",
        LOOKAHEAD,
        "        setup += loading_time(spec, state, lane, task, variant)",
        "        setup += 0",
    ),
    Mutant(
        "all weights are shown as there",
        OBSERVATION,
        "resident = state.weights[lane, task, spec.variants[task, variant].rank].resident",
        "resident = 1",
    ),
    Mutant("rows of idle tasks have a priority", OBSERVATION, ".priority if waits and 0 <=", ".priority if 0 <="),
    Mutant(
        "weights not in use count as free",
        OBSERVATION,
        "(device.memory - header.memory_resident)",
        "(device.memory - header.memory_in_use)",
    ),
    Mutant(
        "the power of the idle device is shown",
        OBSERVATION,
        "put(row, image, f.POWER, header.power)",
        "put(row, image, f.POWER, device.idle_power)",
    ),
    Mutant(
        "preempt rows that are not allowed are listed",
        OBSERVATION,
        "                if may_preempt(spec, state, lane, task, variant, stream):",
        "                if is_preemptible(spec, state, lane, stream):",
    ),
    Mutant(
        "dispatch rows that are not allowed are listed",
        OBSERVATION,
        "if device.simple or buffer.mask[index, row_index]:",
        "if True:",
    ),
    Mutant(
        "a victim runs beside the job",
        LOOKAHEAD,
        "busy - (1 if state.streams[lane, stream].task >= 0 else 0)",
        "busy",
        True,
    ),
    Mutant("a victim counts in the margin", LOOKAHEAD, "if stream != excluded and state", "if state"),
    Mutant(
        "a run that goes on is foreseen whole",
        LOOKAHEAD,
        "return state.checkpoints[lane, state.tasks[lane, task].head, task].expected",
        "pass",
    ),
    Mutant(
        "set-ups are foreseen as over",
        LOOKAHEAD,
        "return (state.runs[lane, stream].began - now) + running.expected",
        "return running.expected",
    ),
    Mutant("the end of a run alone is not rounded", LOOKAHEAD, "setup + np.ceil(work)", "setup + work"),
    Mutant("the end in a group is not rounded", LOOKAHEAD, "setup + np.ceil(end)", "setup + end"),
    # Batches
    Mutant(
        "only the oldest job of a batch finishes",
        STREAMS,
        "for number in range(spec.variants[running.task, running.variant].jobs):\n            count_finish",
        "for number in range(1):\n            count_finish",
    ),
    Mutant(
        "all jobs of a batch have the deadline of the oldest",
        STREAMS,
        "state.members[lane, stream, number].release)",
        "running.release)",
    ),
    Mutant(
        "a batch starts with too few jobs",
        KERNEL,
        "        and state.tasks[lane, task].length >= spec.variants[task, variant].jobs\n        and weights_fit",
        "        and weights_fit",
    ),
    Mutant(
        "a batch takes a stream with too few jobs",
        KERNEL,
        "        and state.tasks[lane, task].length >= spec.variants[task, variant].jobs\n        and is_preemptible",
        "        and is_preemptible",
    ),
    Mutant(
        "a batch counts as one running job",
        STREAMS,
        "        state.tasks[lane, task].running += chosen.jobs - 1\n",
        "",
    ),
    Mutant(
        "a batch leaves as one running job",
        STREAMS,
        "        counts.running -= spec.variants[running.task, running.variant].jobs - 1\n",
        "",
    ),
    Mutant(
        "a batch is logged as a variant of its own",
        STREAMS,
        "        rank = spec.variants[running.task, running.variant].rank\n",
        "        rank = running.variant\n",
    ),
    Mutant("the last job of a batch leads it", QUEUES, "    header.dequeued_job = members[0].index\n", ""),
    Mutant("a batch goes on with other jobs", QUEUES, " or checkpoint.lead != lead:", ":"),
    Mutant("an interrupted batch begins again", QUEUES, "checkpoint.lead = running.job", "checkpoint.lead = job"),
    Mutant(
        "an interrupted batch weighs as one job", OBSERVATION, " * spec.variants[victim.task, victim.variant].jobs", ""
    ),
    Mutant(
        "the wait for a fuller batch is a nanosecond longer",
        QUEUES,
        "queue.head, task].release + fill,",
        "queue.head, task].release + fill + 1,",
    ),
    Mutant(
        "the next job is not waited with",
        QUEUES,
        "    if spec.device[0].batches:\n        schedule_fill(spec, state, lane, task)\n",
        "    if spec.device[0].batches and state.tasks[lane, task].length == 1:\n"
        "        schedule_fill(spec, state, lane, task)\n",
    ),
]
