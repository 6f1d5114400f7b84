"""Small dag episodes worked out by hand: the compiled kernel and the reference must both play them so.

Times are in seconds. What is expected are the starts (time, job, stage, executor) and when jobs are done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from slipstream.families.dag.scenario import DagScenario
from slipstream.scenario import load
from slipstream.sim.eventlog import DONE, FAIL, MOVE, START
from tests.kernels import play_case

Json = dict[str, Any]
STOP = -1


def stage(name: str, tasks: int, seconds: float, *parents: str) -> Json:
    return {"name": name, "tasks": tasks, "duration_s": seconds, "parents": list(parents)}


def scenario(executors: int, jobs: list[tuple[float, list[Json]]], **more: Any) -> Json:
    """Return a scenario whose jobs arrive at given times; moving takes 1 s and warming up nothing unless said."""
    names = [f"job-{number}" for number in range(len(jobs))]
    return {
        "family": "dag",
        "executors": executors,
        "moving_delay_s": 1.0,
        "warmup_delay_s": 0.0,
        "arrivals": {"kind": "trace", "times_s": [time for time, _ in jobs], "names": names},
        "jobs": {"kind": "inline", "jobs": [{"name": n, "stages": s} for n, (_, s) in zip(names, jobs, strict=True)]},
        **more,
    }


@dataclass(frozen=True)
class Case:
    """An episode: what is chosen, and what comes of it."""

    name: str
    scenario: Json
    actions: list[int]
    """Rows; -1 is the last. When they are used up, the first legal row is taken."""
    starts: list[tuple[float, int, int, int]]
    done: list[tuple[float, int]]
    reward: float
    """Of the whole episode."""
    others: list[tuple[float, int, int]] = field(default_factory=list)
    """Moves and failures: (time, kind, job), checked where given."""


CHAIN = [stage("a", 2, 2), stage("b", 1, 3, "a")]
CASES = [
    Case(
        "one executor does a chain",
        scenario(1, [(0, CHAIN)]),
        [],
        # It comes at 1, does two tasks of 2 s and one of 3 s.
        [(1, 0, 0, 0), (3, 0, 0, 0), (5, 0, 1, 0)],
        [(8, 0)],
        -8.0,
        [(0, MOVE, 0)],
    ),
    Case(
        "two executors share a stage, and wait for the next one to open",
        scenario(2, [(0, CHAIN)]),
        # Stage a, two executors. At 3 the first is free. Stage b has not opened, but can be chosen, since no parent
        # wants more: one executor is committed to it, the other to going home. The first comes to b and waits at the
        # job. Then the second ends the stage and goes home, which is the job too. Of the two, the lowest gets b.
        [0, 1],
        [(1, 0, 0, 0), (1, 0, 0, 1), (3, 0, 1, 0)],
        [(6, 0)],
        -6.0,
    ),
    Case(
        "stopping at the beginning waits for the next job",
        scenario(1, [(0, [stage("a", 1, 2)]), (5, [stage("a", 1, 1)])]),
        [STOP, 1],
        # At 5 the second job is chosen: it comes at 6, done at 7; then it moves to the first, from 8 to 10.
        [(6, 1, 0, 0), (8, 0, 0, 0)],
        [(7, 1), (10, 0)],
        -(10.0 + 2.0),
    ),
    Case(
        "an executor that comes too late serves another stage of the job",
        scenario(2, [(0, [stage("a", 2, 1), stage("b", 1, 4)])], moving_delay_s=1.0),
        # Both are sent to a: it has two tasks, so both find one; then b takes one of them.
        [0, 1],
        [(1, 0, 0, 0), (1, 0, 0, 1), (2, 0, 1, 0)],
        [(6, 0)],
        -6.0,
    ),
    Case(
        "moving to another job takes its time each way",
        scenario(1, [(0, [stage("a", 1, 2)]), (0, [stage("a", 1, 2)])]),
        [0],
        [(1, 0, 0, 0), (4, 1, 0, 0)],
        [(3, 0), (6, 1)],
        -(3.0 + 6.0),
        [(0, MOVE, 0), (3, MOVE, 1)],
    ),
    Case(
        "an executor is fresh when it comes, and not for its next task",
        scenario(1, [(0, [stage("a", 2, 2)])], warmup_delay_s=5.0),
        [],
        [(1, 0, 0, 0), (8, 0, 0, 0)],
        [(10, 0)],
        -10.0,
    ),
    Case(
        "the fastest class comes first, however classes are listed",
        scenario(
            2,
            [(0, [stage("a", 1, 4)])],
            classes=[{"name": "s", "count": 1, "speed": 1.0}, {"name": "f", "count": 1, "speed": 2.0}],
        ),
        [0],
        [(1, 0, 0, 0)],
        [(3, 0)],
        -3.0,
    ),
    Case(
        "a pool may leave a stage to another pool of idle executors",
        scenario(2, [(0, [stage("a", 1, 2), stage("b", 1, 3, "a")])]),
        # One executor goes to a. At 3 it is idle at the job and the other in the common pool; nothing else is to come.
        # The first leaves b to the other, which has to move.
        [0, STOP, STOP, 0],
        [(1, 0, 0, 0), (4, 0, 1, 1)],
        [(7, 0)],
        -7.0,
        [(0, MOVE, 0), (3, MOVE, 0)],
    ),
    Case(
        "a faster executor needs less",
        scenario(
            2,
            [(0, [stage("a", 2, 4)])],
            classes=[{"name": "f", "count": 1, "speed": 2.0}, {"name": "s", "count": 1, "speed": 1.0}],
        ),
        [0, 1],
        [(1, 0, 0, 0), (1, 0, 0, 1)],
        [(5, 0)],
        -5.0,
    ),
    Case(
        "what is divided by a speed is rounded up",
        scenario(1, [(0, [stage("a", 2, 1)])], classes=[{"name": "f", "count": 1, "speed": 3.0}]),
        [],
        [(1, 0, 0, 0), (1.333333334, 0, 0, 0)],
        [(1.666666668, 0)],
        -1.666666668,
    ),
    Case(
        "a stage that fails is done again by the executor that ended it",
        scenario(2, [(0, [stage("a", 2, 1)])], failures={"probability": 1.0, "most": 1}),
        [0, 1],
        # Both tasks end at 2. Executor 0 goes home at its end: all tasks have started, so to the common pool. Executor
        # 1 ends the last one, the stage fails, and it does both again, alone: nobody asks the other before it is done.
        [(1, 0, 0, 0), (1, 0, 0, 1), (2, 0, 0, 1), (3, 0, 0, 1)],
        [(4, 0)],
        -4.0,
        [(0, MOVE, 0), (0, MOVE, 0), (2, FAIL, 0)],
    ),
    Case(
        "every task straggles",
        scenario(1, [(0, [stage("a", 2, 2)])], stragglers={"probability": 1.0, "factor": 3.0}),
        [],
        [(1, 0, 0, 0), (7, 0, 0, 0)],
        [(13, 0)],
        -13.0,
    ),
    Case(
        "the horizon cuts the episode off",
        scenario(1, [(0, [stage("a", 3, 2)])], horizon={"kind": "fixed", "time_s": 4.0}),
        [],
        [(1, 0, 0, 0), (3, 0, 0, 0)],
        [],
        -4.0,
    ),
    Case(
        "the makespan as the reward",
        scenario(1, [(2, [stage("a", 1, 2)])], reward={"job_seconds": 0.0, "makespan": 2.0}),
        [],
        [(3, 0, 0, 0)],
        [(5, 0)],
        -10.0,
    ),
]


def check(case: Case, make: Callable[[DagScenario], Any]) -> None:
    """Assert that a lane made of the case's scenario goes as worked out."""
    log, total = play_case(case.actions, make(load(case.scenario)))
    rows = [(time / 1e9, kind, job, task, resource) for time, kind, task, job, _, resource in log]
    assert [(t, job, task, resource) for t, kind, job, task, resource in rows if kind == START] == case.starts
    assert [(t, job) for t, kind, job, _, _ in rows if kind == DONE] == case.done
    assert total == pytest.approx(case.reward)
    if case.others:
        assert [(t, kind, job) for t, kind, job, _, _ in rows if kind in (MOVE, FAIL)] == case.others
