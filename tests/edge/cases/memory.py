"""Load times, and weights that make room for each other."""

from __future__ import annotations

from tests.edge.cases.case import ARRIVAL, END, EVICT, FINISH, READY, START, Case, Step, scenario, share, task, trace

CASES: list[Case] = []

# The first run loads for 3, is ready at 3 and ends at 7; the second finds the weights and takes 4. The stream is taken
# for 7 of the first step's 8. What a drop row shows has nothing to do with weights.
CASES.append(
    Case(
        "a run loads its weights, the next finds them",
        scenario(100, [task(trace(0, 8), [4], ladder={"load_ms": 3.0})]),
        [
            Step(
                0,
                0,
                0,
                {
                    (0, "setup"): 3e6,
                    (0, "resident"): 0.0,
                    (0, "corun_latency"): 7e6,
                    (1, "setup"): 0.0,
                    (1, "resident"): 0.0,
                    "free_memory": 1.0,
                },
                terms={"on_time_accuracy": 0.5, "utilisation": 0.007},
            ),
            Step(8, 0, 0, {(0, "setup"): 0.0, (0, "resident"): 1.0, (0, "corun_latency"): 4e6, (1, "resident"): 0.0}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (3, READY, 0, 0, 0, 0),
            (7, FINISH, 0, 0, 0, 0),
            (8, ARRIVAL, 0, 1, -1, -1),
            (8, START, 0, 1, 0, 0),
            (12, FINISH, 0, 1, 0, 0),
            (12, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Throughput 1. A's first job loads from 0 to 6; meanwhile B runs alone at full rate, 0 to 3. Then A's second job
# starts, and waits for the rest of the load, 3. Both are ready at 6, stream 0 first, share the device, and end at 14.
# Foreseen for B at 0, as if all ran at once: A has 6 + 4 = 10 to go, B 3; at 0.5 each B ends after 6, and A, with 7
# left, after 13. Foreseen for A's second job at 3: 4 / 0.5 = 8 after a set-up of 3; the first has 3 + 4 = 7 to go, 3 of
# it left after 8: it ends after 11, with 1000 - 3 - 11 = 986 to spare.
CASES.append(
    Case(
        "a second stream waits for the rest of a load",
        scenario(
            100,
            [task(trace(0, 2), [4], ladder={"load_ms": 6.0}), task(trace(0), [3])],
            streams=2,
            interference=share(1.0),
        ),
        [
            Step(0, 0, 0, {(0, "corun_latency"): 10e6, (1, "setup"): 0.0, (1, "resident"): 0.0}),
            Step(
                0,
                1,
                1,
                {
                    (1, "corun_latency"): 6e6,
                    (1, "corun_margin"): 987e6,
                    (0, "resident"): 0.0,
                    (0, "running"): 1.0,
                    "corun_first": 10e6,
                    "corun_last": 10e6,
                    "idle_streams": 1.0,
                },
            ),
            Step(
                3,
                1,
                0,
                {
                    (0, "setup"): 3e6,
                    (0, "resident"): 1.0,
                    (0, "corun_latency"): 11e6,
                    (0, "corun_margin"): 986e6,
                    "corun_first": 7e6,
                    "corun_last": 7e6,
                },
            ),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (2, ARRIVAL, 0, 1, -1, -1),
            (3, FINISH, 1, 0, 0, 1),
            (3, START, 0, 1, 0, 1),
            (6, READY, 0, 0, 0, 0),
            (6, READY, 0, 1, 0, 1),
            (14, FINISH, 0, 0, 0, 0),
            (14, FINISH, 0, 1, 0, 1),
            (14, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Ready un-parks streams, as every event of the world does: stream 1, told to wait at 1, is asked again at 2.
CASES.append(
    Case(
        "ready un-parks the streams",
        scenario(100, [task(trace(0, 1), [4], ladder={"load_ms": 2.0})], streams=2),
        [Step(0, 0, 0), Step(1, 1, 2, {(0, "setup"): 1e6}), Step(2, 1, 0, {(0, "setup"): 0.0})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1, ARRIVAL, 0, 1, -1, -1),
            (2, READY, 0, 0, 0, 0),
            (2, START, 0, 1, 0, 1),
            (6, FINISH, 0, 0, 0, 0),
            (6, FINISH, 0, 1, 0, 1),
            (6, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Room for two of A, B and C. When C comes at 6, A was used last at 5 and B at 3: B goes. When B comes back at 8, A was
# used last at 5 and C at 7: A goes.
CASES.append(
    Case(
        "the weights used least recently make room",
        scenario(
            100,
            [
                task(trace(0, 4), [1], ladder={"memory_mb": 2.0}),
                task(trace(2, 8), [1], ladder={"memory_mb": 2.0}),
                task(trace(6), [1], ladder={"memory_mb": 2.0}),
            ],
            memory_mb=4.0,
        ),
        [
            Step(0, 0, 0, {"free_memory": 1.0, (0, "memory"): 2.0, (3, "memory"): 0.0, (0, "resident"): 0.0}),
            Step(2, 0, 1, {"free_memory": 0.5, (1, "resident"): 0.0}),
            Step(4, 0, 0, {"free_memory": 0.0, (0, "resident"): 1.0, (1, "resident"): 0.0}),
            Step(6, 0, 2, {"free_memory": 0.0, (2, "resident"): 0.0}, mask=[0, 0, 1, 0, 0, 1, 1]),
            Step(8, 0, 1, {(1, "resident"): 0.0}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1, FINISH, 0, 0, 0, 0),
            (2, ARRIVAL, 1, 0, -1, -1),
            (2, START, 1, 0, 0, 0),
            (3, FINISH, 1, 0, 0, 0),
            (4, ARRIVAL, 0, 1, -1, -1),
            (4, START, 0, 1, 0, 0),
            (5, FINISH, 0, 1, 0, 0),
            (6, ARRIVAL, 2, 0, -1, -1),
            (6, EVICT, 1, -1, 0, -1),
            (6, START, 2, 0, 0, 0),
            (7, FINISH, 2, 0, 0, 0),
            (8, ARRIVAL, 1, 1, -1, -1),
            (8, EVICT, 0, -1, 0, -1),
            (8, START, 1, 1, 0, 0),
            (9, FINISH, 1, 1, 0, 0),
            (9, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A starts before B and ends after it: to leave the stream is to use the weights too, so for C it is B's that go.
CASES.append(
    Case(
        "weights are used until their job leaves",
        scenario(
            100,
            [
                task(trace(0), [6], ladder={"memory_mb": 2.0}),
                task(trace(1), [1], ladder={"memory_mb": 2.0}),
                task(trace(7), [1], ladder={"memory_mb": 2.0}),
            ],
            streams=2,
            memory_mb=4.0,
        ),
        [Step(0, 0, 0), Step(1, 1, 1), Step(7, 0, 2)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1, ARRIVAL, 1, 0, -1, -1),
            (1, START, 1, 0, 0, 1),
            (2, FINISH, 1, 0, 0, 1),
            (6, FINISH, 0, 0, 0, 0),
            (7, ARRIVAL, 2, 0, -1, -1),
            (7, EVICT, 1, -1, 0, -1),
            (7, START, 2, 0, 0, 0),
            (8, FINISH, 2, 0, 0, 0),
            (8, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Two jobs end at 4, stream 0 first: B, on stream 1, was used later in order, though at the same time. Only as much goes
# as must: of 4 MB, 3 are taken and C needs 2.5, so A goes and B, with 1.5, stays. D needs 4 and all goes, B before C.
CASES.append(
    Case(
        "as much goes as must, the oldest first",
        scenario(
            100,
            [
                task(trace(0), [4], ladder={"memory_mb": 1.5}),
                task(trace(0), [4], ladder={"memory_mb": 1.5}),
                task(trace(5), [1], ladder={"memory_mb": 2.5}),
                task(trace(7), [1], ladder={"memory_mb": 4.0}),
            ],
            streams=2,
            memory_mb=4.0,
        ),
        [Step(0, 0, 0), Step(0, 1, 1), Step(5, 0, 2, {"free_memory": 0.25}), Step(7, 0, 3, {"free_memory": 0.0})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (4, FINISH, 0, 0, 0, 0),
            (4, FINISH, 1, 0, 0, 1),
            (5, ARRIVAL, 2, 0, -1, -1),
            (5, EVICT, 0, -1, 0, -1),
            (5, START, 2, 0, 0, 0),
            (6, FINISH, 2, 0, 0, 0),
            (7, ARRIVAL, 3, 0, -1, -1),
            (7, EVICT, 1, -1, 0, -1),
            (7, EVICT, 2, -1, 0, -1),
            (7, START, 3, 0, 0, 0),
            (8, FINISH, 3, 0, 0, 0),
            (8, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Of 3 MB, A's run holds 2 until 10. Neither variant of B, 2 and 1.5 MB, has room beside it, C with 1 has. To start B
# all the same counts as wait. When A is done at 10, B's fast variant makes it go, and C, used last at 4, before it.
# Rows: A 0, B 2 and 3, C 4; drops 6 to 8, wait 9.
B_LADDER = [
    {"latency_ms": 2.0, "accuracy": 0.5, "memory_mb": 2.0},
    {"latency_ms": 3.0, "accuracy": 0.75, "memory_mb": 1.5},
]
CASES.append(
    Case(
        "weights in use leave no room for others",
        scenario(
            100,
            [
                task(trace(0), [10], ladder={"memory_mb": 2.0}),
                task(trace(1), [2, 3]) | {"variants": B_LADDER},
                task(trace(3), [1], ladder={"memory_mb": 1.0}),
            ],
            streams=2,
            memory_mb=3.0,
        ),
        [
            Step(0, 0, 0),
            Step(1, 1, 2, mask=[0, 0, 0, 0, 0, 0, 0, 1, 0, 1], illegal=True),
            Step(3, 1, 4, {"free_memory": 1 / 3}, mask=[0, 0, 0, 0, 1, 0, 0, 1, 1, 1]),
            Step(4, 1, 9, {"free_memory": 0.0}, mask=[0, 0, 0, 0, 0, 0, 0, 1, 0, 1]),
            Step(10, 0, 2, mask=[0, 0, 1, 1, 0, 0, 0, 1, 0, 1]),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1, ARRIVAL, 1, 0, -1, -1),
            (3, ARRIVAL, 2, 0, -1, -1),
            (3, START, 2, 0, 0, 1),
            (4, FINISH, 2, 0, 0, 1),
            (10, FINISH, 0, 0, 0, 0),
            (10, EVICT, 2, -1, 0, -1),
            (10, EVICT, 0, -1, 0, -1),
            (10, START, 1, 0, 0, 0),
            (12, FINISH, 1, 0, 0, 0),
            (12, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)
