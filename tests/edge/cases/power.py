"""Power and energy."""

from __future__ import annotations

from tests.edge.cases.case import ARRIVAL, END, FINISH, PREEMPT, READY, START, Case, Step, ns, scenario, task, trace


def joules(*spells: tuple[float, float]) -> float:
    """Return the energy of spells of so many watts for so many milliseconds, added up one after the other."""
    energy = 0.0
    for watts, milliseconds in spells:
        energy += watts * (ns(milliseconds) * 1e-9)
    return energy


CASES: list[Case] = []

# The device draws 2 W idle; a run of A adds 3, as the device says, one of B 5, as the variant says. A holds its stream
# from 0 to 5: it loads for 1, which takes power too, and runs for 4. B runs from 2 to 4. So 5 W until 2, with an event
# at 1; 10 W until 4, 5 W until 5. Each run takes 3 * 4 and 5 * 2 mJ beyond the idle device's, as its row tells.
FIRST = [(5.0, 1.0), (5.0, 1.0)]
REST = [(10.0, 2.0), (5.0, 1.0)]
CASES.append(
    Case(
        "power of idle device, busy streams and variants",
        scenario(
            100,
            [task(trace(0), [4], ladder={"load_ms": 1.0}), task(trace(2), [2], ladder={"power_w": 5.0})],
            {"energy": 2.0},
            streams=2,
            idle_w=2.0,
            busy_w=3.0,
        ),
        [
            Step(
                0,
                0,
                0,
                {
                    "power": 2.0,
                    (0, "energy"): 3.0 * 4e6 * 1e-9,
                    (1, "energy"): 5.0 * 2e6 * 1e-9,
                    (2, "energy"): 0.0,
                },
                terms={"energy": joules(*FIRST)},
                reward=-2.0 * joules(*FIRST),
            ),
            Step(
                2,
                1,
                1,
                {"power": 5.0},
                terms={"on_time_accuracy": 1.0, "energy": joules(*FIRST, *REST) - joules(*FIRST)},
                reward=1.0 - 2.0 * (joules(*FIRST, *REST) - joules(*FIRST)),
            ),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (1, READY, 0, 0, 0, 0),
            (2, ARRIVAL, 1, 0, -1, -1),
            (2, START, 1, 0, 0, 1),
            (4, FINISH, 1, 0, 0, 1),
            (5, FINISH, 0, 0, 0, 0),
            (5, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# What the device draws before the first choice, and while that is made, belongs to the first step: 2 W until 3 and
# until 4, 5 W until 8.
CASES.append(
    Case(
        "energy before the first choice and while it is made",
        scenario(100, [task(trace(3), [4])], {"energy": 1.0}, decision_time_ms=1, idle_w=2.0, busy_w=3.0),
        [Step(3, 0, 0, {"power": 2.0}, terms={"energy": joules((2.0, 3.0), (2.0, 1.0), (5.0, 4.0))})],
        [
            (3, ARRIVAL, 0, 0, -1, -1),
            (4, START, 0, 0, 0, 0),
            (8, FINISH, 0, 0, 0, 0),
            (8, END, -1, -1, -1, -1),
        ],
        "terminated",
    )
)

# A job that takes a stream brings its own power, from its set-up on: 1 W idle, A adds 2, B 8. A runs until 3; B is set
# up until 4 and runs until 6; A, which has 1 left, until 7. An idle device draws power until the horizon, as the source
# is no trace.
A_RUNS = [(3.0, 3.0)]
B_RUNS = [*A_RUNS, (9.0, 1.0), (9.0, 2.0)]
ALL = [*B_RUNS, (3.0, 1.0), (1.0, 3.0)]
CASES.append(
    Case(
        "power follows who holds the stream",
        scenario(
            10,
            [
                task({"kind": "periodic", "period_ms": 20.0}, [4], ladder={"power_w": 2.0}),
                task(trace(3), [2], ladder={"power_w": 8.0}),
            ],
            idle_w=1.0,
            preemption={"kind": "resume", "cost_ms": 1.0},
        ),
        [
            Step(0, 0, 0, terms={"energy": joules(*A_RUNS)}, reward=0.0),
            Step(3, 1, 3, {"power": 3.0}, terms={"energy": joules(*B_RUNS) - joules(*A_RUNS)}),
            Step(6, 0, 0, {"power": 1.0}, terms={"energy": joules(*ALL) - joules(*B_RUNS)}),
        ],
        [
            (0, ARRIVAL, 0, 0, -1, -1),
            (0, START, 0, 0, 0, 0),
            (3, ARRIVAL, 1, 0, -1, -1),
            (3, PREEMPT, 0, 0, 0, 0),
            (3, START, 1, 0, 0, 0),
            (4, READY, 1, 0, 0, 0),
            (6, FINISH, 1, 0, 0, 0),
            (6, START, 0, 0, 0, 0),
            (7, FINISH, 0, 0, 0, 0),
            (10, END, -1, -1, -1, -1),
        ],
        "truncated",
    )
)
