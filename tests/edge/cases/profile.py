"""Runs that do not take what the profile says: what is expected of them, and what they do."""

from __future__ import annotations

from tests.edge.cases.case import ARRIVAL, END, FINISH, PREEMPT, START, Case, Step, scenario, share, task, trace

CASES: list[Case] = []

# A, profiled at 4, takes 6; B, profiled at 3, takes 1. At 1 A is expected to end at 4, one before its deadline. At 4.5
# it is expected to have ended, so nothing is expected to be left; it ends at 6, a fifth of its deadline late.
# Rows: 0 and 1 dispatch, 2 and 3 drop, 4 waits.
CASES.append(
    Case(
        "a run that takes longer than profiled, beside ones that take less",
        scenario(
            100,
            [task(trace(0), [4], 5, ladder={"actual_ms": 6.0}), task(trace(1, 4.5), [3], ladder={"actual_ms": 1.0})],
            streams=2,
        ),
        [
            Step(0, 0, 0, {(0, "latency"): 4e6, (0, "fastest_latency"): 4e6, (0, "corun_latency"): 4e6}),
            Step(
                1,
                1,
                1,
                {"corun_first": 3e6, "backlog": 3e6, (1, "corun_latency"): 3e6, (1, "corun_margin"): 1e6},
                terms={"on_time_accuracy": 0.5, "lateness": 0.0},
            ),
            Step(
                4.5,
                1,
                1,
                {"corun_first": 0.0, "corun_last": 0.0, (1, "corun_latency"): 3e6, (1, "corun_margin"): 0.5e6},
                terms={"on_time_accuracy": 0.5, "lateness": 0.2},
            ),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1, ARRIVAL, 1, 0, -1, -1),
            (1, START, 1, 0, 0, 1),
            (2, FINISH, 1, 0, 0, 1),
            (4.5, ARRIVAL, 1, 1, -1, -1),
            (4.5, START, 1, 1, 0, 1),
            (5.5, FINISH, 1, 1, 0, 1),
            (6, FINISH, 0, 0, 0, 0),
            (6, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Throughput 1. A, profiled at 4, takes 8, and B, profiled at 4, takes 2. At half rate each, both are expected to end at
# 8, but B ends at 4. A has done 2 by then and 3 more by 7: nothing is expected to be left of it, so C is expected to
# run alone. But A has 3 left: C ends at 11, and A, with 1 left then, at 12.
# Rows: 0 to 2 dispatch, 3 to 5 drop, 6 waits.
CASES.append(
    Case(
        "a wrong profile under interference",
        scenario(
            100,
            [
                task(trace(0), [4], ladder={"actual_ms": 8.0}),
                task(trace(0), [4], ladder={"actual_ms": 2.0}),
                task(trace(7), [2]),
            ],
            streams=2,
            interference=share(1.0),
        ),
        [
            Step(0, 0, 0),
            Step(0, 1, 1, {(1, "corun_latency"): 8e6, (1, "corun_margin"): 992e6}),
            Step(7, 1, 2, {"corun_first": 0.0, (2, "corun_latency"): 2e6, (2, "corun_margin"): 993e6}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (4, FINISH, 1, 0, 0, 1),
            (7, ARRIVAL, 2, 0, -1, -1),
            (7, START, 2, 0, 0, 1),
            (11, FINISH, 2, 0, 0, 1),
            (12, FINISH, 0, 0, 0, 0),
            (12, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A, profiled at 4, takes 10. Interrupted at 6 it keeps the 4 that are really left, though none are expected: its
# progress is 1, and it goes on from 7 to 11.
# Rows: 0 and 1 dispatch, 2 and 3 preempt, 4 and 5 drop, 6 waits. The device as a whole is number 1.
CASES.append(
    Case(
        "an interrupted run keeps the work that was not expected",
        scenario(
            100,
            [task(trace(0), [4], ladder={"actual_ms": 10.0}), task(trace(6), [1])],
            preemption={"kind": "resume"},
        ),
        [
            Step(0, 0, 0),
            Step(6, 1, 3, {(3, "victim_left"): 0.0, (3, "corun_latency"): 1e6}),
            Step(7, 0, 0, {(0, "progress"): 1.0, (0, "corun_latency"): 0.0, (0, "latency"): 4e6}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (6, ARRIVAL, 1, 0, -1, -1),
            (6, PREEMPT, 0, 0, 0, 0),
            (6, START, 1, 0, 0, 0),
            (7, FINISH, 1, 0, 0, 0),
            (7, START, 0, 0, 0, 0),
            (11, FINISH, 0, 0, 0, 0),
            (11, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A, of four stages, is profiled at 8 and takes 4: a border every 1. At that of 2, half of the profiled latency is
# expected to be left. Interrupted there, it goes on from 3 and ends after the 2 that are left.
CASES.append(
    Case(
        "stages of a run that takes less than profiled",
        scenario(
            100,
            [task(trace(0), [8], ladder={"actual_ms": 4.0, "stages": 4}), task(trace(1.5), [1])],
            preemption={"kind": "stage"},
        ),
        [
            Step(0, 0, 0),
            Step(2, 1, 3, {(3, "victim_left"): 4e6}),
            Step(3, 0, 0, {(0, "progress"): 0.5, (0, "corun_latency"): 4e6}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1.5, ARRIVAL, 1, 0, -1, -1),
            (2, PREEMPT, 0, 0, 0, 0),
            (2, START, 1, 0, 0, 0),
            (3, FINISH, 1, 0, 0, 0),
            (3, START, 0, 0, 0, 0),
            (5, FINISH, 0, 0, 0, 0),
            (5, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)
