"""Arrays of elastic jobs: constants of an episode (spec) and its state."""

from __future__ import annotations

import numpy as np
from numba import types

from slipstream.jit.structs import struct
from slipstream.sim.kernel.job_stream import ARRIVAL_FIELDS, STREAM_FIELDS
from slipstream.sim.kernel.lanes import LANE_FIELDS
from slipstream.sim.kernel.window import LIST_FIELDS, ROW_FIELDS

TIME, RESTARTS = range(2)
"""Reward terms."""
NOWHERE = -1
"""In place of a configuration: no GPUs."""

MACHINE = np.dtype(
    [
        *ROW_FIELDS,
        *ARRIVAL_FIELDS,
        ("kinds", "i8"),
        ("gpus", "i8"),
        ("widest", "i8"),  # most configurations of a job
        ("round_length", "i8"),  # ns, 0 without rounds
        ("at_events", "i8"),
        ("compat", "i8"),
        ("time_weight", "f8"),
        ("restart_weight", "f8"),
        ("log_margin", "i8"),
    ],
    align=True,
)
KIND = np.dtype([("gpus", "i8")], align=True)
TEMPLATE = np.dtype(
    [
        ("work", "f8"),
        ("weight", "f8"),
        ("best", "f8"),  # greatest throughput
        ("first", "i8"),  # first configuration
        ("configurations", "i8"),
        ("start", "i8"),  # ns
        ("restart", "i8"),  # ns
        ("model", "i8"),
    ],
    align=True,
)
CONFIGURATION = np.dtype([("kind", "i8"), ("gpus", "i8"), ("rate", "f8")], align=True)
"""rate: work per second."""

LANE = np.dtype(
    [
        *LANE_FIELDS,
        *STREAM_FIELDS,
        *LIST_FIELDS,
        ("parameter", "f8"),
        ("active", "i8"),  # jobs that have arrived and not finished
        ("due", "i8"),  # 1 if a round is to begin when the events of this instant are applied
        ("planning", "i8"),  # 1 while decisions allocate GPUs for it
        ("placed", "i8"),  # jobs that have got some
        ("free_gpus", "i8"),  # GPUs of all kinds that are left
        ("rounds", "i8"),  # rounds that have begun
        ("job_time", "i8"),  # ns that jobs spent in this step
        ("restarted", "i8"),  # restarts in this step
    ],
    align=True,
)
JOB = np.dtype(
    [
        ("arrival", "i8"),
        ("left", "f8"),  # work left when it was last brought up to date
        ("since", "i8"),  # when it was, or when its set-up ends
        ("quota", "f8"),  # steps of this round, by the rules of Gavel
        ("quota_time", "i8"),  # and how long they take
        ("ran", "i8"),
        ("received", "i8"),  # GPU ns
        ("template", "i4"),
        ("runs", "i4"),  # configuration, NOWHERE if it has no GPUs
        ("next", "i4"),  # configuration in the round that begins
        ("setting_up", "i4"),
        ("started", "i4"),  # 1 once it has had GPUs
        ("restarts", "i4"),
    ],
    align=True,
)


@struct("machine", "kinds", "templates", "configurations", "arrivals")
class ElasticSpecType(types.StructRef):
    """Constants of an episode: machine (1), kinds (K), templates (T), configurations (C), arrivals (A) of a list."""


@struct("lanes", "jobs", "active", "free", "candidates", "heap", "terms", "log")
class ElasticStateType(types.StructRef):
    """State of an episode.

    lanes (L), jobs (L, N), active (L, N) unfinished jobs by arrival, free (L, K) GPUs left in the round that begins,
    candidates (L, N * W) as job * W + configuration, heap (L, H), terms (L, 2), log (L, R).
    """
