"""The arrays of the taskgraph machine: what does not change during an episode, and what does."""

from __future__ import annotations

import numpy as np
from numba import types

from slipstream.jit.structs import struct
from slipstream.sim.kernel.job_stream import ARRIVAL_FIELDS, STREAM_FIELDS
from slipstream.sim.kernel.lanes import LANE_FIELDS
from slipstream.sim.kernel.window import LIST_FIELDS, ROW_FIELDS

CHOOSE_TASK, CHOOSE_PROCESSOR, CHOOSE_QUEUED = range(3)
"""Phases: a processor chooses among ready tasks, a task among processors, a processor among its queue."""
HIDDEN, WAITING, READY, QUEUED, HELD, FINISHED = range(6)
"""What a task has come to; a task that runs is held."""
ABSENT, LOADING, VALID = range(3)
"""What a node has of a tile."""
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
        ("tiles", "i8"),  # tiles of the template that has most
        ("transfers", "i8"),  # 0 if every tile is everywhere
        ("peer", "i8"),  # 1 if devices are connected with each other
        ("push", "i8"),
        ("pipeline", "i8"),
        ("prefetch", "i8"),
        ("eviction", "i8"),
        ("visibility", "i8"),
        ("visible_tasks", "i8"),
        ("noise", "i8"),
        ("spread", "f8"),  # standard deviation in ns, or of the logarithm
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
"""processor: the one that works there, -1 for the host."""
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
        ("rank", "i8"),  # in the whole graph
        ("path_after", "i8"),  # likewise
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
PLAN = np.dtype([("processor", "i4"), ("turn", "i4")], align=True)

LANE = np.dtype(
    [
        *LANE_FIELDS,
        *STREAM_FIELDS,
        *LIST_FIELDS,
        ("phase", "i8"),
        ("asked_task", "i8"),  # -1 unless a task is asked
        ("done", "i8"),  # jobs that are
        ("finished", "i8"),  # tasks that have ended
        ("visible", "i8"),  # visible tasks not finished
        ("work_left", "i8"),  # their least times
        ("ready", "i8"),
        ("placed", "i8"),
        ("running", "i8"),
        ("moving", "i8"),  # links that carry something
        ("touches", "i8"),
        ("listed", "i8"),  # nodes of the graph
        ("ranks_stale", "i8"),
        ("step_counted", "i8"),  # time of the last choice, 0 before the first
        ("parameter", "f8"),  # of the policy that plays, where it has one; set from outside
    ],
    align=True,
)
JOB_STATE = np.dtype(
    [
        ("key", "u8"),
        ("first_task", "i8"),  # of its template
        ("tasks", "i8"),
        ("submitted", "i8"),  # tasks that came into view, where these come in order
        ("finished", "i8"),
        ("oldest", "i8"),  # tasks before this one have all ended
        ("place", "i8"),  # among the active jobs
    ],
    align=True,
)
TASK_STATE = np.dtype(
    [
        ("source", "i4"),  # place in the specification
        ("job", "i4"),
        ("status", "i4"),
        ("waits_for", "i4"),  # parents that have not ended
        ("node", "i4"),  # place in the graph of the observation
        ("place", "i4"),  # in the list or queue of this choice
        ("shown", "i4"),  # 1 if the observation has room for it, where not for all
        ("parked", "i8"),  # number of events when it was told to wait
        ("ready_at", "i8"),
        ("rank", "i8"),  # of what is visible
        ("path_after", "i8"),  # likewise
    ],
    align=True,
)
TILE_STATE = np.dtype(
    [
        ("source", "i4"),
        ("moving", "i4"),  # links that carry it
        ("uses", "i4"),  # visible tasks not finished that use it
        ("next_user", "i4"),  # among its users: those before have all ended
        ("freed", "i8"),  # scratch: work that waits for just this tile
    ],
    align=True,
)
COPY = np.dtype([("state", "i4"), ("queued", "i4"), ("touched", "i8")], align=True)
"""queued: tasks in the queue of the node's processor that use the tile."""
PROCESSOR_STATE = np.dtype(
    [
        ("held", "i4"),
        ("queued", "i4"),
        ("runs", "i4"),  # 1 if the first task it holds runs
        ("kind", "i4"),
        ("parked", "i8"),
        ("expected", "i8"),  # when the task that runs is expected to end
        ("work", "i8"),  # expected time of what it holds and has queued, but for the task that runs
        ("ahead", "i8"),  # with it, at the present choice
        ("load_ahead", "i8"),  # at the present choice, of processors that it is about
    ],
    align=True,
)
MEMORY_STATE = np.dtype([("used", "i8"), ("write_back", "i8")], align=True)
"""write_back: a tile that has to leave, -1 if none."""


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
    """What does not change.

    machine (1), kinds (Q), processors (P), nodes (1 + G), templates (K), tasks (S), children (E) within the template,
    accesses (A) likewise, tiles (B), users (U), durations (S, Q) ns, plans (3, S), arrivals (M).
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
    """What changes.

    lanes (L), jobs (L, J), tasks (L, J * T), tiles (L, J * D), copies (L, J * D, 1 + G), processors (L, P),
    holds (L, P, 2), queues (L, P, J * T), memories (L, 1 + G), links (L, 3 G) the tile that each carries,
    ready (L, J * T), candidates (L, J * T or P), taken (L, J, P), graph (L, N), heap (L, H), terms (L, 1), log (L, R).
    """
