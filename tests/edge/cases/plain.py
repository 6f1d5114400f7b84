"""The plain machine: arrivals, queues, choices, decision time, `share`, rewards and rows."""

from __future__ import annotations

from tests.edge.cases.case import (
    ARRIVAL,
    DROP,
    END,
    EXPIRE,
    FINISH,
    REJECT,
    START,
    Case,
    Step,
    scenario,
    share,
    task,
    trace,
)

CASES: list[Case] = []

# Releases at 3, 13 and 23 with the period as deadline. Each run takes 4; the last one, 23 to 27, meets the horizon.
# next_arrival: 13 - 3 = 10 at first; at 23 the estimate 33 - 23 = 10 exceeds what is left of the episode, 25 - 23 = 2.
# By 23 two of three released jobs are finished, and the stream has been busy for 8 of 23 ms.
CASES.append(
    Case(
        "periodic with phase and default deadline",
        scenario(25, [task({"kind": "periodic", "period_ms": 10, "phase_ms": 3}, [4], deadline=None)]),
        [
            Step(
                3,
                0,
                0,
                {(0, "slack"): 10e6, (0, "next_arrival"): 10e6, (0, "period"): 10e6, (2, "next_arrival"): 10e6},
                mask=[1, 1, 1],
                terms={"on_time_accuracy": 0.5, "drops": 0.0, "utilisation": 0.004},
            ),
            Step(13, 0, 0, {(0, "completed"): 0.5, "utilisation": 4 / 13, "idle_streams": 1.0, "backlog": 4e6}),
            Step(
                23,
                0,
                0,
                {(0, "completed"): 2 / 3, (1, "next_arrival"): 2e6, "utilisation": 8 / 23, "remaining": 2e6},
                terms={"on_time_accuracy": 0.0, "utilisation": 0.002},
            ),
        ],
        [
            (3, ARRIVAL, 0, 0, -1, -1),
            (3, START, 0, 0, 0, 0),
            (7, FINISH, 0, 0, 0, 0),
            (13, ARRIVAL, 0, 1, -1, -1),
            (13, START, 0, 1, 0, 0),
            (17, FINISH, 0, 1, 0, 0),
            (23, ARRIVAL, 0, 2, -1, -1),
            (23, START, 0, 2, 0, 0),
            (25, END, -1, -1, -1, -1),
        ],
        "truncated",
    )
)

