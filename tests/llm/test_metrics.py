"""Metrics of LLM engines come from the log alone, and the laws notice logs that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slipstream.errors import InvariantError
from slipstream.families.llm.family import FAMILY
from slipstream.families.llm.invariants import check
from slipstream.families.llm.metrics import metrics, requests_of
from slipstream.families.llm.oracle.bounds import bound, shortest_step
from slipstream.families.shared.search import least_flow
from slipstream.policies.base import applicable, find
from slipstream.scenario import load
from slipstream.sim.eventlog import DONE, EVICT, FINISH, PREEMPT, READY, START
from slipstream.sim.simulator import Simulator
from tests.llm.cases import CASES, request, scenario

BY_NAME = {case.name: case for case in CASES}
PREEMPTED = "the request admitted last makes room, and computes everything again"


def played(data: Any, policy: str = "fcfs", seed: int = 0) -> tuple[Any, np.ndarray]:
    found: Any = load(data)
    return found, Simulator(found).play(find(policy, "llm"), seed)


def test_figures_of_a_case_worked_out_by_hand() -> None:
    # Tokens of the first request come at 10, 20, ..., 60; of the second at 10, 20, and after its preemption at 70.
    found, events = played(BY_NAME[PREEMPTED].scenario)
    figures = metrics(found, events)
    assert figures["ttft_mean_s"] == pytest.approx(0.01)
    assert figures["e2e_mean_s"] == pytest.approx(0.065)
    assert figures["e2e_p99_s"] == pytest.approx(0.0699)
    assert figures["tpot_mean_ms"] == pytest.approx((10.0 + 30.0) / 2)
    assert figures["itl_mean_ms"] == pytest.approx((50.0 + 60.0) / 7)
    assert figures["itl_p50_ms"] == pytest.approx(10.0)
    assert figures["itl_p99_ms"] == pytest.approx(50.0)
    assert figures["tokens_per_s"] == pytest.approx(9 / 0.07)
    assert figures["s_per_token"] == pytest.approx((0.06 / 6 + 0.07 / 3) / 2)
    assert figures["preemptions"] == 1.0
    assert figures["steps"] == 7.0
    # Steps use 3, 4, 2, 2, 2, 3 and 3 of four blocks.
    assert figures["kv_use"] == pytest.approx(19 / 28)
    assert figures["reward"] == pytest.approx(-0.13)


def test_reuse_is_what_the_first_start_found() -> None:
    found, events = played(BY_NAME["a prompt that was seen before is computed but for its last block"].scenario)
    assert metrics(found, events)["prefix_reuse"] == pytest.approx(8 / 18)


def test_limits_are_judged_by_class() -> None:
    classes = [{"name": "fast", "ttft_s": 0.01}, {"name": "slow", "ttft_s": 0.02, "tpot_ms": 9.0}]
    requests = [request(0, 4, 2), request(1, 4, 2, client="slow"), request(2, 4, 1)]
    found, events = played(scenario(requests, classes=classes, seats=1) | {"reward": {"time": 0.0, "violations": 1.0}})
    figures = metrics(found, events)
    assert figures["slo_attainment"] == pytest.approx(1 / 3)
    assert figures["slo_attainment/fast"] == pytest.approx(0.5)
    assert figures["reward"] == -2.0
    assert figures["goodput_hz"] == pytest.approx(1.0 / (events["time"][-1] / 1e9))


def test_every_request_has_its_lengths_in_the_log() -> None:
    found, events = played("llm/tiny")
    requests = requests_of(events)
    simulator = Simulator(found)
    simulator.play(find("fcfs", "llm"), 0)
    states = simulator.arrays["requests"][0]
    assert requests.prompt.tolist() == states["prompt"].tolist()
    assert requests.output[requests.done].tolist() == states["output"][requests.done].tolist()


@pytest.mark.parametrize(
    ("kind", "column", "change", "message"),
    [
        (START, "resource", 1, "does not wait|taken|not hold|not start"),
        (FINISH, "resource", 1, "not hold"),
        (READY, "resource", 1, "where it did not start"),
        (PREEMPT, "job", 1, "not hold"),
        (EVICT, "job", 1, "not finished just now"),
        (EVICT, "resource", 1000, "longer than allowed"),
        (DONE, "task", 1000, "blocks in use"),
        (DONE, "job", 1000, "tokens: expected at most"),
        (DONE, "variant", 100, "sequences"),
    ],
)
def test_a_log_that_cannot_be_is_noticed(kind: int, column: str, change: int, message: str) -> None:
    found, events = played(BY_NAME[PREEMPTED].scenario)
    check(events, found)
    wrong = events.copy()
    wrong[column][np.flatnonzero(events["kind"] == kind)[-1]] += change
    with pytest.raises(InvariantError, match=message):
        check(wrong, found)


# The oracle


def test_least_flow_is_that_of_shortest_remaining_work_first() -> None:
    # Works 10, 2 and 4 arrive at 0, 1 and 2: the second goes first at 1, the third at 3, the first ends at 16.
    assert least_flow(np.array([0, 1, 2]), np.array([10.0, 2.0, 4.0])) == pytest.approx(2.0 + 5.0 + 16.0)
    assert least_flow(np.array([0, 50]), np.array([10.0, 2.0])) == pytest.approx(12.0)


def test_no_step_is_shorter_than_the_shortest() -> None:
    for name in ("llm/tiny", "llm/code"):
        found, events = played(name)
        ends = events["time"][events["kind"] == DONE]
        assert np.diff(ends).min() >= shortest_step(found) - 1.0


@pytest.mark.parametrize("name", ["llm/tiny", "llm/code", "llm/fleet"])
def test_no_policy_exceeds_the_bound(name: str) -> None:
    found: Any = load(name)
    for seed in range(2):
        for policy in applicable(found):
            events = Simulator(found).play(find(policy, "llm"), seed)
            assert FAMILY.metrics(found, events)["reward"] <= bound(found, events, seed, "test")


def test_the_bound_is_reached_where_nothing_can_be_done_better() -> None:
    found, events = played(scenario([request(0, 4, 3)]))
    assert FAMILY.metrics(found, events)["reward"] == pytest.approx(bound(found, events, 0, "test"))
