"""Arrays of the serving machine: constants of an episode (spec) and its state."""

from __future__ import annotations

import numpy as np
from numba import types

from slipstream.jit.structs import struct
from slipstream.sim.kernel.lanes import LANE_FIELDS

NONE, ACCSCALE, AIMD, NEXUS, DEADLINE_AWARE = range(5)
RANDOM, ROUND_ROBIN, EFT, LFT, INFAAS, WEIGHTED = range(6)
NEVER_DROP, EXPIRED, HOPELESS, BATCH, TWICE_DEADLINE, CROWDED = range(6)
SILENT, EXPONENTIAL, GAMMA, EVEN, TRACE = range(5)
"""Distributions of the gaps between a model's requests; TRACE: listed arrival times, SILENT: no requests."""
FIXED, EXPONENTIAL_SERVICE, LOGNORMAL = range(3)
EWMA, HOLT = range(2)
ACCURACY, VIOLATIONS, SWITCHES = range(3)
HOST, RELEASE = range(2)
ROWS_PER_COLUMN = 2
ALARMS_PER_REQUEST = 8

MACHINE = np.dtype(
    [
        ("accelerators", "i8"),
        ("models", "i8"),
        ("columns", "i8"),
        ("sizes", "i8"),  # batch sizes of the profile
        ("queue", "i8"),  # most requests at an accelerator
        ("batching", "i8"),
        ("routing", "i8"),
        ("drop", "i8"),
        ("proteus", "i8"),
        ("route", "i8"),  # 1 if decisions route requests
        ("rows", "i8"),  # candidate rows without the last
        ("interval", "i8"),
        ("moves", "i8"),
        ("sample", "i8"),
        ("forecast", "i8"),
        ("level_weight", "f8"),
        ("trend_weight", "f8"),
        ("margin", "f8"),
        ("ahead", "f8"),  # forecast horizon in samples
        ("service", "i8"),
        ("spread", "f8"),  # standard deviation of the logarithm of service times
        ("headroom", "f8"),
        ("shortage", "f8"),
        ("accuracy_weight", "f8"),
        ("served_share", "f8"),
        ("gap", "f8"),
        ("seconds", "f8"),
        ("accuracy", "f8"),
        ("violations", "f8"),
        ("switches", "f8"),
        ("log_margin", "i8"),
    ],
    align=True,
)
MODEL = np.dtype(
    [
        ("number", "i8"),  # in the file
        ("slo", "i8"),
        ("floor", "f8"),
        ("law", "i8"),
        ("gamma_shape", "f8"),
        ("first_segment", "i8"),
        ("segments", "i8"),
        ("segment", "f8"),  # length in ns
        ("end", "f8"),  # of the last segment
        ("first_request", "i8"),
        ("requests", "i8"),  # of a trace
        ("expected", "f8"),  # rate before the first sample
        ("recorded", "i8"),  # 1 if the rates are those of a recording, which no law states
    ],
    align=True,
)
VARIANT = np.dtype([("model", "i8"), ("accuracy", "f8"), ("load", "i8")], align=True)
COLUMN = np.dtype(
    [("model", "i8"), ("variant", "i8"), ("kind", "i8"), ("largest", "i8"), ("peak", "f8")],
    align=True,
)
"""A variant on a kind of accelerator that can serve it."""
LISTED = np.dtype([("time", "i8"), ("deadline", "i8"), ("floor", "f8")], align=True)
"""A request of a trace."""

