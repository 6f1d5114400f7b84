"""Columns of an observation of elastic jobs: candidate rows and globals.

Raw times are nanoseconds, raw counts as they are. A row gives a job GPUs for the round that begins: a kind and a number
on which its model was measured.
"""

from __future__ import annotations

from slipstream.families.shared.features import FOR_HEURISTICS, Feature, FeatureTable

PER_S = 1e-9
PER_HOUR = PER_S / 3600

CANDIDATE = FeatureTable(
    (
        Feature("gpus", "GPUs / 10", "GPUs that the row gives to the job", 0, 1000, 0.1),
        Feature("share", "share", "the same, of all GPUs of the kind", 0, 1),
        Feature("free", "GPUs / 100", "GPUs of the kind that are free in this round", 0, 100, 0.01),
        Feature("speed", "share", "throughput there, of the job's greatest", 0, 1),
        Feature("finish", "hours", "time to the job's end if it stays there, set-up included", 0, 10000, PER_HOUR),
        Feature("alone", "hours", "time to the job's end where it is fastest", 0, 10000, PER_HOUR),
        Feature("done", "share", "work of the job that is done", 0, 1),
        Feature("age", "hours", "time since the job arrived", 0, 10000, PER_HOUR),
        Feature("ran", "hours", "time that the job has run", 0, 10000, PER_HOUR),
        Feature("received", "GPU hours / 10", "GPU time that the job has received", 0, 10000, PER_HOUR / 10),
        Feature("order", "jobs / 100", "unfinished jobs that arrived before it", 0, 1000, 0.01),
        Feature("weight", "number", "weight of the job", 0, 1000),
        Feature("restarts", "times / 10", "restarts of the job", 0, 1000, 0.1),
        Feature("setup", "minutes", "time that the job would hold the GPUs before it runs", 0, 10000, PER_S / 60),
        Feature("keep", "flag", "1 if the job has this kind and number now", 0, 1),
        Feature("running", "flag", "1 if the job has GPUs now", 0, 1),
        Feature("dispatch", "flag", "1 if the row gives GPUs to a job, which rules score", 0, 1),
        Feature("wait", "flag", "1 if the row begins the round", 0, 1),
        Feature("left", "work", "work of the job that is left", 0, 1, observed=False),
        Feature("rate", "work per s", "throughput with these GPUs", 0, 1, observed=False),
        Feature("kind", "number", "which kind it is", 0, 1, observed=False),
        Feature("number", "number", "which job of the episode it is", 0, 1, observed=False),
        Feature("configuration", "number", "which configuration of the job it is", 0, 1, observed=False),
    )
)
"""A job with each kind and number of GPUs that are free; the last row begins the round."""

GLOBAL = FeatureTable(
    (
        Feature("time", "hours", "simulated time since the episode began", 0, 100000, PER_HOUR),
        Feature("jobs", "jobs / 100", "jobs that have arrived and not finished", 0, 1000, 0.01),
        Feature("placed", "jobs / 100", "jobs that have GPUs in the round that begins", 0, 1000, 0.01),
        Feature("free_gpus", "share", "GPUs that are free in it, of all", 0, 1),
        Feature("round", "hours", "length of a round, 0 without rounds", 0, 10000, PER_HOUR),
        Feature("began", "rounds", "rounds that have begun", 0, 1, observed=False),
        *FOR_HEURISTICS,
    )
)
"""One row for the cluster."""

GPUS, SHARE, FREE, SPEED, FINISH, ALONE, DONE, AGE, RAN, RECEIVED = range(10)
ORDER, WEIGHT, RESTARTS, SETUP, KEEP, RUNNING, DISPATCH, WAIT, LEFT, RATE = range(10, 20)
KIND, NUMBER, CONFIGURATION = range(20, 23)
TIME, JOBS, PLACED, FREE_GPUS, ROUND, BEGAN, ROWS, PARAMETER, COIN = range(9)
"""Column constants for rules and kernels; a test compares them with the tables above."""
