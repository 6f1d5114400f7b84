"""Roofline, matrix and stream priorities."""

from __future__ import annotations

from tests.edge.cases.case import ARRIVAL, END, FINISH, START, Case, Json, Step, scenario, share, task, trace

ROOFLINE: Json = {"kind": "roofline"}


def uses(compute: float, bandwidth: float) -> Json:
    """Return what a variant keeps busy when it runs alone."""
    return {"compute_share": compute, "bandwidth_share": bandwidth}


CASES: list[Case] = []

# A and B are bound by arithmetic: together 2 of 1, so rate 0.5 each. At 4 they have 6 and 2 left. C takes bandwidth
# only: the sums are 2 and 1.5, so all three run at 0.5, and nothing changes for A and B. B ends at 8. Then A has 4
# left, C 2, and they take 1 and 1.25: rate 1 / 1.25 = 0.8. C ends 2.5 later, at 10.5; A has 2 left and ends alone at
# 12.5.
# Foreseen for B at 0: 4 / 0.5 = 8, after which A has 4 left: 12 in all. Foreseen for C at 4: as it happens, 6.5; A's
# end is 8.5 away, and its deadline 996.
# Without load times and a limit of memory, weights are always there: also in rows of tasks for which nothing waits.
CASES.append(
    Case(
        "roofline: two bound by arithmetic and one by bandwidth",
        scenario(
            100,
            [
                task(trace(0), [8], ladder=uses(1.0, 0.25)),
                task(trace(0), [4], ladder=uses(1.0, 0.25)),
                task(trace(4), [4], ladder=uses(0.0, 1.0)),
            ],
            streams=3,
            interference=ROOFLINE,
        ),
        [
            Step(0, 0, 0, {(0, "corun_latency"): 8e6, "throughput": 3.0}),
            Step(0, 1, 1, {(1, "corun_latency"): 8e6, (1, "corun_margin"): 988e6}),
            Step(
                4,
                2,
                2,
                {
                    (2, "corun_latency"): 6.5e6,
                    (2, "corun_margin"): 987.5e6,
                    (2, "compute_share"): 0.0,
                    (2, "bandwidth_share"): 1.0,
                    (0, "compute_share"): 1.0,
                    (0, "bandwidth_share"): 0.25,
                    (0, "resident"): 1.0,
                    (2, "resident"): 1.0,
                    (3, "resident"): 0.0,
                    (3, "compute_share"): 0.0,
                    "corun_first": 4e6,
                    "corun_last": 12e6,
                    "free_memory": 1.0,
                },
            ),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (4, ARRIVAL, 2, 0, -1, -1),
            (4, START, 2, 0, 0, 2),
            (8, FINISH, 1, 0, 0, 1),
            (10.5, FINISH, 2, 0, 0, 2),
            (12.5, FINISH, 0, 0, 0, 0),
            (12.5, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# One takes all arithmetic, one all bandwidth, one neither: nobody is slowed. When the first two are gone at 2, two are
# left that take nothing at all: a sum of 0 sets no limit.
CASES.append(
    Case(
        "roofline: jobs that do not compete",
        scenario(
            100,
            [
                task(trace(0), [2], ladder=uses(1.0, 0.0)),
                task(trace(0), [2], ladder=uses(0.0, 1.0)),
                task(trace(0, 0), [4], ladder=uses(0.0, 0.0)),
            ],
            streams=4,
            interference=ROOFLINE,
        ),
        [Step(0, 0, 0), Step(0, 1, 1), Step(0, 2, 2), Step(0, 3, 2, {(2, "corun_latency"): 4e6})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, ARRIVAL, 2, 0, -1, -1),
            (0, ARRIVAL, 2, 1, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (0, START, 2, 0, 0, 2),
            (0, START, 2, 1, 0, 3),
            (2, FINISH, 0, 0, 0, 0),
            (2, FINISH, 1, 0, 0, 1),
            (4, FINISH, 2, 0, 0, 2),
            (4, FINISH, 2, 1, 0, 3),
            (4, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# B doubles A's time and is itself helped by A: rates 1 / 2 and 1 / 0.5 = 2. At 2 they have 7 and 4 left. C, slowed by
# both, runs at 1 / 4 / 2 = 0.125 and slows nobody. B ends at 4; A has 6 left and C 7.75, and run at 1 and 1 / 4. A ends
# at 10; C has 7.75 - 1.5 = 6.25 left and ends at 16.25.
# Foreseen for B at 0: 8 / 2 = 4, less than alone; A then has 6 left: 10. Foreseen for C at 2: 14.25, and A's end in 8.
CASES.append(
    Case(
        "matrix of tasks, asymmetric, with three streams",
        scenario(
            100,
            [task(trace(0), [8]), task(trace(0), [8]), task(trace(2), [8])],
            streams=3,
            interference={"kind": "matrix", "slowdowns": [[1.0, 2.0, 1.0], [0.5, 1.0, 1.0], [4.0, 2.0, 1.0]]},
        ),
        [
            Step(0, 0, 0),
            Step(0, 1, 1, {(1, "corun_latency"): 4e6, (1, "corun_margin"): 990e6}),
            Step(
                2,
                2,
                2,
                {
                    (2, "corun_latency"): 14.25e6,
                    (2, "corun_margin"): 990e6,
                    "corun_first": 2e6,
                    "corun_last": 14e6,
                    "throughput": 3.0,
                },
            ),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (2, ARRIVAL, 2, 0, -1, -1),
            (2, START, 2, 0, 0, 2),
            (4, FINISH, 1, 0, 0, 1),
            (10, FINISH, 0, 0, 0, 0),
            (16.25, FINISH, 2, 0, 0, 2),
            (16.25, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# One row and column per variant: A, then the two of B. Beside B's slow one A runs at 1/4, and B at 1/2: B needs 8, by
# when A has 8 - 2 = 6 left and ends at 14. Beside B's fast one A would run at 1/2 and B at full rate: B would end at 2
# and A, with 7 left, at 9.
# Rows: A 0 (and 1, which does not exist), B 2 and 3.
CASES.append(
    Case(
        "matrix of variants",
        scenario(
            100,
            [task(trace(0), [8]), task(trace(0), [2, 4])],
            streams=2,
            interference={"kind": "matrix", "slowdowns": [[1.0, 2.0, 4.0], [1.0, 1.0, 1.0], [2.0, 1.0, 1.0]]},
        ),
        [
            Step(0, 0, 0),
            Step(
                0,
                1,
                3,
                {
                    (2, "corun_latency"): 2e6,
                    (2, "corun_margin"): 991e6,
                    (3, "corun_latency"): 8e6,
                    (3, "corun_margin"): 986e6,
                },
            ),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 1, 1),
            (8, FINISH, 1, 0, 1, 1),
            (14, FINISH, 0, 0, 0, 0),
            (14, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# The diagonal: two jobs of one task double each other's time, a third doubles it again. Three run at 1/4: each has
# 4 left at the start, and all end at 16.
CASES.append(
    Case(
        "matrix: jobs of one task slow each other down",
        scenario(
            100,
            [task(trace(0, 0, 0), [4])],
            streams=3,
            interference={"kind": "matrix", "slowdowns": [[2.0]]},
        ),
        [
            Step(0, 0, 0, {(0, "corun_latency"): 4e6}),
            Step(0, 1, 0, {(0, "corun_latency"): 8e6}),
            Step(0, 2, 0, {(0, "corun_latency"): 16e6, (0, "corun_margin"): 984e6}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 0, 1, -1, -1),
            (0, ARRIVAL, 0, 2, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 0, 1, 0, 1),
            (0, START, 0, 2, 0, 2),
            (16, FINISH, 0, 0, 0, 0),
            (16, FINISH, 0, 1, 0, 1),
            (16, FINISH, 0, 2, 0, 2),
            (16, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Stream 1 is the high one, and asked first. B there gets min(1, 1.25) = 1, and A what is left: 0.25. B ends at 4; A has
# 7 left and ends at 11. The priority is shown for the stream that is asked, and not where nothing waits.
CASES.append(
    Case(
        "priorities with share: the high stream first",
        scenario(
            100,
            [task(trace(0), [8]), task(trace(0), [4])],
            streams=2,
            interference=share(1.25),
            stream_priorities=[0, 2],
        ),
        [
            Step(0, 1, 1, {(0, "stream_priority"): 2.0, (1, "corun_latency"): 4e6}),
            Step(
                0,
                0,
                0,
                {
                    (0, "stream_priority"): 0.0,
                    (1, "stream_priority"): 0.0,
                    (3, "stream_priority"): 0.0,
                    (0, "corun_latency"): 11e6,
                    (0, "corun_margin"): 996e6,
                    "throughput": 1.25,
                },
            ),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 1, 0, 0, 1),
            (0, START, 0, 0, 0, 0),
            (4, FINISH, 1, 0, 0, 1),
            (11, FINISH, 0, 0, 0, 0),
            (11, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Throughput 0.5: B gets min(1, 0.5) = 0.5 and leaves nothing; A crawls at 0.01. B ends at 8. A did 0.08 by then: 7.92
# left.
CASES.append(
    Case(
        "priorities with share: the least rate",
        scenario(
            100,
            [task(trace(0), [8]), task(trace(0), [4])],
            streams=2,
            interference=share(0.5),
            stream_priorities=[0, 1],
        ),
        [Step(0, 1, 1), Step(0, 0, 0, {(0, "corun_latency"): 15.92e6, (0, "corun_margin"): 992e6})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 1, 0, 0, 1),
            (0, START, 0, 0, 0, 0),
            (8, FINISH, 1, 0, 0, 1),
            (15.92, FINISH, 0, 0, 0, 0),
            (15.92, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Throughput 2, two high streams with demands 1 and 3: 2 * 1/4 = 0.5 and min(1, 2 * 3/4) = 1. They take 1.5, and the low
# stream gets the other 0.5. B ends at 4; A has 6 left, C 2. Now A gets 1 and leaves 1: C ends at 6, A at 10.
CASES.append(
    Case(
        "priorities with share: two on the high level",
        scenario(
            100,
            [task(trace(0), [8]), task(trace(0), [4], demand=3.0), task(trace(0), [4])],
            streams=3,
            interference=share(2.0),
            stream_priorities=[1, 1, 0],
        ),
        [Step(0, 0, 0), Step(0, 1, 1), Step(0, 2, 2, {(2, "corun_latency"): 6e6, (2, "corun_margin"): 990e6})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, ARRIVAL, 2, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (0, START, 2, 0, 0, 2),
            (4, FINISH, 1, 0, 0, 1),
            (6, FINISH, 2, 0, 0, 2),
            (10, FINISH, 0, 0, 0, 0),
            (10, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# The high stream is told to wait. The two low ones have the whole throughput of 1 between them: 0.5 each.
CASES.append(
    Case(
        "priorities with share: nothing runs on the high stream",
        scenario(100, [task(trace(0, 0), [4])], streams=3, interference=share(1.0), stream_priorities=[1, 0, 0]),
        [Step(0, 0, 2, {(0, "stream_priority"): 1.0}), Step(0, 1, 0), Step(0, 2, 0, {(0, "corun_latency"): 8e6})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 0, 1, -1, -1),
            (0, START, 0, 0, 0, 1),
            (0, START, 0, 1, 0, 2),
            (8, FINISH, 0, 0, 0, 1),
            (8, FINISH, 0, 1, 0, 2),
            (8, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Stream 1 is the high one. B there runs at full rate and leaves 0.25 of the arithmetic and 0.5 of the bandwidth; A
# takes 0.5 of both, so it gets min(1, 0.25 / 0.5, 0.5 / 0.5) = 0.5. B ends at 4, and A has 6 left. C takes all
# arithmetic from 4 to 6: A crawls at 0.01, has 5.98 left at 6 and ends at 11.98.
CASES.append(
    Case(
        "priorities with roofline",
        scenario(
            100,
            [
                task(trace(0), [8], ladder=uses(0.5, 0.5)),
                task(trace(0), [4], ladder=uses(0.75, 0.5)),
                task(trace(4), [2], ladder=uses(1.0, 0.0)),
            ],
            streams=2,
            interference=ROOFLINE,
            stream_priorities=[0, 1],
        ),
        [
            Step(0, 1, 1),
            Step(0, 0, 0, {(0, "corun_latency"): 10e6, (0, "corun_margin"): 996e6}),
            Step(4, 1, 2, {(2, "corun_latency"): 2e6, "corun_first": 6e6}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 1, 0, 0, 1),
            (0, START, 0, 0, 0, 0),
            (4, FINISH, 1, 0, 0, 1),
            (4, ARRIVAL, 2, 0, -1, -1),
            (4, START, 2, 0, 0, 1),
            (6, FINISH, 2, 0, 0, 1),
            (11.98, FINISH, 0, 0, 0, 0),
            (11.98, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# The high job takes all arithmetic and half of the bandwidth. The low one needs only the other half: full rate for
# both.
CASES.append(
    Case(
        "priorities with roofline: a low job that needs nothing of what is used up",
        scenario(
            100,
            [task(trace(0), [4], ladder=uses(1.0, 0.5)), task(trace(0), [6], ladder=uses(0.0, 0.5))],
            streams=2,
            interference=ROOFLINE,
            stream_priorities=[5, 4],
        ),
        [Step(0, 0, 0), Step(0, 1, 1, {(1, "corun_latency"): 6e6, (1, "stream_priority"): 4.0})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (4, FINISH, 0, 0, 0, 0),
            (6, FINISH, 1, 0, 0, 1),
            (6, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Equal priorities are one level, the highest, which knows no least rate: B gets 1/256, below 0.01. A ends at 256, when
# B has done 1 of its 2. The priority that both streams have is shown.
CASES.append(
    Case(
        "priorities with share: no least rate on the highest level",
        scenario(
            1000,
            [task(trace(0), [255], demand=255.0), task(trace(0), [2])],
            streams=2,
            interference=share(1.0),
            stream_priorities=[3, 3],
        ),
        [
            Step(0, 0, 0, {(0, "stream_priority"): 3.0, (1, "stream_priority"): 3.0}),
            Step(0, 1, 1, {(0, "stream_priority"): 0.0, (1, "stream_priority"): 3.0, (1, "corun_latency"): 257e6}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (256, FINISH, 0, 0, 0, 0),
            (257, FINISH, 1, 0, 0, 1),
            (257, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# The two on the high level want 2 of the arithmetic and all of the bandwidth: at rate 0.5 they take half of the latter.
# So C below, which needs no arithmetic, runs at 0.5 as well. A and B end at 8, when C has 2 of 6 left.
CASES.append(
    Case(
        "priorities with roofline: slow jobs take less of the bandwidth too",
        scenario(
            100,
            [
                task(trace(0), [4], ladder={"compute_share": 1.0, "bandwidth_share": 0.5}),
                task(trace(0), [4], ladder={"compute_share": 1.0, "bandwidth_share": 0.5}),
                task(trace(0), [6], ladder={"compute_share": 0.0, "bandwidth_share": 1.0}),
            ],
            streams=3,
            interference={"kind": "roofline"},
            stream_priorities=[1, 1, 0],
        ),
        [Step(0, 0, 0), Step(0, 1, 1), Step(0, 2, 2, {(2, "corun_latency"): 10e6, (2, "corun_margin"): 992e6})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, ARRIVAL, 2, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (0, START, 2, 0, 0, 2),
            (8, FINISH, 0, 0, 0, 0),
            (8, FINISH, 1, 0, 0, 1),
            (10, FINISH, 2, 0, 0, 2),
            (10, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)
