"""Record types of the edge kernel: the specification, constant in an episode, and the state."""

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
        ("priority_ranks", "i8"),  # number of different stream priorities
        ("latency_kind", "i8"),
        ("sigma", "f8"),
        ("half_variance", "f8"),
        ("drop_late", "i8"),
        ("queue_limit", "i8"),
        ("decision_time", "i8"),
        ("finite", "i8"),  # 1 if every task's releases come from a trace
        ("simple", "i8"),  # 1 if no preemption, batches or cost of weights in time or memory, and equal streams
        ("preemption", "i8"),
        ("switch_cost", "i8"),
        ("loads", "i8"),  # 1 if weights take time or memory
        ("memory", "i8"),  # kB, NEVER without a limit
        ("first_drop", "i8"),  # index of the first drop row
        ("log_margin", "i8"),  # most log rows of one event with the decision before it
        ("batches", "i8"),  # 1 if a run may have several jobs
        ("idle_power", "f8"),
        ("metered", "i8"),  # 1 if runs add to the idle power
        ("on_time_accuracy", "f8"),
        ("lateness", "f8"),
        ("drops", "f8"),
        ("utilisation", "f8"),
        ("energy", "f8"),
    ],
    align=True,
)
STREAM = np.dtype([("rank", "i8"), ("priority", "f8")], align=True)
"""rank: of the priority, 0 is the highest."""
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
        ("variants", "i8"),  # kinds of runs: variants, then variants again for each size of a batch
        ("fastest", "i8"),
        ("fill_time", "i8"),  # wait for a fuller batch, -1 if none
    ],
    align=True,
)
VARIANT = np.dtype(
    [
        ("latency", "i8"),  # as profiled
        ("actual", "i8"),  # actual mean latency alone on the device; as profiled where futures are simulated
        ("accuracy", "f8"),
        ("demand", "f8"),
        ("compute", "f8"),
        ("bandwidth", "f8"),
        ("power", "f8"),
        ("stages", "i8"),
        ("load", "i8"),
        ("memory", "i8"),  # kB
        ("drawn", "i8"),  # actual mean latency that run times were drawn with
        ("jobs", "i8"),  # jobs of a run
        ("rank", "i8"),  # rank in the ladder, without the size of the batch
    ],
    align=True,
)
"""A kind of run: a variant of the ladder, for one job or for a batch."""

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
        ("step_busy_time", "i8"),  # the same, up to the last decision
        ("power", "f8"),  # present power of the device, W
        ("joules", "f8"),  # energy in this episode
        ("step_joules", "f8"),  # the same, up to the last decision
        ("exhausted", "i8"),  # tasks with no further release
        ("in_flight", "i8"),  # kind of the decision that has not taken effect yet
        ("chosen_task", "i8"),
        ("chosen_variant", "i8"),
        ("chosen_job", "i8"),
        ("chosen_stream", "i8"),
        ("chosen_events", "i8"),  # events applied when the decision was made
        ("alert", "i8"),  # 1 if something happened that may be worth a preemption
        ("dequeued_job", "i8"),  # the job dequeued last
        ("dequeued_release", "i8"),
        # A simple device never uses the following fields, so they stay out of the processor's cache.
        ("dequeued_variant", "i8"),  # variant of its checkpoint, -1 if none
        ("dequeued_stage", "i8"),
        ("dequeued_work", "f8"),
        ("dequeued_expected", "f8"),
        ("victim_task", "i8"),  # the job that the decision preempts
        ("victim_job", "i8"),
        ("memory_resident", "i8"),  # kB of all weights on the device
        ("memory_in_use", "i8"),  # kB of the weights of jobs on streams
        ("use_count", "i8"),  # how often weights were acquired or released
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
        ("burst", "i8"),  # 1 in a burst; -1 if the rest of a trace was redrawn
        ("spell_end", "i8"),
        ("head", "i8"),  # position of the oldest waiting job in the ring
        ("length", "i8"),  # waiting jobs
        ("running", "i8"),
        ("finished", "i8"),
        ("stale", "i8"),  # 1 if its rows show old counts of waiting, running and finished jobs
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
        ("expected", "f8"),  # the same by the profile, which is all that policies observe
        ("demand", "f8"),
        ("rate", "f8"),
        ("updated", "i8"),
        ("parked", "i8"),  # number of events applied when it was parked
        # Reported by the device, if the lane follows one.
        ("ended", "i8"),  # when the run ended, NEVER while it runs
        ("failed", "i8"),  # 1 if the run gave no result
    ],
    align=True,
)
RUN = np.dtype(
    [
        ("active", "i8"),  # 1 if the stream's job runs; 0 when idle or in setup
        ("began", "i8"),  # when the run began or will begin, after the setup
        ("boundary", "i8"),  # when the job last reached a stage boundary, -1 if never
        ("stage", "i8"),  # completed stages
        ("boundary_work", "f8"),  # work left at the next stage boundary, 0 if there is none
        ("total", "f8"),  # ns of solo work of the whole run
        ("power", "f8"),
    ],
    align=True,
)
"""Further state of a stream's run, on a device that is not simple."""
CORUNNER = np.dtype(
    [
        ("task", "i8"),
        ("variant", "i8"),
        ("active", "i8"),
        ("work", "f8"),
        ("expected", "f8"),
        ("demand", "f8"),
        ("compute", "f8"),
        ("bandwidth", "f8"),
        ("rate", "f8"),  # under interference
    ],
    align=True,
)
"""Jobs that run at the same time, one record per stream: those of now, or those of a lookahead."""
JOB = np.dtype([("index", "i8"), ("release", "i8")], align=True)
CHECKPOINT = np.dtype(
    [("variant", "i8"), ("lead", "i8"), ("stage", "i8"), ("work", "f8"), ("expected", "f8")], align=True
)
"""Saved progress of a preempted job that waits; variant -1 if none; lead: oldest job of its run, which holds it."""
WEIGHTS = np.dtype([("resident", "i8"), ("users", "i8"), ("last_use", "i8"), ("ready", "i8")], align=True)
"""users: streams that run the variant; ready: when the last loading ended or will end."""


@struct("device", "streams", "tasks", "variants", "slowdowns", "trace", "static_rows")
class EdgeSpecType(types.StructRef):
    """Specification: constant during an episode.

    device (1), streams (S), tasks (T), variants (T, V), slowdowns (T * V, T * V), trace (N) ns, static_rows (A, F).
    """


@struct(
    *("lanes", "tasks", "streams", "runs", "members", "queue", "checkpoints", "weights"),
    *("heap", "terms", "log", "corunners"),
)
class EdgeStateType(types.StructRef):
    """State of all lanes.

    lanes (L), tasks (L, T), streams (L, S), runs (L, S), members (L, S + 1, B), queue (L, Q, T), checkpoints (L, Q, T),
    weights (L, T, V), heap (L, H), terms (L, 5), log (L, C). members are the jobs of runs where there are batches, the
    oldest first; the last row is for those that are about to start. corunners (L, S) is scratch space.
    """
