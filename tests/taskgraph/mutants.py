"""Small mistakes that could have been made in the taskgraph kernel: the comparison with the reference must notice each.

A mutant that no longer applies (its old text is gone) makes a test fail, so the list follows the code.
"""

from __future__ import annotations

from tests.mutation import Mutant

BUILD = "families/taskgraph/build.py"
GRAPH = "families/taskgraph/kernel/graph.py"
KERNEL = "families/taskgraph/kernel/events.py"
MEMORY = "families/taskgraph/kernel/memory.py"
OBSERVATION = "families/taskgraph/kernel/observation.py"
LOOKAHEAD = "families/taskgraph/kernel/lookahead.py"
ROWS = "sim/kernel/window.py"
TASKS = "families/taskgraph/kernel/tasks.py"
WINDOW = "families/taskgraph/kernel/window.py"

MUTANTS = [
    # Memory and links
    Mutant(
        "prefetching looks one task further",
        MEMORY,
        "min(spec.machine[0].prefetch, ",
        "min(1 + spec.machine[0].prefetch, ",
    ),
    Mutant(
        "the queue is staged before what is held",
        MEMORY,
        "if index < held else state.queues[lane, processor, index - held]",
        "if index < held else state.queues[lane, processor, index]",
    ),
    Mutant("touches are not counted", MEMORY, "    header.touches += 1\n", "    header.touches += 0\n"),
    Mutant(
        "the highest device is the source",
        MEMORY,
        "for node in range(1, state.copies.shape[2]):",
        "for node in range(state.copies.shape[2] - 1, 0, -1):",
    ),
    Mutant(
        "a copy at the host does not count",
        MEMORY,
        "if other != node and state",
        "if other > 0 and other != node and state",
    ),
    Mutant(
        "tiles of the last staged task may go",
        MEMORY,
        "for index in range(last_index + 1):",
        "for index in range(last_index):",
    ),
    Mutant(
        "belady lets go what is used next",
        MEMORY,
        "            return use > other_use\n",
        "            return use < other_use\n",
        True,
    ),
    Mutant("luf lets go what is used most", MEMORY, "return uses < other_uses", "return uses > other_uses", True),
    Mutant("luf forgets the queue", MEMORY, "if one.queued != two.queued:", "if False:"),
    Mutant(
        "lru lets go what was used last", MEMORY, "return one.touched < two.touched", "return one.touched > two.touched"
    ),
    Mutant("tiles that move may go", MEMORY, " or state.tiles[lane, tile].moving > 0:", ":"),
    Mutant(
        "memory may be full to the last byte but one",
        MEMORY,
        "while memory.used + size > spec.nodes[node].capacity:",
        "while memory.used + size >= spec.nodes[node].capacity:",
        True,
    ),
    Mutant("the only copy is thrown away", MEMORY, "if is_only_copy(state, lane, victim, node):", "if False:", True),
    Mutant(
        "what is dropped still takes memory",
        MEMORY,
        "state.memories[lane, node].used -= spec",
        "state.memories[lane, node].used -= 0 * spec",
    ),
    Mutant("loads take the time to the host", MEMORY, "    time = source.load_time\n", "    time = source.send_time\n"),
    Mutant(
        "a transfer does not mark its tile",
        MEMORY,
        "state.tiles[lane, tile].moving += 1",
        "state.tiles[lane, tile].moving += 0",
    ),
    Mutant("a write-back is remembered", MEMORY, "    state.memories[lane, node].write_back = -1\n", ""),
    Mutant(
        "a task that runs is staged as well",
        MEMORY,
        "for index in range(state.processors[lane, processor].runs, staged_count(spec, state, lane, processor)):\n"
        "        task = staged_task(state, lane, processor, index)\n"
        "        source = spec.tasks[state.tasks[lane, task].source]\n"
        "        for access in range(source.first_access, source.first_access + source.accesses):\n"
        "            tile = tile_at(spec, state, lane, task, access)\n"
        "            if state.copies[lane, tile, node].state != ABSENT:",
        "for index in range(1, staged_count(spec, state, lane, processor)):\n"
        "        task = staged_task(state, lane, processor, index)\n"
        "        source = spec.tasks[state.tasks[lane, task].source]\n"
        "        for access in range(source.first_access, source.first_access + source.accesses):\n"
        "            tile = tile_at(spec, state, lane, task, access)\n"
        "            if state.copies[lane, tile, node].state != ABSENT:",
    ),
    Mutant("what is only written is loaded", MEMORY, "if spec.accesses[access].mode == WRITE:", "if False:", True),
    Mutant(
        "without free memory the next tile is tried",
        MEMORY,
        "                    return\n                start_transfer(",
        "                    continue\n                start_transfer(",
    ),
    Mutant("devices with peers ask the host", MEMORY, "if node != HOST and machine.peer:", "if False:"),
    Mutant(
        "what is only written is sent to the host",
        MEMORY,
        "if spec.accesses[access].mode != WRITE:\n                    send_if_needed",
        "if True:\n                    send_if_needed",
    ),
    # Tasks
    Mutant("a revealed task is not counted", TASKS, "    state.lanes[lane].visible += 1\n", ""),
    Mutant(
        "uses of a tile are not counted",
        TASKS,
        "tile_at(spec, state, lane, task, access)].uses += 1",
        "tile_at(spec, state, lane, task, access)].uses += 0",
    ),
    Mutant("a task that becomes ready waits", TASKS, "    own.waited_at = -1\n", "    own.waited_at = header.events\n"),
    Mutant(
        "the submission window is one task smaller",
        TASKS,
        "owner.submitted - owner.finished < spec",
        "owner.submitted - owner.finished + 1 < spec",
    ),
    Mutant(
        "placed work is not ahead", TASKS, "    worker.work += spec.durations", "    worker.work += 0 * spec.durations"
    ),
    Mutant("the queue is not counted down", TASKS, "    state.lanes[lane].placed -= 1\n", ""),
    Mutant("turns are not counted", TASKS, "    state.taken[lane, own.job, processor] += 1\n", ""),
    Mutant(
        "a tile is written while it moves",
        TASKS,
        "if spec.accesses[access].mode & WRITE and state.tiles[lane, tile].moving > 0:",
        "if False:",
    ),
    Mutant(
        "the floor of the noise is ignored",
        TASKS,
        "max(machine.spread * deviate, machine.floor)",
        "machine.spread * deviate",
    ),
    Mutant("luck is the same on every kind", TASKS, "number * KIND_STRIDE + kind)", "number * KIND_STRIDE)"),
    Mutant(
        "a lognormal mean is too large",
        TASKS,
        "machine.spread * deviate - machine.spread * machine.spread / 2.0",
        "machine.spread * deviate",
    ),
    Mutant("durations are rounded down", TASKS, "np.int64(math.ceil(time))", "np.int64(math.floor(time))"),
    Mutant(
        "a start does not touch tiles",
        TASKS,
        "    if spec.machine[0].transfers:\n        for access",
        "    if False:\n        for access",
    ),
    Mutant(
        "what is written stays valid elsewhere",
        TASKS,
        "if other != node and state.copies",
        "if False and state.copies",
        True,
    ),
    Mutant(
        "readers throw copies away",
        TASKS,
        "spec.machine[0].transfers and spec.accesses[access].mode & WRITE",
        "spec.machine[0].transfers",
    ),
    Mutant(
        "children are revealed too early",
        TASKS,
        "elif other.status == HIDDEN and spec.machine[0].visibility == SEE_PARENTS:",
        "elif other.status == HIDDEN:",
    ),
    # Events and choices
    Mutant(
        "links come before processors",
        KERNEL,
        "    if event_slot < spec.machine[0].processors:\n",
        "    if event_slot <= spec.machine[0].processors:\n",
    ),
    Mutant("a loaded tile is not touched", KERNEL, "    touch(state, lane, tile, node)\n    tiles", "    tiles"),
    Mutant(
        "processors start before they fetch what is written", KERNEL, "        start_sends(spec, state, lane)\n", ""
    ),
    Mutant("who waits is asked again", KERNEL, " and worker.waited_at != state.lanes[lane].events", "", True),
    Mutant(
        "a processor takes one task more",
        KERNEL,
        "return worker.held < spec.machine[0].pipeline",
        "return worker.held <= spec.machine[0].pipeline - 1 + spec.machine[0].push",
    ),
    Mutant(
        "one queued task is asked about",
        KERNEL,
        "if not machine.push or queued > 1:",
        "if not machine.push or queued > 0:",
    ),
    Mutant("a task may not wait for a queue", KERNEL, "        if header.placed > 0:\n            return True\n", ""),
    Mutant(
        "rows behind the window are one off",
        ROWS,
        "return header.shown + row - machine.rows - 1",
        "return header.shown + row - machine.rows",
    ),
    Mutant(
        "a forbidden action is not flagged",
        KERNEL,
        "        header.illegal = 1\n",
        "        header.illegal = 0\n",
        True,
    ),
    Mutant(
        "the first step begins at the first choice",
        KERNEL,
        "    if header.choices > 1:\n",
        "    if header.choices > 0:\n",
    ),
    Mutant("jobs share their luck", KERNEL, "FIRST_JOB_STREAM + job)", "FIRST_JOB_STREAM)"),
    # What is shown
    Mutant(
        "ranks of hidden tasks count",
        LOOKAHEAD,
        "                if spec.children[offset] < owner.submitted:\n",
        "                if True:\n",
    ),
    Mutant(
        "a late task has less than nothing left",
        LOOKAHEAD,
        "worker.work_ahead += max(0, worker.expected_end - header.now)",
        "worker.work_ahead += worker.expected_end - header.now",
    ),
    Mutant(
        "a task is ahead of itself",
        LOOKAHEAD,
        "if header.phase == CHOOSE_QUEUED and processor == header.asked:",
        "if False:",
    ),
    Mutant(
        "what is on its way is missing",
        LOOKAHEAD,
        "if state.copies[lane, tile, node].state != ABSENT:",
        "if state.copies[lane, tile, node].state == 2:",
    ),
    Mutant("peers are not used in estimates", LOOKAHEAD, "elif spec.machine[0].peer:", "elif False:"),
    Mutant("the best end is the first", LOOKAHEAD, "if processor == 0 or end < best:", "if processor == 0:"),
    Mutant("every child is opened", LOOKAHEAD, ".waits_for == 1:", ".waits_for >= 1:"),
    Mutant(
        "freed work is added to what was",
        LOOKAHEAD,
        "                    state.tiles[lane, tile].freed = 0\n",
        "                    pass\n",
    ),
    Mutant(
        "paths behind hidden tasks count",
        LOOKAHEAD,
        "after = max(after, spec.tasks[child.source].least + child.path_after)",
        "after = max(after, spec.tasks[child.source].path_after + child.path_after)",
    ),
    Mutant("a path has its own task in it", BUILD, '    rows["path_after"] -= rows["least"]\n', ""),
    Mutant(
        "what a link still carries is no load ahead",
        LOOKAHEAD,
        "        if state.links[lane, link] >= 0:\n",
        "        if False:\n",
    ),
    Mutant(
        "what runs is loaded again",
        LOOKAHEAD,
        "for index in range(worker.runs, worker.held):",
        "for index in range(worker.held - 1):",
    ),
    Mutant(
        "the task that runs has all before it",
        LOOKAHEAD,
        "left = max(0, worker.expected_end - header.now) if index < worker.runs else",
        "left =",
    ),
    Mutant(
        "what is asked about is on no path",
        LOOKAHEAD,
        "            longest = max(longest, spec.tasks[own.source].least + own.path_after)\n    return",
        "            longest = max(longest, own.path_after)\n    return",
    ),
    Mutant("a task reuses its own tiles", LOOKAHEAD, ".uses - 1\n", ".uses\n"),
    Mutant(
        "what is there overflows",
        OBSERVATION,
        "used + source.bytes - resident - capacity",
        "used + source.bytes - capacity",
    ),
    Mutant(
        "work that is done is left",
        TASKS,
        "    header.work_left -= spec.tasks[own.source].least\n",
        "",
    ),
    Mutant(
        "the window takes one more by rank",
        WINDOW,
        "choose_some(spec, state, lane, (capacity + 1) // 2, True)",
        "choose_some(spec, state, lane, capacity // 2 + 1, True)",
    ),
    Mutant("ties in the window go to the last", WINDOW, "        if value <= least:\n", "        if value < least:\n"),
    Mutant("the window prefers what is far away", WINDOW, "    return -missing_data(", "    return missing_data("),
    Mutant(
        "hidden tasks count as turns",
        OBSERVATION,
        "before_it += status in (WAITING, READY, QUEUED)",
        "before_it += 1",
    ),
    Mutant(
        "a processor may not leave a task to one that was not asked yet",
        KERNEL,
        "for processor in range(header.asked + 1, spec.machine[0].processors):",
        "for processor in range(0):",
    ),
    Mutant(
        "a task may not let another be placed before it",
        KERNEL,
        "state.tasks[lane, state.ready[lane, index]].waited_at != header.events",
        "False",
    ),
    Mutant(
        "turns count from the plan alone",
        OBSERVATION,
        "return max(0, plan.position - state.taken[lane, own.job, processor])",
        "return plan.position",
    ),
    Mutant(
        "the memory of the host is shown",
        OBSERVATION,
        "limited = node != HOST and spec",
        "limited = node == HOST and spec",
    ),
    Mutant("hidden tasks are nodes", GRAPH, "state.tasks[lane, child].status != HIDDEN and not", "not"),
    Mutant("the graph is one deeper", GRAPH, "for _ in range(machine.depth):", "for _ in range(machine.depth + 1):"),
    Mutant(
        "edges overflow by one less",
        GRAPH,
        "if edges < pairs.shape[1] and is_listed",
        "if edges < pairs.shape[1] - 1 and is_listed",
    ),
    Mutant("nodes of done jobs are numbered", GRAPH, "if owner.finished < owner.tasks:", "if True:"),
]
