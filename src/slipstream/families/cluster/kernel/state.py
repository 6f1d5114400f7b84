"""Arrays of the cluster machine: constants of an episode (spec) and its state."""

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
"""Least run time in seconds that the bounded slowdown divides by."""
BY_NUMBER = -1
"""Order of the queue unless a sorted-queue policy plays: by job number."""

MACHINE = np.dtype(
    [
        ("gpus", "i8"),
        ("nodes", "i8"),
        ("levels", "i8"),
        ("largest_node", "i8"),
        ("jobs", "i8"),  # jobs of an episode
        ("has_begun", "i8"),  # 1 if jobs may run when the episode begins
        ("beginning", "i8"),  # time 0 then, since the first submission of the workload
        ("placement", "i8"),
        ("backfill", "i8"),
        ("hold", "i8"),
        ("compat", "i8"),
        ("preemption", "i8"),
        ("simple", "i8"),  # 1 if only GPU counts and times matter, under strict or EASY rules
        ("cost", "i8"),
        ("least_run", "i8"),
        ("round_length", "i8"),  # 0 without rounds
        ("has_quotas", "i8"),
        ("has_budget", "i8"),
        ("budget", "i8"),
        ("idle_power", "i8"),  # of the whole cluster, all nodes awake
        ("has_sleep", "i8"),
        ("sleep_after", "i8"),
        ("wake", "i8"),
        ("node_factor", "f8"),
        ("rack_factor", "f8"),
        ("window", "i8"),  # waiting jobs of an observation window
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
"""saved: power that the node saves while it sleeps."""
LEVEL = np.dtype([("factor", "f8"), ("power", "i8")], align=True)
"""factor: run time in multiples of that at speed 1; power: what a busy GPU adds."""
JOB = np.dtype(
    [
        ("submit", "i8"),
        ("run", "i8"),
        ("requested", "i8"),
        ("submitted_s", "f8"),  # as the source counts it
        ("gpus", "i4"),
        ("user", "i4"),
    ],
    align=True,
)
BEGUN = np.dtype([("started", "i8"), ("runs", "i4"), ("first", "i4"), ("pieces", "i4")], align=True)
"""A job that may run when the episode begins: when it started, since the first submission, and its pieces in `held`;
one piece if flat."""
SPLIT = np.dtype([("low", "i8"), ("high", "i8")], align=True)
"""Range of the first jobs of a split's episodes."""
USER = np.dtype([("quota", "i8")], align=True)

LANE = np.dtype(
    [
        *LANE_FIELDS,
        ("origin", "i8"),  # index of job 0 in the workload
        ("first", "i8"),  # the same, of jobs to come: another one where they were redrawn
        ("jobs", "i8"),  # jobs that arrive in all
        ("time_zero", "i8"),  # submit time in the workload that is time 0
        ("shift_s", "f8"),  # added to the submit times as the source counts them, of jobs that were redrawn
        ("arrived", "i8"),
        ("done", "i8"),
        ("waiting", "i8"),
        ("running", "i8"),
        ("free", "i8"),
        ("power", "i8"),
        ("started", "i8"),  # number of starts in this episode
        ("due", "i8"),  # 1 if a scheduling point is due or open
        ("open", "i8"),  # 1 if a scheduling point is open
        ("point", "i8"),  # number of scheduling points in this episode
        ("reserved", "i8"),  # job, -1 if none
        ("reserved_level", "i8"),
        ("shadow", "i8"),
        ("extra", "i8"),  # GPUs free beside the reserved job at the shadow time
        ("shadow_power", "i8"),  # power at the shadow time, the reserved job included
        ("profile", "i8"),  # number of steps of the profile
        ("free_piece", "i8"),
        *LIST_FIELDS,
        ("shown_starts", "i8"),
        ("starts", "i8"),  # candidate rows that start a job
        ("start_jobs", "i8"),  # distinct jobs of these rows
        ("active_users", "i8"),
        ("held", "i8"),
        ("held_squares", "i8"),
        ("waiting_gpus", "i8"),
        ("rate", "f8"),  # growth of the slowdown sum per second
        ("busy_hours", "f8"),
        ("order", "i8"),  # priority function that the queue is sorted by
        ("parameter", "f8"),  # of the policy that plays, where it has one; set by the caller
    ],
    align=True,
)
JOB_STATE = np.dtype(
    [
        ("submit", "i8"),
        ("run", "i8"),
        ("requested", "i8"),
        ("submitted_s", "f8"),  # submit time as the source counts it
        ("left", "i8"),
        ("start", "i8"),
        ("queued", "i8"),  # when it began to wait
        ("waited", "i8"),  # time waited before that
        ("attained", "i8"),  # time served before interruptions
        ("setup", "i8"),
        ("end", "i8"),
        ("expected_end", "i8"),
        ("power", "i8"),
        ("factor", "f8"),
        ("bound", "f8"),  # max(run, 10 s), in seconds
        ("log_of", "i8"),  # expected time of the two cached logarithms
        ("log_expected", "f8"),
        ("log_area", "f8"),
        ("tie_rank", "i8"),  # order among jobs that end at the same time
        ("profiled_at", "i8"),  # scheduling point at which the profile got its reservation
        ("gpus", "i4"),
        ("user", "i4"),
        ("status", "i4"),
        ("level", "i4"),
        ("piece", "i4"),  # first piece of its allocation
        ("node", "i4"),
        ("heap_index", "i4"),  # position in the heap of ends
        ("shown", "i4"),
        ("interrupted", "i4"),  # number of interruptions
    ],
    align=True,
)
QUEUED = np.dtype([("score", "f8"), ("expected", "i8"), ("job", "i4"), ("gpus", "i4")], align=True)
"""A waiting job; `expected`: its remaining work as expected."""
PIECE = np.dtype([("node", "i4"), ("gpus", "i4"), ("next", "i4")], align=True)
STEP = np.dtype([("time", "i8"), ("free", "i8")], align=True)
"""A step of the profile: `free` GPUs from `time` on."""
SMALL = np.dtype([("area", "f8"), ("job", "i8")], align=True)
USER_STATE = np.dtype([("held", "i8"), ("jobs", "i8")], align=True)


@struct("machine", "nodes", "levels", "jobs", "splits", "users", "wasted", "begun", "held")
class ClusterSpecType(types.StructRef):
    """Constants of an episode.

    machine (1), nodes (N), levels (K, C) by kind of node, jobs (T) of the workload, splits (2), users (U), wasted (G +
    1) by the free GPUs of a node; begun (T) and held (pieces of their allocations), both empty unless `has_begun`.
    """


@struct(
    "lanes",
    "jobs",
    "queue",
    "running",
    "ends",
    "free",
    "idle",
    "shadow_free",
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
    """State of an episode.

    lanes (L), jobs (L, J), queue (L, J) in order, running (L, R) by expected end, ends (L, R) a heap, free (L, N), idle
    (L, N) since when, -1 if busy, shadow_free (L, N) at the shadow time, plan (L, 2, N) two placements, pieces (L, P)
    of allocations, profile (L, S), users (L, U), candidates (L, 2 (J * C + R)) in order and as they were found, small
    (L, W), terms (L, 6), log (L, rows).
    """
