"""Interrupted jobs: what they keep, where they wait, and when the device as a whole is asked."""

from __future__ import annotations

from tests.edge.cases.case import (
    ARRIVAL,
    DROP,
    END,
    EVICT,
    EXPIRE,
    FINISH,
    PREEMPT,
    READY,
    REJECT,
    START,
    Case,
    Json,
    Step,
    scenario,
    share,
    task,
    trace,
)


def preemption(kind: str, cost: float = 0.0) -> Json:
    """Return how jobs are interrupted."""
    return {"kind": kind, "cost_ms": cost}


CASES: list[Case] = []

# One stream. A, with 5 of 8 left, makes way for B at 3, and begins again at 5. Right after the preemption nobody is
# asked: A waits, but B began at this instant.
# Rows: 0 and 1 dispatch, 2 and 3 preempt, 4 and 5 drop, 6 waits. The device as a whole is number 1.
CASES.append(
    Case(
        "restart loses what was done",
        scenario(100, [task(trace(0), [8], weight=3.0), task(trace(3), [2])], preemption=preemption("restart")),
        [
            Step(
                0,
                0,
                0,
                {
                    "stream": 0.0,
                    (0, "preempt"): 0.0,
                    (2, "preempt"): 1.0,
                    (2, "dispatch"): 0.0,
                    (2, "latency"): 8e6,
                    (2, "slack"): 1000e6,
                    (2, "corun_latency"): 0.0,
                    (2, "victim_slack"): 0.0,
                    (4, "preempt"): 0.0,
                },
                mask=[1, 0, 0, 0, 1, 0, 1],
            ),
            Step(
                3,
                1,
                3,
                {
                    "stream": 1.0,
                    "idle_streams": 0.0,
                    (1, "slack"): 1000e6,
                    (1, "corun_latency"): 0.0,
                    (1, "corun_margin"): 0.0,
                    (2, "victim_slack"): 0.0,
                    (2, "victim_left"): 0.0,
                    (3, "slack"): 1000e6,
                    (3, "corun_latency"): 2e6,
                    (3, "corun_margin"): 0.0,
                    (3, "victim_slack"): 997e6,
                    (3, "victim_left"): 5e6,
                    (3, "victim_weight"): 3.0,
                    (3, "weight"): 1.0,
                    (5, "victim_weight"): 0.0,
                },
                mask=[0, 0, 0, 1, 0, 1, 1],
                terms={"on_time_accuracy": 0.5, "utilisation": 0.002},
            ),
            Step(5, 0, 0, {(0, "progress"): 0.0, (0, "corun_latency"): 8e6}, mask=[1, 0, 0, 0, 1, 0, 1]),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (3, ARRIVAL, 1, 0, -1, -1),
            (3, PREEMPT, 0, 0, 0, 0),
            (3, START, 1, 0, 0, 0),
            (5, FINISH, 1, 0, 0, 0),
            (5, START, 0, 0, 0, 0),
            (13, FINISH, 0, 0, 0, 0),
            (13, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Two streams. At 3 C takes stream 0 from A, which has 5 of 8 left: progress 0.375. The device is asked again, as B, on
# stream 1 since 0, could make way for A. It waits. At 6 stream 1 is free, and A goes on there until 11.
# Foreseen for A in B's place at 3: 5, while C has 4 left of its 1000.
# Rows: 0 to 2 dispatch, 3 + 2 * task + stream preempts, 9 to 11 drop, 12 waits. The device is number 2.
CASES.append(
    Case(
        "resume keeps what was done, on another stream",
        scenario(
            100,
            [task(trace(0), [8]), task(trace(0), [6]), task(trace(3), [4])],
            streams=2,
            preemption=preemption("resume"),
        ),
        [
            Step(0, 0, 0),
            Step(0, 1, 1, {(4, "corun_latency"): 0.0}, mask=[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]),
            Step(
                3,
                2,
                7,
                {(7, "victim_left"): 5e6, (8, "victim_left"): 3e6, (7, "corun_margin"): 994e6},
                mask=[0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1],
            ),
            Step(
                3,
                2,
                12,
                {
                    (0, "progress"): 0.375,
                    (4, "progress"): 0.375,
                    (4, "corun_latency"): 5e6,
                    (4, "corun_margin"): 996e6,
                    (4, "victim_left"): 3e6,
                    (3, "progress"): 0.375,
                    (3, "corun_latency"): 0.0,
                    (3, "victim_left"): 0.0,
                    (9, "progress"): 0.0,
                },
                mask=[0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1],
            ),
            Step(6, 1, 0, {(0, "progress"): 0.375, (0, "corun_latency"): 5e6}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (3, ARRIVAL, 2, 0, -1, -1),
            (3, PREEMPT, 0, 0, 0, 0),
            (3, START, 2, 0, 0, 0),
            (6, FINISH, 1, 0, 0, 1),
            (6, START, 0, 0, 0, 1),
            (7, FINISH, 2, 0, 0, 0),
            (11, FINISH, 0, 0, 0, 1),
            (11, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A runs in its slow variant from 0 to 2: a quarter done. At 3 it goes on in the fast one, from the beginning, and the
# quarter is lost. At 4 it is interrupted again, with a quarter of the fast one done; at 5 it begins the slow one anew:
# 8, until 13.
# Rows: 0, 1 and 2 dispatch, 4, 5 and 6 preempt; 3 and 7 do not exist; 8 and 9 drop, 10 waits.
CASES.append(
    Case(
        "resume as another variant starts over",
        scenario(100, [task(trace(0), [4, 8]), task(trace(2, 4), [1])], preemption=preemption("resume")),
        [
            Step(0, 0, 1, {(4, "progress"): 0.0, (7, "preempt"): 0.0}),
            Step(2, 1, 6, {(6, "victim_left"): 6e6}, mask=[0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1]),
            Step(
                3,
                0,
                0,
                {
                    (0, "progress"): 0.0,
                    (0, "corun_latency"): 4e6,
                    (1, "progress"): 0.25,
                    (1, "corun_latency"): 6e6,
                    (5, "progress"): 0.25,
                },
            ),
            Step(4, 1, 6, {(6, "victim_left"): 3e6}),
            Step(
                5,
                0,
                1,
                {
                    (0, "progress"): 0.25,
                    (0, "corun_latency"): 3e6,
                    (1, "progress"): 0.0,
                    (1, "corun_latency"): 8e6,
                },
            ),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 1, 0),
            (2, ARRIVAL, 1, 0, -1, -1),
            (2, PREEMPT, 0, 0, 1, 0),
            (2, START, 1, 0, 0, 0),
            (3, FINISH, 1, 0, 0, 0),
            (3, START, 0, 0, 0, 0),
            (4, ARRIVAL, 1, 1, -1, -1),
            (4, PREEMPT, 0, 0, 0, 0),
            (4, START, 1, 1, 0, 0),
            (5, FINISH, 1, 1, 0, 0),
            (5, START, 0, 0, 1, 0),
            (13, FINISH, 0, 0, 1, 0),
            (13, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# To take a stream costs 2: B, from 3 on, is ready at 5 and ends at 7. At 4 another job comes, but B is in its set-up
# and cannot be interrupted, so nobody is asked; nor at 5, where B begins. To go on at 7 costs A nothing: until 12. So
# does the second B, which takes the stream from nobody.
CASES.append(
    Case(
        "the cost of preemption is a set-up",
        scenario(100, [task(trace(0), [8]), task(trace(3, 4), [2])], preemption=preemption("resume", cost=2)),
        [
            Step(0, 0, 0, {(0, "setup"): 0.0, (2, "setup"): 2e6, (3, "setup"): 0.0}),
            Step(3, 1, 3, {(1, "setup"): 0.0, (3, "setup"): 2e6, (3, "corun_latency"): 4e6, (5, "setup"): 0.0}),
            Step(7, 0, 0, {(0, "progress"): 0.375, (0, "setup"): 0.0, (0, "corun_latency"): 5e6}),
            Step(12, 0, 1),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (3, ARRIVAL, 1, 0, -1, -1),
            (3, PREEMPT, 0, 0, 0, 0),
            (3, START, 1, 0, 0, 0),
            (4, ARRIVAL, 1, 1, -1, -1),
            (5, READY, 1, 0, 0, 0),
            (7, FINISH, 1, 0, 0, 0),
            (7, START, 0, 0, 0, 0),
            (12, FINISH, 0, 0, 0, 0),
            (12, START, 1, 1, 0, 0),
            (14, FINISH, 1, 1, 0, 0),
            (14, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A cost of 2 and a load of 3: B is ready 5 after it took the stream. A job of it can be interrupted once it has begun
# to run: the release of 9, one after B was ready at 8, asks the device.
CASES.append(
    Case(
        "cost and load time add up",
        scenario(
            100,
            [task(trace(0, 9), [8]), task(trace(3), [2], ladder={"load_ms": 3.0})],
            preemption=preemption("restart", cost=2),
        ),
        [
            Step(0, 0, 0),
            Step(3, 1, 3, {(1, "setup"): 3e6, (3, "setup"): 5e6, (3, "corun_latency"): 7e6}),
            Step(9, 1, 6, {(2, "victim_left"): 1e6, (2, "setup"): 2e6, (0, "queue_length"): 2.0}),
            Step(10, 0, 0),
            Step(18, 0, 0),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (3, ARRIVAL, 1, 0, -1, -1),
            (3, PREEMPT, 0, 0, 0, 0),
            (3, START, 1, 0, 0, 0),
            (8, READY, 1, 0, 0, 0),
            (9, ARRIVAL, 0, 1, -1, -1),
            (10, FINISH, 1, 0, 0, 0),
            (10, START, 0, 0, 0, 0),
            (18, FINISH, 0, 0, 0, 0),
            (18, START, 0, 1, 0, 0),
            (26, FINISH, 0, 1, 0, 0),
            (26, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Throughput 1, a cost of 2. A and B have 6 left at 4, when C takes stream 0 from A. Until C is ready at 6, B runs at
# full rate: 4 left. Then at half: C ends at 10, B has 2 left. A, with 6 left, goes on beside it: B ends at 14, A, with
# 4 left, at 18. The device, asked again at 4, waits.
# Foreseen for C at 4: a set-up of 2, and 4 beside B; B, with 4 left then, ends after 8: 1000 - 4 - 8 = 988. Foreseen
# for A at 10: beside B for 4, then 4 alone; B's margin is 1000 - 10 - 4 = 986.
# Rows: 0 to 2 dispatch, 3 + 2 * task + stream preempts, 9 to 11 drop, 12 waits.
CASES.append(
    Case(
        "rates while a job that took a stream is set up",
        scenario(
            100,
            [task(trace(0), [8]), task(trace(0), [8]), task(trace(4), [2])],
            streams=2,
            interference=share(1.0),
            preemption=preemption("resume", cost=2),
        ),
        [
            Step(0, 0, 0),
            Step(0, 1, 1),
            Step(4, 2, 7, {(7, "corun_latency"): 6e6, (7, "corun_margin"): 988e6, (7, "victim_left"): 6e6}),
            Step(4, 2, 12, {"corun_first": 4e6, "corun_last": 6e6, (2, "running"): 1.0}),
            Step(10, 0, 0, {(0, "progress"): 0.25, (0, "corun_latency"): 8e6, (0, "corun_margin"): 986e6}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 1, 0, 0, 1),
            (4, ARRIVAL, 2, 0, -1, -1),
            (4, PREEMPT, 0, 0, 0, 0),
            (4, START, 2, 0, 0, 0),
            (6, READY, 2, 0, 0, 0),
            (10, FINISH, 2, 0, 0, 0),
            (10, START, 0, 0, 0, 0),
            (14, FINISH, 1, 0, 0, 1),
            (18, FINISH, 0, 0, 0, 0),
            (18, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A has four stages of 2. B comes at 3, when A is between borders: nobody is asked until the border of 4. The wait of
# then lasts until that of 6, where B takes the stream. A has its last stage left: progress 0.75, 7 to 9.
# No job waits at the border of 2, so nobody is asked there either.
CASES.append(
    Case(
        "stage: interrupted at borders only",
        scenario(100, [task(trace(0), [8], ladder={"stages": 4}), task(trace(3), [1])], preemption=preemption("stage")),
        [
            Step(0, 0, 0),
            Step(4, 1, 6, {(3, "victim_left"): 4e6}, mask=[0, 0, 0, 1, 0, 1, 1]),
            Step(6, 1, 3, {(3, "victim_left"): 2e6}, mask=[0, 0, 0, 1, 0, 1, 1]),
            Step(7, 0, 0, {(0, "progress"): 0.75, (0, "corun_latency"): 2e6}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (3, ARRIVAL, 1, 0, -1, -1),
            (6, PREEMPT, 0, 0, 0, 0),
            (6, START, 1, 0, 0, 0),
            (7, FINISH, 1, 0, 0, 0),
            (7, START, 0, 0, 0, 0),
            (9, FINISH, 0, 0, 0, 0),
            (9, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A run that goes on has the borders that are still to come: A, of three stages of 2, is interrupted at 2, goes on at 3
# and is interrupted at its second border, at 5. Its last stage is 6 to 8.
CASES.append(
    Case(
        "stage: borders of a run that goes on",
        scenario(
            100, [task(trace(0), [6], ladder={"stages": 3}), task(trace(1, 4), [1])], preemption=preemption("stage")
        ),
        [
            Step(0, 0, 0),
            Step(2, 1, 3, {(3, "victim_left"): 4e6}),
            Step(3, 0, 0, {(0, "corun_latency"): 4e6}),
            Step(5, 1, 3, {(3, "victim_left"): 2e6}),
            Step(6, 0, 0, {(0, "corun_latency"): 2e6}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1, ARRIVAL, 1, 0, -1, -1),
            (2, PREEMPT, 0, 0, 0, 0),
            (2, START, 1, 0, 0, 0),
            (3, FINISH, 1, 0, 0, 0),
            (3, START, 0, 0, 0, 0),
            (4, ARRIVAL, 1, 1, -1, -1),
            (5, PREEMPT, 0, 0, 0, 0),
            (5, START, 1, 1, 0, 0),
            (6, FINISH, 1, 1, 0, 0),
            (6, START, 0, 0, 0, 0),
            (8, FINISH, 0, 0, 0, 0),
            (8, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Throughput 1. A, of two stages of 4, has 6 left at 2, when B joins it: at half rate A comes to its border at 6, and B
# ends at 6. C, released at 5, waits. At 6 stream 1 is idle and is asked: it may also give C the stream of A, which is
# at its border. Then it is asked again, and A goes on there; C cannot be interrupted, as it has come to no border. C, 3
# at half rate, ends at 12; A has 1 left and ends at 13.
# Rows: 0 to 2 dispatch, 3 + 2 * task + stream preempts, 9 to 11 drop, 12 waits.
CASES.append(
    Case(
        "stage: a border under interference, taken by an idle stream's choice",
        scenario(
            100,
            [task(trace(0), [8], ladder={"stages": 2}), task(trace(2), [2]), task(trace(5), [3])],
            streams=2,
            interference=share(1.0),
            preemption=preemption("stage"),
        ),
        [
            Step(0, 0, 0),
            Step(2, 1, 1),
            Step(
                6,
                1,
                7,
                {
                    # Beside A with 4 left: 3 / 0.5; then A, with 1 left, ends after 7. Alone in A's place: 3.
                    (2, "corun_latency"): 6e6,
                    (2, "corun_margin"): 987e6,
                    (7, "corun_latency"): 3e6,
                    (7, "corun_margin"): 0.0,
                    (7, "victim_left"): 4e6,
                    (8, "corun_latency"): 0.0,
                },
                mask=[0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1],
            ),
            Step(6, 1, 0, {(0, "progress"): 0.5}, mask=[1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1]),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (2, ARRIVAL, 1, 0, -1, -1),
            (2, START, 1, 0, 0, 1),
            (5, ARRIVAL, 2, 0, -1, -1),
            (6, FINISH, 1, 0, 0, 1),
            (6, PREEMPT, 0, 0, 0, 0),
            (6, START, 2, 0, 0, 0),
            (6, START, 0, 0, 0, 1),
            (12, FINISH, 2, 0, 0, 0),
            (13, FINISH, 0, 0, 0, 1),
            (13, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A border un-parks the streams: stream 1, told to wait for B at 1, is asked again at 2, though nothing was logged.
CASES.append(
    Case(
        "stage: a border un-parks the streams",
        scenario(
            100,
            [task(trace(0), [4], ladder={"stages": 2}), task(trace(1), [1])],
            streams=2,
            preemption=preemption("stage"),
        ),
        [Step(0, 0, 0), Step(1, 1, 8), Step(2, 1, 1)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1, ARRIVAL, 1, 0, -1, -1),
            (2, START, 1, 0, 0, 1),
            (3, FINISH, 1, 0, 0, 1),
            (4, FINISH, 0, 0, 0, 0),
            (4, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Both come at 0 and A starts at once: at that instant it cannot be interrupted, so nobody is asked. With that the alert
# of the two releases is over, and nobody is asked again before A is done.
CASES.append(
    Case(
        "a job that began at this instant is left alone",
        scenario(100, [task(trace(0), [4]), task(trace(0), [2])], preemption=preemption("resume")),
        [Step(0, 0, 0), Step(4, 0, 1)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 1, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (4, FINISH, 0, 0, 0, 0),
            (4, START, 1, 0, 0, 0),
            (6, FINISH, 1, 0, 0, 0),
            (6, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A runs past its deadline of 4. Interrupted at 5, it is back in its queue too late, and expires there and then.
CASES.append(
    Case(
        "an interrupted job that is late expires at once",
        scenario(100, [task(trace(0), [8], 4), task(trace(5), [2])], preemption=preemption("resume")),
        [
            Step(0, 0, 0),
            Step(5, 1, 3, {(3, "victim_slack"): -1e6, (3, "victim_left"): 3e6}, terms={"drops": 1.0}, reward=0.0),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (5, ARRIVAL, 1, 0, -1, -1),
            (5, PREEMPT, 0, 0, 0, 0),
            (5, START, 1, 0, 0, 0),
            (5, EXPIRE, 0, 0, -1, -1),
            (7, FINISH, 1, 0, 0, 0),
            (7, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# As before, but late jobs are kept: A, with 3 left, waits until 7 and is late by 6 of 4.
CASES.append(
    Case(
        "an interrupted job that is late waits if late jobs are kept",
        scenario(100, [task(trace(0), [8], 4), task(trace(5), [2])], late="run", preemption=preemption("resume")),
        [Step(0, 0, 0), Step(5, 1, 3), Step(7, 0, 0, {(0, "slack"): -3e6}, terms={"lateness": 1.0})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (5, ARRIVAL, 1, 0, -1, -1),
            (5, PREEMPT, 0, 0, 0, 0),
            (5, START, 1, 0, 0, 0),
            (7, FINISH, 1, 0, 0, 0),
            (7, START, 0, 0, 0, 0),
            (10, FINISH, 0, 0, 0, 0),
            (10, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A's jobs 0 and 1 run, 2 waits. At 3 C takes stream 1 from job 1, which is back at the head of the queue, before job 2.
# Asked again, the device lets job 1 take stream 0 from job 0: job 1 has left the queue when 0 comes back, before job 2.
# Job 1, with 8 of 10 left, ends at 11. C is done at 5, and job 0, with 7 left, goes on there until 12. Job 2 is 11 to
# 21.
# Rows: 0 and 1 dispatch; A on streams 0 and 1: 2 and 3; C: 4 and 5; 6 and 7 drop, 8 waits.
CASES.append(
    Case(
        "interrupted jobs wait in the order of release",
        scenario(100, [task(trace(0, 1, 2), [10]), task(trace(3), [2])], streams=2, preemption=preemption("resume")),
        [
            Step(0, 0, 0),
            Step(1, 1, 0),
            Step(2, 2, 8, {(0, "slack"): 1000e6, (2, "victim_left"): 8e6, (3, "victim_left"): 9e6}),
            Step(3, 2, 5, {(0, "slack"): 999e6}),
            Step(
                3,
                2,
                2,
                {(0, "slack"): 998e6, (0, "queue_length"): 2.0, (2, "progress"): 1.0 - 8 / 10, (2, "victim_left"): 7e6},
            ),
            Step(5, 1, 0, {(0, "slack"): 995e6, (0, "progress"): 1.0 - 7 / 10}),
            Step(11, 0, 0, {(0, "slack"): 991e6, (0, "progress"): 0.0}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1, ARRIVAL, 0, 1, -1, -1),
            (1, START, 0, 1, 0, 1),
            (2, ARRIVAL, 0, 2, -1, -1),
            (3, ARRIVAL, 1, 0, -1, -1),
            (3, PREEMPT, 0, 1, 0, 1),
            (3, START, 1, 0, 0, 1),
            (3, PREEMPT, 0, 0, 0, 0),
            (3, START, 0, 1, 0, 0),
            (5, FINISH, 1, 0, 0, 1),
            (5, START, 0, 0, 0, 1),
            (11, FINISH, 0, 1, 0, 0),
            (11, START, 0, 2, 0, 0),
            (12, FINISH, 0, 0, 0, 1),
            (21, FINISH, 0, 2, 0, 0),
            (21, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# One place in the queue. Job 1 takes it at 1. At 2 job 0 makes way for C and waits too, though the place is taken. It
# goes on at 4, before job 1. Job 2 finds the place taken at 5 and is rejected, but as an arrival it raises the alert:
# the device is asked. Job 0 has done 2 and then 6: until 10.
CASES.append(
    Case(
        "an interrupted job is never rejected",
        scenario(100, [task(trace(0, 1, 5), [8]), task(trace(2), [2])], queue_limit=1, preemption=preemption("resume")),
        [
            Step(0, 0, 0),
            Step(1, 1, 6),
            Step(2, 1, 3),
            Step(4, 0, 0, {(0, "queue_length"): 2.0, "waiting_jobs": 2.0, "backlog": 16e6}),
            Step(5, 1, 6, {(0, "queue_length"): 1.0}),
            Step(10, 0, 0),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1, ARRIVAL, 0, 1, -1, -1),
            (2, ARRIVAL, 1, 0, -1, -1),
            (2, PREEMPT, 0, 0, 0, 0),
            (2, START, 1, 0, 0, 0),
            (4, FINISH, 1, 0, 0, 0),
            (4, START, 0, 0, 0, 0),
            (5, ARRIVAL, 0, 2, -1, -1),
            (5, REJECT, 0, 2, -1, -1),
            (10, FINISH, 0, 0, 0, 0),
            (10, START, 0, 1, 0, 0),
            (18, FINISH, 0, 1, 0, 0),
            (18, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Job 0, interrupted at 2, takes the only place in its queue: job 1 is rejected at 3.
CASES.append(
    Case(
        "an interrupted job takes a place in the queue",
        scenario(100, [task(trace(0, 3), [6]), task(trace(2), [4])], queue_limit=1, preemption=preemption("restart")),
        [Step(0, 0, 0), Step(2, 1, 3), Step(3, 1, 6, {(0, "queue_length"): 1.0}, terms={"drops": 0.0}), Step(6, 0, 0)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (2, ARRIVAL, 1, 0, -1, -1),
            (2, PREEMPT, 0, 0, 0, 0),
            (2, START, 1, 0, 0, 0),
            (3, ARRIVAL, 0, 1, -1, -1),
            (3, REJECT, 0, 1, -1, -1),
            (6, FINISH, 1, 0, 0, 0),
            (6, START, 0, 0, 0, 0),
            (12, FINISH, 0, 0, 0, 0),
            (12, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Four tasks, one stream. The releases of 2 ask the device. It drops D and, as the alert is still up, is asked again; it
# waits. The expiry of B at 5 raises nothing: C waits until A is done at 10, though A could be interrupted.
# Rows: 0 to 3 dispatch, 4 to 7 preempt, 8 to 11 drop, 12 waits.
CASES.append(
    Case(
        "a drop leaves the alert up, a wait lowers it, an expiry does not raise it",
        scenario(
            100,
            [task(trace(0), [10]), task(trace(2), [1], 3), task(trace(2), [1]), task(trace(2), [1])],
            preemption=preemption("restart"),
        ),
        [
            Step(0, 0, 0),
            Step(2, 1, 11, mask=[0, 0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1]),
            Step(2, 1, 12, mask=[0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 1], terms={"drops": 1.0}),
            Step(10, 0, 2),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (2, ARRIVAL, 1, 0, -1, -1),
            (2, ARRIVAL, 2, 0, -1, -1),
            (2, ARRIVAL, 3, 0, -1, -1),
            (2, DROP, 3, 0, -1, -1),
            (5, EXPIRE, 1, 0, -1, -1),
            (10, FINISH, 0, 0, 0, 0),
            (10, START, 2, 0, 0, 0),
            (11, FINISH, 2, 0, 0, 0),
            (11, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Two streams. At 2 B comes; stream 1 is idle and is told to wait. It stays idle, so the device is not asked. At 3 C
# comes: stream 1, asked again, starts B. Now no stream is idle, C waits and the alert is up: the device is asked at
# once, and lets C take stream 0 from A. B began at this instant, as did C: nobody is asked for A, until C is done at 4.
# Rows: 0 to 2 dispatch, 3 + 2 * task + stream preempts, 9 to 11 drop, 12 waits.
CASES.append(
    Case(
        "the device is asked once no stream is idle",
        scenario(
            100,
            [task(trace(0), [8]), task(trace(2), [8]), task(trace(3), [1])],
            streams=2,
            preemption=preemption("resume"),
        ),
        [
            Step(0, 0, 0),
            Step(2, 1, 12, mask=[0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1]),
            Step(3, 1, 1, mask=[0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1, 1, 1]),
            Step(3, 2, 7, mask=[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1]),
            Step(4, 0, 0, {(0, "progress"): 0.375}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (2, ARRIVAL, 1, 0, -1, -1),
            (3, ARRIVAL, 2, 0, -1, -1),
            (3, START, 1, 0, 0, 1),
            (3, PREEMPT, 0, 0, 0, 0),
            (3, START, 2, 0, 0, 0),
            (4, FINISH, 2, 0, 0, 0),
            (4, START, 0, 0, 0, 0),
            (9, FINISH, 0, 0, 0, 0),
            (11, FINISH, 1, 0, 0, 1),
            (11, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A choice takes 1. A, chosen at 0, starts at 1. The release of B at 3 asks the device, whose wait would take effect at
# 4; but C comes at 3.5, so that wait is stale, and the alert, which the choice in flight kept up, asks the device again
# at 4. Chosen then, C takes the stream at 5: A did 4 of its 10, also while the choice was made. At 5 nobody is asked: C
# has just begun. At 7 the stream is free; A starts at 8 with 6 left: until 14. B, chosen at 14, starts
# at 15.
# Rows: 0 to 2 dispatch, 3 to 5 preempt, 6 to 8 drop, 9 waits.
CASES.append(
    Case(
        "a choice in flight keeps the alert",
        scenario(
            100,
            [task(trace(0), [10]), task(trace(3), [1]), task(trace(3.5), [2])],
            decision_time_ms=1,
            preemption=preemption("resume"),
        ),
        [
            Step(0, 0, 0),
            Step(3, 1, 9),
            Step(4, 1, 5, {(5, "victim_left"): 7e6}),
            Step(7, 0, 0, {(0, "progress"): 0.4}),
            Step(14, 0, 1),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (1, START, 0, 0, 0, 0),
            (3, ARRIVAL, 1, 0, -1, -1),
            (3.5, ARRIVAL, 2, 0, -1, -1),
            (5, PREEMPT, 0, 0, 0, 0),
            (5, START, 2, 0, 0, 0),
            (7, FINISH, 2, 0, 0, 0),
            (8, START, 0, 0, 0, 0),
            (14, FINISH, 0, 0, 0, 0),
            (15, START, 1, 0, 0, 0),
            (16, FINISH, 1, 0, 0, 0),
            (16, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A choice takes 2. B comes at 1, while A's start is on its way. At 2 A has just begun and cannot be interrupted: nobody
# is asked, and with that the alert is over. B waits until A is done at 6, and starts at 8.
CASES.append(
    Case(
        "an alert that finds nobody is over",
        scenario(100, [task(trace(0), [4]), task(trace(1), [1])], decision_time_ms=2, preemption=preemption("restart")),
        [Step(0, 0, 0), Step(6, 0, 1)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (1, ARRIVAL, 1, 0, -1, -1),
            (2, START, 0, 0, 0, 0),
            (6, FINISH, 0, 0, 0, 0),
            (8, START, 1, 0, 0, 0),
            (9, FINISH, 1, 0, 0, 0),
            (9, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A choice takes 2. B is to take the stream from A at 7, but A is done at 6: stale. The stream, idle by now, is asked.
CASES.append(
    Case(
        "a preemption is stale if its victim is gone",
        scenario(100, [task(trace(0), [4]), task(trace(5), [1])], decision_time_ms=2, preemption=preemption("resume")),
        [Step(0, 0, 0), Step(5, 1, 3, {(3, "victim_left"): 1e6}), Step(7, 0, 1)],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (2, START, 0, 0, 0, 0),
            (5, ARRIVAL, 1, 0, -1, -1),
            (6, FINISH, 0, 0, 0, 0),
            (9, START, 1, 0, 0, 0),
            (10, FINISH, 1, 0, 0, 0),
            (10, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# As before, but A runs until 12, and B expires at 6, before it could take the stream: stale, and A is left alone.
CASES.append(
    Case(
        "a preemption is stale if its job is gone",
        scenario(
            100, [task(trace(0), [10]), task(trace(5), [1], 1)], decision_time_ms=2, preemption=preemption("resume")
        ),
        [Step(0, 0, 0), Step(5, 1, 3, terms={"drops": 1.0, "on_time_accuracy": 0.5})],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (2, START, 0, 0, 0, 0),
            (5, ARRIVAL, 1, 0, -1, -1),
            (6, EXPIRE, 1, 0, -1, -1),
            (12, FINISH, 0, 0, 0, 0),
            (12, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Of 3 MB, A's run takes 2. Once it is interrupted its weights are not in use, so B's 2 have room, and A's go. They do
# not come back by themselves: A, with a load of 1, has to bring them again at 6, when B's go. B too loads for 1.
CASES.append(
    Case(
        "the weights of an interrupted job make room",
        scenario(
            100,
            [
                task(trace(0), [8], ladder={"memory_mb": 2.0, "load_ms": 1.0}),
                task(trace(3), [2], ladder={"memory_mb": 2.0, "load_ms": 1.0}),
            ],
            memory_mb=3.0,
            preemption=preemption("resume"),
        ),
        [
            Step(0, 0, 0),
            Step(3, 1, 3, {(3, "setup"): 1e6, (3, "resident"): 0.0}, mask=[0, 0, 0, 1, 0, 1, 1]),
            # A ran from 1 to 3: 6 of 8 are left.
            Step(6, 0, 0, {(0, "setup"): 1e6, (0, "progress"): 0.25, (0, "corun_latency"): 7e6, (2, "resident"): 0.0}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1, READY, 0, 0, 0, 0),
            (3, ARRIVAL, 1, 0, -1, -1),
            (3, PREEMPT, 0, 0, 0, 0),
            (3, EVICT, 0, -1, 0, -1),
            (3, START, 1, 0, 0, 0),
            (4, READY, 1, 0, 0, 0),
            (6, FINISH, 1, 0, 0, 0),
            (6, EVICT, 1, -1, 0, -1),
            (6, START, 0, 0, 0, 0),
            (7, READY, 0, 0, 0, 0),
            (13, FINISH, 0, 0, 0, 0),
            (13, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# Both streams run A, with 2 of 3 MB. If one job of it is interrupted, the other still uses the weights: no room for B.
# The device is asked all the same, as there are jobs that can be interrupted; to preempt counts as wait.
# Rows: 0 and 1 dispatch; A on streams 0 and 1: 2 and 3; B: 4 and 5; 6 and 7 drop, 8 waits.
CASES.append(
    Case(
        "weights that another stream uses too make no room",
        scenario(
            100,
            [task(trace(0, 0), [4], ladder={"memory_mb": 2.0}), task(trace(1), [2], ladder={"memory_mb": 2.0})],
            streams=2,
            memory_mb=3.0,
            preemption=preemption("restart"),
        ),
        [
            Step(0, 0, 0),
            Step(0, 1, 0),
            Step(
                1,
                2,
                4,
                {(4, "victim_left"): 3e6, (4, "corun_latency"): 2e6},
                mask=[0, 0, 0, 0, 0, 0, 0, 1, 1],
                illegal=True,
            ),
            Step(4, 0, 1),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, ARRIVAL, 0, 1, -1, -1),
            (0, START, 0, 0, 0, 0),
            (0, START, 0, 1, 0, 1),
            (1, ARRIVAL, 1, 0, -1, -1),
            (4, FINISH, 0, 0, 0, 0),
            (4, FINISH, 0, 1, 0, 1),
            (4, EVICT, 0, -1, 0, -1),
            (4, START, 1, 0, 0, 0),
            (6, FINISH, 1, 0, 0, 0),
            (6, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# The priority of a preempt row is that of its stream, always. That of a dispatch row is that of the stream that is
# asked, where a job waits. The high stream 1 is asked first and takes A. At 2 stream 0 is asked, and gives B
# the stream of A. Asked again, it lets A go on: B gets 1 of 1.25 and A the rest, 0.25. B ends at 4, and A has 6 - 0.5 =
# 5.5 left.
# Rows: 0 and 1 dispatch; A on streams 0 and 1: 2 and 3; B: 4 and 5; 6 and 7 drop, 8 waits.
CASES.append(
    Case(
        "preemption and priorities",
        scenario(
            100,
            [task(trace(0), [8]), task(trace(2), [2])],
            streams=2,
            interference=share(1.25),
            stream_priorities=[1, 3],
            preemption=preemption("resume"),
        ),
        [
            Step(
                0,
                1,
                0,
                {
                    (0, "stream_priority"): 3.0,
                    (1, "stream_priority"): 0.0,
                    (3, "stream_priority"): 3.0,
                    (4, "stream_priority"): 1.0,
                    (5, "stream_priority"): 3.0,
                },
            ),
            Step(
                2,
                0,
                5,
                {
                    (0, "stream_priority"): 0.0,
                    (1, "stream_priority"): 1.0,
                    # On stream 0, beside A: 0.25 until A has done its 6, by when B has 0.5 left. In A's place: 2.
                    (1, "corun_latency"): 6.5e6,
                    (5, "corun_latency"): 2e6,
                },
            ),
            Step(2, 0, 0, {(0, "progress"): 0.25, (0, "corun_latency"): 7.5e6, (0, "corun_margin"): 998e6}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 1),
            (2, ARRIVAL, 1, 0, -1, -1),
            (2, PREEMPT, 0, 0, 0, 1),
            (2, START, 1, 0, 0, 1),
            (2, START, 0, 0, 0, 0),
            (4, FINISH, 1, 0, 0, 1),
            (9.5, FINISH, 0, 0, 0, 0),
            (9.5, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)
