"""The columns of an edge observation: per candidate row, and of the whole device.

Raw times are nanoseconds; observed times are in units of 100 ms, which puts typical slacks and latencies near 1.
"""

from __future__ import annotations

from slipstream.families.shared.features import Feature, FeatureTable

TIME_UNIT = "100 ms"
PER_NS = 1e-8
"""Observed units per nanosecond."""

CANDIDATE = FeatureTable(
    (
        Feature("slack", TIME_UNIT, "time left to the deadline of the task's oldest waiting job", -100, 100, PER_NS),
        Feature(
            "corun_latency",
            TIME_UNIT,
            "expected time to finish beside the jobs now running",
            0,
            100,
            PER_NS,
            on_demand=True,
        ),
        Feature(
            "corun_margin",
            TIME_UNIT,
            "least slack of the running jobs when they end, if the row starts",
            -100,
            100,
            PER_NS,
            on_demand=True,
        ),
        Feature("next_arrival", TIME_UNIT, "expected time to the task's next release", 0, 100, PER_NS, on_demand=True),
        Feature("queue_length", "jobs / 10", "jobs of the task that wait", 0, 10, 0.1, on_demand=True),
        Feature("running", "jobs", "jobs of the task that run", 0, 10, on_demand=True),
        Feature("completed", "share", "finished jobs of the task among those released", 0, 1, on_demand=True),
        Feature("setup", TIME_UNIT, "time before the job would run: cost of preemption, loading", 0, 100, PER_NS),
        Feature("progress", "share", "part of the work that an interrupted job has behind it", 0, 1),
        Feature("resident", "flag", "1 if the variant's weights are on the device", 0, 1),
        Feature("stream_priority", "priority / 10", "priority of the stream on which the row starts", 0, 1, 0.1),
        Feature("victim_slack", TIME_UNIT, "time left to the deadline of the job it interrupts", -100, 100, PER_NS),
        Feature("victim_left", TIME_UNIT, "expected work left of the job it interrupts", 0, 100, PER_NS),
        Feature("victim_weight", "relative", "importance of the task it interrupts, times its jobs", 0, 10),
        Feature("dispatch", "flag", "1 if the row starts a variant of the task on the stream that is asked", 0, 1),
        Feature("preempt", "flag", "1 if the row starts a variant of the task in place of a running job", 0, 1),
        Feature("drop", "flag", "1 if the row drops the task's oldest waiting job", 0, 1),
        Feature("wait", "flag", "1 if the row leaves the stream idle until the next event", 0, 1),
        Feature("latency", TIME_UNIT, "expected time to finish alone on the device", 0, 100, PER_NS),
        Feature("accuracy", "share", "accuracy of the variant", 0, 1),
        Feature("variant_rank", "rank / 10", "rank of the variant in its ladder, 0 the fastest", 0, 10, 0.1),
        Feature("demand", "relative", "weight with which the variant claims the device from co-runners", 0, 10),
        Feature("memory", "GB", "memory that the variant's weights take", 0, 100, 1e-3),
        Feature("energy", "100 mJ", "energy of a run alone on the device, beyond the idle device's", 0, 100, 10.0),
        Feature("deadline", TIME_UNIT, "time from release to deadline", 0, 100, PER_NS),
        Feature("period", TIME_UNIT, "mean time between releases", 0, 100, PER_NS),
        Feature("fastest_latency", TIME_UNIT, "latency of the task's fastest variant", 0, 100, PER_NS),
        Feature("weight", "relative", "importance of the task, times the jobs that the row starts", 0, 10),
        Feature("criticality", "class / 10", "class of the task, higher is more critical", 0, 1, 0.1),
        Feature("num_variants", "variants / 10", "length of the task's ladder", 0, 10, 0.1),
        Feature("model_code", "code", "stable number in [0, 1) made from the model address", 0, 1),
        Feature("dataset_code", "code", "stable number in [0, 1) made from the dataset type", 0, 1),
        # `corun_latency` and `corun_margin` already reflect these two; without them a row is two cache lines.
        Feature("compute_share", "share", "arithmetic that a run keeps busy", 0, 1, observed=False),
        Feature("bandwidth_share", "share", "memory bandwidth that a run keeps busy", 0, 1, observed=False),
        # Agents see what batches are in `weight`, `latency` and `energy`: their observations stay as they were.
        Feature("batch", "jobs", "jobs that the row starts in one run", 0, 1024, observed=False),
        Feature(
            "fill", TIME_UNIT, "wait of the oldest job after which a waiting policy is asked", 0, 100, observed=False
        ),
    )
)
"""One row per (task, run), one per task to drop its oldest waiting job, and one to wait. The runs of a task are its
variants, and then its variants again for each size of a batch.

With preemption, also one per (task, variant, stream) to start it in place of the stream's job. In rows of tasks with
no waiting job, the dynamic columns are 0, except `running` and `completed`. The wait row shows the task that is
expected to release next: `next_arrival`, `deadline`, `fastest_latency` and `weight`.
"""

GLOBAL = FeatureTable(
    (
        Feature("time", "s", "simulated time since the episode began", 0, 1000, 1e-9),
        Feature("remaining", "s", "time left to the horizon", 0, 1000, 1e-9),
        Feature("stream", "id / 10", "the stream that is asked; their number if none is free", 0, 10, 0.1),
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
        Feature("utilisation", "share", "busy stream time up to now", 0, 1),
        Feature("throughput", "jobs", "work the streams do together, in units of one job running alone", 0, 100),
        Feature("free_memory", "share", "memory that all weights on the device leave; 1 without a limit", 0, 1),
        Feature("power", "10 W", "what the device draws now", 0, 100, 0.1),
        Feature("coin", "number", "fresh random number in (0, 1) for policies that toss one", 0, 1, observed=False),
    )
)
"""One row for the device."""

SLACK, CORUN_LATENCY, CORUN_MARGIN, NEXT_ARRIVAL, QUEUE_LENGTH, RUNNING, COMPLETED = range(7)
SETUP, PROGRESS, RESIDENT, STREAM_PRIORITY, VICTIM_SLACK, VICTIM_LEFT, VICTIM_WEIGHT = range(7, 14)
DISPATCH, PREEMPT, DROP, WAIT, LATENCY, ACCURACY, VARIANT_RANK, DEMAND = range(14, 22)
MEMORY, ENERGY, DEADLINE, PERIOD, FASTEST_LATENCY, WEIGHT, CRITICALITY, NUM_VARIANTS = range(22, 30)
MODEL_CODE, DATASET_CODE, COMPUTE_SHARE, BANDWIDTH_SHARE, BATCH, FILL = range(30, 36)
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
    FREE_MEMORY,
    POWER,
    COIN,
) = range(17)
"""Column constants for rules and kernels; a test checks them against the tables above."""
