"""Small mistakes that could have been made in the kernel: each must be noticed by the comparison with the reference.

A mutant that no longer applies (its old text is gone) makes a test fail, so the list follows the code.
"""

from __future__ import annotations

from dataclasses import dataclass

KERNEL = "edge/kernel.py"
OBSERVATION = "edge/observation.py"
HEAP = "core/heap.py"
RNG = "core/rng.py"


@dataclass(frozen=True)
class Mutant:
    """One mistake: in `file` the text `old` (which occurs once) becomes `new`."""

    why: str
    file: str
    old: str
    new: str
    quick: bool = False
    """Whether it is also tried in the fast suite."""


MUTANTS = [
    # Random numbers
    Mutant("a shift of the mixer", RNG, "(z ^ (z >> U30))", "(z ^ (z >> U27))"),
    Mutant("namespaces share their keys", RNG, " + np.uint64(namespace) + GOLDEN", " + GOLDEN"),
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
        "least = min(least, members[place])",
        "least = min(least, members[0])",
    ),
    Mutant("the last slot of a block is not looked at", HEAP, "in range(1, BLOCK):", "in range(1, BLOCK - 1):"),
    Mutant("a block never gets later", HEAP, "        heap[lane, block] = least\n", "        pass\n"),
    Mutant(
        "ties go to the highest slot",
        HEAP,
        "    slot = block * BLOCK\n    while heap[lane, blocks + slot] != time:\n        slot += 1",
        "    slot = block * BLOCK + BLOCK - 1\n    while heap[lane, blocks + slot] != time:\n        slot -= 1",
        True,
    ),
    Mutant("only the first block is looked at", HEAP, "in range(1, heap.shape[1] // (1 + BLOCK)):", "in range(1, 1):"),
    # Order of events
    Mutant(
        "an effect comes before the horizon",
        KERNEL,
        "2 * spec.tasks.shape[0]\n\n\n@kernel\ndef effect_slot(spec):\n    return horizon_slot(spec) + 1",
        "2 * spec.tasks.shape[0] + 1\n\n\n@kernel\ndef effect_slot(spec):\n    return horizon_slot(spec) - 1",
    ),
    Mutant(
        "a choice before the events of its instant", KERNEL, "if time > header.now:", "if time >= header.now:", True
    ),
    # Releases
    Mutant("gaps are rounded down", KERNEL, "int(math.ceil(gap))", "int(math.floor(gap))"),
    Mutant("first spell by the other share", KERNEL, "share = task.burst_spell /", "share = task.calm_spell /"),
    Mutant("spells do not alternate", KERNEL, "task_state.burst = 1 - task_state.burst", "task_state.burst = 1"),
    Mutant("a spell ends as if begun at 0", KERNEL, "spell_end = time + draw_gap(", "spell_end = draw_gap("),
    Mutant("a silent source is sought for ever", KERNEL, " or time >= horizon:", ":"),
    Mutant(
        "the first period is skipped",
        KERNEL,
        "release = task.phase + task_state.released * task.period",
        "release = task.phase + (task_state.released + 1) * task.period",
    ),
    Mutant(
        "jitter is drawn once",
        KERNEL,
        "            task_state.draws += 1\n        return release",
        "        return release",
    ),
    Mutant("a trace is read past its end", KERNEL, "place < task.trace_end", "place <= task.trace_end"),
    Mutant(
        "a release at the horizon", KERNEL, "if time < spec.device[0].horizon:", "if time <= spec.device[0].horizon:"
    ),
    Mutant("silent sources are not counted", KERNEL, "state.lanes[lane].silent += 1", "state.lanes[lane].silent += 0"),
    Mutant("retry replaces think time", KERNEL, "max(closed.think, closed.retry)", "closed.retry"),
    Mutant(
        "a finish counts as a drop in a closed loop",
        KERNEL,
        "release_after(spec, state, lane, task, False)",
        "release_after(spec, state, lane, task, True)",
    ),
    Mutant("the last release is forgotten", KERNEL, "    counts.last_release = state.lanes[lane].now\n", ""),
    # Queues
    Mutant("a full ring wraps to its start", KERNEL, "place -= state.queue.shape[2]", "place = 0"),
    Mutant(
        "the ring has one place more", KERNEL, "if place >= state.queue.shape[2]:", "if place > state.queue.shape[2]:"
    ),
    Mutant("the head runs out of the ring", KERNEL, " if place + 1 < state.queue.shape[2] else 0", ""),
    Mutant(
        "one job more may wait",
        KERNEL,
        "counts.length < spec.device[0].queue_limit",
        "counts.length <= spec.device[0].queue_limit",
    ),
    Mutant(
        "expiry one nanosecond late",
        KERNEL,
        "queue.head].release + spec.tasks[task].deadline",
        "queue.head].release + spec.tasks[task].deadline + 1",
    ),
    Mutant("the first job of a queue never expires", KERNEL, "if queue.length == 1:", "if queue.length == 2:"),
    Mutant(
        "the next job's expiry is not planned",
        KERNEL,
        "    schedule_expiry(spec, state, lane, task)\n    return place",
        "    return place",
    ),
    Mutant(
        "dropped jobs weigh the same",
        KERNEL,
        "state.terms[lane, DROPS] += spec.tasks[task].weight",
        "state.terms[lane, DROPS] += 1.0",
    ),
    Mutant(
        "dropped jobs are not missed",
        KERNEL,
        "state.lanes[lane].missed += 1",
        "state.lanes[lane].missed += 0",
    ),
    # Runs and rates
    Mutant(
        "latency from the stream of arrivals",
        KERNEL,
        "normal(task_state.latency_key, job)",
        "normal(task_state.arrival_key, job)",
    ),
    Mutant(
        "the factor of the next job",
        KERNEL,
        "exponential(task_state.latency_key, job, 1.0)",
        "exponential(task_state.latency_key, job + 1, 1.0)",
    ),
    Mutant(
        "latency and arrivals share a stream",
        KERNEL,
        "stream_key(header.key, 2 + 2 * task)",
        "stream_key(header.key, 1 + 2 * task)",
    ),
    Mutant("two co-runners do not share", KERNEL, "header.busy > 1", "header.busy > 2"),
    Mutant("demands are counted, not added", KERNEL, "total += state.streams[lane, stream].demand", "total += 1.0"),
    Mutant(
        "rates above 1",
        KERNEL,
        "min(1.0, device.throughput * running.demand / total)",
        "device.throughput * running.demand / total",
    ),
    Mutant("finishes are never priced again", KERNEL, "if rate != running.rate:", "if running.rate == 0.0:", True),
    Mutant(
        "work done is not subtracted",
        KERNEL,
        "running.work = max(0.0, running.work - done)",
        "running.work = max(0.0, running.work)",
    ),
    Mutant(
        "expected work is not brought up to date",
        KERNEL,
        "running.expected = max(0.0, running.expected - done)",
        "running.expected = running.expected + 0.0 * done",
    ),
    Mutant(
        "the time of the update is forgotten",
        KERNEL,
        "            running.updated = header.now\n            running.rate = rate",
        "            running.rate = rate",
    ),
    Mutant("a run starts with the rate before it", KERNEL, "    running.rate = 0.0\n", ""),
    Mutant("deadlines count from the start", KERNEL, "running.release = job.release", "running.release = header.now"),
    Mutant(
        "rates are not changed by a finish",
        KERNEL,
        "    schedule(state.heap, lane, stream, NEVER)\n    update_rates(spec, state, lane)\n",
        "    schedule(state.heap, lane, stream, NEVER)\n",
    ),
    Mutant("a finish at the deadline is late", KERNEL, "if tardiness <= 0:", "if tardiness < 0:", True),
    Mutant("lateness has no cap", KERNEL, "min(1.0, tardiness / deadline)", "(tardiness / deadline)"),
    Mutant("finished jobs are not counted", KERNEL, "    counts.finished += 1\n", ""),
    Mutant("finished jobs still run", KERNEL, "    counts.running -= 1\n", ""),
    Mutant("late jobs are not missed", KERNEL, "        header.missed += 1\n", ""),
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
    Mutant("the end when one source is silent", KERNEL, "header.silent == spec.tasks.shape[0]", "header.silent >= 1"),
    Mutant("a wait parks nobody", KERNEL, "].parked = header.events", "].parked = header.events - 1"),
    Mutant("a wait is never stale", KERNEL, "fresh = header.events == header.chosen_events", "fresh = True", True),
    Mutant(
        "a dispatch takes whoever is first now",
        KERNEL,
        "queue.head].index == header.chosen_job",
        "queue.head].index >= 0",
    ),
    Mutant(
        "variants beyond the ladder",
        KERNEL,
        "variant < spec.tasks[task].variants:",
        "variant <= spec.tasks[task].variants:",
    ),
    Mutant(
        "a wait is illegal", KERNEL, "header.in_flight == WAITING and action != wait", "header.in_flight == WAITING"
    ),
    Mutant("a choice takes a nanosecond", KERNEL, "header.now + spec.device[0].decision_time", "header.now + 1"),
    Mutant("parked streams are asked", KERNEL, " and candidate.parked != header.events:", ":"),
    Mutant("two choices in flight", KERNEL, " and header.in_flight == NOTHING:", ":"),
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
    Mutant(
        "time is taken for work",
        OBSERVATION,
        "(state.lanes[lane].now - running.updated) * running.rate",
        "(state.lanes[lane].now - running.updated)",
    ),
    Mutant(
        "a pair at the inverse rate",
        OBSERVATION,
        "chosen.latency / my_rate, their_time",
        "chosen.latency * my_rate, their_time",
    ),
    Mutant("full rate beside a group", OBSERVATION, "work -= first_time * my_rate", "work -= first_time"),
    Mutant(
        "less than nothing left",
        OBSERVATION,
        "max(0.0, state.probe[lane, stream] - first_time * rate)",
        "state.probe[lane, stream] - first_time * rate",
    ),
    Mutant("the first to finish stays", OBSERVATION, "        state.probe[lane, first] = -1.0\n", ""),
    Mutant(
        "a probe is not restored",
        OBSERVATION,
        "        mine = elapsed + work\n    probe_streams(spec, state, lane)\n",
        "        mine = elapsed + work\n",
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
        "        if not dispatch_only:\n            put(drop, image, f.SLACK",
        "        if dispatch_only:\n            put(drop, image, f.SLACK",
    ),
    Mutant(
        "remaining work is taken for time",
        OBSERVATION,
        "left = state.probe[lane, stream] / state.streams[lane, stream].rate",
        "left = state.probe[lane, stream]",
    ),
    Mutant(
        "a task stops waiting with its first job",
        KERNEL,
        "        queue.head = 0\n        state.lanes[lane].waiting_tasks -= 1\n",
        "        queue.head = 0\n    state.lanes[lane].waiting_tasks -= 1\n",
    ),
    Mutant(
        "the backlog keeps what left it",
        KERNEL,
        "    state.lanes[lane].backlog -= spec.tasks[task].fastest\n",
        "",
    ),
    Mutant("the coin of the next choice", OBSERVATION, "header.choices - 1)", "header.choices)"),
    Mutant(
        "slower variants first",
        OBSERVATION,
        "sheet.legal[slot, listed] = task * variants + variant",
        "sheet.legal[slot, listed] = task * variants + spec.tasks[task].variants - 1 - variant",
    ),
    Mutant(
        "drop rows in reverse",
        OBSERVATION,
        "sheet.legal[slot, listed] = tasks * variants + task\n",
        "sheet.legal[slot, listed] = tasks * variants + tasks - 1 - task\n",
    ),
    Mutant("the wait row forgets the soonest", OBSERVATION, "        if time < soonest:\n", "        if True:\n"),
    Mutant("the wait row takes the last of equals", OBSERVATION, "if time < soonest:", "if time <= soonest:"),
    Mutant(
        "the co-runner of a pair is not slowed down",
        OBSERVATION,
        "theirs = mine + max(0.0, work - mine * their_rate)",
        "theirs = mine + max(0.0, work - mine)",
    ),
    Mutant(
        "the margin of a pair is the newcomer's",
        OBSERVATION,
        "slack - np.ceil(theirs)",
        "slack - np.ceil(mine)",
    ),
    Mutant(
        "the margin of a group is its last",
        OBSERVATION,
        "margin = min(margin, slack_of(spec, state, lane, first) - np.ceil(elapsed))",
        "margin = slack_of(spec, state, lane, first) - np.ceil(elapsed)",
    ),
    Mutant(
        "a finished newcomer still claims its share",
        OBSERVATION,
        "chosen.demand if mine < 0.0 else 0.0",
        "chosen.demand",
    ),
    Mutant("the last of a group is not alone", OBSERVATION, "return total if count > 1 else 0.0", "return total"),
    Mutant(
        "an undisturbed margin counts from now",
        OBSERVATION,
        "slack_of(spec, state, lane, stream) - np.ceil(state.probe[lane, stream]))",
        "slack_of(spec, state, lane, stream))",
    ),
    Mutant("rows of idle tasks keep their slack", OBSERVATION, "            rows[place, f.SLACK] = 0.0\n", ""),
    Mutant("idle tasks still foresee", OBSERVATION, "            rows[place, f.CORUN_MARGIN] = 0.0\n", ""),
    Mutant(
        "all rungs of a pair have the demand of the first",
        OBSERVATION,
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
        "a finish goes unseen", KERNEL, "    counts.running -= 1\n    counts.stale = 1\n", "    counts.running -= 1\n"
    ),
    Mutant(
        "a departure goes unseen", KERNEL, "    queue.length -= 1\n    queue.stale = 1\n", "    queue.length -= 1\n"
    ),
    Mutant("a new episode shows the old one", KERNEL, "        counts.stale = 1\n        if spec", "        if spec"),
    Mutant(
        "time stands still for those who wait",
        OBSERVATION,
        "if afresh or counts.stale or counts.length > 0:",
        "if afresh or counts.stale:",
    ),
]
