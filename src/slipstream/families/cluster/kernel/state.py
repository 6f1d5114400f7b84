"""The arrays of the cluster machine: what does not change during an episode, and what does."""

from __future__ import annotations

import numpy as np
from numba import types

from slipstream.jit.structs import struct
from slipstream.sim.kernel.lanes import LANE_FIELDS
from slipstream.sim.kernel.window import LIST_FIELDS, ROW_FIELDS

FLAT, FIRST_FIT, BEST_FIT, CONSOLIDATE, FGD = range(5)
STRICT, GREEDY, EASY, CONSERVATIVE = range(4)
WAITING, RUNNING, ENDED = range(3)
SLOWDOWN, WAIT_HOURS, THROUGHPUT, UTILISATION, ENERGY, UNFAIRNESS = range(6)
BOUND_S = 10.0
"""Run times count as at least so many seconds in a bounded slowdown."""
BY_NUMBER = -1
"""The order of the queue unless a policy that knows its own plays."""

MACHINE = np.dtype(
    [
        ("gpus", "i8"),
        ("nodes", "i8"),
        ("levels", "i8"),
        ("largest_node", "i8"),
        ("jobs", "i8"),  # jobs of an episode
        ("placement", "i8"),
        ("backfill", "i8"),
        ("hold", "i8"),
        ("compat", "i8"),
        ("preemption", "i8"),
        ("simple", "i8"),  # 1 if only numbers of GPUs and times count, under strict or EASY rules
        ("cost", "i8"),
        ("least_run", "i8"),
        ("round_length", "i8"),  # 0 if there are none
        ("has_quotas", "i8"),
        ("has_budget", "i8"),
        ("budget", "i8"),
        ("idle_power", "i8"),  # of the whole cluster, all nodes awake
        ("has_sleep", "i8"),
        ("sleep_after", "i8"),
        ("wake", "i8"),
        ("node_factor", "f8"),
        ("rack_factor", "f8"),
        ("window", "i8"),  # waiting jobs that an observation has room for
        ("window_running", "i8"),
        *ROW_FIELDS,
        ("log_margin", "i8"),
        ("slowdown", "f8"),
        ("waiting", "f8"),
        ("throughput", "f8"),
        ("utilisation", "f8"),
        ("energy", "f8"),
        ("unfairness", "f8"),
    ],
    align=True,
)
NODE = np.dtype([("kind", "i4"), ("rack", "i4"), ("gpus", "i4"), ("saved", "i8")], align=True)
"""saved: what it draws less while it sleeps."""
LEVEL = np.dtype([("factor", "f8"), ("power", "i8")], align=True)
"""factor: time over speed; power: what a GPU at work adds."""
JOB = np.dtype(
    [
        ("submit", "i8"),
        ("run", "i8"),
        ("requested", "i8"),
        ("submitted_s", "f8"),  # as the source counts
        ("gpus", "i4"),
        ("user", "i4"),
    ],
    align=True,
)
PART = np.dtype([("low", "i8"), ("high", "i8")], align=True)
"""Where an episode of a split may begin."""
USER = np.dtype([("quota", "i8")], align=True)

LANE = np.dtype(
    [
        *LANE_FIELDS,
        ("first", "i8"),  # place of job 0 in the workload
        ("arrived", "i8"),
        ("done", "i8"),
        ("waiting", "i8"),
        ("running", "i8"),
        ("free", "i8"),
        ("power", "i8"),
        ("turns", "i8"),  # starts so far
        ("due", "i8"),  # 1 if a scheduling point is to come or under way
        ("open", "i8"),  # 1 if it is under way
        ("point", "i8"),  # scheduling points so far
        ("reserved", "i8"),  # -1 if none
        ("reserved_level", "i8"),
        ("shadow", "i8"),
        ("extra", "i8"),  # GPUs that are free beside the reserved job at the shadow time
        ("shadow_power", "i8"),  # with the reserved job
        ("profile", "i8"),  # steps of the profile
        ("free_piece", "i8"),
        *LIST_FIELDS,
        ("shown_starts", "i8"),
        ("starts", "i8"),  # rows that start a job
        ("start_jobs", "i8"),  # jobs that these start
        ("active_users", "i8"),
        ("held", "i8"),
        ("held_squares", "i8"),
        ("waiting_gpus", "i8"),
        ("counted", "i8"),  # time up to which the terms are
        ("rate", "f8"),  # by which the slowdown grows, per second
        ("busy_hours", "f8"),
        ("order", "i8"),  # of the queue
        ("parameter", "f8"),  # of the policy that plays, where it has one; set from outside
    ],
    align=True,
)
JOB_STATE = np.dtype(
    [
        ("submit", "i8"),
        ("run", "i8"),
        ("requested", "i8"),
        ("left", "i8"),
        ("start", "i8"),
        ("queued", "i8"),  # since when it waits
        ("waited", "i8"),  # before that
        ("attained", "i8"),  # time that it has run before it was interrupted
        ("setup", "i8"),
        ("end", "i8"),
        ("expected_end", "i8"),
        ("power", "i8"),
        ("factor", "f8"),
        ("bound", "f8"),  # max(run, 10 s), in seconds
        ("log_of", "i8"),  # expected time whose logarithms are known
        ("log_expected", "f8"),
        ("log_area", "f8"),
        ("turn", "i8"),  # among jobs that end at the same time
        ("slot", "i8"),  # point at which it got its slot
        ("gpus", "i4"),
        ("user", "i4"),
        ("status", "i4"),
        ("level", "i4"),
        ("piece", "i4"),  # first of the place
        ("node", "i4"),
        ("place", "i4"),  # in the heap of ends
        ("shown", "i4"),
        ("interrupted", "i4"),  # how often
    ],
    align=True,
)
QUEUED = np.dtype([("score", "f8"), ("expected", "i8"), ("job", "i4"), ("gpus", "i4")], align=True)
"""A waiting job; `expected` to be left."""
PIECE = np.dtype([("node", "i4"), ("gpus", "i4"), ("next", "i4")], align=True)
STEP = np.dtype([("time", "i8"), ("free", "i8")], align=True)
"""A step of the profile: so many GPUs are free from then on."""
SMALL = np.dtype([("area", "f8"), ("job", "i8")], align=True)
USER_STATE = np.dtype([("held", "i8"), ("jobs", "i8")], align=True)


@struct("machine", "nodes", "levels", "jobs", "parts", "users", "wasted")
class ClusterSpecType(types.StructRef):
    """What does not change.

    machine (1), nodes (N), levels (K, C) by kind of node, jobs (T) of the workload, parts (3), users (U),
    wasted (G + 1) by the free GPUs of a node.
    """


@struct(
    "lanes",
    "jobs",
    "queue",
    "running",
    "ends",
    "free",
    "idle",
    "later",
    "plan",
    "pieces",
    "profile",
    "users",
    "candidates",
    "small",
    "terms",
    "log",
)
class ClusterStateType(types.StructRef):
    """What changes.

    lanes (L), jobs (L, J), queue (L, J) in order, running (L, R) by expected end, ends (L, R) a heap, free (L, N),
    idle (L, N) since when, -1 if at work, later (L, N) at the shadow time, plan (L, 2, N) two places, pieces (L, P) of
    places, profile (L, S), users (L, U), candidates (L, 2 (J * C + R)) in order and as they were found, small (L, W),
    terms (L, 6), log (L, rows).
    """
