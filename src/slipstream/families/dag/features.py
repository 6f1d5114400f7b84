"""Columns of a dag observation: candidate rows, globals and graph nodes.

Raw times are nanoseconds, raw counts are unscaled.
"""

from __future__ import annotations

from slipstream.families.shared.features import FOR_HEURISTICS, Feature, FeatureTable

PER_S = 1e-9

CANDIDATE = FeatureTable(
    (
        Feature("tasks_left", "tasks / 100", "tasks of the stage that have not started", 0, 100, 0.01),
        Feature("tasks_running", "tasks / 10", "tasks of the stage that run", 0, 100, 0.1),
        Feature("assigned", "executors / 10", "executors moving or committed to the stage", 0, 100, 0.1),
        Feature("demand", "executors / 100", "further executors that the stage could use", 0, 100, 0.01),
        Feature("duration", "s", "expected time of a task of the stage", 0, 1000, PER_S),
        Feature("recent", "s", "time that the last task of the stage took; expected before the first", 0, 1000, PER_S),
        Feature("work", "100 s", "expected work of the tasks of the stage not started", 0, 1000, PER_S / 100),
        Feature(
            "path", "10 s", "longest path of expected times from the stage to the end of its job", 0, 1000, PER_S / 10
        ),
        Feature("below", "100 s", "expected work of all stages that wait for the stage", 0, 1000, PER_S / 100),
        Feature("can_begin", "flag", "1 if all parents of the stage are complete", 0, 1),
        Feature("duration_here", "s", "mean time of a task with the executors that the job would have", 0, 1000, PER_S),
        Feature(
            "stage_time",
            "100 s",
            "work / executors of the stage, including those the row assigns",
            0,
            1000,
            PER_S / 100,
        ),
        Feature("job_work", "1000 s", "expected work of the tasks of the job not started", 0, 1000, PER_S / 1000),
        Feature("job_tasks", "tasks / 1000", "tasks of the job that have not started", 0, 1000, 0.001),
        Feature("job_stages", "stages / 10", "stages of the job that are not complete", 0, 100, 0.1),
        Feature(
            "job_path", "10 s", "longest path of tasks through the incomplete stages of the job", 0, 1000, PER_S / 10
        ),
        Feature("job_supply", "executors / 10", "executors at the job, moving or committed to it", 0, 100, 0.1),
        Feature("job_local", "executors / 10", "executors at the job", 0, 100, 0.1),
        Feature("job_time", "100 s", "work / executors of the job, or its path if longer", 0, 1000, PER_S / 100),
        Feature("jobs_before", "jobs / 10", "jobs in the system that have less work left", 0, 1000, 0.1),
        Feature("work_before", "1000 s", "expected work of these jobs not started", 0, 10_000, PER_S / 1000),
        Feature("job_age", "100 s", "time since the job arrived", 0, 1000, PER_S / 100),
        Feature("job_rank", "jobs / 10", "jobs in the system that arrived before it", 0, 1000, 0.1),
        Feature("source", "flag", "1 if this job is the source", 0, 1),
        Feature("count", "executors / 10", "executors that the row assigns; 0 if it chooses a stage", 0, 100, 0.1),
        Feature("dispatch", "flag", "1 if the row chooses a stage, or a number of executors for it", 0, 1),
        Feature("wait", "flag", "1 if the row ends the round", 0, 1),
    )
)
"""Phase 0: a row per stage that can be chosen; phase 1: a row per number of executors; the last row ends the round."""

