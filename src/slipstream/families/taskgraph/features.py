"""Columns of a taskgraph observation: candidate rows, globals and graph nodes.

Raw times are nanoseconds, raw sizes bytes, raw counts unscaled. Every row is a task on a processor.
"""

from __future__ import annotations

from slipstream.families.shared.features import FOR_HEURISTICS, Feature, FeatureTable

PER_MS = 1e-6
PER_MB = 1e-6

CANDIDATE = FeatureTable(
    (
        Feature("duration", "10 ms", "expected time of the task on this processor", 0, 1000, PER_MS / 10),
        Feature("least", "10 ms", "least expected time of the task on any processor", 0, 1000, PER_MS / 10),
        Feature("mean", "10 ms", "mean expected time of the task over all processors", 0, 1000, PER_MS / 10),
        Feature("missing", "10 MB", "bytes that the task reads and that are not here yet", 0, 1000, PER_MB / 10),
        Feature("resident", "10 MB", "bytes of the task's tiles that are here or being loaded", 0, 1000, PER_MB / 10),
        Feature("transfer", "10 ms", "transfer time of the missing bytes", 0, 1000, PER_MS / 10),
        Feature("work_ahead", "10 ms", "expected time of the processor's work before the task", 0, 1000, PER_MS / 10),
        Feature("expected_end", "10 ms", "expected time until the task would end here", 0, 1000, PER_MS / 10),
        Feature("best_end", "10 ms", "the same on the processor where it would end first", 0, 1000, PER_MS / 10),
        Feature("rank", "100 ms", "mean times along the longest visible path from the task on", 0, 1000, PER_MS / 100),
        Feature("successors", "tasks / 10", "visible tasks that wait for this one", 0, 100, 0.1),
        Feature("opens", "tasks / 10", "visible tasks that wait for this one only", 0, 100, 0.1),
        Feature("freed", "10 ms", "ready work that misses only this task's missing tile", 0, 1000, PER_MS / 10),
        Feature("age", "10 ms", "time since the task became ready", 0, 1000, PER_MS / 10),
        Feature("place", "tasks / 10", "index of the task in the ready list or in the queue", 0, 1000, 0.1),
        Feature("device", "flag", "1 if the processor has its own memory", 0, 1),
        Feature("idle", "flag", "1 if the processor holds no task", 0, 1),
        Feature("dispatch", "flag", "1 if the row gives a task to a processor", 0, 1),
        Feature("wait", "flag", "1 if the row waits", 0, 1),
        Feature("path_after", "100 ms", "least times along the longest visible path after it", 0, 1000, PER_MS / 100),
        Feature("load_ahead", "10 ms", "time until the links can load for it", 0, 1000, PER_MS / 10),
        Feature("overflow", "10 MB", "bytes to evict before the task fits", 0, 1000, PER_MB / 10),
        Feature("reuse", "tasks / 10", "other visible tasks that use the tiles missing here", 0, 1000, 0.1),
        Feature("heft", "turns", "tasks before it in the plan of HEFT; -1 if elsewhere", -1, 1, observed=False),
        Feature("peft", "turns", "tasks before it in the plan of PEFT; -1 if elsewhere", -1, 1, observed=False),
        Feature("cpop", "turns", "tasks before it in the plan of CPOP; -1 if elsewhere", -1, 1, observed=False),
    )
)
"""One row per task that the processor can take, or per processor that can take the task; the last row waits."""

