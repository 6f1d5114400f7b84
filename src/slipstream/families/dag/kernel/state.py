"""The arrays of the dag machine: what does not change during an episode, and what does."""

from __future__ import annotations

import numpy as np
from numba import types

from slipstream.jit.structs import struct
from slipstream.sim.kernel.job_stream import ARRIVAL_FIELDS, STREAM_FIELDS
from slipstream.sim.kernel.lanes import LANE_FIELDS
from slipstream.sim.kernel.window import LIST_FIELDS, ROW_FIELDS

NO_HORIZON, FIXED, MEMORYLESS = range(3)
CHOOSE_STAGE, CHOOSE_COUNT = range(2)
"""Phases of a choice."""
IDLE, RUNNING, MOVING = range(3)
"""What an executor does."""
FRESH, FIRST, REST = range(3)
"""How a task finds its executor: idle before or just arrived, from another stage of the job, or from the same stage."""
JOB_SECONDS, MAKESPAN = range(2)
NOWHERE = -1
"""In place of a job: the common pool. In place of a stage: the pool of the job."""

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
        ("levels", "i8"),
        ("log_margin", "i8"),
        ("job_seconds", "f8"),
        ("makespan", "f8"),
        ("discount", "f8"),  # per ns
    ],
    align=True,
)
EXECUTOR = np.dtype([("speed", "f8")], align=True)
LEVEL = np.dtype([("low", "i8"), ("high", "i8"), ("offset", "f8"), ("gap", "f8")], align=True)
"""The two levels between which a number of executors lies; offset: from the lower one; gap: between them."""
TEMPLATE = np.dtype(
    [("first_stage", "i8"), ("stages", "i8"), ("edges", "i8"), ("tasks", "i8"), ("work", "i8"), ("path", "i8")],
    align=True,
)
STAGE = np.dtype(
    [
        ("tasks", "i8"),
        ("duration", "i8"),  # mean of all that was measured
        ("path", "i8"),  # longest chain of durations from its begin to the end of the job
        ("below", "i8"),  # expected work of all stages that wait for it
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
        ("moving", "i8"),  # executors on their way to a job
        ("common", "i8"),  # executors in the common pool
        ("source_job", "i8"),  # pool whose executors are given away
        ("source_stage", "i8"),
        ("has_source", "i8"),
        ("in_round", "i8"),  # 1 while a round is open
        ("committable", "i8"),  # executors of the source that are not committed yet
        ("stopped", "i8"),  # events that had happened when the common pool left all to the other pools, -1 at first
        ("common_due", "i8"),  # 1 if something came that idle executors of the common pool may serve
        ("round_number", "i8"),
        ("round_commitments", "i8"),  # commitments to stages in this round
        ("commitments", "i8"),  # records of commitments
        ("shown_jobs", "i8"),  # jobs in the window
        ("chosen_job", "i8"),
        ("chosen_stage", "i8"),
        ("most", "i8"),  # executors that can go to the chosen stage
        ("graph_stale", "i8"),  # 1 if a job or a stage came or went since the graph was written
        ("counted", "i8"),  # time up to which job time is counted
        ("job_time", "i8"),  # job-nanoseconds in this episode
        ("step_job_time", "i8"),  # the same, up to the last choice
        ("step_counted", "i8"),  # time of the last choice, 0 before the first
        ("discounted", "f8"),  # discounted job-nanoseconds since the last choice
        ("busy_counted", "i8"),  # time up to which busy time is counted
        ("busy_time", "i8"),  # executor-nanoseconds spent on tasks
        ("work", "i8"),  # expected work of tasks not started, all jobs, at the last choice
        ("parameter", "f8"),  # of the policy that plays, where it has one; set from outside
    ],
    align=True,
)
JOB_STATE = np.dtype(
    [
        ("number", "i8"),  # -1 if the slot is free
        ("template", "i8"),
        ("arrival", "i8"),
        ("key", "u8"),
        ("stopped", "i8"),  # events that had happened when its pool left all to the other pools, -1 at first
        ("work", "i8"),  # expected work of tasks not started, at the last choice
        ("path", "i8"),  # longest chain of durations before it
        ("work_before", "i8"),  # expected work of jobs with less of it
        ("jobs_before", "i4"),  # how many they are
        ("stages", "i4"),
        ("first_stage", "i4"),
        ("left", "i4"),  # stages that are not complete
        ("unstarted", "i4"),  # stages with tasks that are not started
        ("tasks", "i4"),  # tasks not started, at the last choice
        ("local", "i4"),  # executors that are at the job
        ("supply", "i4"),  # these, those on their way, and those committed elsewhere
        ("pooled", "i4"),  # executors idle in its pool
        ("edges", "i4"),  # edges between stages that are not complete
        ("shown", "i4"),  # 1 if it is in the window
        ("rank", "i4"),  # place among the jobs in the window
        ("place", "i4"),  # place among all jobs in the system
        ("done", "i4"),
        ("touched", "i4"),  # 1 if something of it changed since its nodes were written
        ("first_node", "i4"),  # place of its first stage in the graph of the observation
    ],
    align=True,
)
STAGE_STATE = np.dtype(
    [
        ("remaining", "i4"),  # tasks not started
        ("unfinished", "i4"),  # tasks not ended
        ("demand", "i4"),  # remaining, less executors that are on their way or committed
        ("assigned", "i4"),  # executors on their way or committed
        ("open_parents", "i4"),  # parents with a demand
        ("waiting_parents", "i4"),  # parents that are not complete
        ("located", "i4"),  # executors in its pool
        ("outgoing", "i4"),  # commitments of its pool
        ("selected", "i4"),  # round in which it was chosen last
        ("started", "i4"),  # tasks started, over all attempts
        ("failures", "i4"),
        ("node", "i4"),  # place in the graph of the observation
        ("recent", "i8"),  # time that its last task took, the expected one before the first
    ],
    align=True,
)
EXECUTOR_STATE = np.dtype(
    [
        ("job", "i4"),  # slot of the job where it is or is going to, NOWHERE in the common pool
        ("stage", "i4"),  # stage whose pool it is in or is going to, NOWHERE in the pool of the job
        ("activity", "i4"),
        ("last", "i4"),  # stage of its last task, -1 if it has gone cold since
        ("began", "i8"),
    ],
    align=True,
)
COMMITMENT = np.dtype(
    [("source_job", "i4"), ("source_stage", "i4"), ("job", "i4"), ("stage", "i4"), ("count", "i8")], align=True
)


@struct(
    "machine", "executors", "level_of", "templates", "stages", "children", "waves", "expected", "samples", "arrivals"
)
class DagSpecType(types.StructRef):
    """What does not change.

    machine (1), executors (N), level_of (N + 1), templates (K), stages (G), children (E), waves (G, 3 * levels),
    expected (G, levels) ns of a further task, samples (D) ns, arrivals (M).
    """


@struct("lanes", "jobs", "order", "by_work", "stages", "executors", "commitments", "candidates", "heap", "terms", "log")
class DagStateType(types.StructRef):
    """What changes.

    lanes (L), jobs (L, J), order (L, J) slots of active jobs by arrival, by_work (L, J) the same by work left,
    stages (L, J, S), executors (L, N), commitments (L, N), candidates (L, C) as slot * S + stage, heap (L, H),
    terms (L, 2), log (L, R).
    """