# Demands 1 and 3 with throughput 1: side by side the rates are 0.25 and 0.75.
# A runs alone from 0 to 4 and has 6 left. B needs 6 / 0.75 = 8: until 12. By then A did 8 * 0.25 = 2, has 4 left and
# is alone again: until 16.
# Foreseen for B at 4: 8, since A would need 6 / 0.25 = 24; and A's end 12 later, 996 - 12 = 984 before its deadline.
# Nothing waits for A's task, so its rows foresee nothing.
CASES.append(
    Case(
        "share with unequal demands, priced again at start and finish",
        scenario(
            100,
            [task(trace(0), [10], demand=1.0), task(trace(4), [6], demand=3.0)],
            streams=2,
            interference=share(1.0),
        ),
        [
            Step(
                0,
                0,
                0,
                {
                    (0, "corun_latency"): 10e6,
                    (0, "corun_margin"): 0.0,
                    "corun_first": 0.0,
                    "corun_last": 0.0,
                    "idle_streams": 2.0,
                },
            ),
            Step(
                4,
                1,
                1,
                {
                    (0, "corun_latency"): 0.0,
                    (0, "corun_margin"): 0.0,
                    (1, "corun_latency"): 8e6,
                    (1, "corun_margin"): 984e6,
                    (3, "corun_latency"): 0.0,
                    (0, "running"): 1.0,
                    (1, "running"): 0.0,
                    (0, "slack"): 0.0,
                    (1, "slack"): 1000e6,
                    "corun_first": 6e6,
                    "corun_last": 6e6,
                    "idle_streams": 1.0,
                },
                mask=[0, 1, 0, 1, 1],
                # Busy from 4 on: two streams for 8 and one for 4, which is 20 of 2 * 1000.
                terms={"on_time_accuracy": 1.0, "utilisation": 0.01},
            ),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (4, ARRIVAL, 1, 0, -1, -1),
            (4, START, 1, 0, 0, 1),
            (12, FINISH, 1, 0, 0, 1),
            (16, FINISH, 0, 0, 0, 0),
            (16, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# As before, and a second B at 12, when A has 4 left: what is expected of A has been brought up to date twice.
# Asked is stream 1, free again. Foreseen for B: 6 / 0.75 = 8, as A would need 4 / 0.25 = 16. Then A has 2 left at 20.
CASES.append(
    Case(
        "what is expected of a running job follows its rates",
        scenario(
            100,
            [task(trace(0), [10], demand=1.0), task(trace(4, 12), [6], demand=3.0)],
            streams=2,
            interference=share(1.0),
        ),
        [
            Step(0, 0, 0),
            Step(4, 1, 1),
            Step(12, 1, 1, {"corun_first": 4e6, "corun_last": 4e6, (1, "corun_latency"): 8e6, "utilisation": 20 / 24}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (4, ARRIVAL, 1, 0, -1, -1),
            (4, START, 1, 0, 0, 1),
            (12, FINISH, 1, 0, 0, 1),
            (12, ARRIVAL, 1, 1, -1, -1),
            (12, START, 1, 1, 0, 1),
            (20, FINISH, 1, 1, 0, 1),
            (22, FINISH, 0, 0, 0, 0),
            (22, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Throughput 2, demands 1, 1 and 2. Two jobs of demand 1 run at exactly full rate: B's start changes nothing for A.
# With C at 4 the rates are 2 * (1, 1, 2) / 4 = 0.5, 0.5, 1. A has 4 left (until 12), B 6 (until 16), C 4 (until 8).
# At 8 C is gone: A has 4 - 2 = 2 left, B 6 - 2 = 4, both at full rate: until 10 and 12. A's finish changes nothing.
CASES.append(
    Case(
        "share with the cap at full rate",
        scenario(
            100,
            [task(trace(0), [8]), task(trace(2), [8]), task(trace(4), [4], demand=2.0)],
            streams=3,
            interference=share(2.0),
        ),
        [
            Step(0, 0, 0),
            Step(2, 1, 1, {(1, "corun_latency"): 8e6, "throughput": 2.0}),
            Step(4, 2, 2, {(2, "corun_latency"): 4e6, "corun_first": 4e6, "corun_last": 6e6}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (2, ARRIVAL, 1, 0, -1, -1),
            (2, START, 1, 0, 0, 1),
            (4, ARRIVAL, 2, 0, -1, -1),
            (4, START, 2, 0, 0, 2),
            (8, FINISH, 2, 0, 0, 2),
            (10, FINISH, 0, 0, 0, 0),
            (12, FINISH, 1, 0, 0, 1),
            (12, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Three jobs at 0: A (work 6, demand 1), B (4, demand 2), C (10, demand 1), throughput 1.
# Foreseen for C beside A and B: rates C 0.25, A 0.25, B 0.5. B is first, after 8: C has 8 left, A 4. Then 0.5 and 0.5:
# A is gone after 8 more: C has 4 left and runs alone. 8 + 8 + 4 = 20, and so it happens: 8, 16, 20.
# At the third choice, with rates A 1/3 and B 2/3, A alone would be left until 18 and B until 6. With C, A ends at 16,
# 984 before its deadline, and B at 8.
CASES.append(
    Case(
        "foreseen co-run latency with two others leaving one after the other",
        scenario(
            100,
            [task(trace(0), [6]), task(trace(0), [4], demand=2.0), task(trace(0), [10])],
            streams=3,
            interference=share(1.0),
        ),
        [
            Step(0, 0, 0, {"waiting_jobs": 3.0, "waiting_tasks": 3.0, "backlog": 20e6, "utilisation": 0.0}),
            Step(0, 1, 1),
            Step(
                0,
                2,
                2,
                {
                    (2, "corun_latency"): 20e6,
                    (2, "corun_margin"): 984e6,
                    "corun_first": 4e6 / (2 / 3),
                    "corun_last": 6e6 / (1 / 3),
                },
            ),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, ARRIVAL, 2, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (0, START, 2, 0, 0, 2),
            (8, FINISH, 1, 0, 0, 1),
            (16, FINISH, 0, 0, 0, 0),
            (20, FINISH, 2, 0, 0, 2),
            (20, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Equal jobs of work 4 share throughput 1 at rate 0.5 each: both end at 8. Stream 0 comes first; the other, priced
# again at that instant, has exactly nothing left and ends at the same instant.
CASES.append(
    Case(
        "two finishes at the same instant in stream order",
        scenario(100, [task(trace(0, 0), [4])], streams=2, interference=share(1.0)),
        [
            Step(0, 0, 0, {"throughput": 1.0}),
            Step(0, 1, 0, terms={"on_time_accuracy": 1.0, "utilisation": 0.008}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 0, 1, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 0, 1, 0, 1),
            (8, FINISH, 0, 0, 0, 0),
            (8, FINISH, 0, 1, 0, 1),
            (8, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# At 5 task 0 finishes, just on time, and task 1 expires: first the finish, then the expiry, and no choice between
# them though the stream is free. Reward 1 * (2 * 0.5) - 0.5 * 3 = -0.5.
CASES.append(
    Case(
        "finish and expiry at the same instant",
        scenario(100, [task(trace(0), [5], 5, weight=2.0), task(trace(0), [5], 5, weight=3.0)]),
        [Step(0, 0, 0, terms={"on_time_accuracy": 1.0, "lateness": 0.0, "drops": 3.0}, reward=-0.5)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (5, FINISH, 0, 0, 0, 0),
            (5, EXPIRE, 1, 0, -1, -1),
            (5, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# One place in the queue. Task 1's first job expires at 5 and makes room for the one released at 5, which would have
# been rejected the other way round. It expires at 10, before the stream is free at 12.
CASES.append(
    Case(
        "expiry before arrival at the same instant",
        scenario(100, [task(trace(0), [12]), task(trace(0, 5), [1], 5)], queue_limit=1),
        [Step(0, 0, 0, terms={"drops": 2.0})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (5, EXPIRE, 1, 0, -1, -1),
            (5, ARRIVAL, 1, 1, -1, -1),
            (10, EXPIRE, 1, 1, -1, -1),
            (12, FINISH, 0, 0, 0, 0),
            (12, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# One place in the queue: the job of 1 takes it, the job of 2 finds it taken. The running job takes no place.
# Trace 0, 1, 2 has a mean gap of 1: at 10 the estimate 2 + 1 - 10 is over, so 0.
CASES.append(
    Case(
        "reject on a full queue",
        scenario(100, [task(trace(0, 1, 2), [10])], queue_limit=1),
        [
            Step(0, 0, 0, {(0, "next_arrival"): 1e6}, terms={"on_time_accuracy": 0.5, "drops": 1.0}, reward=0.0),
            Step(
                10,
                0,
                0,
                {
                    (0, "queue_length"): 1.0,
                    (0, "next_arrival"): 0.0,
                    (0, "period"): 1e6,
                    (0, "slack"): 991e6,
                    (0, "completed"): 1 / 3,
                    "finished": 1 / 3,
                    "missed": 1 / 3,
                },
            ),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1, ARRIVAL, 0, 1, -1, -1),
            (2, ARRIVAL, 0, 2, -1, -1),
            (2, REJECT, 0, 2, -1, -1),
            (10, FINISH, 0, 0, 0, 0),
            (10, START, 0, 1, 0, 0),
            (20, FINISH, 0, 1, 0, 0),
            (20, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# The second job is rejected before anything was chosen: that belongs to the first step. Reward 0.5 - 0.5 * 1 = 0.
# The second step, a wait until the horizon, has nothing of it left.
CASES.append(
    Case(
        "reject before the first choice is in the first reward",
        scenario(20, [task(trace(3, 3, 5), [4])], queue_limit=1),
        [
            Step(
                3,
                0,
                0,
                {"missed": 0.5},
                terms={"on_time_accuracy": 0.5, "drops": 1.0, "utilisation": 0.004},
                reward=0.0,
            ),
            Step(7, 0, 2, terms={"on_time_accuracy": 0.0, "drops": 0.0, "utilisation": 0.0}, reward=0.0),
        ],
        [
            (3, ARRIVAL, 0, 0, -1, -1),
            (3, ARRIVAL, 0, 1, -1, -1),
            (3, REJECT, 0, 1, -1, -1),
            (3, START, 0, 0, 0, 0),
            (5, ARRIVAL, 0, 2, -1, -1),
            (7, FINISH, 0, 0, 0, 0),
            (20, END, -1, -1, -1, -1),
        ],
        "truncated",
    )
)

# Both wait at 0. After the drop of task 0's job (row 2) stream 0 is asked again at once, for task 1 alone.
CASES.append(
    Case(
        "drop, then the same stream is asked again",
        scenario(100, [task(trace(0), [4], weight=4.0), task(trace(0), [4])]),
        [
            Step(0, 0, 2, mask=[1, 1, 1, 1, 1], terms={"drops": 4.0, "utilisation": 0.0}, reward=-2.0),
            Step(0, 0, 1, {"missed": 0.5, "waiting_jobs": 1.0}, mask=[0, 1, 0, 1, 1], reward=0.5),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, DROP, 0, 0, -1, -1),
            (0, START, 1, 0, 0, 0),
            (4, FINISH, 1, 0, 0, 0),
            (4, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# At 0 stream 0 is told to wait, so stream 1 is asked, and waits too. The release of 3 wakes both; stream 0 is asked
# and starts job 0. Stream 1 waits at 3 once more, until stream 0 is free at 7 and is asked first.
CASES.append(
    Case(
        "wait parks the stream until the next event",
        scenario(100, [task(trace(0, 3), [4])], streams=2),
        [
            Step(0, 0, 2, {"throughput": 2.0}),
            Step(0, 1, 2, {"idle_streams": 2.0}),
            Step(3, 0, 0),
            Step(3, 1, 2),
            Step(7, 0, 0),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (3, ARRIVAL, 0, 1, -1, -1),
            (3, START, 0, 0, 0, 0),
            (7, FINISH, 0, 0, 0, 0),
            (7, START, 0, 1, 0, 0),
            (11, FINISH, 0, 1, 0, 0),
            (11, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A start is no event: stream 0, parked at 0, stays so when stream 1 starts a job at the same instant, and the other
# job waits until that run ends at 4.
CASES.append(
    Case(
        "a start at once un-parks nobody",
        scenario(100, [task(trace(0, 0), [4])], streams=2),
        [Step(0, 0, 2), Step(0, 1, 0), Step(4, 0, 0)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 0, 1, -1, -1),
            (0, START, 0, 0, 0, 1),
            (4, FINISH, 0, 0, 0, 1),
            (4, START, 0, 1, 0, 0),
            (8, FINISH, 0, 1, 0, 0),
            (8, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A choice takes 3. The one of 0 is for job 0, which expires at 2; job 1, released at 1, is the head by 3, but it is
# not the job that was chosen. Asked again at 3, job 1 starts at 6, just in time: it would have expired at 1 + 6 = 7.
CASES.append(
    Case(
        "decision time with a stale dispatch",
        scenario(
            100,
            [task(trace(0), [4], 2), task(trace(1), [4], 6)],
            decision_time_ms=3,
        ),
        [Step(0, 0, 0, terms={"drops": 1.0, "utilisation": 0.0}), Step(3, 0, 1, {(1, "slack"): 4e6})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (1, ARRIVAL, 1, 0, -1, -1),
            (2, EXPIRE, 0, 0, -1, -1),
            (6, START, 1, 0, 0, 0),
            (10, FINISH, 1, 0, 0, 0),
            (10, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# As before, but both jobs are of one task: by 3 another job heads the same queue (deadlines 2 and 2 + 2 = 4), and the
# choice of 0 was not for that one. Chosen again at 3, the second expires at 4; its choice is still in flight, but the
# episode is over, as nothing is to come.
CASES.append(
    Case(
        "decision time with another job at the head",
        scenario(100, [task(trace(0, 2), [4], 2)], decision_time_ms=3),
        [Step(0, 0, 0, terms={"drops": 1.0}), Step(3, 0, 0, {(0, "slack"): 1e6}, terms={"drops": 1.0})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (2, EXPIRE, 0, 0, -1, -1),
            (2, ARRIVAL, 0, 1, -1, -1),
            (4, EXPIRE, 0, 1, -1, -1),
            (4, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A choice takes 2. The wait of 0 is undisturbed and parks the stream at 2, until the release of 5. The wait of 5 is
# disturbed by the release of 7, which comes before the effect of 7: stale, so the stream is asked again at 7.
# The drop chosen then happens at 9, the dispatch chosen at 9 starts at 11, and the one chosen when that run is over at
# 12 starts at 14.
CASES.append(
    Case(
        "decision time with waits, fresh and stale, and a drop",
        scenario(100, [task(trace(0, 5, 7), [1])], decision_time_ms=2),
        [Step(0, 0, 2), Step(5, 0, 2), Step(7, 0, 1, terms={"drops": 1.0}), Step(9, 0, 0), Step(12, 0, 0)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (5, ARRIVAL, 0, 1, -1, -1),
            (7, ARRIVAL, 0, 2, -1, -1),
            (9, DROP, 0, 0, -1, -1),
            (11, START, 0, 1, 0, 0),
            (12, FINISH, 0, 1, 0, 0),
            (14, START, 0, 2, 0, 0),
            (15, FINISH, 0, 2, 0, 0),
            (15, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Two streams and a choice that takes 2. The waits of 0 and 2 park both streams by 4, and nobody is asked until the
# release of 9: an effect changes nothing in the world. Job 0 starts at 11 on stream 0; at 11 stream 1 is asked, and its
# wait is disturbed by the finish of 12. So at 13 stream 0, idle again, is asked first.
CASES.append(
    Case(
        "the effect of a wait un-parks nobody",
        scenario(100, [task(trace(0, 9), [1])], streams=2, decision_time_ms=2),
        [Step(0, 0, 2), Step(2, 1, 2), Step(9, 0, 0), Step(11, 1, 2), Step(13, 0, 0)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (9, ARRIVAL, 0, 1, -1, -1),
            (11, START, 0, 0, 0, 0),
            (12, FINISH, 0, 0, 0, 0),
            (15, START, 0, 1, 0, 0),
            (16, FINISH, 0, 1, 0, 0),
            (16, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Stream 0 is parked by the effect of 2. The start on stream 1 at 4 leaves it parked, though a job waits: it is asked
# when the run of 3 ends at 7.
CASES.append(
    Case(
        "the effect of a dispatch un-parks nobody",
        scenario(100, [task(trace(0, 0), [3])], streams=2, decision_time_ms=2),
        [Step(0, 0, 2), Step(2, 1, 0), Step(7, 0, 0)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 0, 1, -1, -1),
            (4, START, 0, 0, 0, 1),
            (7, FINISH, 0, 0, 0, 1),
            (9, START, 0, 1, 0, 0),
            (12, FINISH, 0, 1, 0, 0),
            (12, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# As before, but stream 1 drops job 0, at 4. It is asked again, stream 0 is not.
CASES.append(
    Case(
        "the effect of a drop un-parks nobody",
        scenario(100, [task(trace(0, 0), [3])], streams=2, decision_time_ms=2),
        [Step(0, 0, 2), Step(2, 1, 1, terms={"drops": 1.0}), Step(4, 1, 0)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 0, 1, -1, -1),
            (4, DROP, 0, 0, -1, -1),
            (6, START, 0, 1, 0, 1),
            (9, FINISH, 0, 1, 0, 1),
            (9, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A wait is stale after an event of any kind of the world, here an expiry: job 0 is gone at 1, so the wait of 0 does
# nothing at 2, and the stream is asked for task 1.
CASES.append(
    Case(
        "an expiry disturbs a wait",
        scenario(100, [task(trace(0), [3], 1), task(trace(0), [3])], decision_time_ms=2),
        [Step(0, 0, 4, terms={"drops": 1.0}), Step(2, 0, 1)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (1, EXPIRE, 0, 0, -1, -1),
            (4, START, 1, 0, 0, 0),
            (7, FINISH, 1, 0, 0, 0),
            (7, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# The choice of 0 would take effect at 5, but so ends the episode, and the horizon comes first.
CASES.append(
    Case(
        "the horizon comes before an effect of the same instant",
        scenario(5, [task(trace(0), [1])], decision_time_ms=5),
        [Step(0, 0, 0, terms={"on_time_accuracy": 0.0, "utilisation": 0.0})],
        [(0, ARRIVAL, 0, 0, -1, -1), (5, END, -1, -1, -1, -1)],
        "truncated",
    )
)

# Phase 1, think 2, retry 3, runs of 4. The job of 1 ends at 5: next release at 7. That one is dropped: next at
# 7 + max(2, 3) = 10. It runs until 14: next at 16, and that is the horizon, so never. The task is not a trace, so the
# episode goes on until 16. Mean gap: think + fastest = 6. Completed: one of two at 7, one of three at 10.
CASES.append(
    Case(
        "closed loop after a finish and after a drop",
        scenario(16, [task({"kind": "closed", "phase_ms": 1, "think_ms": 2, "retry_ms": 3}, [4])]),
        [
            Step(1, 0, 0, {(0, "period"): 6e6, (0, "next_arrival"): 0.0, (2, "next_arrival"): 0.0}),
            Step(7, 0, 1, {(0, "completed"): 0.5}),
            Step(10, 0, 0, {(0, "completed"): 1 / 3, "missed": 1 / 3}),
        ],
        [
            (1, ARRIVAL, 0, 0, -1, -1),
            (1, START, 0, 0, 0, 0),
            (5, FINISH, 0, 0, 0, 0),
            (7, ARRIVAL, 0, 1, -1, -1),
            (7, DROP, 0, 1, -1, -1),
            (10, ARRIVAL, 0, 2, -1, -1),
            (10, START, 0, 2, 0, 0),
            (14, FINISH, 0, 2, 0, 0),
            (16, END, -1, -1, -1, -1),
        ],
        "truncated",
    )
)

# Without thinking the next job is released at the instant the last one ends, before anything is chosen there: at 3 the
# stream is asked with a job waiting. That job is never started and expires at 3 + 2 = 5; retry 4: next at 9, which is
# the horizon, so never.
CASES.append(
    Case(
        "closed loop without think time, and after an expiry",
        scenario(9, [task({"kind": "closed", "think_ms": 0, "retry_ms": 4}, [3], 2)]),
        [
            Step(0, 0, 0, terms={"on_time_accuracy": 0.0, "lateness": 0.5, "drops": 0.0}),
            Step(3, 0, 2, {(0, "queue_length"): 1.0, "missed": 0.5}, terms={"drops": 1.0}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (3, FINISH, 0, 0, 0, 0),
            (3, ARRIVAL, 0, 1, -1, -1),
            (5, EXPIRE, 0, 1, -1, -1),
            (9, END, -1, -1, -1, -1),
        ],
        "truncated",
    )
)

# The release of 30 lies beyond the horizon: with the finish of 4 nothing is to come, and the episode is over at once.
# Its mean gap still counts that release: 30; capped by the horizon, 20.
CASES.append(
    Case(
        "trace with a release beyond the horizon terminates",
        scenario(20, [task(trace(0, 30), [4])]),
        [Step(0, 0, 0, {(0, "period"): 30e6, (0, "next_arrival"): 20e6})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (4, FINISH, 0, 0, 0, 0),
            (4, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# The end is looked for after choices too: with the drop nothing is left to do, and the episode ends there.
CASES.append(
    Case(
        "drop at once of the last job of a trace",
        scenario(20, [task(trace(2), [4])]),
        [Step(2, 0, 1, terms={"drops": 1.0}, reward=-0.5)],
        [(2, ARRIVAL, 0, 0, -1, -1), (2, DROP, 0, 0, -1, -1), (2, END, -1, -1, -1, -1)],
        "terminated",
    )
)

# With a decision time the same drop comes later, and the episode ends with it.
CASES.append(
    Case(
        "drop after a decision time of the last job of a trace",
        scenario(20, [task(trace(2), [4])], decision_time_ms=1),
        [Step(2, 0, 1, terms={"drops": 1.0})],
        [(2, ARRIVAL, 0, 0, -1, -1), (3, DROP, 0, 0, -1, -1), (3, END, -1, -1, -1, -1)],
        "terminated",
    )
)

# No job is ever released: the episode is over before it began.
CASES.append(
    Case(
        "an empty trace terminates at once",
        scenario(20, [task(trace(), [4])]),
        [],
        [(0, END, -1, -1, -1, -1)],
        "terminated",
    )
)

# The same where every release lies at or beyond the horizon.
CASES.append(
    Case(
        "a trace that begins at the horizon terminates at once",
        scenario(20, [task(trace(20, 21), [4])]),
        [],
        [(0, END, -1, -1, -1, -1)],
        "terminated",
    )
)

# Only traces come to an end. A closed loop whose first release is at the horizon is silent, but the episode goes on.
CASES.append(
    Case(
        "a silent source that is no trace runs to the horizon",
        scenario(20, [task({"kind": "closed", "phase_ms": 20}, [4])]),
        [],
        [(20, END, -1, -1, -1, -1)],
        "truncated",
    )
)

# Of the two events of 4 the finish comes first, and after it nothing is to come: terminated, not truncated.
CASES.append(
    Case(
        "the last finish at the horizon terminates",
        scenario(4, [task(trace(0), [4])]),
        [Step(0, 0, 0, terms={"on_time_accuracy": 0.5})],
        [(0, ARRIVAL, 0, 0, -1, -1), (0, START, 0, 0, 0, 0), (4, FINISH, 0, 0, 0, 0), (4, END, -1, -1, -1, -1)],
        "terminated",
    )
)

# Spells last a nanosecond or so, and gaps a hundred days: a release would be found after some 10**15 spells. The search
# is given up at the horizon, a microsecond away.
CASES.append(
    Case(
        "a bursty source that stays silent is given up at the horizon",
        scenario(
            0.001,
            [task({"kind": "bursty", "calm_gap_ms": 8e9, "burst_gap_ms": 8e9, "calm_ms": 1e-6, "burst_ms": 1e-6}, [4])],
        ),
        [],
        [(0.001, END, -1, -1, -1, -1)],
        "truncated",
    )
)

# Throughput 0.75, demands 2, 2 and 1: rates 0.3, 0.3 and 0.15. Both others need 7 / 0.3 = 70/3, in which the third job
# does 3.5 of its 5; the rest runs alone, at full rate: 70/3 + 1.5 = 24.8333... In float64, 7 - (7 / 0.3) * 0.3 is
# negative by a rounding error: the second of the others has nothing left, not less than nothing. At the second choice
# two equal jobs are foreseen at rate 0.375 each: 56/3.
# So it happens, in whole nanoseconds: 23 333 334 for both others, then 1.5 at full rate.
CASES.append(
    Case(
        "co-runners foreseen to leave together",
        scenario(
            100,
            [task(trace(0), [7], demand=2.0), task(trace(0), [7], demand=2.0), task(trace(0), [5])],
            streams=3,
            interference=share(0.75),
        ),
        [
            Step(0, 0, 0),
            Step(0, 1, 1, {(1, "corun_latency"): 18_666_667.0}),
            Step(0, 2, 2, {(2, "corun_latency"): 24_833_334.0, (2, "corun_margin"): 1000e6 - 23_333_334}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, ARRIVAL, 2, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (0, START, 2, 0, 0, 2),
            (23.333334, FINISH, 0, 0, 0, 0),
            (23.333334, FINISH, 1, 0, 0, 1),
            (24.833334, FINISH, 2, 0, 0, 2),
            (24.833334, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Beside a job of a million times its demand, at throughput 0.001, the first one runs at about 10**-9: its 10**9 ms
# would need more nanoseconds than 63 bits hold. Its run is cut to 2**60 ns, and both still run at the horizon.
CASES.append(
    Case(
        "a run that would never end is cut",
        scenario(
            100,
            [task(trace(0), [1e9], demand=1e-3), task(trace(0), [4], demand=1e3)],
            streams=2,
            interference=share(1e-3),
        ),
        [Step(0, 0, 0), Step(0, 1, 1, terms={"utilisation": 0.1})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (100, END, -1, -1, -1, -1),
        ],
        "truncated",
    )
)

# Two streams, late jobs are kept. Task 0 (weight 2, deadline 4, run 6) from 0 to 6 is late by 2: 2 * 2/4 = 1.
# Its job of 1 waits; at 1 stream 1 is told to wait, so it starts at 6, past its deadline of 5, and ends at 12, late by
# 7 of 4: 2 * min(1, 7/4) = 2.
# Step of 1 to 6: busy 5 of 2 * 1000; reward 1 * 0 - 0.5 * 1 - 0.25 * 0 + 8 * 0.0025 = -0.48.
# Step of 6 to 12: busy 6 of 2 * 1000; reward 0 - 0.5 * 2 - 0 + 8 * 0.003 = -0.976.
CASES.append(
    Case(
        "late jobs kept: lateness, its cap and utilisation",
        scenario(
            100,
            [task(trace(0, 1), [6], 4, weight=2.0)],
            {"on_time_accuracy": 1.0, "lateness": 0.5, "drops": 0.25, "utilisation": 8.0},
            streams=2,
            late="run",
        ),
        [
            Step(0, 0, 0, terms={"lateness": 0.0, "utilisation": 0.0005}, reward=0.004),
            Step(1, 1, 2, {(0, "slack"): 4e6}, terms={"lateness": 1.0, "utilisation": 0.0025}, reward=-0.48),
            Step(6, 0, 0, {(0, "slack"): -1e6}, terms={"lateness": 2.0, "utilisation": 0.003}, reward=-0.976),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1, ARRIVAL, 0, 1, -1, -1),
            (6, FINISH, 0, 0, 0, 0),
            (6, START, 0, 1, 0, 0),
            (12, FINISH, 0, 1, 0, 0),
            (12, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Ladders of one and of three: rows 0-2 and 3-5 dispatch, 6 and 7 drop, 8 waits. Rows 1 and 2 do not exist: choosing one
# counts as wait and is flagged, and nothing happens until the release of 2. Then the middle variant of task 1 runs.
CASES.append(
    Case(
        "ragged ladders and an illegal row",
        scenario(100, [task(trace(0), [4]), task(trace(2), [3, 5, 7], criticality=2)]),
        [
            Step(
                0,
                0,
                1,
                {
                    (0, "num_variants"): 1.0,
                    (1, "num_variants"): 0.0,
                    (1, "dispatch"): 0.0,
                    (1, "deadline"): 0.0,
                    (4, "dispatch"): 1.0,
                    (4, "variant_rank"): 1.0,
                    (4, "latency"): 5e6,
                    (4, "fastest_latency"): 3e6,
                    (4, "accuracy"): 0.75,
                    (4, "criticality"): 2.0,
                    (4, "slack"): 0.0,
                    (7, "drop"): 1.0,
                    (7, "num_variants"): 3.0,
                    (7, "latency"): 0.0,
                    (7, "demand"): 0.0,
                    (7, "fastest_latency"): 3e6,
                    (8, "wait"): 1.0,
                    (8, "next_arrival"): 100e6,
                    (8, "deadline"): 1000e6,
                    (8, "fastest_latency"): 4e6,
                    (8, "weight"): 1.0,
                    # CRC-32 of "builtin:resnet" and "cifar10".
                    (0, "model_code"): 0x51EF6252 / 2**32,
                    (4, "dataset_code"): 0x2AD04E3F / 2**32,
                    (7, "model_code"): 0x51EF6252 / 2**32,
                    (1, "model_code"): 0.0,
                    (8, "dataset_code"): 0.0,
                },
                mask=[1, 0, 0, 0, 0, 0, 1, 0, 1],
                illegal=True,
            ),
            Step(2, 0, 4, mask=[1, 0, 0, 1, 1, 1, 1, 1, 1], terms={"on_time_accuracy": 0.75}),
            Step(7, 0, 0, {(4, "completed"): 1.0, "finished": 0.5}, mask=[1, 0, 0, 0, 0, 0, 1, 0, 1]),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (2, ARRIVAL, 1, 0, -1, -1),
            (2, START, 1, 0, 1, 0),
            (7, FINISH, 1, 0, 1, 0),
            (7, START, 0, 0, 0, 0),
            (11, FINISH, 0, 0, 0, 0),
            (11, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# What a policy may expect of each source, at 2 of 50 and with no release of the random ones (their gaps are so long
# that none comes). Periodic, period 9, phase 6: in 4. Trace of 2 and 12: mean gap 10, in 10. Rows of tasks for which
# nothing waits say nothing; the wait row shows the task with the least.
# Mean gap of the bursty one, per million: (30 + 10) / (30 / 15 + 10 / 5) = 10.
CASES.append(
    Case(
        "expected next arrivals",
        scenario(
            50,
            [
                task(trace(2, 12), [1]),
                task({"kind": "periodic", "period_ms": 9, "phase_ms": 6}, [2]),
                task({"kind": "poisson", "mean_gap_ms": 8e9}, [1]),
                task(
                    {"kind": "bursty", "calm_gap_ms": 15e6, "burst_gap_ms": 5e6, "calm_ms": 30e6, "burst_ms": 10e6}, [1]
                ),
            ],
        ),
        [
            Step(
                2,
                0,
                0,
                {
                    (0, "next_arrival"): 10e6,
                    (1, "next_arrival"): 0.0,
                    (2, "next_arrival"): 0.0,
                    (8, "next_arrival"): 4e6,
                    (8, "fastest_latency"): 2e6,
                    (2, "period"): 8e15,
                    (3, "period"): 10e12,
                },
            ),
            Step(6, 0, 1, {(1, "next_arrival"): 9e6, (0, "next_arrival"): 0.0}),
            *(Step(time, 0, action) for time, action in ((12, 0), (15, 1), (24, 1), (33, 1), (42, 5))),
        ],
        [
            (2, ARRIVAL, 0, 0, -1, -1),
            (2, START, 0, 0, 0, 0),
            (3, FINISH, 0, 0, 0, 0),
            (6, ARRIVAL, 1, 0, -1, -1),
            (6, START, 1, 0, 0, 0),
            (8, FINISH, 1, 0, 0, 0),
            (12, ARRIVAL, 0, 1, -1, -1),
            (12, START, 0, 1, 0, 0),
            (13, FINISH, 0, 1, 0, 0),
            (15, ARRIVAL, 1, 1, -1, -1),
            (15, START, 1, 1, 0, 0),
            (17, FINISH, 1, 1, 0, 0),
            (24, ARRIVAL, 1, 2, -1, -1),
            (24, START, 1, 2, 0, 0),
            (26, FINISH, 1, 2, 0, 0),
            (33, ARRIVAL, 1, 3, -1, -1),
            (33, START, 1, 3, 0, 0),
            (35, FINISH, 1, 3, 0, 0),
            (42, ARRIVAL, 1, 4, -1, -1),
            (42, DROP, 1, 4, -1, -1),
            (50, END, -1, -1, -1, -1),
        ],
        "truncated",
    )
)
