"""Small cluster episodes worked out by hand: the compiled kernel and the reference must both play them so.

Times are in seconds. What is expected are starts (time, job), stops (time, job) by an end or an interruption and, where
it matters, the placements (job, node, GPUs). Unless rows are given, the first legal one is taken: the lowest number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from slipstream.scenario import load
from slipstream.sim.eventlog import FINISH, PREEMPT, START, TAKE
from tests.kernels import play_case

Json = dict[str, Any]
WAIT = -1
S = 10**9


@dataclass(frozen=True)
class Case:
    """One episode."""

    name: str
    scenario: Json
    starts: list[tuple[float, int]]
    stops: list[tuple[float, int]] | None = None
    placements: list[tuple[int, int, int]] | None = None
    actions: list[int] = field(default_factory=list)
    slowdown: float | None = None


def scenario(
    jobs: list[tuple[float, ...]], nodes: Any = 1, gpus: int = 4, users: tuple[str, ...] = (), **rules: Any
) -> Json:
    """Return a cluster with jobs (submit, GPUs, run, requested)."""
    listed: list[Json] = [
        {"submit_s": job[0], "gpus": job[1], "run_s": job[2], "requested_s": job[3] if len(job) > 3 else job[2]}
        for job in jobs
    ]
    for job, user in zip(listed, users, strict=False):
        job["user"] = user
    kinds = nodes if isinstance(nodes, list) else [{"name": "node", "count": nodes, "gpus": gpus}]
    return {"family": "cluster", "nodes": kinds, "jobs": {"kind": "list", "jobs": listed}, **rules}


# A wants three of four GPUs for 10 s, B all four, C one for 5 s, D one for 20 s.
FOUR = [(0.0, 3, 10.0), (1.0, 4, 10.0), (2.0, 1, 5.0), (3.0, 1, 20.0)]
HELD = [(0.0, 4, 10.0), (1.0, 4, 100.0), (2.0, 4, 1.0)]
THREE = [(0.0, 3, 10.0), (1.0, 2, 10.0), (2.0, 2, 10.0)]
PAIR = [{"name": "new", "count": 1, "gpus": 1, "speed": 2.0}, {"name": "old", "count": 1, "gpus": 1, "speed": 0.5}]
GPU = {"name": "gpu", "count": 1, "gpus": 2, "idle_w": 50.0, "busy_w": 250.0}
CAP = {"watts": 150.0, "time": 1.1, "power": 0.8}

# At 100 s A has half of its 200 s behind it on the second node and B, which wants all eight GPUs, has waited for 90 s.
MIDDLE: Json = {
    "family": "cluster",
    "placement": "best-fit",
    "nodes": [{"name": "node", "count": 2, "gpus": 4}],
    "begins_s": 100.0,
    "jobs": {
        "kind": "list",
        "jobs": [
            {
                "submit_s": 0.0,
                "gpus": 4,
                "run_s": 200.0,
                "started_s": 0.0,
                "held": [{"kind": "node", "node": 1, "gpus": 4}],
            },
            {"submit_s": 10.0, "gpus": 8, "run_s": 20.0},
            {"submit_s": 20.0, "gpus": 2, "run_s": 30.0},
            {"submit_s": 120.0, "gpus": 2, "run_s": 90.0},
        ],
    },
}
FLAT_MIDDLE: Json = {
    "family": "cluster",
    "nodes": [{"name": "node", "count": 1, "gpus": 4, "speed": 0.5}],
    "begins_s": 30.0,
    "jobs": {
        "kind": "list",
        "jobs": [
            {"submit_s": 0.0, "gpus": 4, "run_s": 20.0, "requested_s": 5.0, "started_s": 10.0},
            {"submit_s": 20.0, "gpus": 1, "run_s": 10.0},
        ],
    },
}

CASES = [
    Case(
        "an episode that begins in the middle goes on from there",
        MIDDLE,
        # B is reserved for 100 s, when A ends; C may pass it, and D, which would end at 110 s, may not.
        [(0, 0), (0, 2), (100, 1), (120, 3)],
        stops=[(30, 2), (100, 0), (120, 1), (210, 3)],
        placements=[(0, 1, 4), (2, 0, 2), (1, 0, 4), (1, 1, 4), (3, 0, 2)],
        # Times since the submission over run times: A 200 / 200, B 210 / 20, C 110 / 30, D 190 / 90.
        slowdown=1.0 + 210.0 / 20.0 + 110.0 / 30.0 + 190.0 / 90.0,
    ),
    Case(
        "a job that runs at the beginning keeps its pace and its start",
        # A takes 40 s at half speed, 20 of them left; it was expected to end at 20 s, before the beginning.
        FLAT_MIDDLE,
        [(0, 0), (20, 1)],
        stops=[(20, 0), (40, 1)],
        slowdown=50.0 / 20.0 + 50.0 / 10.0,
    ),
    Case(
        "nobody passes a job that does not fit", scenario(FOUR, backfill="strict"), [(0, 0), (10, 1), (20, 2), (20, 3)]
    ),
    Case(
        "all pass a job that does not fit",
        scenario(FOUR, backfill="greedy"),
        # The one free GPU goes to C and, after it, to D; B waits for D.
        [(0, 0), (2, 2), (7, 3), (27, 1)],
    ),
    Case(
        "who ends in time passes a reserved job",
        scenario(FOUR, backfill="easy"),
        # C ends at 7 s, before B can start at 10 s; D would end at 23 s.
        [(0, 0), (2, 2), (10, 1), (20, 3)],
    ),
    Case(
        "who ends at the very shadow time passes a reserved job",
        # B, which wants all four, can start at 10 s, when C ends too; D would end at 10.5 s.
        scenario([*FOUR[:2], (2.0, 1, 8.0), (3.0, 1, 7.5)], backfill="easy"),
        [(0, 0), (2, 2), (10, 1), (20, 3)],
    ),
    Case(
        "the quota of another user changes nothing",
        scenario(FOUR, backfill="easy", quotas={"somebody": 4}),
        [(0, 0), (2, 2), (10, 1), (20, 3)],
    ),
    Case(
        "who leaves enough passes a reserved job",
        # B wants three GPUs at 10 s: one of four is over then, so the third job may have it; the fourth comes too late.
        scenario([(0.0, 3, 10.0), (1.0, 3, 10.0), (3.0, 1, 20.0), (4.0, 1, 20.0)], backfill="easy"),
        [(0, 0), (3, 2), (10, 1), (20, 3)],
    ),
    Case(
        "a slot is not given away",
        # B has the slot at 10 s, C the one at 20 s, as all others are too short. Two GPUs for 7 s are in time for B.
        scenario([(0.0, 2, 10.0), (1.0, 4, 10.0), (2.0, 3, 10.0), (3.0, 2, 7.0)], backfill="conservative"),
        [(0, 0), (3, 3), (10, 1), (20, 2)],
    ),
    Case(
        "an early end is used at once",
        scenario([(0.0, 4, 5.0, 100.0), (1.0, 4, 5.0)]),
        [(0, 0), (5, 1)],
    ),
    Case("a reserved job is held", scenario(HELD, hold=True), [(0, 0), (10, 1), (110, 2)], actions=[0, 0]),
    Case(
        "a reserved job is chosen anew",
        # Without hold nobody is asked before a GPU is free; then the short job is the second row.
        scenario(HELD, hold=False),
        [(0, 0), (10, 2), (11, 1)],
        actions=[0, 1],
    ),
    Case(
        "jobs of a user wait for the quota",
        scenario([(0.0, 1, 10.0), (0.0, 1, 10.0)], quotas={"user": 1}),
        [(0, 0), (10, 1)],
    ),
    Case(
        "first-fit fills node after node",
        scenario(THREE, nodes=2, placement="first-fit"),
        [(0, 0), (1, 1), (2, 2)],
        placements=[(0, 0, 3), (1, 0, 1), (1, 1, 1), (2, 1, 2)],
    ),
    Case(
        "best-fit keeps jobs together",
        scenario(THREE, nodes=2, placement="best-fit"),
        [(0, 0), (1, 1), (2, 2)],
        placements=[(0, 0, 3), (1, 1, 2), (2, 1, 2)],
    ),
    Case(
        "a consolidated job waits for a node, a large one for whole nodes",
        # Three GPUs are free at 1 s, but on two nodes. At 10 s the fourth job gets a whole node, and one GPU more.
        scenario(
            [(0.0, 2, 10.0), (0.0, 3, 10.0), (1.0, 3, 10.0), (2.0, 5, 10.0)],
            nodes=2,
            placement="consolidate",
            backfill="strict",
        ),
        [(0, 0), (0, 1), (10, 2), (10, 3)],
        placements=[(0, 0, 2), (1, 1, 3), (2, 0, 3), (3, 1, 4), (3, 0, 1)],
    ),
    Case(
        "fragmentation decides where a job goes",
        # The GPU that the first job leaves on its node is useless to the two jobs that want three. Taken, it is not.
        scenario(
            [(0.0, 3, 10.0), (1.0, 1, 10.0), (2.0, 3, 10.0)],
            nodes=2,
            placement="fgd",
        ),
        [(0, 0), (1, 1), (2, 2)],
        placements=[(0, 0, 3), (1, 0, 1), (2, 1, 3)],
    ),
    Case(
        "fragmentation lets a tight node alone that others can use",
        # Three of five jobs want two GPUs, and one alone is useless to them. So the first goes where two stay free,
        # though the other node is tighter; the next takes the odd one of three; the third makes one useless anyway.
        scenario(
            [(0.0, 2, 50.0), (1.0, 1, 50.0), (2.0, 1, 50.0), (3.0, 2, 50.0), (3.0, 2, 50.0)],
            [{"name": "a", "count": 1, "gpus": 4}, {"name": "b", "count": 1, "gpus": 3}],
            placement="fgd",
        ),
        [(0, 0), (1, 1), (2, 2), (3, 3), (50, 4)],
        placements=[(0, 0, 2), (1, 1, 1), (2, 0, 1), (3, 1, 2), (4, 0, 2)],
    ),
    Case(
        "jobs share a GPU",
        # Half a GPU and a quarter go together; the next half needs another GPU, and what wants a whole one waits.
        scenario(
            [(0.0, 0.5, 10.0), (1.0, 0.25, 10.0), (2.0, 0.5, 10.0), (3.0, 1, 10.0)],
            [{"name": "node", "count": 1, "gpus": 2, "slices": 4}],
            placement="consolidate",
        ),
        [(0, 0), (1, 1), (2, 2), (11, 3)],
        placements=[(0, 0, 2), (1, 0, 1), (2, 1, 2), (3, 0, 4)],
    ),
    Case(
        "a job on two GPUs of one node is not spread, one on two nodes is",
        scenario(
            [(0.0, 2, 10.0), (20.0, 1, 10.0), (20.0, 2, 10.0)],
            [{"name": "node", "count": 2, "gpus": 2, "slices": 2}],
            placement="consolidate",
            locality={"nodes": 1.5},
        ),
        [(0, 0), (20, 1), (20, 2)],
        [(10, 0), (30, 1), (35, 2)],
    ),
    Case(
        "a job wakes a node that sleeps",
        # The second job comes when its node has been idle for 5 s; the third when it has been for 4 s.
        scenario(
            [(0.0, 4, 10.0), (15.0, 4, 10.0), (32.0, 4, 10.0)],
            placement="first-fit",
            sleep={"after_s": 5.0, "wake_s": 3.0},
        ),
        [(0, 0), (15, 1), (32, 2)],
        [(10, 0), (28, 1), (42, 2)],
    ),
    Case(
        "a job on a node that is at work does not wait for others to wake",
        scenario(
            [(0.0, 1, 30.0), (10.0, 1, 5.0), (10.0, 4, 5.0)],
            nodes=2,
            placement="best-fit",
            sleep={"after_s": 5.0, "wake_s": 3.0},
        ),
        [(0, 0), (10, 1), (10, 2)],
        [(15, 1), (18, 2), (30, 0)],
    ),
    Case(
        "who wakes a node may be too late to pass",
        # The large job is reserved for 16 s. The last one would take 5 s on the second node, but 8 s with waking.
        scenario(
            [(0.0, 2, 16.0), (9.0, 4, 10.0), (10.0, 1, 5.0)],
            nodes=2,
            gpus=2,
            placement="first-fit",
            sleep={"after_s": 5.0, "wake_s": 3.0},
        ),
        [(0, 0), (16, 1), (29, 2)],
    ),
    Case(
        "a job on two racks takes twice as long",
        scenario(
            [(0.0, 3, 10.0)],
            [{"name": "node", "count": 2, "gpus": 2, "rack_size": 1}],
            placement="best-fit",
            locality={"nodes": 1.5, "racks": 2.0},
        ),
        [(0, 0)],
        [(20, 0)],
    ),
    Case(
        "a job goes at the pace of its slowest GPUs",
        scenario([(0.0, 2, 10.0), (0.0, 1, 10.0)], PAIR, placement="first-fit"),
        [(0, 0), (20, 1)],
        [(20, 0), (25, 1)],
    ),
    Case(
        "a cap slows a job down",
        scenario([(0.0, 2, 10.0)], [{**GPU, "caps": [CAP]}]),
        [(0, 0)],
        [(11, 0)],
        actions=[1],
    ),
    Case(
        "the budget lets one job run at a time",
        scenario([(0.0, 1, 10.0), (0.0, 1, 10.0)], [GPU], power={"budget_w": 499.0}),
        [(0, 0), (10, 1)],
    ),
    Case(
        "the budget lets two jobs run",
        scenario([(0.0, 1, 10.0), (0.0, 1, 10.0)], [GPU], power={"budget_w": 500.0}),
        [(0, 0), (0, 1)],
    ),
    Case(
        "an interrupted job pays and goes on",
        # The short job comes at 4 s; the long one has 6 s left, and needs 3 s to go on when the short one ends.
        scenario([(0.0, 4, 10.0), (4.0, 4, 2.0)], preemption={"cost_s": 3.0}),
        [(0, 0), (4, 1), (6, 0)],
        [(4, 0), (6, 1), (15, 0)],
        actions=[0, 1, 1],
    ),
    Case(
        "the end of a round asks again",
        # At 4 s the first job cannot be interrupted yet; at 7 s it can.
        scenario([(0.0, 4, 10.0), (4.0, 4, 2.0)], preemption={"cost_s": 0.0, "least_run_s": 5.0, "round_s": 7.0}),
        [(0, 0), (7, 1), (9, 0)],
        [(7, 0), (9, 1), (12, 0)],
        actions=[0, WAIT, 1, 1],
    ),
    Case(
        "slowdowns are bounded by ten seconds",
        # The jobs end at 2, 102 and 122 s: 1, 1.02 and 6.1.
        scenario([(0.0, 4, 2.0), (0.0, 4, 100.0), (0.0, 4, 20.0)]),
        [(0, 0), (2, 1), (102, 2)],
        slowdown=1.0 + 1.02 + 6.1,
    ),
    Case(
        "the published rules take one event at a time",
        # At 10 s the third job comes before the first ends, and the second, chosen at 1 s, starts after it.
        scenario([(0.0, 4, 10.0), (1.0, 4, 10.0), (10.0, 1, 1.0)], compat="rlscheduler", backfill="easy"),
        [(0, 0), (10, 1), (20, 2)],
    ),
    Case(
        "all that end at the shadow time are gone then",
        # Two jobs end at 10 s: the third is reserved, and two of five GPUs are over; the fourth may have one of them.
        scenario([(0.0, 2, 10.0), (0.0, 2, 10.0), (1.0, 3, 10.0), (2.0, 1, 20.0)], gpus=5),
        [(0, 0), (0, 1), (2, 3), (10, 2)],
    ),
    Case(
        "jobs that should have ended end now",
        # At 8 s both running jobs are late, so both are taken to end now, and two GPUs are over.
        scenario([(0.0, 2, 20.0, 5.0), (0.0, 2, 20.0, 7.0), (1.0, 3, 10.0), (8.0, 1, 20.0)], gpus=5),
        [(0, 0), (0, 1), (8, 3), (20, 2)],
    ),
    Case(
        "who passes takes from what is over",
        # One of five GPUs is over at 10 s, so only one of the last two may pass.
        scenario([(0.0, 3, 10.0), (1.0, 4, 10.0), (3.0, 1, 20.0), (3.0, 1, 20.0)], gpus=5),
        [(0, 0), (3, 2), (10, 1), (20, 3)],
    ),
    Case(
        "the shadow time is that of a placement",
        # At 10 s two GPUs are free, but on two nodes; at 20 s a whole node is. The last job ends at 17 s.
        scenario(
            [(0.0, 1, 10.0), (0.0, 1, 30.0), (0.0, 1, 20.0), (1.0, 2, 10.0), (2.0, 1, 15.0)],
            nodes=2,
            gpus=2,
            placement="consolidate",
        ),
        [(0, 0), (0, 1), (0, 2), (2, 4), (20, 3)],
    ),
    Case(
        "a job as large as the largest node stays on one",
        scenario(
            [(0.0, 4, 10.0), (1.0, 4, 10.0)],
            [{"name": "small", "count": 2, "gpus": 2}, {"name": "large", "count": 1, "gpus": 4}],
            placement="consolidate",
        ),
        [(0, 0), (10, 1)],
    ),
    Case(
        "a reserved job counts in its user's quota",
        scenario([(0.0, 3, 10.0), (1.0, 2, 10.0), (2.0, 1, 5.0)], users=("bob", "ann", "ann"), quotas={"ann": 2}),
        [(0, 0), (10, 1), (20, 2)],
    ),
    Case(
        "going on is no work",
        # Two of ten seconds are done at 2 s, four more at 10 s, after three to go on; four are left at 14 s.
        scenario([(0.0, 4, 10.0), (2.0, 4, 1.0), (10.0, 4, 1.0)], preemption={"cost_s": 3.0}),
        [(0, 0), (2, 1), (3, 0), (10, 2), (11, 0)],
        [(2, 0), (3, 1), (10, 0), (11, 2), (18, 0)],
        actions=[0, 1, 1, 0, 1, 1],
    ),
    Case(
        "the published shadow time is when there are enough GPUs",
        scenario([(0.0, 1, 5.0), (0.0, 2, 10.0), (1.0, 4, 10.0), (2.0, 1, 6.0)], compat="rlscheduler", backfill="easy"),
        [(0, 0), (0, 1), (2, 3), (10, 2)],
    ),
    Case(
        "the published backfilling ends before the shadow time",
        scenario([(0.0, 3, 10.0), (1.0, 4, 10.0), (2.0, 1, 8.0)], compat="rlscheduler", backfill="easy"),
        [(0, 0), (10, 1), (20, 2)],
    ),
    Case(
        "under the published rules jobs come before others end",
        # At 10 s the last job comes, then the first ends and the second starts; so there are two to choose from.
        scenario([(0.0, 4, 10.0), (1.0, 4, 10.0), (2.0, 4, 10.0), (10.0, 4, 1.0)], compat="rlscheduler"),
        [(0, 0), (10, 1), (20, 3), (21, 2)],
        actions=[0, 0, 1],
    ),
]


def check(case: Case, make: Callable[[Any], Any]) -> None:
    """Assert that a lane made of the case's scenario goes as worked out."""
    log, total = play_case(case.actions, make(load(case.scenario)))
    assert [(time / S, job) for time, kind, _, job, _, _ in log if kind == START] == case.starts
    if case.stops is not None:
        assert [(time / S, job) for time, kind, _, job, _, _ in log if kind in (FINISH, PREEMPT)] == case.stops
    if case.placements is not None:
        assert [(job, node, gpus) for _, kind, gpus, job, _, node in log if kind == TAKE] == case.placements
    if case.slowdown is not None:
        assert abs(total + case.slowdown) < 1e-9
