"""Small mistakes that could have been made in the serving kernel: the comparison with the reference must notice each.

A mutant that no longer applies (its old text is gone) makes a test fail, so the list follows the code.
"""

from __future__ import annotations

from tests.mutation import Mutant

BATCHING = "families/serving/kernel/batching.py"
DEMAND = "families/serving/kernel/demand.py"
DEPLOYMENT = "families/serving/kernel/deployment.py"
KERNEL = "families/serving/kernel/events.py"
OBSERVATION = "families/serving/kernel/observation.py"
PROTEUS = "families/serving/kernel/compat.py"
QUEUES = "families/serving/kernel/queues.py"
ROUTING = "families/serving/kernel/routing.py"

MUTANTS = [
    # Requests
    Mutant("gaps are drawn twice as often", DEMAND, "uniform(own.gap_key, own.arrived)", "uniform(own.gap_key, 0)"),
    Mutant("a rate is used before its segment", DEMAND, "if gap <= capacity and rate", "if gap < capacity and rate"),
    Mutant(
        "segments forget what was left of a gap",
        DEMAND,
        "        gap -= capacity\n",
        "        gap -= 0.0\n",
        quick=True,
    ),
    Mutant("the last segment does not end", DEMAND, ", source.end)", ", 2.0 * source.end)"),
    Mutant(
        "gamma numbers below 1 are not boosted",
        DEMAND,
        "    if shape < 1.0:\n        value",
        "    if shape < 0.0:\n        value",
    ),
    Mutant("a gamma number is accepted too easily", DEMAND, "0.5 * x * x + d", "0.6 * x * x + d"),
    Mutant("a sample is not emptied", DEMAND, "        own.sampled = 0\n", "        own.sampled += 0\n"),
    Mutant(
        "old samples weigh too much",
        DEMAND,
        "own.weight = 1.0 + (1.0 - a) * own.weight",
        "own.weight = 1.0 + own.weight",
    ),
    Mutant("the trend is not looked ahead", DEMAND, "own.weight * machine.ahead", "own.weight"),
    Mutant("deviation is not added", DEMAND, "ahead + machine.margin * own.deviation", "ahead"),
    # Routing
    Mutant("what waits is forgotten", ROUTING, "own.variant, own.queued + 1]", "own.variant, 1]", quick=True),
    Mutant("full batches ahead are forgotten", ROUTING, "ready + full * whole", "ready + whole"),
    Mutant("ties go to the last replica", ROUTING, "if finish < least:", "if finish <= least:"),
    Mutant("latest finish misses the deadline", ROUTING, "finish <= deadline and", "finish <= deadline + 5000000 and"),
    Mutant("infaas prefers the loaded", ROUTING, "load < best_load)", "load > best_load)"),
    Mutant("infaas ignores accuracy", ROUTING, "accuracy > best_accuracy or", "accuracy > 1000.0 or"),
    Mutant("round robin stays where it is", ROUTING, "    own.routed += 1\n", "    own.routed += 0\n"),
    Mutant("weights are all the same", ROUTING, "        if total > target:", "        if total >= 0.0:"),
    # Queues
    Mutant("one more than fits", DEPLOYMENT, "own.running + own.queued >= spec", "own.running + own.queued > spec"),
    Mutant(
        "running requests do not count against the queue limit",
        DEPLOYMENT,
        "if own.running + own.queued",
        "if own.queued",
    ),
    Mutant(
        "what leaves is not counted",
        QUEUES,
        "    state.lanes[lane].waiting -= requests\n",
        "    state.lanes[lane].waiting -= 0\n",
    ),
    Mutant(
        "service factors do not depend on the request",
        QUEUES,
        "-math.log(uniform(key, number))",
        "-math.log(uniform(key, 0))",
    ),
    Mutant(
        "expected ends are known beforehand",
        QUEUES,
        "own.ready = header.now + expected",
        "own.ready = header.now + duration",
    ),
    # Batching
    Mutant(
        "hopeless requests are tried",
        BATCHING,
        "spec.service[own.kind, own.variant, 1] > head.deadline",
        "0 > head.deadline",
    ),
    Mutant(
        "no head is dropped for a whole batch",
        BATCHING,
        "size = own.largest if own.queued > own.largest else 1",
        "size = 1",
    ),
    Mutant(
        "a head is dropped though all fit one batch",
        BATCHING,
        "if own.queued > own.largest else 1",
        "if own.queued >= own.largest else 1",
    ),
    Mutant(
        "a request that just makes it is given up",
        BATCHING,
        "own.variant, 1] > head",
        "own.variant, 1] >= head",
        quick=True,
    ),
    Mutant("expired a moment early", BATCHING, "dropped = now > head.deadline", "dropped = now >= head.deadline"),
    Mutant("twice the deadline is once", BATCHING, "head.arrival + 2 * (head", "head.arrival + 1 * (head"),
    Mutant(
        "batches as small as can be", BATCHING, "size * best_time >= best * time", "size * best_time > 2 * best * time"
    ),
    Mutant(
        "deadlines of the others do not count", BATCHING, "        while checked < size:", "        while checked < 1:"
    ),
    Mutant(
        "nexus plans like accscale",
        BATCHING,
        "planned = size if machine.batching == ACCSCALE else own.largest",
        "planned = size",
    ),
    Mutant("a full batch waits", BATCHING, "elif own.queued >= own.largest:", "elif own.queued > own.largest:"),
    Mutant("the limit never falls", BATCHING, "            own.limit -= 1\n", "            own.limit -= 0\n"),
    Mutant("the limit rises after small batches", BATCHING, "elif own.running == spec.sizes[own.limit] and", "elif"),
    # The rules of Proteus
    Mutant("alarms expire in any order", PROTEUS, "index].time <= state.alarms", "index].time > state.alarms"),
    Mutant("the older alarm expires first", PROTEUS, "index].time <= state.alarms", "index].time < state.alarms"),
    Mutant("stale alarms count", PROTEUS, "head.number != number or head.alarm != time", "head.number != number"),
    Mutant(
        "an alarm while busy is lost",
        PROTEUS,
        "            own.alarm_pending = 1\n",
        "            own.alarm_pending = 0\n",
        quick=True,
    ),
    Mutant("the alarm flag stays", PROTEUS, "        own.alarm_set = 0\n", "        own.alarm_set += 0\n"),
    Mutant("late requests stay", PROTEUS, "request.arrival + 2 * (request", "request.arrival + 3 * (request"),
    Mutant("a small batch is quick", PROTEUS, "accelerator, requests, size)", "accelerator, requests, requests)"),
    Mutant(
        "the last one alone is quick",
        PROTEUS,
        "if requests > 0 else spec.sizes[spec.machine[0].sizes - 1]",
        "if requests > 0 else 1",
    ),
    Mutant(
        "no head alarm is set after a batch began",
        PROTEUS,
        "    if spec.machine[0].batching == ACCSCALE:\n        set_head_alarm",
        "    if spec.machine[0].batching == 99:\n        set_head_alarm",
    ),
    # Deployment
    Mutant("any free accelerator will do", DEPLOYMENT, "if own.holds == source.variant:", "if own.holds == -5:"),
    Mutant("a load does not count", DEPLOYMENT, "    header.switched += 1\n", "    header.switched += 0\n"),
    Mutant(
        "weights come at once",
        DEPLOYMENT,
        "    own.loading = 1\n    own.holds = -1\n    if own.busy",
        "    own.loading = 0\n    own.holds = -1\n    if own.busy",
        quick=True,
    ),
    Mutant(
        "the fullest is freed",
        DEPLOYMENT,
        "own.queued <= state.accelerators[lane, best].queued",
        "own.queued > state.accelerators[lane, best].queued",
    ),
    Mutant("the first is freed", DEPLOYMENT, "or own.queued <= state", "or own.queued < state"),
    Mutant(
        "a load that was given up leaves weights",
        DEPLOYMENT,
        "        own.loading = 0\n        own.holds = -1\n        if own.busy",
        "        own.loading = 0\n        own.holds = own.variant\n        if own.busy",
    ),
    Mutant(
        "a load that was given up still ends",
        DEPLOYMENT,
        "            schedule(state.heap, lane, accelerator, NEVER)\n    requests",
        "            pass\n    requests",
    ),
    Mutant("the limit is kept", DEPLOYMENT, "    own.limit = 0\n", "    own.limit += 0\n"),
    Mutant(
        "timers outlive their variant",
        DEPLOYMENT,
        "timer_slot(spec, accelerator), NEVER)",
        "timer_slot(spec, accelerator), 10**15)",
    ),
    # Events and choices
    Mutant(
        "late is on time",
        KERNEL,
        "        if now <= request.deadline:",
        "        if now <= request.deadline + 1000000:",
    ),
    Mutant(
        "at the deadline is late",
        KERNEL,
        "        if now <= request.deadline:",
        "        if now < request.deadline:",
        quick=True,
    ),
    Mutant(
        "open requests do not count", KERNEL, "for _ in range(state.models[lane, model].queued):", "for _ in range(0):"
    ),
    Mutant("moves are not counted", KERNEL, "        header.moves -= 1\n", "        header.moves -= 0\n"),
    Mutant("what was offered is never forgotten", KERNEL, "].offered = 0\n", "].offered += 0\n"),
    Mutant("switches cost nothing", KERNEL, "+ machine.switches * header.switched", "+ 0.0 * header.switched"),
    Mutant(
        "plans go on after the last request",
        KERNEL,
        "            schedule(state.heap, lane, plan_slot(spec), NEVER)\n\n\n@kernel\ndef arrive",
        "            pass\n\n\n@kernel\ndef arrive",
    ),
    Mutant(
        "a load is skipped after a batch",
        KERNEL,
        "        if own.loading:\n            begin_load",
        "        if own.loading > 1:\n            begin_load",
    ),
    # Rows
    Mutant(
        "slack forgets the finish",
        OBSERVATION,
        "header.pending_deadline - finish)",
        "header.pending_deadline - header.now)",
    ),
    Mutant(
        "loading is not shown", OBSERVATION, "own.column == column and own.loading", "own.column == column and own.busy"
    ),
    Mutant("capacity is that of one", OBSERVATION, "        total += spec.columns", "        total = spec.columns"),
    Mutant("the coin is not tossed again", OBSERVATION, "toss_coin(header)", "0.5"),
    Mutant(
        "rows of former replicas stay",
        OBSERVATION,
        "        clear_rows(buffer, slot, replicas, buffer",
        "        clear_rows(buffer, slot, 99, buffer",
    ),
]
