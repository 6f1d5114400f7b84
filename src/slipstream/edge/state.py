"""The arrays of the edge machine: what does not change during an episode, and what does."""

from __future__ import annotations

import numpy as np
from numba import types
from numba.experimental import structref

from slipstream.core.jit import entry
from slipstream.core.lanes import LANE_FIELDS
from slipstream.core.structs import struct

PERIODIC, POISSON, BURSTY, TRACE, CLOSED = range(5)
NO_INTERFERENCE, SHARE = range(2)
FIXED, LOGNORMAL, EXPONENTIAL = range(3)
ON_TIME_ACCURACY, LATENESS, DROPS, UTILISATION = range(4)
NOTHING, DISPATCHING, DROPPING, WAITING = range(4)

DEVICE = np.dtype(
    [
        ("horizon", "i8"),
        ("streams", "i8"),
        ("interference", "i8"),
        ("throughput", "f8"),
        ("latency_kind", "i8"),
        ("sigma", "f8"),
        ("half_variance", "f8"),
        ("drop_late", "i8"),
        ("queue_limit", "i8"),
        ("decision_time", "i8"),
        ("finite", "i8"),  # 1 if every task's releases come from a trace
        ("on_time_accuracy", "f8"),
        ("lateness", "f8"),
        ("drops", "f8"),
        ("utilisation", "f8"),
    ],
    align=True,
)
TASK = np.dtype(
    [
        ("arrival", "i8"),
        ("period", "i8"),  # mean gap; of periodic tasks the period
        ("phase", "i8"),
        ("jitter", "i8"),
        ("calm_gap", "f8"),  # of Poisson tasks the only gap
        ("burst_gap", "f8"),
        ("calm_spell", "f8"),
        ("burst_spell", "f8"),
        ("trace_start", "i8"),
        ("trace_end", "i8"),
        ("think", "i8"),
        ("retry", "i8"),
        ("deadline", "i8"),
        ("weight", "f8"),
        ("variants", "i8"),
        ("fastest", "i8"),
    ],
    align=True,
)
VARIANT = np.dtype([("latency", "i8"), ("accuracy", "f8"), ("demand", "f8")], align=True)

LANE = np.dtype(
    [
        *LANE_FIELDS,
        ("waiting", "i8"),  # jobs in queues
        ("waiting_tasks", "i8"),  # tasks with a job in their queue
        ("backlog", "i8"),  # time to run all waiting jobs in their fastest variants, one by one
        ("released", "i8"),
        ("finished", "i8"),
        ("missed", "i8"),  # late, expired, rejected or dropped
        ("busy", "i8"),  # streams that run
        ("busy_time", "i8"),  # stream-nanoseconds spent running in this episode
        ("step_busy_time", "i8"),  # the same, up to the last choice
        ("silent", "i8"),  # tasks with no release to come
        ("in_flight", "i8"),  # kind of the choice that has not taken effect yet
        ("chosen_task", "i8"),
        ("chosen_variant", "i8"),
        ("chosen_job", "i8"),
        ("chosen_stream", "i8"),
        ("chosen_events", "i8"),  # events applied when the choice was made
    ],
    align=True,
)
TASK_STATE = np.dtype(
    [
        ("arrival_key", "u8"),
        ("latency_key", "u8"),
        ("draws", "i8"),
        ("released", "i8"),
        ("last_release", "i8"),
        ("burst", "i8"),  # 1 in a burst
        ("spell_end", "i8"),
        ("head", "i8"),  # place of the oldest waiting job in the ring
        ("length", "i8"),  # waiting jobs
        ("running", "i8"),
        ("finished", "i8"),
        ("stale", "i8"),  # 1 if its rows no longer show how many jobs wait, run and have finished
    ],
    align=True,
)
STREAM_STATE = np.dtype(
    [
        ("task", "i8"),  # -1 when idle
        ("variant", "i8"),
        ("job", "i8"),
        ("release", "i8"),
        ("work", "f8"),  # ns of solo work left when last updated
        ("expected", "f8"),  # the same by the profile, which is all a policy may know
        ("demand", "f8"),
        ("rate", "f8"),
        ("updated", "i8"),
        ("parked", "i8"),  # number of events applied when it was parked
    ],
    align=True,
)
JOB = np.dtype([("index", "i8"), ("release", "i8")], align=True)


class EdgeSpecType(types.StructRef):
    """Compiled type of EdgeSpec."""


class EdgeSpec(structref.StructRefProxy):
    """What does not change: device (1), tasks (T), variants (T, V), trace (N) ns, static_rows (A, F)."""


class EdgeStateType(types.StructRef):
    """Compiled type of EdgeState."""


class EdgeState(structref.StructRefProxy):
    """What changes: lanes (L), tasks (L, T), streams (L, S), queue (L, T, Q), heap (L, H), terms (L, 4), log (L, C).

    probe (L, S) is scratch space for one choice.
    """


struct(EdgeSpecType, EdgeSpec, ["device", "tasks", "variants", "trace", "static_rows"])
struct(EdgeStateType, EdgeState, ["lanes", "tasks", "streams", "queue", "heap", "terms", "log", "probe"])


@entry
def make_spec(device, tasks, variants, trace, static_rows):
    return EdgeSpec(device, tasks, variants, trace, static_rows)


@entry
def make_state(lanes, tasks, streams, queue, heap, terms, log, probe):
    return EdgeState(lanes, tasks, streams, queue, heap, terms, log, probe)
