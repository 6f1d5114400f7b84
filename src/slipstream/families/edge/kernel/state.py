"""The arrays of the edge machine: what does not change during an episode, and what does."""

from __future__ import annotations

import numpy as np
from numba import types

from slipstream.jit.structs import struct
from slipstream.sim.kernel.lanes import LANE_FIELDS

PERIODIC, POISSON, BURSTY, TRACE, CLOSED = range(5)
NO_INTERFERENCE, SHARE, ROOFLINE, MATRIX = range(4)
FIXED, LOGNORMAL, EXPONENTIAL = range(3)
NO_PREEMPTION, STAGE, RESTART, RESUME = range(4)
ON_TIME_ACCURACY, LATENESS, DROPS, UTILISATION, ENERGY = range(5)
NOTHING, DISPATCHING, PREEMPTING, DROPPING, WAITING = range(5)

DEVICE = np.dtype(
    [
        ("horizon", "i8"),
        ("streams", "i8"),
        ("interference", "i8"),
        ("throughput", "f8"),
        ("levels", "i8"),  # different priorities of streams
        ("latency_kind", "i8"),
        ("sigma", "f8"),
        ("half_variance", "f8"),
        ("drop_late", "i8"),
        ("queue_limit", "i8"),
        ("decision_time", "i8"),
        ("finite", "i8"),  # 1 if every task's releases come from a trace
        ("simple", "i8"),  # 1 if nobody is interrupted, weights take no time or room, and streams are alike
        ("preemption", "i8"),
        ("switch_cost", "i8"),
        ("loads", "i8"),  # 1 if weights take time or room
        ("memory", "i8"),  # kB, NEVER without a limit
        ("first_drop", "i8"),  # the first row that drops a job
        ("log_margin", "i8"),  # rows of the log that one event, with the choice before it, may fill
        ("idle_power", "f8"),
        ("metered", "i8"),  # 1 if runs add to it
        ("on_time_accuracy", "f8"),
        ("lateness", "f8"),
        ("drops", "f8"),
        ("utilisation", "f8"),
        ("energy", "f8"),
    ],
    align=True,
)
STREAM = np.dtype([("level", "i8"), ("priority", "f8")], align=True)
"""level 0 is served first."""
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
VARIANT = np.dtype(
    [
        ("latency", "i8"),  # by the profile
        ("actual", "i8"),  # what a run really takes alone, before chance
        ("accuracy", "f8"),
        ("demand", "f8"),
        ("compute", "f8"),
        ("bandwidth", "f8"),
        ("power", "f8"),
        ("stages", "i8"),
        ("load", "i8"),
        ("memory", "i8"),  # kB
    ],
    align=True,
)

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
        ("power", "f8"),  # what the device draws now, W
        ("joules", "f8"),  # what it took in this episode
        ("step_joules", "f8"),  # the same, up to the last choice
        ("silent", "i8"),  # tasks with no release to come
        ("in_flight", "i8"),  # kind of the choice that has not taken effect yet
        ("chosen_task", "i8"),
        ("chosen_variant", "i8"),
        ("chosen_job", "i8"),
        ("chosen_stream", "i8"),
        ("chosen_events", "i8"),  # events applied when the choice was made
        ("alert", "i8"),  # 1 if something came that may be worth an interruption
        ("taken_job", "i8"),  # the job that left its queue last
        ("taken_release", "i8"),
        # What follows a simple device never uses, so it stays out of the processor's cache.
        ("taken_variant", "i8"),  # the run that this job kept, -1 if none
        ("taken_stage", "i8"),
        ("taken_work", "f8"),
        ("taken_expected", "f8"),
        ("victim_task", "i8"),  # the job that the choice interrupts
        ("victim_job", "i8"),
        ("memory_taken", "i8"),  # kB of all weights on the device
        ("memory_in_use", "i8"),  # kB of the weights of jobs on streams
        ("uses", "i8"),  # how often weights were taken into use or left
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
        # What a device said, where the lane follows one.
        ("ended", "i8"),  # when the run ended, NEVER while it goes on
        ("failed", "i8"),  # 1 if without a result
    ],
    align=True,
)
COURSE = np.dtype(
    [
        ("runs", "i8"),  # 1 if the stream's job runs; 0 when idle or in a set-up
        ("began", "i8"),  # when the job began or will begin to run, its set-up over
        ("border", "i8"),  # when the job last reached a border, -1 if never
        ("stage", "i8"),  # stages behind it
        ("stop", "f8"),  # work left at the next border, 0 if none is to come
        ("total", "f8"),  # ns of solo work of the whole run
        ("power", "f8"),
    ],
    align=True,
)
"""What there is to know of a run on a device that is not simple."""
CREW = np.dtype(
    [
        ("task", "i8"),
        ("variant", "i8"),
        ("runs", "i8"),
        ("work", "f8"),
        ("expected", "f8"),
        ("demand", "f8"),
        ("compute", "f8"),
        ("bandwidth", "f8"),
        ("rate", "f8"),  # what the others leave it
    ],
    align=True,
)
"""Jobs side by side, one record per stream: as they run now, or as a look ahead sees them."""
JOB = np.dtype([("index", "i8"), ("release", "i8")], align=True)
KEPT = np.dtype([("variant", "i8"), ("stage", "i8"), ("work", "f8"), ("expected", "f8")], align=True)
"""What a waiting job kept of an interrupted run; variant -1 if nothing."""
WEIGHTS = np.dtype([("resident", "i8"), ("users", "i8"), ("last_use", "i8"), ("ready", "i8")], align=True)
"""users: streams that hold a job of the variant; ready: when the last loading ended or will end."""


@struct("device", "streams", "tasks", "variants", "slowdowns", "trace", "static_rows")
class EdgeSpecType(types.StructRef):
    """What does not change.

    device (1), streams (S), tasks (T), variants (T, V), slowdowns (T * V, T * V), trace (N) ns, static_rows (A, F).
    """


@struct("lanes", "tasks", "streams", "courses", "queue", "kept", "weights", "heap", "terms", "log", "crew")
class EdgeStateType(types.StructRef):
    """What changes.

    lanes (L), tasks (L, T), streams (L, S), courses (L, S), queue (L, Q, T), kept (L, Q, T), weights (L, T, V),
    heap (L, H), terms (L, 5), log (L, C). crew (L, S) is scratch space.
    """