LANE = np.dtype(
    [
        *LANE_FIELDS,
        ("streams", "i8"),  # models with requests left
        ("planning", "i8"),
        ("moves", "i8"),  # moves left in this plan
        ("plans", "i8"),
        ("samples", "i8"),
        ("free", "i8"),  # free accelerators
        ("waiting", "i8"),  # requests in queues
        ("pending", "i8"),  # model of the request that a decision is to route, -1 if none
        ("pending_deadline", "i8"),
        ("pending_number", "i8"),
        ("gained", "f8"),  # accuracy of requests on time, in this step
        ("failed", "i8"),  # violations in this step
        ("switched", "i8"),  # switches in this step
    ],
    align=True,
)
MODEL_STATE = np.dtype(
    [
        ("gap_key", "u8"),
        ("accept_key", "u8"),
        ("boost_key", "u8"),
        ("service_key", "u8"),
        ("route_key", "u8"),
        ("arrived", "i8"),
        ("segment", "i8"),
        ("time", "f8"),  # of the next request, before it is rounded
        ("last", "f8"),  # time of the last request that has arrived, before it is rounded
        ("redrawn", "i8"),  # 1 if the rest of a recording was redrawn
        ("seen", "i8"),  # requests or rates of the recording that were known then
        ("block", "i8"),  # request or rate that the redrawn rest begins with; of requests, 0 if gaps are exponential
        ("mean_gap", "f8"),  # of exponential redrawn gaps
        ("end", "f8"),  # of redrawn requests
        ("replicas", "i8"),
        ("routed", "i8"),
        ("queued", "i8"),
        ("on_time", "i8"),
        ("late", "i8"),
        ("dropped", "i8"),
        ("rejected", "i8"),
        ("accuracy", "f8"),  # sum over requests on time
        ("sampled", "i8"),  # requests since the last sample
        ("offered", "i8"),  # since the last plan
        ("violations", "i8"),  # since the last plan
        ("rate", "f8"),
        ("forecast", "f8"),
        ("weighed", "f8"),  # numerator of the mean, or level of Holt
        ("weight", "f8"),  # denominator of the mean, or trend of Holt
        ("deviation", "f8"),
    ],
    align=True,
)
ACCELERATOR_STATE = np.dtype(
    [
        ("kind", "i4"),
        ("column", "i4"),  # hosted column, -1 if it is free
        ("variant", "i4"),
        ("model", "i4"),
        ("holds", "i4"),  # variant whose weights it holds
        ("ran", "i4"),  # variant of the batch
        ("busy", "i4"),
        ("loading", "i4"),  # 1 until the weights are loaded
        ("head", "i4"),
        ("running", "i4"),
        ("queued", "i4"),
        ("largest", "i4"),
        ("limit", "i4"),  # of aimd, as an index into the batch sizes
        ("alarm_pending", "i4"),  # 1 if an alarm expired while it was busy
        ("alarm_set", "i4"),
        ("alarms", "i4"),
        ("ready", "i8"),  # expected end of its batch and load
        ("began", "i8"),  # time at which its batch began
        ("expected", "i8"),  # service time of its batch in the profile
        # Where the lane follows an engine:
        ("piece", "i8"),  # batches and loads that it began
        ("planned", "i8"),  # drawn time of its batch or load
    ],
    align=True,
)
REQUEST = np.dtype([("arrival", "i8"), ("deadline", "i8"), ("number", "i8"), ("alarm", "i8")], align=True)
ALARM = np.dtype([("time", "i8"), ("number", "i8")], align=True)
COLUMN_STATE = np.dtype([("hosted", "i8")], align=True)


@struct("machine", "kinds", "models", "variants", "columns", "sizes", "service", "rates", "requests", "initial")
class ServingSpecType(types.StructRef):
    """Constants of an episode.

    machine (1), kinds (A) of the accelerators, models (F), variants (V), columns (C), sizes (S), service (T, V, B + 1)
    ns for each number of requests, rates (R) per ns, requests (N), initial (H) columns.
    """


@struct("lanes", "models", "replicas", "accelerators", "queues", "alarms", "columns", "idle", "heap", "terms", "log")
class ServingStateType(types.StructRef):
    """State of an episode.

    lanes (L), models (L, F), replicas (L, F, A), accelerators (L, A), queues (L, A, Q) ring buffers, alarms (L, A, M),
    columns (L, C), idle (L, T) free accelerators of each kind, heap (L, H), terms (L, 3), log (L, R).
    """
