"""Small mistakes that could have been made in the dag kernel: the comparison with the reference must notice each.

A mutant that no longer applies (its old text is gone) makes a test fail, so the list follows the code.
"""

from __future__ import annotations

from tests.mutation import Mutant

COMPAT = "families/dag/kernel/compat.py"
DEMAND = "families/dag/kernel/demand.py"
GRAPH = "families/dag/kernel/graph.py"
JOB_STREAM = "sim/kernel/job_stream.py"
KERNEL = "families/dag/kernel/events.py"
LANES = "sim/kernel/lanes.py"
OBSERVATION = "families/dag/kernel/observation.py"
POOLS = "families/dag/kernel/pools.py"
ROUNDS = "families/dag/kernel/rounds.py"
SHEETS = "sim/kernel/observation.py"
SLOTS = "families/dag/kernel/slots.py"
TASKS = "families/dag/kernel/tasks.py"
WAVES = "families/dag/kernel/waves.py"
WINDOW = "families/dag/kernel/window.py"

MUTANTS = [
    # Demand
    Mutant(
        "a demand of 0 counts as one",
        DEMAND,
        "(before > 0) != (before + change > 0)",
        "(before >= 0) != (before + change >= 0)",
    ),
    Mutant("children count parents the wrong way", DEMAND, "-1 if before > 0 else 1", "1 if before > 0 else -1", True),
    Mutant(
        "a stage with parents that want more is ready",
        DEMAND,
        "own.demand > 0 and own.open_parents == 0",
        "own.demand > 0",
    ),
    Mutant(
        "executors on their way do not count",
        DEMAND,
        "add_demand(spec, state, lane, job, stage, -count)",
        "add_demand(spec, state, lane, job, stage, 0)",
    ),
    Mutant("a stage can be chosen twice in a round", DEMAND, " and not chosen_before", ""),
    Mutant(
        "no other stage of the own job is looked for",
        DEMAND,
        "if not state.jobs[lane, current].done and is_ready",
        "if False and is_ready",
    ),
    # Pools
    Mutant("an executor stays warm on its way", POOLS, "    state.executors[lane, executor].last = -1\n", ""),
    Mutant("a job keeps the supply that left", POOLS, "    owner.supply -= 1\n", ""),
    Mutant(
        "executors at the job are not counted down",
        POOLS,
        "state.jobs[lane, job].local -= 1",
        "state.jobs[lane, job].local -= 0",
    ),
    Mutant("home is always the common pool", POOLS, "if state.jobs[lane, job].unstarted == 0:", "if True:", True),
    Mutant("home is always the job", POOLS, "if state.jobs[lane, job].unstarted == 0:", "if False:"),
    Mutant(
        "moving takes a nanosecond more",
        POOLS,
        ", spec.machine[0].moving_delay)",
        ", spec.machine[0].moving_delay + 1)",
    ),
    # Tasks
    Mutant("every task on a warm executor is a further one", TASKS, "REST if worker.last == stage else FIRST", "REST"),
    Mutant(
        "a fresh executor counts as coming from another stage",
        TASKS,
        "FRESH if worker.last < 0",
        "FIRST if worker.last < 0",
    ),
    Mutant("a stage that fails keeps its failures", TASKS, "    own.failures += 1\n", ""),
    Mutant(
        "a stage that fails has one task less",
        TASKS,
        "own.remaining = source.tasks",
        "own.remaining = source.tasks - 1",
    ),
    Mutant(
        "children wait for one parent only", TASKS, "if child.waiting_parents == 0:", "if child.waiting_parents <= 1:"
    ),
    Mutant("the path of a job never gets shorter", TASKS, "    owner.path = 0\n", ""),
    Mutant("edges of complete stages are counted", TASKS, "owner.edges -= source.children", "owner.edges -= 0"),
    Mutant(
        "idle executors stay at a job that is done",
        TASKS,
        "    return_all_to_pool(spec, state, lane, job, NOWHERE)\n",
        "",
    ),
    Mutant(
        "discounts count from the beginning",
        TASKS,
        "header.counted - header.step_began, header.now - header.step_began",
        "header.counted, header.now",
    ),
    # Durations
    Mutant(
        "interpolation the other way round",
        COMPAT,
        "return lower_is_drawn == (spec.machine[0].compat != 0)",
        "return lower_is_drawn != (spec.machine[0].compat != 0)",
        True,
    ),
    Mutant(
        "one draw for level and duration",
        WAVES,
        "uniform(owner.key, 2 * counter + 1)",
        "uniform(owner.key, 2 * counter)",
    ),
    Mutant("all stages have the same luck", WAVES, "counter = np.int64(stage) * STAGE_STRIDE + ", "counter = "),
    Mutant("stragglers are rounded down", WAVES, "math.ceil(time / spec", "math.floor(time / spec"),
    Mutant("one failure more", WAVES, "failures >= machine.most_failures", "failures > machine.most_failures"),
    # Rounds
    Mutant(
        "a pool may not leave a stage to another pool",
        ROUNDS,
        "return asks_other_pools(spec) and another_pool_can_choose(state, lane)",
        "return False",
    ),
    Mutant(
        "a pool that left a stage to the others is asked again",
        ROUNDS,
        "return owner.pooled > 0 and owner.stopped != state.lanes[lane].events",
        "return owner.pooled > 0",
    ),
    Mutant(
        "what is left over is forgotten",
        ROUNDS,
        "        commit(state, lane, header.committable, NOWHERE, NOWHERE)\n",
        "        pass\n",
    ),
    Mutant(
        "busy executors cannot be given away",
        ROUNDS,
        "header.committable = pool.located - pool.outgoing",
        "header.committable = 1 - pool.outgoing",
    ),
    Mutant(
        "commitments are kept newest first",
        ROUNDS,
        "    for index in range(state.lanes[lane].commitments):\n"
        "        known = state.commitments[lane, index]\n"
        "        if known.source_job == job",
        "    for index in range(state.lanes[lane].commitments - 1, -1, -1):\n"
        "        known = state.commitments[lane, index]\n"
        "        if known.source_job == job",
    ),
    Mutant("the order of commitments is lost", ROUNDS, "kept.stage = following.stage", "kept.stage = kept.stage"),
    Mutant(
        "commitments to other jobs are no supply",
        ROUNDS,
        "        state.jobs[lane, job].supply += count\n",
        "        pass\n",
    ),
    Mutant(
        "a stage begins before its parents",
        ROUNDS,
        "elif state.stages[lane, job, stage].waiting_parents > 0:",
        "elif False:",
    ),
    Mutant("who waits for a stage stays warm", ROUNDS, "        worker.last = -1\n", ""),
    Mutant(
        "stopping is always allowed",
        ROUNDS,
        "if has_future_events(spec, state, lane) or state",
        "if True or state",
    ),
    Mutant(
        "a round at every arrival of an instant",
        ROUNDS,
        "header.common_due and not arrivals_to_come",
        "header.common_due",
    ),
    Mutant(
        "nobody goes home without a stage to serve",
        ROUNDS,
        "        return_all_to_pool(spec, state, lane, header.source_job, header.source_stage)\n",
        "",
    ),
    Mutant(
        "one executor more may go",
        ROUNDS,
        "header.most = min(header.committable, np",
        "header.most = min(header.committable + 1, np",
    ),
    Mutant("the number is asked even if it is one", ROUNDS, "if header.most > 1:", "if header.most > 0:"),
    Mutant(
        "the youngest job with idle executors is asked",
        ROUNDS,
        "    index = 0\n    while not pool_can_choose(state, lane, state.order[lane, index]):\n        index += 1",
        "    index = state.lanes[lane].active - 1\n"
        "    while not pool_can_choose(state, lane, state.order[lane, index]):\n"
        "        index -= 1",
    ),
    # Events
    Mutant(
        "the horizon comes before arrivals",
        SLOTS,
        "    return spec.machine[0].executors\n",
        "    return spec.machine[0].executors + 1\n",
    ),
    Mutant(
        "gaps are rounded down",
        JOB_STREAM,
        "exponential_time(header.arrival_key, header.arrived, machine.mean_gap)",
        "max(1, exponential_time(header.arrival_key, header.arrived, machine.mean_gap) - 1)",
    ),
    Mutant(
        "initial jobs come one by one",
        JOB_STREAM,
        "if header.arrived < machine.initial_jobs:",
        "if header.arrived < 1:",
    ),
    Mutant(
        "the last task's time is that of the stage",
        KERNEL,
        "own.recent = header.now - worker.began",
        "own.recent = header.now",
    ),
    Mutant(
        "nobody stays warm",
        KERNEL,
        "start_task(spec, state, lane, executor, job, stage, REST)",
        "start_task(spec, state, lane, executor, job, stage, REST - 1)",
    ),
    Mutant(
        "released executors stay warm",
        KERNEL,
        "        state.executors[lane, executor].last = -1\n        if opened:",
        "        if opened:",
    ),
    Mutant(
        "a stage that opens others gives away its own pool",
        KERNEL,
        "        set_source(state, lane, job, NOWHERE)\n        if asks",
        "        set_source(state, lane, job, stage)\n        if asks",
    ),
    Mutant(
        "the common pool is due in compat too",
        KERNEL,
        "        if asks_other_pools(spec):\n            header.common_due = 1",
        "        header.common_due = 1",
    ),
    Mutant("a kept commitment makes a source", KERNEL, "    elif not committed:\n", "    else:\n"),
    Mutant("the makespan counts from 0", KERNEL, "(header.now - header.step_counted) / 1e9", "header.now / 1e9"),
    Mutant("an illegal number gives all", KERNEL, "            action = 0\n", "            action = header.most - 1\n"),
    Mutant(
        "what is not allowed is not flagged",
        KERNEL,
        "            header.illegal = 1\n        if stops:",
        "            pass\n        if stops:",
    ),
    # Rows, window and graph
    Mutant(
        "utilisation forgets those that run",
        OBSERVATION,
        "busy = header.busy_time + header.running * (header.now - header.busy_counted)",
        "busy = header.busy_time",
    ),
    Mutant("old rows stay", OBSERVATION, "    clear_rows(buffer, slot, listed, buffer.counts[slot, ROWS])\n", ""),
    Mutant("the coin is tossed once", LANES, "header.choices - 1)", "0)"),
    Mutant("work of a job is counted once", WINDOW, "        owner.work = 0\n", ""),
    Mutant("the oldest job is not in the window", WINDOW, "number > 1 and state", "number > 0 and state"),
    Mutant(
        "the window takes what does not fit", WINDOW, "own <= candidates and owner.left <= nodes", "own <= candidates"
    ),
    Mutant("nodes of jobs that changed stay", GRAPH, "if not all_jobs and not owner.dirty:", "if not all_jobs:"),
    Mutant(
        "old edges stay",
        SHEETS,
        "for edge in range(edges, buffer.counts[index, EDGES]):",
        "for edge in range(edges, 0):",
    ),
    Mutant(
        "edges lead upwards",
        GRAPH,
        "pairs[0, edges] = state.stages[lane, job, stage].node\n        pairs[1, edges]",
        "pairs[1, edges] = state.stages[lane, job, stage].node\n        pairs[0, edges]",
    ),
    Mutant(
        "what was the source still shows as one",
        ROUNDS,
        "        state.jobs[lane, header.source_job].dirty = 1\n    if job",
        "        pass\n    if job",
    ),
]
