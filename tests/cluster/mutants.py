"""Small mistakes that could have been made in the cluster kernel: the comparison with the reference must notice each.

A mutant that no longer applies (its old text is gone) makes a test fail, so the list follows the code.
"""

from __future__ import annotations

from tests.mutation import Mutant

BACKFILL = "families/cluster/kernel/backfill.py"
COMPAT = "families/cluster/kernel/compat.py"
LIFECYCLE = "families/cluster/kernel/lifecycle.py"
KERNEL = "families/cluster/kernel/events.py"
LANES = "sim/kernel/lanes.py"
OBSERVATION = "families/cluster/kernel/observation.py"
PLACEMENT = "families/cluster/kernel/placement.py"
QUEUES = "families/cluster/kernel/queues.py"
FAST_PATH = "families/cluster/kernel/fast_path.py"
WINDOW = "families/cluster/kernel/window.py"

MUTANTS = [
    # Placement
    Mutant("the loosest node is taken", PLACEMENT, "best < 0 or cost < least", "best < 0 or cost > least", True),
    Mutant("the last of equal nodes is taken", PLACEMENT, "best < 0 or cost < least", "best < 0 or cost <= least"),
    Mutant("the emptiest nodes come last", PLACEMENT, "here > free[lane, best]", "here < free[lane, best]"),
    Mutant(
        "nodes that are not free are whole",
        PLACEMENT,
        "if free[lane, node] == size and size <= gpus:",
        "if size <= gpus:",
    ),
    Mutant(
        "one node too few is large",
        PLACEMENT,
        "gpus > spec.machine[0].largest_node",
        "gpus >= spec.machine[0].largest_node",
    ),
    Mutant("racks do not count", PLACEMENT, "    if spread:\n", "    if False:\n"),
    Mutant("one node is spread", PLACEMENT, "if nodes > 1 else factor", "if nodes > 0 else factor"),
    Mutant("the fastest GPUs set the pace", PLACEMENT, "factor = max(factor, spec", "factor = min(factor, spec"),
    Mutant(
        "work takes a nanosecond less", PLACEMENT, "int(math.ceil(work * factor))", "int(math.floor(work * factor))"
    ),
    Mutant(
        "gradients are taken uphill",
        PLACEMENT,
        "spec.wasted[here - gpus] - spec.wasted[here]",
        "spec.wasted[here] - spec.wasted[here - gpus]",
    ),
    Mutant(
        "the gradient forgets what was useless",
        PLACEMENT,
        "spec.wasted[here - gpus] - spec.wasted[here]",
        "spec.wasted[here - gpus]",
    ),
    Mutant(
        "gradients keep no job together",
        PLACEMENT,
        "placement in (CONSOLIDATE, FGD) and",
        "placement == CONSOLIDATE and",
    ),
    Mutant(
        "nodes sleep a nanosecond late",
        PLACEMENT,
        "now - since >= spec.machine[0].sleep_after",
        "now - since > spec.machine[0].sleep_after",
    ),
    Mutant("nodes that are at work sleep", PLACEMENT, "    return since >= 0 and", "    return"),
    Mutant(
        "only the first node wakes",
        PLACEMENT,
        "        for index in range(nodes):\n            if sleeps",
        "        for index in range(1):\n            if sleeps",
    ),
    Mutant(
        "waking costs nothing",
        PLACEMENT,
        "                return setup + machine.wake\n",
        "                return setup\n",
    ),
    Mutant(
        "nodes are idle although others work there",
        PLACEMENT,
        "        if state.free[lane, piece.node] == spec.nodes[piece.node].gpus:\n",
        "        if True:\n",
    ),
    # Job life cycle
    Mutant(
        "nodes that sleep draw what others do",
        LIFECYCLE,
        "            subtract_sleep_energy(spec, state, lane, time)\n",
        "            pass\n",
    ),
    Mutant(
        "nodes sleep before their time",
        LIFECYCLE,
        "since = max(state.lanes[lane].now, state.idle[lane, node] + spec.machine[0].sleep_after)",
        "since = state.lanes[lane].now",
    ),
    Mutant("the clock does not count waiting jobs", LIFECYCLE, "+= header.waiting * hours", "+= 0 * hours"),
    Mutant(
        "Jain counts users who hold GPUs", LIFECYCLE, "float(header.active_users) *", "float(max(1, header.held)) *"
    ),
    Mutant("the rate of slowdowns stays", LIFECYCLE, "    header.rate -= 1.0 / own.bound\n", "", True),
    Mutant(
        "an interrupted job pays nothing",
        PLACEMENT,
        "setup = machine.cost if own.interrupted > 0 else 0",
        "setup = machine.cost * 0",
    ),
    Mutant("every start pays", PLACEMENT, "if own.interrupted > 0 else 0", "if own.interrupted >= 0 else 0"),
    Mutant(
        "a job ends when it said",
        LIFECYCLE,
        "run_time(own.left, own.factor)",
        "run_time(expected_left(own), own.factor)",
    ),
    Mutant("the cost counts as work", LIFECYCLE, "now - own.start - own.setup", "now - own.start"),
    Mutant("interruptions forget service", LIFECYCLE, "    own.attained += header.now - own.start\n", ""),
    Mutant("power is not given back", LIFECYCLE, "    header.power -= own.power\n", ""),
    Mutant("slowdowns have no bound", LIFECYCLE, "slowdown = max(1.0, ", "slowdown = max(0.0, "),
    Mutant("waits are forgotten", LIFECYCLE, "own.waited += header.now", "own.waited = header.now"),
    Mutant("the budget has room for one GPU less", LIFECYCLE, "- power) // least)", "- power) // least - 1)"),
    Mutant("the budget may be met with one too many", LIFECYCLE, ".power + more > spec", ".power > spec"),
    # Jobs that run at the beginning
    Mutant("the beginning is the first submission", KERNEL, "machine.beginning if machine.has_begun else ", ""),
    Mutant("nobody runs at the beginning", LIFECYCLE, "spec.begun[header.first + job].runs:", "False:"),
    Mutant("runs begin with the episode", LIFECYCLE, "begun.started - header.time_zero)", "header.now)", True),
    Mutant("runs go on elsewhere", LIFECYCLE, "spec.held[begun.first + index].node", "spec.held[index].node"),
    # Backfilling
    Mutant(
        "jobs that end at the shadow time stay",
        BACKFILL,
        "        if end > header.shadow:",
        "        if end >= header.shadow:",
    ),
    Mutant(
        "late jobs ended long ago",
        BACKFILL,
        "end = max(header.now, jobs[job].expected_end)",
        "end = jobs[job].expected_end",
    ),
    Mutant(
        "who ends at the shadow time is late", BACKFILL, "    if end <= header.shadow:", "    if end < header.shadow:"
    ),
    Mutant(
        "one GPU more is over where numbers count",
        BACKFILL,
        "return row.gpus <= extra or",
        "return row.gpus <= extra + 1 or",
    ),
    Mutant(
        "one GPU more is over", BACKFILL, "    if own.gpus > header.extra:", "    if own.gpus > header.extra + 1:", True
    ),
    Mutant(
        "power at the shadow time does not count", BACKFILL, "header.shadow_power + power > machine.budget", "False"
    ),
    Mutant(
        "the shadow time ignores placement",
        BACKFILL,
        "fits_by_count(spec.machine[0]) or find_placement",
        "spec.machine[0].gpus > 0 or find_placement",
    ),
    Mutant("the slowest GPUs set the pace of who may pass", BACKFILL, "least = min(least,", "least = max(least,"),
    Mutant("reservations may begin before enough GPUs are free", BACKFILL, "begin = index + 1", "begin = index"),
    Mutant("reservations that end in time are passed over", BACKFILL, "index].time >= steps", "index].time > steps"),
    Mutant(
        "reservations are a step too short",
        BACKFILL,
        "for index in range(begin, end):",
        "for index in range(begin, end - 1):",
    ),
    Mutant(
        "the shadow time of the published rules is that of the first end",
        COMPAT,
        "        if free >= need:\n",
        "        if True:\n",
    ),
    # Events and choices
    Mutant("jobs are submitted before others end", KERNEL, "(ends > time or applies_events_singly(spec))", "True"),
    Mutant("the published rules end jobs first", KERNEL, "(ends > time or applies_events_singly(spec))", "ends > time"),
    Mutant("what is reserved is forgotten", KERNEL, "    if not machine.hold:\n", "    if True:\n", True),
    Mutant("what is reserved is kept", KERNEL, "    if not machine.hold:\n", "    if False:\n"),
    Mutant(
        "backfilling by the published rules may end at the shadow time",
        COMPAT,
        "row.expected < header.shadow",
        "row.expected <= header.shadow",
    ),
    Mutant(
        "quotas forget the reserved job",
        KERNEL,
        "            held += state.jobs[lane, header.reserved].gpus\n",
        "            held += 0\n",
    ),
    Mutant(
        "quotas leave one GPU more",
        KERNEL,
        "if held > spec.users[own.user].quota:",
        "if held > spec.users[own.user].quota + 1:",
    ),
    Mutant("greedy may reserve", KERNEL, "    if machine.backfill == GREEDY:\n", "    if False:\n"),
    Mutant(
        "a job is reserved in the profile twice", KERNEL, "state.jobs[lane, job].profiled_at != header.point", "True"
    ),
    Mutant("new jobs can be interrupted", KERNEL, "began < header.now and header.now", "header.now"),
    Mutant(
        "waiting ends no point",
        KERNEL,
        "    if waits:\n        header.due = 0\n",
        "    if waits:\n        header.due = 1\n",
    ),
    Mutant(
        "what is backfilled takes nothing", KERNEL, "        header.extra -= own.gpus\n", "        header.extra -= 0\n"
    ),
    Mutant(
        "rounds are asked early",
        KERNEL,
        "(header.now // length + 1) * length",
        "(header.now // length + 1) * length - 1",
    ),
    Mutant("the held-out part is trained on", KERNEL, "spec.splits[0 if split == TRAIN else 1]", "spec.splits[0]"),
    Mutant("utilisation is a cost", KERNEL, "+ machine.utilisation *", "- machine.utilisation *"),
    Mutant("terms are never cleared", LANES, "    if header.choices > 1:\n", "    if False:\n"),
    # Queue, running jobs and heap
    Mutant("running jobs are in no order", QUEUES, "if end < other_end or (end", "if end > other_end or (end"),
    Mutant("the heap does not break ties", QUEUES, "one.end == other.end and one.tie_rank < other.tie_rank", "False"),
    Mutant(
        "a removal leaves the heap unsifted",
        QUEUES,
        "        sift_down(state, lane, state.jobs[lane, other].heap_index, other, header.running)\n",
        "",
    ),
    Mutant("the lesser child is not looked for", QUEUES, "            child += 1\n", "            child += 0\n"),
    # The observation window
    Mutant(
        "the window shows the largest", WINDOW, "while index > 0 and area < state", "while index > 0 and area > state"
    ),
    Mutant(
        "the older half is one less",
        WINDOW,
        "(machine.window + 1) // 2, machine.window // 2",
        "machine.window // 2, machine.window // 2",
    ),
    # Rows
    Mutant("logarithms are never new", OBSERVATION, "    if own.log_of != expected:\n", "    if own.log_of == -1:\n"),
    Mutant(
        "who sleeps is shown to draw",
        OBSERVATION,
        "                saved += spec.nodes[node].saved\n",
        "                saved += 0\n",
    ),
    Mutant(
        "simple rows must end before the shadow",
        BACKFILL,
        "run_time(row.expected, factor) <= time_left",
        "run_time(row.expected, factor) < time_left",
    ),
    Mutant("simple rows know no extra GPUs", BACKFILL, "return row.gpus <= extra or run_time", "return run_time"),
    Mutant("ranks begin at one", OBSERVATION, "            rank = waiting\n", "            rank = waiting + 1\n"),
    Mutant(
        "rows forget what was done since the start",
        OBSERVATION,
        "        done += done_since_start(own, header.now)\n",
        "",
    ),
    Mutant(
        "before the shadow is after it",
        OBSERVATION,
        "header.now + expected <= header.shadow",
        "header.now + expected >= header.shadow",
    ),
    # The fast path
    Mutant(
        "the fast path reserves nothing",
        FAST_PATH,
        "        reserve(state, lane, job, 0)\n",
        "        pass\n",
        True,
    ),
    Mutant(
        "the fast path backfills by an old shadow time",
        FAST_PATH,
        "        if header.shadow == UNKNOWN_SHADOW:\n",
        "        if False:\n",
    ),
    Mutant(
        "the fast path backfills where only the reserved job may start",
        FAST_PATH,
        "return policy_backfills(machine) and",
        "return not machine.compat and",
    ),
    Mutant(
        "the fast path does not account for what it backfilled",
        FAST_PATH,
        "        account_backfilled(spec, state, lane, job)\n",
        "",
    ),
    Mutant("the fast path keeps old scores", FAST_PATH, "    if header.order >= FIRST_DYNAMIC:\n", "    if False:\n"),
    Mutant(
        "the fast path ignores quotas",
        FAST_PATH,
        "limited = machine.has_quotas or machine.has_budget",
        "limited = machine.has_budget",
    ),
]
