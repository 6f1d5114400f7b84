"""Columns of a serving observation: candidate rows and globals.

Raw times are nanoseconds, raw rates per second, raw counts are as they are. In mode plan a row is a move of a variant
on a kind of accelerator, in mode route an accelerator that a request can go to.
"""

from __future__ import annotations

from slipstream.families.shared.features import Feature, FeatureTable

PER_MS = 1e-6
PER_S = 1e-9

CANDIDATE = FeatureTable(
    (
        Feature("accuracy", "percent / 100", "accuracy of the variant", 0, 1, 0.01),
        Feature("latency", "100 ms", "time of a single request", 0, 100, PER_MS / 100),
        Feature("batch_latency", "100 ms", "time of the largest batch", 0, 100, PER_MS / 100),
        Feature("peak", "100 requests/s", "most requests per second on one accelerator", 0, 1000, 0.01),
        Feature("load_time", "s", "time to load the variant", 0, 1000, PER_S),
        Feature("hosted", "accelerators / 10", "accelerators of the kind that host the variant", 0, 1000, 0.1),
        Feature("loading", "accelerators / 10", "those of them that are still loading", 0, 1000, 0.1),
        Feature("free", "accelerators / 10", "accelerators of the kind that host nothing", 0, 1000, 0.1),
        Feature("rate", "100 requests/s", "rate of the model in the last sample", 0, 1000, 0.01),
        Feature("forecast", "100 requests/s", "rate of the model that is expected", 0, 1000, 0.01),
        Feature("capacity", "100 requests/s", "sum of the peaks of the model's accelerators", 0, 1000, 0.01),
        Feature("queued", "requests / 10", "requests that wait, of the model or at the accelerator", 0, 1000, 0.1),
        Feature("offered", "requests / 100", "requests of the model since the last plan", 0, 1000, 0.01),
        Feature("violations", "requests / 100", "those of the model that failed since the last plan", 0, 1000, 0.01),
        Feature("finish", "100 ms", "expected time until the request would finish here", 0, 1000, PER_MS / 100),
        Feature("slack", "100 ms", "time that would be left until its deadline", -1000, 1000, PER_MS / 100),
        Feature("host", "flag", "1 if the row hosts the variant on one more accelerator", 0, 1),
        Feature("release", "flag", "1 if the row frees an accelerator that hosts it", 0, 1),
        Feature("send", "flag", "1 if the row sends the request to this accelerator", 0, 1),
        Feature("dispatch", "flag", "1 if the row does something", 0, 1),
        Feature("wait", "flag", "1 if the row ends the plan or declines the request", 0, 1),
        Feature("model", "number", "which model it is", 0, 1, observed=False),
        Feature("variant", "number", "which variant it is", 0, 1, observed=False),
        Feature("kind", "number", "which kind of accelerator it is", 0, 1, observed=False),
        Feature("slo", "ns", "time of the model's requests, from arrival to deadline", 0, 1, observed=False),
    )
)
"""Two rows per variant and kind of accelerator, or one per accelerator of the model; the last row waits."""

GLOBAL = FeatureTable(
    (
        Feature("time", "100 s", "simulated time since the episode began", 0, 10000, PER_S / 100),
        Feature("moves", "moves / 100", "moves left in this plan", 0, 10000, 0.01),
        Feature("interval", "10 s", "time between two plans", 0, 10000, PER_S / 10),
        Feature("accelerators", "accelerators / 10", "accelerators of the fleet", 0, 1000, 0.1),
        Feature("idle", "accelerators / 10", "accelerators that host nothing", 0, 1000, 0.1),
        Feature("all_rate", "100 requests/s", "rate of all models in the last sample", 0, 10000, 0.01),
        Feature("all_forecast", "100 requests/s", "rate of all models that is expected", 0, 10000, 0.01),
        Feature("all_capacity", "100 requests/s", "sum of the peaks of what is hosted", 0, 10000, 0.01),
        Feature("all_queued", "requests / 10", "requests that wait anywhere", 0, 10000, 0.1),
        Feature("all_offered", "requests / 100", "requests since the last plan", 0, 10000, 0.01),
        Feature("all_violations", "requests / 100", "those that failed since the last plan", 0, 10000, 0.01),
        Feature("asked_model", "number / 10", "model of the request that is to be sent", 0, 10000, 0.1),
        Feature("asked_slack", "100 ms", "time until the deadline of that request", -1000, 1000, PER_MS / 100),
        Feature("headroom", "share", "capacity per forecast that planners ask for", 0, 1, observed=False),
        Feature("shortage", "share", "price of headroom that is missing", 0, 1, observed=False),
        Feature("accuracy_weight", "share", "weight of accuracy against throughput", 0, 1, observed=False),
        Feature("served_share", "share", "least share of the forecast that plans serve", 0, 1, observed=False),
        Feature("gap", "share", "gap at which a solver may stop", 0, 1, observed=False),
        Feature("seconds", "s", "time limit of a solver", 0, 1, observed=False),
        Feature("first", "flag", "1 at the first plan of an episode", 0, 1, observed=False),
        Feature("coin", "number", "fresh random number in (0, 1) for policies that toss one", 0, 1, observed=False),
    )
)
"""One row for the fleet."""

ACCURACY, LATENCY, BATCH_LATENCY, PEAK, LOAD_TIME, HOSTED, LOADING, FREE, RATE, FORECAST = range(10)
CAPACITY, QUEUED, OFFERED, VIOLATIONS, FINISH, SLACK, HOST, RELEASE, SEND, DISPATCH = range(10, 20)
WAIT, MODEL, VARIANT, KIND, SLO = range(20, 25)
TIME, MOVES, INTERVAL, ACCELERATORS, IDLE, ALL_RATE, ALL_FORECAST, ALL_CAPACITY, ALL_QUEUED, ALL_OFFERED = range(10)
ALL_VIOLATIONS, ASKED_MODEL, ASKED_SLACK, HEADROOM, SHORTAGE, ACCURACY_WEIGHT, SERVED_SHARE, GAP, SECONDS = range(
    10, 19
)
FIRST, COIN = range(19, 21)
"""Column constants for rules and kernels; a test compares them with the tables above."""
