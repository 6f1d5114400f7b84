"""Arrays of the taskgraph simulator: the specification, constant during an episode, and the state."""

from __future__ import annotations

import numpy as np
from numba import types

from slipstream.jit.structs import struct
from slipstream.sim.kernel.job_stream import ARRIVAL_FIELDS, STREAM_FIELDS
from slipstream.sim.kernel.lanes import LANE_FIELDS
from slipstream.sim.kernel.window import LIST_FIELDS, ROW_FIELDS

CHOOSE_TASK, CHOOSE_PROCESSOR, CHOOSE_QUEUED = range(3)
"""Phases of a decision: a processor chooses a ready task, a task a processor, a processor a task of its queue."""
HIDDEN, WAITING, READY, QUEUED, HELD, FINISHED = range(6)
"""Status of a task; a running task is held."""
ABSENT, LOADING, VALID = range(3)
"""State of a tile's copy at a memory node."""
TO_DEVICE, TO_HOST, PEER = range(3)
LINKS_PER_DEVICE = 3
HOST = 0
READ, WRITE = 1, 2
LRU, LUF, BELADY = range(3)
SEE_ALL, SEE_PARENTS, SEE_WINDOW = range(3)
NO_NOISE, ADDITIVE, LOGNORMAL = range(3)
PLANNERS = ("heft", "peft", "cpop")
MAKESPAN = 0

MACHINE = np.dtype(
    [
        *ARRIVAL_FIELDS,
        *ROW_FIELDS,
        ("processors", "i8"),
        ("devices", "i8"),
        ("tasks", "i8"),  # tasks of the largest template
        ("tiles", "i8"),  # tiles of the template with most tiles
        ("transfers", "i8"),  # 0 if tiles are available at every node
        ("peer", "i8"),  # 1 if devices have links to each other
        ("push", "i8"),
        ("pipeline", "i8"),
        ("prefetch", "i8"),
        ("eviction", "i8"),
        ("visibility", "i8"),
        ("visible_tasks", "i8"),
        ("noise", "i8"),
        ("spread", "f8"),  # standard deviation, in ns or of the logarithm
        ("floor", "f8"),
        ("depth", "i8"),
        ("log_margin", "i8"),
        ("makespan", "f8"),
    ],
    align=True,
)
KIND = np.dtype([("noisy", "i8")], align=True)
PROCESSOR = np.dtype([("kind", "i8"), ("node", "i8")], align=True)
NODE = np.dtype([("capacity", "i8"), ("processor", "i8")], align=True)
"""processor: the processor of the device, -1 for the host."""
TEMPLATE = np.dtype([("first_task", "i8"), ("tasks", "i8"), ("first_tile", "i8"), ("tiles", "i8")], align=True)
TASK = np.dtype(
    [
        ("first_child", "i4"),
        ("children", "i4"),
        ("parents", "i4"),
        ("first_access", "i4"),
        ("accesses", "i4"),
        ("number", "i4"),  # within its template
        ("least", "i8"),
        ("average", "i8"),
        ("rank", "i8"),  # upward rank in the whole graph
        ("path_after", "i8"),  # longest path of least times after it, in the whole graph
        ("bytes", "i8"),
    ],
    align=True,
)
ACCESS = np.dtype([("tile", "i4"), ("mode", "i4")], align=True)
TILE = np.dtype(
    [
        ("bytes", "i8"),
        ("load_time", "i8"),
        ("send_time", "i8"),
        ("peer_time", "i8"),
        ("first_user", "i4"),
        ("users", "i4"),
    ],
    align=True,
)
PLAN = np.dtype([("processor", "i4"), ("position", "i4")], align=True)