GLOBAL = FeatureTable(
    (
        Feature("time", "100 ms", "simulated time since the episode began", 0, 1000, PER_MS / 100),
        Feature("phase", "number", "0: choose a task; 1: choose a processor; 2: choose from the queue", 0, 2),
        Feature("asked", "number / 100", "processor or task of the decision", 0, 1000, 0.01),
        Feature("asked_device", "flag", "1 if a processor with its own memory decides", 0, 1),
        Feature("processors", "processors / 10", "processors of the machine", 0, 100, 0.1),
        Feature("devices", "processors / 10", "processors with their own memory", 0, 100, 0.1),
        Feature("free", "processors / 10", "processors that can take a task", 0, 100, 0.1),
        Feature("running", "processors / 10", "processors that run a task", 0, 100, 0.1),
        Feature("ready", "tasks / 10", "tasks that could be taken or placed", 0, 1000, 0.1),
        Feature("placed", "tasks / 10", "tasks in queues", 0, 1000, 0.1),
        Feature("active_jobs", "jobs / 10", "jobs that have arrived and are not done", 0, 1000, 0.1),
        Feature("visible", "tasks / 100", "visible tasks that are not finished", 0, 1000, 0.01),
        Feature("hidden", "tasks / 100", "of these, those outside the observed graph", 0, 1000, 0.01),
        Feature("finished", "tasks / 100", "number of finished tasks", 0, 1000, 0.01),
        Feature("moving", "links / 10", "links with a transfer", 0, 100, 0.1),
        Feature("soonest", "10 ms", "expected time until a running task ends", 0, 1000, PER_MS / 10),
        Feature("least_ahead", "10 ms", "expected time until some processor is idle", 0, 1000, PER_MS / 10),
        Feature("memory_used", "share", "memory in use of the device that decides", 0, 1),
        Feature(
            "path_left", "100 ms", "longest path of least times from held and candidate tasks", 0, 1000, PER_MS / 100
        ),
        Feature("work_left", "100 ms", "least times of all visible tasks not finished", 0, 10000, PER_MS / 100),
        *FOR_HEURISTICS,
    )
)
"""Globals: one row."""

NODE = FeatureTable(
    (
        Feature("mean", "10 ms", "mean expected time of the task over all processors", 0, 1000, PER_MS / 10),
        Feature("least", "10 ms", "least expected time of the task on any processor", 0, 1000, PER_MS / 10),
        Feature("rank", "100 ms", "mean times along the longest visible path from the task on", 0, 1000, PER_MS / 100),
        Feature("successors", "tasks / 10", "visible tasks that wait for this one", 0, 100, 0.1),
        Feature("waits_for", "tasks / 10", "tasks that it waits for", 0, 100, 0.1),
        Feature("remaining", "10 ms", "expected time left while it runs, else its mean time", 0, 1000, PER_MS / 10),
        Feature("running", "flag", "1 if it runs", 0, 1),
        Feature("held", "flag", "1 if a processor has taken it", 0, 1),
        Feature("queued", "flag", "1 if it is in a queue", 0, 1),
        Feature("ready", "flag", "1 if it could be taken or placed", 0, 1),
        Feature("asked", "flag", "1 if it is a candidate of this decision", 0, 1),
        Feature("bytes", "10 MB", "bytes of its tiles", 0, 1000, PER_MB / 10),
    )
)
"""One node per visible unfinished task within the window's depth of the held, queued and ready tasks."""

DURATION, LEAST, MEAN, MISSING, RESIDENT, TRANSFER, WORK_AHEAD, EXPECTED_END, BEST_END, RANK = range(10)
SUCCESSORS, OPENS, FREED, AGE, PLACE, DEVICE, IDLE, DISPATCH, WAIT = range(10, 19)
PATH_AFTER, LOAD_AHEAD, OVERFLOW, REUSE, HEFT, PEFT, CPOP = range(19, 26)
TIME, PHASE, ASKED, ASKED_DEVICE, PROCESSORS, DEVICES, FREE, RUNNING, READY, PLACED = range(10)
ACTIVE_JOBS, VISIBLE, HIDDEN, FINISHED, MOVING, SOONEST, LEAST_AHEAD, MEMORY_USED, PATH_LEFT, WORK_LEFT = range(10, 20)
ROWS, PARAMETER, COIN = range(20, 23)
"""Column indices for rules and kernels; a test compares them with the tables above."""
NODE_MEAN, NODE_LEAST, NODE_RANK, NODE_SUCCESSORS, NODE_WAITS_FOR, NODE_REMAINING = range(6)
NODE_RUNNING, NODE_HELD, NODE_QUEUED, NODE_READY, NODE_ASKED, NODE_BYTES = range(6, 12)