GLOBAL = FeatureTable(
    (
        Feature("time", "1000 s", "simulated time since the episode began", 0, 1000, PER_S / 1000),
        Feature("phase", "flag", "0: choose a stage or stop; 1: choose how many executors it gets", 0, 1),
        Feature("committable", "executors / 10", "executors of the source not yet committed", 0, 100, 0.1),
        Feature("most", "executors / 10", "executors that can go to the chosen stage; 0 in phase 0", 0, 100, 0.1),
        Feature("source_common", "flag", "1 if the source is the common pool", 0, 1),
        Feature("executors", "executors / 10", "executors of the machine", 0, 100, 0.1),
        Feature("idle", "executors / 10", "executors that neither run a task nor move", 0, 100, 0.1),
        Feature("moving", "executors / 10", "executors moving to a job", 0, 100, 0.1),
        Feature("active_jobs", "jobs / 10", "jobs in the system", 0, 10_000, 0.1),
        Feature("arrived_jobs", "jobs / 100", "jobs that have arrived", 0, 1000, 0.01),
        Feature("candidates", "stages / 100", "stages that can be chosen", 0, 10_000, 0.01),
        Feature("hidden_jobs", "jobs / 10", "jobs in the system outside the observation window", 0, 10_000, 0.1),
        Feature("total_work", "1000 s", "expected work of all tasks not started", 0, 10_000, PER_S / 1000),
        Feature("mean_gap", "10 s", "mean time between arrivals; 0 after the last one", 0, 1000, PER_S / 10),
        Feature("moving_delay", "s", "time that an executor needs to move to another job", 0, 1000, PER_S),
        Feature("utilisation", "share", "executor time spent on tasks / elapsed executor time", 0, 1),
        *FOR_HEURISTICS,
    )
)
"""Globals: one row."""

NODE = FeatureTable(
    (
        Feature("tasks_left", "tasks / 100", "tasks of the stage that have not started", 0, 100, 0.01),
        Feature("tasks_running", "tasks / 10", "tasks of the stage that run", 0, 100, 0.1),
        Feature("assigned", "executors / 10", "executors moving or committed to the stage", 0, 100, 0.1),
        Feature("duration", "s", "expected time of a task of the stage", 0, 1000, PER_S),
        Feature("recent", "s", "time that the last task of the stage took; expected before the first", 0, 1000, PER_S),
        Feature("work", "100 s", "expected work of the tasks of the stage not started", 0, 1000, PER_S / 100),
        Feature(
            "path", "10 s", "longest path of expected times from the stage to the end of its job", 0, 1000, PER_S / 10
        ),
        Feature("can_begin", "flag", "1 if all parents of the stage are complete", 0, 1),
        Feature("can_be_chosen", "flag", "1 if the stage is one of the candidates of this choice", 0, 1),
        Feature("job_supply", "executors / 10", "executors at the job, moving or committed to it", 0, 100, 0.1),
        Feature("job_age", "100 s", "time since the job arrived", 0, 1000, PER_S / 100),
        Feature("source", "flag", "1 if this job is the source", 0, 1),
    )
)
"""One node per incomplete stage of the jobs in the observation window, by arrival and stage."""

TASKS_LEFT, TASKS_RUNNING, ASSIGNED, DEMAND, DURATION, RECENT, WORK, PATH, BELOW, CAN_BEGIN = range(10)
DURATION_HERE, STAGE_TIME, JOB_WORK, JOB_TASKS, JOB_STAGES, JOB_PATH, JOB_SUPPLY, JOB_LOCAL = range(10, 18)
JOB_TIME, JOBS_BEFORE, WORK_BEFORE, JOB_AGE, JOB_RANK, SOURCE, COUNT, DISPATCH, WAIT = range(18, 27)
(
    TIME,
    PHASE,
    COMMITTABLE,
    MOST,
    SOURCE_COMMON,
    EXECUTORS,
    IDLE,
    MOVING,
    ACTIVE_JOBS,
    ARRIVED_JOBS,
    CANDIDATES,
    HIDDEN_JOBS,
    TOTAL_WORK,
    MEAN_GAP,
    MOVING_DELAY,
    UTILISATION,
    ROWS,
    PARAMETER,
    COIN,
) = range(19)
"""Column indices for rules and kernels; a test compares them with the tables above."""
(
    NODE_TASKS_LEFT,
    NODE_TASKS_RUNNING,
    NODE_ASSIGNED,
    NODE_DURATION,
    NODE_RECENT,
    NODE_WORK,
    NODE_PATH,
    NODE_CAN_BEGIN,
    NODE_CAN_BE_CHOSEN,
    NODE_JOB_SUPPLY,
    NODE_JOB_AGE,
    NODE_SOURCE,
) = range(12)
