"""Cases worked out by hand from docs/llm-machine.md: a scenario, and what the log must say.

Every step takes 10 ms unless a case says otherwise, and the first row is taken at every decision. Times are in
milliseconds. A line of the log is (time, kind, class, request, variant, resource), as the page's table has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.families.llm.scenario import LlmScenario
from slipstream.scenario import load
from tests.kernels import play_case

A, S, F, REJECT, END, PREEMPT, READY, EVICT, DONE = 0, 1, 2, 4, 6, 7, 8, 9, 12
Line = tuple[float, int, int, int, int, int]
LAST = (END, -1, -1, -1, -1)


@dataclass(frozen=True)
class Case:
    """One episode."""

    name: str
    scenario: dict[str, Any]
    lines: Sequence[Line]
    actions: tuple[int, ...] = ()


def scenario(requests: list[dict[str, Any]], engines: int = 1, **engine: Any) -> dict[str, Any]:
    rules = {"token_budget": 16, "seats": 2, "blocks": 11, "block_tokens": 4, "prefix_cache": False} | engine
    more = {key: rules.pop(key) for key in ("decide", "levels", "classes", "router") if key in rules}
    return {
        "family": "llm",
        "engines": engines,
        "engine": rules,
        "step_time": {"kind": "closed", "dense": [{"at": 0, "us": 10_000.0}]},
        "requests": {"kind": "list", "requests": requests, "hash_tokens": 4},
        **more,
    }


def request(time: float, prompt: int, output: int, **more: Any) -> dict[str, Any]:
    return {"arrival_s": time / 1000.0, "prompt": prompt, "output": output, **more}


CASES = [
    Case(
        "the last token is under way before the one before it is out",
        # Two steps are scheduled at 0; at 10 the third, which brings the last token; at 20 there is none left to do.
        scenario([request(0, 5, 3)]),
        [
            *[(0, A, 0, 0, -1, 5), (0, S, 0, 0, 0, 0), (10, READY, 0, 0, 0, 0), (10, DONE, 2, 5, 1, 0)],
            *[(20, DONE, 2, 1, 1, 0), (30, F, 0, 0, 0, 0), (30, EVICT, 0, 0, -1, 3), (30, DONE, 2, 1, 1, 0)],
            (30, *LAST),
        ],
    ),
    Case(
        "a request that comes during a step runs in the one after the next",
        scenario([request(0, 4, 3), request(5, 4, 1)]),
        [
            *[(0, A, 0, 0, -1, 4), (0, S, 0, 0, 0, 0), (5, A, 0, 1, -1, 4)],
            *[(10, READY, 0, 0, 0, 0), (10, DONE, 1, 4, 1, 0), (10, S, 0, 1, 0, 1), (20, DONE, 2, 1, 1, 0)],
            *[(30, F, 0, 0, 0, 0), (30, EVICT, 0, 0, -1, 3)],
            *[(30, READY, 0, 1, 0, 1), (30, F, 0, 1, 0, 1), (30, EVICT, 0, 1, -1, 1), (30, DONE, 3, 5, 2, 0)],
            (30, *LAST),
        ],
    ),
    Case(
        "without a second step in flight it runs in the next one",
        scenario([request(0, 4, 3), request(5, 4, 1)], steps_in_flight=1),
        [
            *[(0, A, 0, 0, -1, 4), (0, S, 0, 0, 0, 0), (5, A, 0, 1, -1, 4)],
            *[(10, READY, 0, 0, 0, 0), (10, DONE, 1, 4, 1, 0), (10, S, 0, 1, 0, 1)],
            *[(20, READY, 0, 1, 0, 1), (20, F, 0, 1, 0, 1), (20, EVICT, 0, 1, -1, 1), (20, DONE, 3, 5, 2, 0)],
            *[(30, F, 0, 0, 0, 0), (30, EVICT, 0, 0, -1, 3), (30, DONE, 2, 1, 1, 0), (30, *LAST)],
        ],
    ),
    Case(
        "the request admitted last makes room, and computes everything again",
        # Four blocks. At 20 the second request needs a third block: it is the last of the batch, so it goes itself. It
        # has 9 tokens then, for which there are blocks only when the first has finished.
        scenario([request(0, 4, 6), request(0, 7, 3)], blocks=5, steps_in_flight=1),
        [
            *[(0, A, 0, 0, -1, 4), (0, A, 0, 1, -1, 7), (0, S, 0, 0, 0, 0), (0, S, 0, 1, 0, 1)],
            *[(10, READY, 0, 0, 0, 0), (10, READY, 0, 1, 0, 1), (10, DONE, 3, 11, 2, 0), (20, DONE, 4, 2, 2, 0)],
            *[(20, PREEMPT, 0, 1, 0, 1), (30, DONE, 2, 1, 1, 0), (40, DONE, 2, 1, 1, 0), (50, DONE, 2, 1, 1, 0)],
            *[(60, F, 0, 0, 0, 0), (60, EVICT, 0, 0, -1, 6), (60, DONE, 3, 1, 1, 0), (60, S, 0, 1, 0, 0)],
            *[(70, READY, 0, 1, 0, 0), (70, F, 0, 1, 0, 0), (70, EVICT, 0, 1, -1, 3), (70, DONE, 3, 9, 1, 0)],
            (70, *LAST),
        ],
    ),
    Case(
        "a prompt that was seen before is computed but for its last block",
        scenario([request(0, 9, 1, hashes=[1, 2]), request(50, 9, 1, hashes=[1, 2])], prefix_cache=True),
        [
            *[(0, A, 0, 0, -1, 9), (0, S, 0, 0, 0, 0), (10, READY, 0, 0, 0, 0), (10, F, 0, 0, 0, 0)],
            *[(10, EVICT, 0, 0, -1, 1), (10, DONE, 3, 9, 1, 0), (50, A, 0, 1, -1, 9), (50, S, 0, 1, 0, 0)],
            *[(60, READY, 0, 1, 2, 0), (60, F, 0, 1, 0, 0), (60, EVICT, 0, 1, -1, 1), (60, DONE, 3, 1, 1, 0)],
            (60, *LAST),
        ],
    ),
    Case(
        "an end that nobody knew of costs a token",
        scenario([request(0, 4, 1)], stop="eos"),
        [
            *[(0, A, 0, 0, -1, 4), (0, S, 0, 0, 0, 0), (10, READY, 0, 0, 0, 0), (10, F, 0, 0, 0, 0)],
            *[(10, EVICT, 0, 0, -1, 1), (10, DONE, 1, 4, 1, 0), (20, DONE, 2, 1, 1, 0), (20, *LAST)],
        ],
    ),
    Case(
        "a long prompt is computed in chunks of the budget",
        scenario([request(0, 10, 1)], token_budget=4, steps_in_flight=1),
        [
            *[(0, A, 0, 0, -1, 10), (0, S, 0, 0, 0, 0), (10, DONE, 1, 4, 1, 0), (20, DONE, 2, 4, 1, 0)],
            *[(30, READY, 0, 0, 0, 0), (30, F, 0, 0, 0, 0), (30, EVICT, 0, 0, -1, 1), (30, DONE, 3, 2, 1, 0)],
            (30, *LAST),
        ],
    ),
    Case(
        "blocks are kept free once something is scheduled",
        # Ten blocks, of which four are kept free: the first request takes six, though only four are left then.
        scenario([request(0, 24, 1), request(0, 4, 1)], token_budget=64, watermark=0.4, steps_in_flight=1),
        [
            *[(0, A, 0, 0, -1, 24), (0, A, 0, 1, -1, 4), (0, S, 0, 0, 0, 0)],
            *[(10, READY, 0, 0, 0, 0), (10, F, 0, 0, 0, 0), (10, EVICT, 0, 0, -1, 1), (10, DONE, 6, 24, 1, 0)],
            *[(10, S, 0, 1, 0, 0), (20, READY, 0, 1, 0, 0), (20, F, 0, 1, 0, 0), (20, EVICT, 0, 1, -1, 1)],
            *[(20, DONE, 1, 4, 1, 0), (20, *LAST)],
        ],
    ),
    Case(
        "blocks are kept free as long as a request runs, though it has nothing to do",
        # The only token of the first request is under way when the second step is scheduled.
        scenario([request(0, 24, 1), request(0, 12, 1)], token_budget=24, watermark=0.4),
        [
            *[(0, A, 0, 0, -1, 24), (0, A, 0, 1, -1, 12), (0, S, 0, 0, 0, 0)],
            *[(10, READY, 0, 0, 0, 0), (10, F, 0, 0, 0, 0), (10, EVICT, 0, 0, -1, 1), (10, DONE, 6, 24, 1, 0)],
            *[(10, S, 0, 1, 0, 0), (20, READY, 0, 1, 0, 0), (20, F, 0, 1, 0, 0), (20, EVICT, 0, 1, -1, 1)],
            *[(20, DONE, 3, 12, 1, 0), (20, *LAST)],
        ],
    ),
    Case(
        "a long prompt is cut until its request is alone",
        scenario([request(0, 10, 1), request(0, 4, 1)], long_prefill_tokens=3, steps_in_flight=1),
        [
            *[(0, A, 0, 0, -1, 10), (0, A, 0, 1, -1, 4), (0, S, 0, 0, 0, 0), (0, S, 0, 1, 0, 1)],
            *[(10, DONE, 2, 6, 2, 0), (20, READY, 0, 1, 0, 1), (20, F, 0, 1, 0, 1), (20, EVICT, 0, 1, -1, 1)],
            *[(20, DONE, 3, 4, 2, 0), (30, READY, 0, 0, 0, 0), (30, F, 0, 0, 0, 0), (30, EVICT, 0, 0, -1, 1)],
            *[(30, DONE, 3, 4, 1, 0), (30, *LAST)],
        ],
    ),
    *(
        Case(
            f"a freed block that is not in the cache is used {when} in version {version}",
            # Four blocks. The second request leaves a block of 3 tokens, the third takes three, the fourth looks for
            # the block of the first.
            scenario(
                [request(0, 4, 1, hashes=[7]), request(20, 3, 1), request(40, 12, 1), request(60, 5, 1, hashes=[7])],
                **{"version": version, "blocks": 5, "prefix_cache": True, "steps_in_flight": 1},
            ),
            [
                *[(0, A, 0, 0, -1, 4), (0, S, 0, 0, 0, 0), (10, READY, 0, 0, 0, 0), (10, F, 0, 0, 0, 0)],
                *[(10, EVICT, 0, 0, -1, 1), (10, DONE, 1, 4, 1, 0), (20, A, 0, 1, -1, 3), (20, S, 0, 1, 0, 0)],
                *[(30, READY, 0, 1, 0, 0), (30, F, 0, 1, 0, 0), (30, EVICT, 0, 1, -1, 1), (30, DONE, 1, 3, 1, 0)],
                *[(40, A, 0, 2, -1, 12), (40, S, 0, 2, 0, 0), (50, READY, 0, 2, 0, 0), (50, F, 0, 2, 0, 0)],
                *[(50, EVICT, 0, 2, -1, 1), (50, DONE, 3, 12, 1, 0), (60, A, 0, 3, -1, 5), (60, S, 0, 3, 0, 0)],
                *[(70, READY, 0, 3, found, 0), (70, F, 0, 3, 0, 0), (70, EVICT, 0, 3, -1, 1)],
                *[(70, DONE, 2, 5 - 4 * found, 1, 0), (70, *LAST)],
            ],
        )
        for version, when, found in (("0.32", "first", 1), ("0.19", "last", 0))
    ),
    Case(
        "what no memory holds is rejected",
        scenario([request(0, 38, 3), request(0, 38, 2)], token_budget=64),
        [
            *[(0, A, 0, 0, -1, 38), (0, REJECT, 0, 0, -1, -1), (0, A, 0, 1, -1, 38), (0, S, 0, 1, 0, 0)],
            *[(10, READY, 0, 1, 0, 0), (10, DONE, 10, 38, 1, 0)],
            *[(20, F, 0, 1, 0, 0), (20, EVICT, 0, 1, -1, 2), (20, DONE, 10, 1, 1, 0), (20, *LAST)],
        ],
    ),
    Case(
        "engines take turns",
        scenario([request(0, 4, 1), request(0, 4, 1)], engines=2),
        [
            *[(0, A, 0, 0, -1, 4), (0, A, 0, 1, -1, 4), (0, S, 0, 0, 0, 0), (0, S, 0, 1, 0, 2)],
            *[(10, READY, 0, 0, 0, 0), (10, F, 0, 0, 0, 0), (10, EVICT, 0, 0, -1, 1), (10, DONE, 1, 4, 1, 0)],
            *[(10, READY, 0, 1, 0, 2), (10, F, 0, 1, 0, 2), (10, EVICT, 0, 1, -1, 1), (10, DONE, 1, 4, 1, 1)],
            (10, *LAST),
        ],
    ),
]


def check(case: Case, make: Callable[[LlmScenario], Any]) -> None:
    """Assert that a case goes as worked out."""
    found: Any = load(case.scenario)
    log, reward = play_case(case.actions, make(found))
    assert [(row[0] / 1e6, *row[1:]) for row in log] == [tuple(line) for line in case.lines]
    arrivals = sum(row[0] for row in log if row[1] == A and (row[2], row[3]) not in rejected(log))
    assert abs(reward + (sum(row[0] for row in log if row[1] == F) - arrivals) / 1e9) < 1e-12


def rejected(log: Sequence[Any]) -> set[tuple[int, int]]:
    return {(row[2], row[3]) for row in log if row[1] == REJECT}
