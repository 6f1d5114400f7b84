"""Columns of a cluster observation: candidate rows and globals.

Raw times are nanoseconds, raw counts are as they are.
"""

from __future__ import annotations

from slipstream.families.shared.features import FOR_HEURISTICS, Feature, FeatureTable

PER_S = 1e-9
PER_HOUR = 1.0 / 3.6e12

CANDIDATE = FeatureTable(
    (
        Feature("gpus_share", "share", "GPUs that the job wants, of all", 0, 1),
        Feature(
            "expected",
            "hours",
            "time that the job is expected to have before it, at its row's level",
            0,
            1000,
            PER_HOUR,
        ),
        Feature("log_expected", "log10 s", "the same in seconds, as a logarithm", -3, 9),
        Feature("log_area", "log10 GPU s", "the same times its GPUs, as a logarithm", -3, 12),
        Feature("waited", "hours", "time since the job was submitted", 0, 10_000, PER_HOUR),
        Feature("log_waited", "log10 s", "the same in seconds, plus 1, as a logarithm", 0, 9),
        Feature("log_slowdown", "log10", "bounded slowdown that it would have if it started now, as a logarithm", 0, 9),
        Feature("fits", "flag", "1 if the job could start now", 0, 1),
        Feature("leaves_share", "share", "GPUs that would stay free", 0, 1),
        Feature("before_shadow", "flag", "1 if a job is reserved and this one is expected to end in time for it", 0, 1),
        Feature("rank", "jobs / 100", "waiting jobs with a lower number", 0, 1000, 0.01),
        Feature("user_share", "share", "GPUs that the job's user holds, of all", 0, 1),
        Feature("user_jobs", "jobs / 10", "jobs of its user in the system", 0, 1000, 0.1),
        Feature("attained", "GPU hours", "GPU-time that the job has had", 0, 100_000, PER_HOUR),
        Feature("interrupted", "times / 10", "how often it was interrupted", 0, 100, 0.1),
        Feature("time_factor", "ratio", "how much longer it takes at the row's level", 0, 100),
        Feature("added_power", "kW", "power that it adds, or sets free", -1000, 1000, 1e-6),
        Feature("start", "flag", "1 if the row starts the job, or reserves for it", 0, 1),
        Feature("interrupt", "flag", "1 if the row interrupts the job", 0, 1),
        Feature("dispatch", "flag", "1 if the row stands for a job", 0, 1),
        Feature("wait", "flag", "1 if the row waits", 0, 1),
        Feature("job", "number", "number of the job in the episode", 0, 1, observed=False),
        Feature("gpus", "GPUs", "GPUs that the job wants", 0, 1, observed=False),
        Feature("level", "level", "the row's level", 0, 1, observed=False),
        Feature("submitted", "s", "when the job was submitted, as its source counts", 0, 1, observed=False),
        Feature("left", "ns", "time that the job is expected to have before it at speed 1", 0, 1, observed=False),
        Feature("user", "number", "number of the job's user", 0, 1, observed=False),
    )
)
"""One row per waiting job that can be chosen and level, one per running job that can be interrupted; the last waits."""

GLOBAL = FeatureTable(
    (
        Feature("time", "days", "simulated time since the episode began", 0, 10_000, PER_HOUR / 24),
        Feature("free_share", "share", "GPUs that are free, of all", 0, 1),
        Feature("waiting", "jobs / 100", "jobs that wait", 0, 10_000, 0.01),
        Feature("running", "jobs / 100", "jobs that run", 0, 10_000, 0.01),
        Feature("waiting_gpus", "ratio", "GPUs that waiting jobs want, in multiples of all", 0, 10_000),
        Feature("reserved", "flag", "1 if a job is reserved", 0, 1),
        Feature("reserved_share", "share", "GPUs that it wants, of all", 0, 1),
        Feature("shadow_in", "hours", "time until it is expected to fit", 0, 1000, PER_HOUR),
        Feature("extra_share", "share", "GPUs that will be free beside it then, of all", 0, 1),
        Feature("to_come", "share", "jobs of the episode that are to come", 0, 1),
        Feature("power", "kW", "power of the cluster", 0, 100_000, 1e-6),
        Feature("power_left", "share", "power budget that is left; 1 without one", 0, 1),
        Feature("users", "users / 10", "users with jobs in the system", 0, 1000, 0.1),
        Feature("jain", "index", "Jain's index of the GPUs that they hold", 0, 1),
        Feature("largest_node", "share", "free GPUs of the node that has most, of all GPUs", 0, 1),
        Feature("hidden_rows", "rows / 100", "rows beyond the observation window", 0, 10_000, 0.01),
        Feature("allocation", "share", "GPU-time taken up to now", 0, 1),
        Feature("all_gpus", "GPUs", "GPUs of the cluster", 0, 1, observed=False),
        Feature("free", "GPUs", "GPUs that are free", 0, 1, observed=False),
        Feature("active_users", "users", "users with jobs in the system", 0, 1, observed=False),
        *FOR_HEURISTICS,
    )
)
"""One row for the whole machine."""

(
    GPUS_SHARE,
    EXPECTED,
    LOG_EXPECTED,
    LOG_AREA,
    WAITED,
    LOG_WAITED,
    LOG_SLOWDOWN,
    FITS,
    LEAVES_SHARE,
    BEFORE_SHADOW,
    RANK,
    USER_SHARE,
    USER_JOBS,
    ATTAINED,
    INTERRUPTED,
    TIME_FACTOR,
    ADDED_POWER,
    START,
    INTERRUPT,
    DISPATCH,
    WAIT,
    JOB,
    GPUS,
    LEVEL,
    SUBMITTED,
    LEFT,
    USER,
) = range(27)
(
    TIME,
    FREE_SHARE,
    WAITING,
    RUNNING,
    WAITING_GPUS,
    RESERVED,
    RESERVED_SHARE,
    SHADOW_IN,
    EXTRA_SHARE,
    TO_COME,
    POWER,
    POWER_LEFT,
    USERS,
    JAIN,
    LARGEST_NODE,
    HIDDEN_ROWS,
    ALLOCATION,
    ALL_GPUS,
    FREE,
    ACTIVE_USERS,
    ROWS,
    PARAMETER,
    COIN,
) = range(23)
"""Column constants for rules and kernels; a test compares them with the tables above."""
