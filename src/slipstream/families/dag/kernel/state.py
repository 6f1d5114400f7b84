"""Arrays of the dag simulator: the specification, constant during an episode, and the state."""

from __future__ import annotations

import numpy as np
from numba import types

from slipstream.jit.structs import struct
from slipstream.sim.kernel.job_stream import ARRIVAL_FIELDS, STREAM_FIELDS
from slipstream.sim.kernel.lanes import LANE_FIELDS
from slipstream.sim.kernel.window import LIST_FIELDS, ROW_FIELDS

NO_HORIZON, FIXED, MEMORYLESS = range(3)
CHOOSE_STAGE, CHOOSE_COUNT = range(2)
"""Phases of a decision."""
IDLE, RUNNING, MOVING = range(3)
"""What an executor does."""
FRESH, FIRST, REST = range(3)
"""What the executor of a task did before: idle or just arrived, another stage of the job, or the same stage."""
JOB_SECONDS, MAKESPAN = range(2)
NOWHERE = -1
"""As a job: the common pool. As a stage: the pool of the job."""

MACHINE = np.dtype(
    [
        *ARRIVAL_FIELDS,
        *ROW_FIELDS,
        ("executors", "i8"),
        ("moving_delay", "i8"),
        ("compat", "i8"),  # 1 for the rules of the published simulators
        ("horizon_kind", "i8"),
        ("horizon", "f8"),
        ("straggler_share", "f8"),
        ("straggler_factor", "f8"),
        ("failure_share", "f8"),
        ("most_failures", "i8"),
        ("plain", "i8"),  # 1 if every executor has speed 1 and no task straggles
        ("window_candidates", "i8"),
        ("window_nodes", "i8"),
        ("window_edges", "i8"),
        ("log_margin", "i8"),
        ("job_seconds", "f8"),
        ("makespan", "f8"),
        ("discount", "f8"),  # per ns
    ],
    align=True,
)
EXECUTOR = np.dtype([("speed", "f8")], align=True)
PARALLELISM = np.dtype([("low", "i8"), ("high", "i8"), ("offset", "f8"), ("gap", "f8")], align=True)
"""Indices of the two measured parallelism values around a number of executors; offset: from the lower; gap: between."""
TEMPLATE = np.dtype(
    [("first_stage", "i8"), ("stages", "i8"), ("edges", "i8"), ("tasks", "i8"), ("work", "i8"), ("path", "i8")],
    align=True,
)
STAGE = np.dtype(
    [
        ("tasks", "i8"),
        ("duration", "i8"),  # mean of all measured durations
        ("path", "i8"),  # longest path of durations from its start to the end of the job
        ("below", "i8"),  # expected work of all its descendants
        ("parents", "i8"),
        ("first_child", "i8"),
        ("children", "i8"),
    ],
    align=True,
)
WAVE = np.dtype([("first_sample", "i4"), ("samples", "i4"), ("delay", "i8")], align=True)

