"""Cases worked out by hand from docs/serving-machine.md: a scenario, the actions, and what the log must say.

Times are in milliseconds. A line of the log is (time, kind, model, request or -1, accelerator or -1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from slipstream.families.serving.scenario import ServingScenario
from slipstream.scenario import load

A, S, F, REJECT, DROP, END, READY, EVICT, MOVE = 0, 1, 2, 4, 5, 6, 8, 9, 10
Line = tuple[float, int, int, int, int]


@dataclass(frozen=True)
class Case:
    """One episode."""

    name: str
    scenario: dict[str, Any]
    lines: list[Line]
    """All of the log but moves and ready rows of time 0."""
    actions: dict[int, int] = field(default_factory=dict)
    """The action at a choice; waiting where none is given."""


def model(name: str, times: list[float], latency: list[float], slo: float = 100.0, **more: Any) -> dict[str, Any]:
    variant = {
        "name": name.upper(),
        "accuracy": 90.0,
        "latency_ms": {"gpu": latency},
        "load_s": more.pop("load_s", 0.02),
    }
    return {
        "name": name,
        "slo_ms": slo,
        "variants": [variant],
        "arrivals": {"kind": "trace", "times_ms": times},
        **more,
    }


def scenario(
    models: list[dict[str, Any]], count: int = 1, hosted: list[str] | None = None, **more: Any
) -> dict[str, Any]:
    names = [one["variants"][0]["name"] for one in models] if hosted is None else hosted
    return {
        "family": "serving",
        "accelerators": [{"name": "gpu", "count": count}],
        "batch_sizes": [1, 2, 4],
        "models": models,
        "initial": [{"variant": name, "accelerator": "gpu"} for name in names],
        "planning": {"interval_s": 1000.0},
        **more,
    }


SLOW = [10.0, 12.0, 16.0]
CASES = [
    Case(
        "one request is answered at once",
        scenario([model("a", [5.0], SLOW)]),
        [(5, A, 0, 0, -1), (5, S, 0, 0, 0), (15, F, 0, 0, 0), (15, END, -1, -1, -1)],
    ),
    Case(
        "what waits goes together, in a batch of two",
        scenario([model("a", [0.0, 1.0, 2.0], SLOW)]),
        [
            *[(0, A, 0, 0, -1), (0, S, 0, 0, 0), (1, A, 0, 1, -1), (2, A, 0, 2, -1), (10, F, 0, 0, 0)],
            *[(10, S, 0, 1, 0), (10, S, 0, 2, 0), (22, F, 0, 1, 0), (22, F, 0, 2, 0), (22, END, -1, -1, -1)],
        ],
    ),
    Case(
        "three take as long as four, and are answered faster than two",
        # 2 in 12 ms is 0.167 a ms, 3 in 16 ms is 0.1875.
        scenario([model("a", [0.0, 1.0, 2.0, 3.0], SLOW)]),
        [
            *[(0, A, 0, 0, -1), (0, S, 0, 0, 0), *((n, A, 0, n, -1) for n in (1, 2, 3)), (10, F, 0, 0, 0)],
            *((10, S, 0, n, 0) for n in (1, 2, 3)),
            *((26, F, 0, n, 0) for n in (1, 2, 3)),
            (26, END, -1, -1, -1),
        ],
    ),
    Case(
        "a batch is only so large that the first of it is on time",
        # The SLO is 22 ms: the request of 1 ms has until 23, so that at 10 a pair (12 ms) is in time, three are not.
        scenario([model("a", [0.0, 1.0, 2.0, 3.0], SLOW, slo=22.0)], slo_share=1.0),
        [
            *[(0, A, 0, 0, -1), (0, S, 0, 0, 0), *((n, A, 0, n, -1) for n in (1, 2, 3)), (10, F, 0, 0, 0)],
            *[(10, S, 0, 1, 0), (10, S, 0, 2, 0), (22, F, 0, 1, 0), (22, F, 0, 2, 0)],
            # Until 25 nothing can be done for the last: it is given up.
            *[(22, DROP, 0, 3, -1), (22, END, -1, -1, -1)],
        ],
    ),
    Case(
        "a head that is in the way of a whole batch is given up",
        # A pair takes 14 ms, and is the largest batch. At 24 the request of 5 ms has until 35: alone it would be on
        # time, but a pair waits behind it.
        scenario([model("a", [0.0, 1.0, 1.0, 5.0, 12.0, 13.0], [10.0, 14.0], slo=30.0)], drop="crowded"),
        [
            *[(0, A, 0, 0, -1), (0, S, 0, 0, 0), (1, A, 0, 1, -1), (1, A, 0, 2, -1), (5, A, 0, 3, -1)],
            *[(10, F, 0, 0, 0), (10, S, 0, 1, 0), (10, S, 0, 2, 0), (12, A, 0, 4, -1), (13, A, 0, 5, -1)],
            *[(24, F, 0, 1, 0), (24, F, 0, 2, 0), (24, DROP, 0, 3, -1), (24, S, 0, 4, 0), (24, S, 0, 5, 0)],
            *[(38, F, 0, 4, 0), (38, F, 0, 5, 0), (38, END, -1, -1, -1)],
        ],
    ),
    *(
        Case(
            f"a request that ends at its deadline is on time, and is not given up as {rule}",
            # At 10 the request of 5 ms has until 20, just as long as it takes.
            scenario([model("a", [0.0, 5.0], SLOW, slo=15.0)], slo_share=1.0, batching="none", drop=rule),
            [
                *[(0, A, 0, 0, -1), (0, S, 0, 0, 0), (5, A, 0, 1, -1), (10, F, 0, 0, 0), (10, S, 0, 1, 0)],
                *[(20, F, 0, 1, 0), (20, END, -1, -1, -1)],
            ],
        )
        for rule in ("hopeless", "crowded")
    ),
    Case(
        "a full queue turns requests away",
        scenario([model("a", [0.0] * 6, SLOW)], queue=4, batching="none", drop="never"),
        [
            *[(0, A, 0, 0, -1), (0, S, 0, 0, 0), *((0, A, 0, n, -1) for n in (1, 2, 3))],
            *[(0, A, 0, 4, -1), (0, REJECT, 0, 4, -1), (0, A, 0, 5, -1), (0, REJECT, 0, 5, -1)],
            *[(10, F, 0, 0, 0), (10, S, 0, 1, 0), (20, F, 0, 1, 0), (20, S, 0, 2, 0), (30, F, 0, 2, 0)],
            *[(30, S, 0, 3, 0), (40, F, 0, 3, 0), (40, END, -1, -1, -1)],
        ],
    ),
    Case(
        "nobody hosts it",
        scenario([model("a", [1.0], SLOW), model("b", [2.0], SLOW)], hosted=["A"]),
        [
            *[(1, A, 0, 0, -1), (1, S, 0, 0, 0), (2, A, 1, 0, -1), (2, REJECT, 1, 0, -1), (11, F, 0, 0, 0)],
            (11, END, -1, -1, -1),
        ],
    ),
    Case(
        "accscale waits for more until the first would be late",
        # A pair takes 12 ms: it starts at 100 - 12.
        scenario([model("a", [0.0, 30.0], SLOW)], batching="accscale", drop="batch"),
        [
            *[(0, A, 0, 0, -1), (30, A, 0, 1, -1), (88, S, 0, 0, 0), (88, S, 0, 1, 0)],
            *[(100, F, 0, 0, 0), (100, F, 0, 1, 0), (100, END, -1, -1, -1)],
        ],
    ),
    Case(
        "as in Proteus, an older alarm that rings when a batch has begun makes the next one start as soon as it ends",
        # At 87 a batch of four (16 ms) would end after 100: the first request is dropped, its alarms (at 90 for one
        # request, at 88 for two) stay. The next head has until 102, a pair takes 12 ms: its alarm is at 90 too, and
        # rings first. The older one then finds the accelerator busy, so that the last request starts at 102, not at
        # its own time, 177.
        scenario(
            [model("a", [0.0, 2.0, 7.0, 87.0], SLOW)],
            batching="accscale",
            drop="twice-deadline",
            compat="proteus",
            queue=16,
        ),
        [
            *[(0, A, 0, 0, -1), (2, A, 0, 1, -1), (7, A, 0, 2, -1), (87, A, 0, 3, -1), (87, DROP, 0, 0, -1)],
            *[(90, S, 0, 1, 0), (90, S, 0, 2, 0), (102, F, 0, 1, 0), (102, F, 0, 2, 0), (102, S, 0, 3, 0)],
            # Its own alarm still rings.
            *[(112, F, 0, 3, 0), (177, END, -1, -1, -1)],
        ],
    ),
    Case(
        "nexus waits for a whole batch, or starts what fills one",
        # The largest batch takes 16 ms: at 84 two of three start, then the last, at once: its time has come too.
        scenario([model("a", [0.0, 30.0, 40.0], SLOW)], batching="nexus", drop="batch"),
        [
            *[(0, A, 0, 0, -1), (30, A, 0, 1, -1), (40, A, 0, 2, -1), (84, S, 0, 0, 0), (84, S, 0, 1, 0)],
            *[(96, F, 0, 0, 0), (96, F, 0, 1, 0), (124, S, 0, 2, 0), (134, F, 0, 2, 0), (134, END, -1, -1, -1)],
        ],
    ),
    Case(
        "aimd goes up while nobody is late",
        scenario([model("a", [0.0, 1.0, 2.0, 3.0], SLOW)], batching="aimd"),
        [
            *[(0, A, 0, 0, -1), (0, S, 0, 0, 0), *((n, A, 0, n, -1) for n in (1, 2, 3)), (10, F, 0, 0, 0)],
            *[(10, S, 0, 1, 0), (10, S, 0, 2, 0), (22, F, 0, 1, 0), (22, F, 0, 2, 0), (22, S, 0, 3, 0)],
            *[(32, F, 0, 3, 0), (32, END, -1, -1, -1)],
        ],
    ),
    Case(
        "aimd goes down when somebody is late, and nobody is given up",
        # 15 ms: the pair of 10 ends at 22, too late for both; so the last goes alone.
        scenario([model("a", [0.0, 1.0, 2.0, 3.0], SLOW, slo=15.0)], slo_share=1.0, batching="aimd", drop="never"),
        [
            *[(0, A, 0, 0, -1), (0, S, 0, 0, 0), *((n, A, 0, n, -1) for n in (1, 2, 3)), (10, F, 0, 0, 0)],
            *[(10, S, 0, 1, 0), (10, S, 0, 2, 0), (22, F, 0, 1, 0), (22, F, 0, 2, 0), (22, S, 0, 3, 0)],
            *[(32, F, 0, 3, 0), (32, END, -1, -1, -1)],
        ],
    ),
    Case(
        "earliest finish: the idle one, then the one that is free first",
        scenario([model("a", [0.0, 1.0, 2.0], SLOW)], count=2, hosted=["A", "A"], batching="none"),
        [
            *[(0, A, 0, 0, -1), (0, S, 0, 0, 0), (1, A, 0, 1, -1), (1, S, 0, 1, 1), (2, A, 0, 2, -1)],
            *[(10, F, 0, 0, 0), (10, S, 0, 2, 0), (11, F, 0, 1, 1), (20, F, 0, 2, 0), (20, END, -1, -1, -1)],
        ],
    ),
    Case(
        "infaas keeps to the accuracy that is asked for, however long the queue",
        scenario(
            [
                {
                    **model("a", [0.0, 1.0, 2.0], SLOW, accuracy_floor=80.0),
                    "variants": [
                        {"name": "A", "accuracy": 90.0, "latency_ms": {"gpu": SLOW}},
                        {"name": "POOR", "accuracy": 70.0, "latency_ms": {"gpu": [1.0]}},
                    ],
                }
            ],
            count=2,
            hosted=["POOR", "A"],
            batching="none",
            routing="infaas",
        ),
        [
            *[
                (0, A, 0, 0, -1),
                (0, S, 0, 0, 1),
                (1, A, 0, 1, -1),
                (2, A, 0, 2, -1),
                (10, F, 0, 0, 1),
                (10, S, 0, 1, 1),
            ],
            *[(20, F, 0, 1, 1), (20, S, 0, 2, 1), (30, F, 0, 2, 1), (30, END, -1, -1, -1)],
        ],
    ),
    Case(
        "a load takes its time, and what waits there is answered after it",
        # Rows: host A, free A. At 0 nothing; at 10 A is hosted, and loads for 20 ms.
        scenario([model("a", [11.0], SLOW)], hosted=[], planning={"interval_s": 0.01}),
        [
            *[(10, MOVE, 0, -1, 0), (11, A, 0, 0, -1), (30, READY, 0, -1, 0), (30, S, 0, 0, 0)],
            *[(40, F, 0, 0, 0), (40, END, -1, -1, -1)],
        ],
        {1: 0},
    ),
    Case(
        "who is freed leaves its requests to others, and finishes its batch",
        # At 10, with three requests on two accelerators, the second is freed: it has fewer that wait.
        scenario(
            [model("a", [7.0, 7.0, 8.0, 8.0, 30.0], SLOW)],
            count=2,
            hosted=["A", "A"],
            batching="none",
            planning={"interval_s": 0.01},
        ),
        [
            *[(7, A, 0, 0, -1), (7, S, 0, 0, 0), (7, A, 0, 1, -1), (7, S, 0, 1, 1), (8, A, 0, 2, -1), (8, A, 0, 3, -1)],
            *[(10, EVICT, 0, -1, 1), (17, F, 0, 0, 0), (17, S, 0, 2, 0), (17, F, 0, 1, 1), (27, F, 0, 2, 0)],
            *[(27, S, 0, 3, 0), (30, A, 0, 4, -1), (37, F, 0, 3, 0), (37, S, 0, 4, 0), (47, F, 0, 4, 0)],
            (47, END, -1, -1, -1),
        ],
        {1: 1},
    ),
]


def check(case: Case, make: Callable[[ServingScenario], Any]) -> None:
    """Assert that a lane made of the case's scenario goes as worked out."""
    lane = make(load(case.scenario))  # type: ignore[arg-type]
    choice = 0
    while not lane.over:
        lane.step(case.actions.get(choice, len(lane.mask()) - 1))
        choice += 1
    lines = [(time / 1e6, kind, task, job, resource) for time, kind, task, job, _, resource in lane.log]
    assert [line for line in lines if line[0] > 0 or line[1] not in (MOVE, READY)] == case.lines
