"""Several jobs in one run: rows, rewards, weights, power, interruption, and waits for a fuller batch."""

from __future__ import annotations

from tests.edge.cases.case import (
    ARRIVAL,
    DROP,
    END,
    FINISH,
    PREEMPT,
    READY,
    START,
    Case,
    Json,
    Step,
    ns,
    scenario,
    task,
    trace,
)


def pair(latency: float, **more: float) -> Json:
    """Return the batches of a variant that runs two jobs at once."""
    return {"batches": [{"size": 2, "latency_ms": latency, **more}]}


CASES: list[Case] = []

# Alone a job takes 4, two take 6 together. Both of time 0 are on time at 6, due at 7. The third, of time 1, is due at 8
# and ends at 10: 2 of 7 late. Rows: 0 runs one job, 1 two, 2 drops, 3 waits.
CASES.append(
    Case(
        "two jobs in one run",
        scenario(100, [task(trace(0, 0, 1), [4], 7, ladder=pair(6), weight=3.0)], {"lateness": 7.0}),
        [
            Step(
                0,
                0,
                1,
                {
                    (0, "batch"): 1.0,
                    (1, "batch"): 2.0,
                    (2, "batch"): 0.0,
                    (0, "latency"): 4e6,
                    (1, "latency"): 6e6,
                    (1, "corun_latency"): 6e6,
                    (0, "weight"): 3.0,
                    (1, "weight"): 6.0,
                    (2, "weight"): 3.0,
                    (1, "num_variants"): 1.0,
                    (1, "variant_rank"): 0.0,
                    (1, "slack"): 7e6,
                },
                mask=[1, 1, 1, 1],
                terms={"on_time_accuracy": 3.0, "lateness": 0.0, "utilisation": 0.006},
            ),
            Step(
                6,
                0,
                0,
                {(0, "completed"): 2 / 3, (0, "running"): 0.0, (1, "slack"): 2e6},
                mask=[1, 0, 1, 1],
                terms={"on_time_accuracy": 0.0, "lateness": 3.0 * (2e6 / 7e6)},
            ),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 0, 1, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 0, 1, 0, 0),
            (1, ARRIVAL, 0, 2, -1, -1),
            (6, FINISH, 0, 0, 0, 0),
            (6, FINISH, 0, 1, 0, 0),
            (6, START, 0, 2, 0, 0),
            (10, FINISH, 0, 2, 0, 0),
            (10, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# The first of two jobs makes its deadline of 5, the second, released at 3, has until 8: the run ends at 3 + 3 = 6.
CASES.append(
    Case(
        "each job of a run has its own deadline",
        scenario(100, [task(trace(0, 3), [2], 5, ladder=pair(3))], {"lateness": 1.0}),
        [
            Step(0, 0, 3, mask=[1, 0, 1, 1]),
            Step(3, 0, 1, {(1, "slack"): 2e6}, terms={"on_time_accuracy": 0.5, "lateness": 0.2}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (3, ARRIVAL, 0, 1, -1, -1),
            (3, START, 0, 0, 0, 0),
            (3, START, 0, 1, 0, 0),
            (6, FINISH, 0, 0, 0, 0),
            (6, FINISH, 0, 1, 0, 0),
            (6, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A policy that waits at 0 is asked again at 3, when the job has waited for 3, and not before the next arrival after
# that. At 9 two wait. The third job, which is not alone for long enough, needs no such question.
CASES.append(
    Case(
        "a wait for a fuller batch ends",
        scenario(100, [task(trace(0, 9, 10), [2], ladder=pair(3), fill_ms=3.0)]),
        [
            Step(0, 0, 3, {(0, "fill"): 3e6, (1, "fill"): 3e6, (2, "fill"): 3e6, (3, "fill"): 0.0}),
            Step(3, 0, 3, mask=[1, 0, 1, 1]),
            Step(9, 0, 1, mask=[1, 1, 1, 1]),
            Step(12, 0, 3),
            Step(13, 0, 0),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (9, ARRIVAL, 0, 1, -1, -1),
            (9, START, 0, 0, 0, 0),
            (9, START, 0, 1, 0, 0),
            (10, ARRIVAL, 0, 2, -1, -1),
            (12, FINISH, 0, 0, 0, 0),
            (12, FINISH, 0, 1, 0, 0),
            (13, START, 0, 2, 0, 0),
            (15, FINISH, 0, 2, 0, 0),
            (15, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A loads its weights for 1 and runs two jobs for 6, at 2 + 5 watts. Its single run needs no loading after that, and
# takes 2 + 3 watts for 4.
BATCH = 7.0 * (ns(1) * 1e-9) + 7.0 * (ns(6) * 1e-9)
CASES.append(
    Case(
        "a batch has power of its own and the weights of its variant",
        scenario(
            100,
            [task(trace(0, 0, 2), [4], ladder={"load_ms": 1.0, "power_w": 3.0, **pair(6, power_w=5.0)})],
            {"energy": 1.0},
            idle_w=2.0,
        ),
        [
            Step(
                0,
                0,
                1,
                {(0, "energy"): 3.0 * 4e6 * 1e-9, (1, "energy"): 5.0 * 6e6 * 1e-9, (1, "setup"): 1e6, "power": 2.0},
                terms={"on_time_accuracy": 1.0},
            ),
            Step(7, 0, 0, {(0, "setup"): 0.0, (1, "resident"): 1.0, "power": 2.0}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 0, 1, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 0, 1, 0, 0),
            (1, READY, 0, 0, 0, 0),
            (1, READY, 0, 1, 0, 0),
            (2, ARRIVAL, 0, 2, -1, -1),
            (7, FINISH, 0, 0, 0, 0),
            (7, FINISH, 0, 1, 0, 0),
            (7, START, 0, 2, 0, 0),
            (11, FINISH, 0, 2, 0, 0),
            (11, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# At 4 of 10 the two jobs of A make way for B. Rows: 0 and 1 dispatch A, 2 dispatches B, 4, 5 and 6 preempt, 8 and 9
# drop, 10 waits; 3 and 7 do not exist.
WAY = [
    (0, ARRIVAL, 0, 0, -1, -1),
    (0, ARRIVAL, 0, 1, -1, -1),
    (0, START, 0, 0, 0, 0),
    (0, START, 0, 1, 0, 0),
    (4, ARRIVAL, 1, 0, -1, -1),
    (4, PREEMPT, 0, 0, 0, 0),
    (4, PREEMPT, 0, 1, 0, 0),
    (4, START, 1, 0, 0, 0),
    (6, FINISH, 1, 0, 0, 0),
]
DEVICE = scenario(
    100,
    [task(trace(0, 0), [8], ladder=pair(10), weight=3.0), task(trace(4), [2])],
    preemption={"kind": "resume", "cost_ms": 0.0},
)
FIRST = [
    Step(0, 0, 1, mask=[1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1]),
    Step(
        4,
        1,
        6,
        {(6, "victim_weight"): 6.0, (6, "victim_left"): 6e6, (6, "victim_slack"): 996e6, (0, "running"): 2.0},
        mask=[0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1],
    ),
]
CASES.append(
    Case(
        "an interrupted batch goes on with the same jobs",
        DEVICE,
        [*FIRST, Step(6, 0, 1, {(0, "progress"): 0.0, (1, "progress"): 1.0 - 0.6, (1, "corun_latency"): 6e6})],
        [
            *WAY,
            (6, START, 0, 0, 0, 0),
            (6, START, 0, 1, 0, 0),
            (12, FINISH, 0, 0, 0, 0),
            (12, FINISH, 0, 1, 0, 0),
            (12, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)
CASES.append(
    Case(
        "a job of an interrupted batch begins again alone",
        DEVICE,
        [*FIRST, Step(6, 0, 0), Step(14, 0, 0, {(0, "progress"): 0.0}, mask=[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1])],
        [
            *WAY,
            (6, START, 0, 0, 0, 0),
            (14, FINISH, 0, 0, 0, 0),
            (14, START, 0, 1, 0, 0),
            (22, FINISH, 0, 1, 0, 0),
            (22, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Two streams run two jobs of A each, and both make way for B at 4. At 6 the oldest job is dropped. The two oldest were
# interrupted in batches, but not in the same: they begin again, and so does the last one, alone. Rows: 0 and 1 dispatch
# A, 8 and 9 preempt for B on each stream, 12 and 13 drop, 14 waits.
CASES.append(
    Case(
        "a batch does not go on with the work of others",
        scenario(
            100,
            [task(trace(0, 0, 0, 0), [8], ladder=pair(10)), task(trace(4, 4), [2])],
            streams=2,
            preemption={"kind": "resume", "cost_ms": 0.0},
        ),
        [
            Step(0, 0, 1),
            Step(0, 1, 1),
            Step(4, 2, 8),
            Step(4, 2, 9),
            Step(6, 0, 12, {(1, "progress"): 1.0 - 0.6}),
            Step(6, 0, 1, {(1, "progress"): 0.0, (1, "corun_latency"): 10e6}),
            Step(6, 1, 0, {(0, "progress"): 0.0}),
        ],
        [
            *[(0, ARRIVAL, 0, job, -1, -1) for job in range(4)],
            *[(0, START, 0, job, 0, job // 2) for job in range(4)],
            (4, ARRIVAL, 1, 0, -1, -1),
            (4, ARRIVAL, 1, 1, -1, -1),
            (4, PREEMPT, 0, 0, 0, 0),
            (4, PREEMPT, 0, 1, 0, 0),
            (4, START, 1, 0, 0, 0),
            (4, PREEMPT, 0, 2, 0, 1),
            (4, PREEMPT, 0, 3, 0, 1),
            (4, START, 1, 1, 0, 1),
            (6, FINISH, 1, 0, 0, 0),
            (6, FINISH, 1, 1, 0, 1),
            (6, DROP, 0, 0, -1, -1),
            (6, START, 0, 1, 0, 0),
            (6, START, 0, 2, 0, 0),
            (6, START, 0, 3, 0, 1),
            (14, FINISH, 0, 3, 0, 1),
            (16, FINISH, 0, 1, 0, 0),
            (16, FINISH, 0, 2, 0, 0),
            (16, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# The job that starts at 1 leaves two of time 1, whose wait ends at 4, not at 3: there the first ends, and the policy
# waits. Rows: 0 runs one job, 1 two, 2 drops, 3 waits.
CASES.append(
    Case(
        "the wait is that of the job at the head",
        scenario(100, [task(trace(0, 1, 1), [2], ladder=pair(3), fill_ms=3.0)]),
        [Step(0, 0, 3), Step(1, 0, 0), Step(3, 0, 3), Step(4, 0, 1)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (1, ARRIVAL, 0, 1, -1, -1),
            (1, ARRIVAL, 0, 2, -1, -1),
            (1, START, 0, 0, 0, 0),
            (3, FINISH, 0, 0, 0, 0),
            (4, START, 0, 1, 0, 0),
            (4, START, 0, 2, 0, 0),
            (7, FINISH, 0, 1, 0, 0),
            (7, FINISH, 0, 2, 0, 0),
            (7, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# One job of B may take the stream of A, two may not: only one waits. Rows: 0 dispatches A, 2 and 3 B, 4 preempts for A,
# 6 and 7 for B, 8 and 9 drop, 10 waits.
CASES.append(
    Case(
        "a batch takes a stream only whole",
        scenario(
            100,
            [task(trace(0), [8]), task(trace(2), [2], ladder=pair(3))],
            preemption={"kind": "restart", "cost_ms": 0.0},
        ),
        [Step(0, 0, 0), Step(2, 1, 10, mask=[0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1]), Step(8, 0, 2)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (2, ARRIVAL, 1, 0, -1, -1),
            (8, FINISH, 0, 0, 0, 0),
            (8, START, 1, 0, 0, 0),
            (10, FINISH, 1, 0, 0, 0),
            (10, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)
