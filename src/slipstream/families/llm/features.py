"""Columns of an observation of LLM engines: candidate rows and globals.

Raw times are nanoseconds, raw lengths tokens, raw counts as they are. A row is a waiting request to admit, a pair of
token budget and free blocks to set, a running request to evict, or an engine to send a request to.
"""

from __future__ import annotations

from slipstream.families.shared.features import FOR_HEURISTICS, Feature, FeatureTable

PER_S = 1e-9

CANDIDATE = FeatureTable(
    (
        Feature("prompt", "tokens / 1000", "length of the prompt", 0, 1000, 1e-3),
        Feature("generated", "tokens / 1000", "tokens that the request has generated", 0, 1000, 1e-3),
        Feature("predicted", "tokens / 1000", "length of the output that is predicted", 0, 1000, 1e-3),
        Feature("cached", "tokens / 1000", "tokens of the request in the prefix cache", 0, 1000, 1e-3, on_demand=True),
        Feature("waited", "10 s", "time since the request arrived", 0, 1000, PER_S / 10),
        Feature("order", "requests / 100", "requests before it in the queue or the batch", 0, 1000, 0.01),
        Feature("priority", "number / 10", "priority of its class, the lowest first", -100, 100, 0.1),
        Feature("slack", "10 s", "time until its first token is due, an hour if never", -1000, 1000, PER_S / 10),
        Feature("tpot_limit", "100 ms", "most time per output token of its class, 0 if any", 0, 1000, PER_S * 10),
        Feature("service", "tokens / 10000", "tokens that its class has been served", 0, 10000, 1e-4),
        Feature("blocks", "share", "free blocks that it takes, of all blocks", 0, 1, on_demand=True),
        Feature("fits", "flag", "1 if the request can be admitted now", 0, 1, on_demand=True),
        Feature("work", "10 s", "time that an empty engine would take for the rest of it", 0, 1000, PER_S / 10),
        Feature("preemptions", "times / 10", "how often it was preempted", 0, 100, 0.1),
        Feature("budget", "tokens / 1000", "token budget of a step that the row sets", 0, 100, 1e-3),
        Feature("headroom", "share", "share of all blocks that the row keeps free", 0, 1),
        Feature("running", "requests / 100", "requests in the batch of the row's engine", 0, 100, 0.01),
        Feature("waiting", "requests / 100", "requests that wait at the row's engine", 0, 1000, 0.01),
        Feature("free", "share", "free blocks of the row's engine", 0, 1),
        Feature("admit", "flag", "1 if the row admits a request", 0, 1),
        Feature("level", "flag", "1 if the row sets token budget and headroom", 0, 1),
        Feature("evict", "flag", "1 if the row preempts a running request", 0, 1),
        Feature("send", "flag", "1 if the row sends the new request to an engine", 0, 1),
        Feature("dispatch", "flag", "1 if the row admits a request, which rules score", 0, 1),
        Feature("wait", "flag", "1 if the row admits nothing more, or leaves the choice to the engine", 0, 1),
        Feature("peak", "share", "most blocks the batch would need with it", 0, 1, observed=False, on_demand=True),
        Feature("number", "number", "which request or engine it is", 0, 1, observed=False),
        Feature("class", "number", "class of the request", 0, 1, observed=False),
    )
)
"""Waiting requests, levels, running requests or engines; the last row waits."""

GLOBAL = FeatureTable(
    (
        Feature("time", "100 s", "simulated time since the episode began", 0, 10000, PER_S / 100),
        Feature("asks_admit", "flag", "1 if the next request to admit is chosen", 0, 1),
        Feature("asks_level", "flag", "1 if token budget and headroom are chosen", 0, 1),
        Feature("asks_evict", "flag", "1 if the request to preempt is chosen", 0, 1),
        Feature("asks_send", "flag", "1 if the engine of a new request is chosen", 0, 1),
        Feature("engine", "number / 10", "engine that the decision is about", 0, 100, 0.1),
        Feature("queued", "requests / 100", "requests that wait at that engine", 0, 1000, 0.01),
        Feature("batch", "requests / 100", "requests in its batch", 0, 100, 0.01),
        Feature("seats", "requests / 100", "requests that its batch may still take", 0, 100, 0.01),
        Feature("free_blocks", "share", "its free blocks", 0, 1),
        Feature("left", "tokens / 1000", "tokens left of the budget of the step", 0, 100, 1e-3),
        Feature("scheduled", "tokens / 1000", "tokens scheduled for the step until now", 0, 100, 1e-3),
        Feature("in_flight", "steps", "steps that the engine has begun and not ended", 0, 10),
        Feature("token_budget", "tokens / 1000", "its token budget of a step", 0, 100, 1e-3),
        Feature("kept_free", "share", "blocks that it keeps free when it admits", 0, 1),
        Feature("last_step", "100 ms", "length of the step that it began last", 0, 1000, PER_S * 10),
        Feature("unfinished", "requests / 100", "requests that have arrived and not finished", 0, 1000, 0.01),
        *FOR_HEURISTICS,
    )
)
"""One row for the engine that the decision is about."""

PROMPT, GENERATED, PREDICTED, CACHED, WAITED, ORDER, PRIORITY, SLACK, TPOT_LIMIT, SERVICE = range(10)
BLOCKS, FITS, WORK, PREEMPTIONS, BUDGET, HEADROOM, RUNNING, WAITING, FREE, ADMIT = range(10, 20)
LEVEL, EVICT, SEND, DISPATCH, WAIT, PEAK, NUMBER, CLASS = range(20, 28)
TIME, ASKS_ADMIT, ASKS_LEVEL, ASKS_EVICT, ASKS_SEND, ENGINE, QUEUED, BATCH, SEATS, FREE_BLOCKS = range(10)
LEFT, SCHEDULED, IN_FLIGHT, TOKEN_BUDGET, KEPT_FREE, LAST_STEP, UNFINISHED, ROWS, PARAMETER, COIN = range(10, 20)
"""Column constants for rules and kernels; a test compares them with the tables above."""
