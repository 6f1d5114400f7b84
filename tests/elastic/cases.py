"""Cases worked out by hand from docs/elastic-machine.md: a scenario, and what the log must say.

The first row is taken at every decision unless a case says otherwise. Times are in seconds. A line of the log is
(time, kind, task, job, variant, resource), as the page's table has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.families.elastic.scenario import ElasticScenario
from slipstream.scenario import load
from tests.kernels import play_case

A, S, F, END, PREEMPT, READY, TAKE = 0, 1, 2, 6, 7, 8, 13
Line = tuple[float, int, int, int, int, int]
LAST = (END, -1, -1, -1, -1)
WAIT = -1


@dataclass(frozen=True)
class Case:
    """One episode."""

    name: str
    scenario: dict[str, Any]
    lines: Sequence[Line]
    actions: tuple[int, ...] = ()


def scenario(
    *arrivals: tuple[float, float], start_s: float = 0.0, restart_s: float = 0.0, **keys: Any
) -> dict[str, Any]:
    """Return two fast GPUs and one slow one, and jobs by arrival and work of a model that runs on 1 or 2 or slowly."""
    places = [("fast", 1, 1.0), ("fast", 2, 1.5), ("slow", 1, 0.5)]
    return {
        "family": "elastic",
        "kinds": [{"name": "fast", "gpus": 2}, {"name": "slow", "gpus": 1}],
        "models": [
            {
                "name": "model",
                "configurations": [{"kind": kind, "gpus": gpus, "per_s": rate} for kind, gpus, rate in places],
                "start_s": start_s,
                "restart_s": restart_s,
            }
        ],
        "jobs": {
            "kind": "list",
            "jobs": [{"arrival_s": time, "model": "model", "work": work} for time, work in arrivals],
        },
        **({"round_s": 10.0} | keys),
    }


def begins(time: float, job: int, gpus: int, configuration: int, kind: int) -> list[Line]:
    return [(time, S, gpus, job, configuration, kind), (time, TAKE, gpus, job, configuration, kind)]


CASES = [
    Case(
        "a job runs at its throughput and ends within the round",
        scenario((0, 6)),
        [(0, A, 0, 0, -1, -1), *begins(0, 0, 2, 1, 0), (4, F, 2, 0, 1, 0), (4, *LAST)],
        (1,),
    ),
    Case(
        "a job that comes during a round waits for the next, though GPUs are free",
        scenario((0, 30), (2, 5)),
        [
            *[(0, A, 0, 0, -1, -1), *begins(0, 0, 1, 0, 0), (2, A, 1, 1, -1, -1), *begins(10, 1, 1, 0, 0)],
            *[(15, F, 1, 1, 0, 0), (30, F, 1, 0, 0, 0), (30, *LAST)],
        ],
        (0, 0, 0, 0),
    ),
    Case(
        "a job that comes when nothing is left to do begins a round",
        scenario((0, 3), (4, 5)),
        [
            *[(0, A, 0, 0, -1, -1), *begins(0, 0, 1, 0, 0), (3, F, 1, 0, 0, 0), (4, A, 1, 1, -1, -1)],
            *[*begins(4, 1, 1, 0, 0), (9, F, 1, 1, 0, 0), (9, *LAST)],
        ],
    ),
    Case(
        "another kind costs a restart, and work that is done is kept",
        # 8 of 20 units are done by 10, on the fast GPU after a set-up of 2 s; the slow one takes 24 s for the rest.
        scenario((0, 20), start_s=2, restart_s=4),
        [
            *[(0, A, 0, 0, -1, -1), *begins(0, 0, 1, 0, 0), (2, READY, 1, 0, 0, 0), (10, PREEMPT, 1, 0, 0, 0)],
            *[*begins(10, 0, 1, 2, 1), (14, READY, 1, 0, 2, 1), (38, F, 1, 0, 2, 1), (38, *LAST)],
        ],
        (0, 2, 2, 2),
    ),
    Case(
        "a job without GPUs pauses, and pays when it continues",
        scenario((0, 12), (1, 30), restart_s=3),
        [
            *[(0, A, 0, 0, -1, -1), *begins(0, 0, 2, 1, 0), (1, A, 1, 1, -1, -1), (8, F, 2, 0, 1, 0)],
            *[*begins(10, 1, 1, 2, 1), (20, PREEMPT, 1, 1, 2, 1), *begins(20, 1, 2, 1, 0), (23, READY, 2, 1, 1, 0)],
            *[(23 + 25 / 1.5, F, 2, 1, 1, 0), (23 + 25 / 1.5, *LAST)],
        ],
        (1, 2, 1, 1),
    ),
    Case(
        "at events GPUs that become free are used at once",
        scenario((0, 6), (0, 9), round_s=None),
        [
            *[(0, A, 0, 0, -1, -1), (0, A, 1, 1, -1, -1), *begins(0, 0, 1, 0, 0), *begins(0, 1, 1, 0, 0)],
            *[(6, F, 1, 0, 0, 0), (6, PREEMPT, 1, 1, 0, 0), *begins(6, 1, 2, 1, 0), (8, F, 2, 1, 1, 0), (8, *LAST)],
        ],
        (0, 0, 1),
    ),
    Case(
        "the policy may leave GPUs idle while jobs are to come",
        scenario((0, 5), (12, 1)),
        [
            *[(0, A, 0, 0, -1, -1), *begins(10, 0, 1, 0, 0), (12, A, 1, 1, -1, -1), (15, F, 1, 0, 0, 0)],
            *[*begins(20, 1, 1, 0, 0), (21, F, 1, 1, 0, 0), (21, *LAST)],
        ],
        (WAIT, 0),
    ),
    Case(
        "by Gavel's rules a round brings whole steps and ends with them",
        # On the slow GPU 5 steps of 0.5 a second fill the round; on the fast ones the job does int(1.5 * 9.9) = 14.
        scenario((0, 20), compat="gavel", round_s=9.9),
        [
            *[(0, A, 0, 0, -1, -1), *begins(0, 0, 2, 1, 0)],
            *[(14 / 1.5 + 6 / 1.5, F, 2, 0, 1, 0), (14 / 1.5 + 6 / 1.5, *LAST)],
        ],
        (1, 1),
    ),
]


def check(case: Case, make: Callable[[ElasticScenario], Any]) -> None:
    """Assert that a case goes as worked out."""
    found: Any = load(case.scenario)
    log, reward = play_case(case.actions, make(found))
    assert [row[1:] for row in log] == [line[1:] for line in case.lines]
    assert all(abs(row[0] / 1e9 - line[0]) < 3e-9 for row, line in zip(log, case.lines, strict=True))
    stays = sum(row[0] for row in log if row[1] == F) - sum(row[0] for row in log if row[1] == A)
    assert abs(reward + stays / 1e9) < 1e-9