LANE = np.dtype(
    [
        *LANE_FIELDS,
        *STREAM_FIELDS,
        *LIST_FIELDS,
        ("phase", "i8"),
        ("asked_task", "i8"),  # task of the decision in phase CHOOSE_PROCESSOR, otherwise -1
        ("done", "i8"),  # finished jobs
        ("finished", "i8"),  # finished tasks
        ("visible", "i8"),  # visible tasks not finished
        ("work_left", "i8"),  # sum of their least times
        ("ready", "i8"),
        ("placed", "i8"),
        ("running", "i8"),
        ("moving", "i8"),  # links with a transfer
        ("touches", "i8"),  # logical clock of the uses of tiles
        ("listed", "i8"),  # nodes of the graph
        ("ranks_stale", "i8"),
        ("step_counted", "i8"),  # time of the last decision, 0 before the first
        ("parameter", "f8"),  # parameter of the policy, if it has one; set by the caller
    ],
    align=True,
)
JOB_STATE = np.dtype(
    [
        ("key", "u8"),
        ("first_task", "i8"),  # first task of its template
        ("tasks", "i8"),
        ("submitted", "i8"),  # tasks revealed in the order of submission
        ("finished", "i8"),
        ("oldest", "i8"),  # all tasks before this one are finished
        ("active_rank", "i8"),  # rank by arrival among the active jobs
    ],
    align=True,
)
TASK_STATE = np.dtype(
    [
        ("source", "i4"),  # index of the task in the specification
        ("job", "i4"),
        ("status", "i4"),
        ("waits_for", "i4"),  # unfinished parents
        ("graph_index", "i4"),  # its node in the observed graph
        ("list_index", "i4"),  # index in the ready list or queue of this decision
        ("shown", "i4"),  # 1 if it is in the observation window, when not all are
        ("waited_at", "i8"),  # value of `events` at its last decision to wait, -1 if none
        ("ready_at", "i8"),
        ("rank", "i8"),  # upward rank in the visible graph
        ("path_after", "i8"),  # longest path of least times after it, in the visible graph
    ],
    align=True,
)
TILE_STATE = np.dtype(
    [
        ("source", "i4"),
        ("moving", "i4"),  # links that transfer it
        ("uses", "i4"),  # visible unfinished tasks that use it
        ("next_user", "i4"),  # offset into its users: those before are finished
        ("freed", "i8"),  # scratch: work of ready tasks that miss only this tile
    ],
    align=True,
)
COPY = np.dtype([("state", "i4"), ("queued", "i4"), ("touched", "i8")], align=True)
"""queued: tasks in the queue of the node's processor that use the tile; touched: logical time of the last use."""
PROCESSOR_STATE = np.dtype(
    [
        ("held", "i4"),
        ("queued", "i4"),
        ("runs", "i4"),  # 1 if the first held task runs
        ("failed", "i4"),  # 1 if an engine reported that its task failed
        ("waited_at", "i8"),  # value of `events` at its last decision to wait, -1 if none
        ("expected_end", "i8"),  # expected end of the running task
        ("work", "i8"),  # expected time of held and queued tasks, without the running task
        ("work_ahead", "i8"),  # the same with the running task, at the present decision
        ("load_ahead", "i8"),  # load time ahead at the present decision, of the processors it concerns
        ("planned", "i8"),  # drawn time of its task, where the lane follows an engine
    ],
    align=True,
)
MEMORY_STATE = np.dtype([("used", "i8"), ("write_back", "i8")], align=True)
"""write_back: tile to send to the host before its eviction, -1 if none."""


@struct(
    "machine",
    "kinds",
    "processors",
    "nodes",
    "templates",
    "tasks",
    "children",
    "accesses",
    "tiles",
    "users",
    "durations",
    "plans",
    "arrivals",
)
class TaskgraphSpecType(types.StructRef):
    """Constant data of a scenario.

    machine (1), kinds (Q), processors (P), nodes (1 + G), templates (K), tasks (S), children (E) within the template,
    accesses (A) within the template, tiles (B), users (U), durations (S, Q) ns, plans (3, S), arrivals (M).
    """


@struct(
    "lanes",
    "jobs",
    "tasks",
    "tiles",
    "copies",
    "processors",
    "holds",
    "queues",
    "memories",
    "links",
    "ready",
    "candidates",
    "taken",
    "graph",
    "heap",
    "terms",
    "log",
)
class TaskgraphStateType(types.StructRef):
    """State of the lanes.

    lanes (L), jobs (L, J), tasks (L, J * T), tiles (L, J * D), copies (L, J * D, 1 + G), processors (L, P),
    holds (L, P, 2), queues (L, P, J * T), memories (L, 1 + G), links (L, 3 G) the tile that each transfers,
    ready (L, J * T), candidates (L, J * T or P), taken (L, J, P), graph (L, N), heap (L, H), terms (L, 1), log (L, R).
    """
