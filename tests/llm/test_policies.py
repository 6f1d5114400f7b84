"""Heuristics of LLM engines choose as worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from slipstream.errors import PolicyError
from slipstream.policies.base import find, find_for
from slipstream.scenario import load
from slipstream.sim.eventlog import ARRIVAL, START
from slipstream.sim.simulator import Simulator
from tests.llm.cases import request, scenario

CLASSES = [{"name": "a", "priority": 1, "ttft_s": 9.0}, {"name": "b", "priority": 0, "ttft_s": 0.5}]
REQUESTS = [
    request(0, 8, 9, predicted=9, client="a"),
    # While the first runs, these four come; there is one seat.
    request(1, 30, 2, predicted=2, client="a"),
    request(2, 6, 8, predicted=8, client="a"),
    request(3, 20, 1, predicted=1, client="a"),
    request(4, 24, 5, predicted=5, client="b"),
]


def order(policy: str, requests: list[dict[str, Any]] = REQUESTS, **engine: Any) -> list[int]:
    """Return the requests, by arrival, in the order in which they start."""
    rules = {"seats": 1, "token_budget": 64, "blocks": 40} | engine
    found: Any = load(scenario(requests, classes=CLASSES, **rules))
    events = Simulator(found).play(find(policy, "llm"), 0)
    arrivals = events[events["kind"] == ARRIVAL][["task", "job"]].tolist()
    return [arrivals.index(tuple(row)) for row in events[events["kind"] == START][["task", "job"]].tolist()]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fcfs", [0, 1, 2, 3, 4]),
        ("priority", [0, 4, 1, 2, 3]),
        ("shortest-prompt", [0, 2, 3, 4, 1]),
        ("sjf", [0, 3, 1, 4, 2]),
        ("least-work", [0, 3, 1, 4, 2]),
        ("earliest-deadline", [0, 4, 1, 2, 3]),
        ("vtc", [0, 4, 1, 2, 3]),
        ("mlfq", [0, 1, 2, 3, 4]),
        ("mc-sf", [0, 3, 1, 4, 2]),
        ("first-fit", [0, 1, 2, 3, 4]),
    ],
)
def test_waiting_requests_start_in_this_order(policy: str, expected: list[int]) -> None:
    assert order(policy) == expected


def test_queues_have_twice_as_many_tokens_each() -> None:
    requests = [request(0, 8, 9), request(1, 600, 1), request(2, 300, 1), request(3, 200, 1), request(4, 250, 1)]
    assert order("mlfq", requests, blocks=400, token_budget=1000) == [0, 3, 4, 2, 1]


def test_the_response_ratio_of_a_long_wait_wins() -> None:
    # At 90 ms the second has waited 89 ms and needs 90 more, the third has waited 10 and needs 10.
    requests = [request(0, 8, 9, predicted=9), request(1, 8, 9, predicted=9), request(75, 8, 1, predicted=1)]
    assert order("hrrn", requests) == [0, 1, 2]
    assert order("sjf", requests) == [0, 2, 1]


def test_a_request_that_does_not_fit_is_passed_over_by_first_fit_alone() -> None:
    # Ten blocks: the first takes six, the second needs five, the third one.
    requests = [request(0, 20, 4), request(1, 20, 1), request(2, 3, 1)]
    assert order("fcfs", requests, seats=3, blocks=11) == [0, 1, 2]
    assert order("first-fit", requests, seats=3, blocks=11) == [0, 2, 1]


def test_the_predicted_peak_keeps_a_request_out_that_would_fit_now() -> None:
    # Each has 4 tokens and is predicted to end with 24: of 40 tokens' room one takes 24, two would take 48.
    requests = [request(0, 4, 20, predicted=20), request(0, 4, 20, predicted=20), request(500, 4, 1, predicted=1)]
    found: Any = load(scenario(requests, seats=3, token_budget=64))
    for policy, together in (("sjf", True), ("mc-sf", False)):
        events = Simulator(found).play(find(policy, "llm"), 0)
        starts = events["time"][events["kind"] == START]
        assert (starts[0] == starts[1]) == together


def test_routers_send_a_request_where_its_prefix_is_or_where_nothing_waits() -> None:
    shared = [request(0, 12, 1, hashes=[1, 2]), request(1, 40, 20), request(200, 12, 1, hashes=[1, 2])]
    data = scenario(shared, engines=2, decide=["route"], prefix_cache=True, seats=4, blocks=40)
    found: Any = load(data)
    seats = found.engine.seats
    for policy, engines in (("least-load", [0, 1, 0]), ("prefix-affinity", [0, 1, 0])):
        events = Simulator(found).play(find(policy, "llm"), 0)
        assert (events["resource"][events["kind"] == START] // seats).tolist() == engines
    # With the first engine busy, only affinity still sends the request there.
    busy = [*shared[:1], request(150, 12, 20), request(151, 12, 1), request(200, 12, 1, hashes=[1, 2])]
    found = load({**data, "requests": {**data["requests"], "requests": busy}})
    sent = {}
    for policy in ("least-load", "prefix-affinity"):
        events = Simulator(found).play(find(policy, "llm"), 0)
        sent[policy] = int(events["resource"][events["kind"] == START][-1] // seats)
    assert sent == {"least-load": 1, "prefix-affinity": 0}


def test_sarathi_takes_the_nearest_budget() -> None:
    levels = {"token_budgets": [4, 8, 16], "watermarks": [0.0]}
    found: Any = load(scenario([request(0, 32, 2)], decide=["budget"], levels=levels))
    for policy, budget in (("sarathi(5)", 4), ("sarathi(100)", 16)):
        events = Simulator(found).play(find(policy, "llm"), 0)
        assert events["job"][events["kind"] == 12].max() == budget


def test_policies_that_do_not_apply_are_refused() -> None:
    for policy, reason in (("least-load", "'route' in 'decide'"), ("sarathi", "'budget' in 'decide'")):
        with pytest.raises(PolicyError, match=reason):
            find_for(policy, load("llm/tiny"))
    assert find_for("sarathi(256)", load("llm/code")).name == "sarathi(256)"
    assert find_for("prefix-affinity", load("llm/fleet")).name == "prefix-affinity"
