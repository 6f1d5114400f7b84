"""The columns of an edge observation: per candidate row, and of the whole device.

Raw times are nanoseconds; observed times are in units of 100 ms, which puts typical slacks and latencies near 1.
"""

from __future__ import annotations

from slipstream.core.features import Feature, FeatureTable

TIME_UNIT = "100 ms"
PER_NS = 1e-8
"""Observed units per nanosecond."""

CANDIDATE = FeatureTable(
    (
        Feature("slack", TIME_UNIT, "time left to the deadline of the task's oldest waiting job", -100, 100, PER_NS),
        Feature("corun_latency", TIME_UNIT, "expected time to finish beside the jobs now running", 0, 100, PER_NS),
        Feature(
            "corun_margin",
            TIME_UNIT,
            "least slack of the running jobs when they end, if the row starts",
            -100,
            100,
            PER_NS,
        ),
        Feature("next_arrival", TIME_UNIT, "expected time to the task's next release", 0, 100, PER_NS),
        Feature("queue_length", "jobs / 10", "jobs of the task that wait", 0, 10, 0.1),
        Feature("running", "jobs", "jobs of the task that run", 0, 10),
        Feature("completed", "share", "finished jobs of the task among those released", 0, 1),
        Feature("dispatch", "flag", "1 if the row starts a variant of the task", 0, 1),
        Feature("drop", "flag", "1 if the row drops the task's oldest waiting job", 0, 1),
        Feature("wait", "flag", "1 if the row leaves the stream idle until the next event", 0, 1),
        Feature("latency", TIME_UNIT, "expected time to finish alone on the device", 0, 100, PER_NS),
        Feature("accuracy", "share", "accuracy of the variant", 0, 1),
        Feature("variant_rank", "rank / 10", "place of the variant in its ladder, 0 the fastest", 0, 10, 0.1),
        Feature("demand", "relative", "weight with which the variant claims the device from co-runners", 0, 10),
        Feature("deadline", TIME_UNIT, "time from release to deadline", 0, 100, PER_NS),
        Feature("period", TIME_UNIT, "mean time between releases", 0, 100, PER_NS),
        Feature("fastest_latency", TIME_UNIT, "latency of the task's fastest variant", 0, 100, PER_NS),
        Feature("weight", "relative", "importance of the task", 0, 10),
        Feature("criticality", "class / 10", "class of the task, higher is more critical", 0, 1, 0.1),
        Feature("num_variants", "variants / 10", "length of the task's ladder", 0, 10, 0.1),
        Feature("model_code", "code", "stable number in [0, 1) made from the model address", 0, 1),
        Feature("dataset_code", "code", "stable number in [0, 1) made from the dataset type", 0, 1),
    )
)
"""One row per (task, variant), one per task to drop its oldest waiting job, and one to wait.

In rows of tasks with no waiting job, the changing columns are 0, but for `running` and `completed`. The wait row shows
the task that is expected to release next: `next_arrival`, `deadline`, `fastest_latency` and `weight`.
"""

GLOBAL = FeatureTable(
    (
        Feature("time", "s", "simulated time since the episode began", 0, 1000, 1e-9),
        Feature("remaining", "s", "time left to the horizon", 0, 1000, 1e-9),
        Feature("stream", "id / 10", "the stream that is asked", 0, 10, 0.1),
        Feature("streams", "streams / 10", "streams of the device", 0, 10, 0.1),
        Feature("idle_streams", "streams / 10", "streams that run nothing", 0, 10, 0.1),
        Feature("waiting_jobs", "jobs / 10", "jobs that wait, all tasks", 0, 100, 0.1),
        Feature("waiting_tasks", "tasks / 10", "tasks with a waiting job", 0, 100, 0.1),
        Feature(
            "corun_first", TIME_UNIT, "expected time until the first running job ends, 0 if none runs", 0, 100, PER_NS
        ),
        Feature(
            "corun_last", TIME_UNIT, "expected time until the last running job ends, 0 if none runs", 0, 100, PER_NS
        ),
        Feature(
            "backlog", TIME_UNIT, "time to run all waiting jobs in their fastest variants, one by one", 0, 100, PER_NS
        ),
        Feature("finished", "share", "finished jobs among those released", 0, 1),
        Feature("missed", "share", "late, expired, rejected and dropped jobs among those released", 0, 1),
        Feature("utilisation", "share", "busy stream time so far", 0, 1),
        Feature("throughput", "jobs", "work the streams do together, in units of one job running alone", 0, 100),
        Feature("coin", "number", "fresh random number in (0, 1) for policies that toss one", 0, 1, observed=False),
    )
)
"""One row for the device."""

SLACK, CORUN_LATENCY, CORUN_MARGIN, NEXT_ARRIVAL, QUEUE_LENGTH, RUNNING, COMPLETED = range(7)
DISPATCH, DROP, WAIT, LATENCY, ACCURACY, VARIANT_RANK, DEMAND = range(7, 14)
DEADLINE, PERIOD, FASTEST_LATENCY, WEIGHT, CRITICALITY, NUM_VARIANTS, MODEL_CODE, DATASET_CODE = range(14, 22)
(
    TIME,
    REMAINING,
    STREAM,
    STREAMS,
    IDLE_STREAMS,
    WAITING_JOBS,
    WAITING_TASKS,
    CORUN_FIRST,
    CORUN_LAST,
    BACKLOG,
    FINISHED,
    MISSED,
    UTILISATION,
    THROUGHPUT,
    COIN,
) = range(15)
"""Column constants for rules and kernels; a test holds them to the tables above."""