LANE = np.dtype(
    [
        *LANE_FIELDS,
        *STREAM_FIELDS,
        *LIST_FIELDS,
        ("phase", "i8"),
        ("active", "i8"),  # jobs that have arrived and are not done
        ("finished", "i8"),
        ("running", "i8"),  # executors that run a task
        ("moving", "i8"),  # executors moving to a job
        ("common", "i8"),  # executors in the common pool
        ("source_job", "i8"),  # pool whose executors are committed
        ("source_stage", "i8"),
        ("has_source", "i8"),
        ("in_round", "i8"),  # 1 while a round is open
        ("committable", "i8"),  # executors of the source that are not committed yet
        ("stopped", "i8"),  # value of `events` when the common pool stopped without a commitment, -1 initially
        ("common_due", "i8"),  # 1 if a round of the common pool is due
        ("round_number", "i8"),
        ("round_commitments", "i8"),  # commitments to stages in this round
        ("commitments", "i8"),  # records of commitments
        ("shown_jobs", "i8"),  # jobs in the observation window
        ("chosen_job", "i8"),
        ("chosen_stage", "i8"),
        ("most", "i8"),  # executors that can be committed to the chosen stage
        ("graph_stale", "i8"),  # 1 if jobs or stages were added or removed since the graph was written
        ("counted", "i8"),  # time up to which job time is accrued
        ("job_time", "i8"),  # job-nanoseconds of this episode
        ("step_job_time", "i8"),  # job_time at the last decision
        ("step_counted", "i8"),  # time of the last decision, 0 before the first
        ("discounted", "f8"),  # discounted job-nanoseconds since the last decision
        ("busy_counted", "i8"),  # time up to which busy time is accrued
        ("busy_time", "i8"),  # executor-nanoseconds spent on tasks
        ("work", "i8"),  # expected work of tasks not started, all jobs, at the last decision
        ("parameter", "f8"),  # parameter of the policy, if it has one; set by the caller
    ],
    align=True,
)
JOB_STATE = np.dtype(
    [
        ("number", "i8"),  # -1 if the index is free
        ("template", "i8"),
        ("arrival", "i8"),
        ("key", "u8"),
        ("stopped", "i8"),  # value of `events` when its pool stopped without a commitment, -1 initially
        ("work", "i8"),  # expected work of tasks not started, at the last decision
        ("path", "i8"),  # longest path of durations through its incomplete stages
        ("work_before", "i8"),  # expected work of jobs with less work left
        ("jobs_before", "i4"),  # number of these jobs
        ("stages", "i4"),
        ("first_stage", "i4"),
        ("left", "i4"),  # stages that are not complete
        ("unstarted", "i4"),  # stages with tasks not started
        ("tasks", "i4"),  # tasks not started, at the last decision
        ("local", "i4"),  # executors at the job
        ("supply", "i4"),  # local executors plus those moving or committed to it
        ("pooled", "i4"),  # idle executors in its pool
        ("edges", "i4"),  # edges between stages that are not complete
        ("shown", "i4"),  # 1 if it is in the observation window
        ("window_rank", "i4"),  # rank by arrival among the jobs in the observation window
        ("rank", "i4"),  # rank by arrival among all jobs in the system
        ("done", "i4"),
        ("dirty", "i4"),  # 1 if it changed since its nodes were written
        ("first_node", "i4"),  # node of its first incomplete stage in the observed graph
    ],
    align=True,
)
STAGE_STATE = np.dtype(
    [
        ("remaining", "i4"),  # tasks not started
        ("unfinished", "i4"),  # tasks not finished
        ("demand", "i4"),  # remaining minus executors moving or committed to it
        ("assigned", "i4"),  # executors moving or committed to it
        ("open_parents", "i4"),  # parents with positive demand
        ("waiting_parents", "i4"),  # parents that are not complete
        ("located", "i4"),  # executors in its pool
        ("outgoing", "i4"),  # commitments of its pool
        ("selected", "i4"),  # last round in which it was chosen
        ("started", "i4"),  # tasks started, over all attempts
        ("failures", "i4"),
        ("node", "i4"),  # its node in the observed graph
        ("recent", "i8"),  # duration of its last finished task, expected duration before the first
    ],
    align=True,
)
EXECUTOR_STATE = np.dtype(
    [
        ("job", "i4"),  # index of the job where it is or moves to, NOWHERE in the common pool
        ("stage", "i4"),  # stage whose pool it is in or moves to, NOWHERE in the pool of the job
        ("activity", "i4"),
        ("last", "i4"),  # stage of its last task, -1 if it is no longer warm
        ("wave", "i4"),  # what it had done before its running task
        ("local", "i4"),  # executors at the job when that task began
        ("failed", "i4"),  # 1 if an engine reported that its task failed
        ("began", "i8"),
        ("planned", "i8"),  # drawn time of its task or move, where the lane follows an engine
    ],
    align=True,
)
COMMITMENT = np.dtype(
    [("source_job", "i4"), ("source_stage", "i4"), ("job", "i4"), ("stage", "i4"), ("count", "i8")], align=True
)


@struct(
    "machine",
    "executors",
    "parallelism_of",
    "templates",
    "stages",
    "children",
    "waves",
    "expected",
    "samples",
    "arrivals",
)
class DagSpecType(types.StructRef):
    """Constant data of a scenario.

    machine (1), executors (N), parallelism_of (N + 1), templates (K), stages (G), children (E), waves (G, 3 V) for V
    measured parallelism values, expected (G, V) ns of a further task, samples (D) ns, arrivals (M).
    """


@struct("lanes", "jobs", "order", "by_work", "stages", "executors", "commitments", "candidates", "heap", "terms", "log")
class DagStateType(types.StructRef):
    """State of the lanes.

    lanes (L), jobs (L, J), order (L, J) indices of active jobs by arrival, by_work (L, J) the same by work left,
    stages (L, J, S), executors (L, N), commitments (L, N), candidates (L, C) as job * S + stage, heap (L, H),
    terms (L, 2), log (L, R).
    """
