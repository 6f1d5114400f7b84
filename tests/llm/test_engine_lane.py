"""The lane of a real engine shows a policy what the simulator would show it, and writes down what happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slipstream.errors import PolicyError
from slipstream.families.llm import features as f
from slipstream.families.llm.engine.lane import CAPACITY, EngineLane, Moment
from slipstream.families.llm.engine.recording import Recorder
from slipstream.families.llm.invariants import check
from slipstream.families.llm.kernel.state import ADMITS, EVICTS, LEVELS, RUNNING, WAITING
from slipstream.families.llm.metrics import metrics
from slipstream.policies.base import find, find_for
from slipstream.scenario import load
from slipstream.sim.eventlog import DONE, FINISH, PREEMPT, READY, START
from slipstream.sim.simulator import Simulator

OTHER = (f.NUMBER,)
"""Columns in which a lane differs: it numbers the requests that are there."""


class Watching:
    """Policy that keeps what it is shown, and takes what it is told to take."""

    name, family = "watching", "llm"
    seen: tuple[np.ndarray, np.ndarray, np.ndarray]
    action = 0

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        self.seen = global_row.copy(), rows[np.flatnonzero(mask)].copy(), mask.copy()
        return self.action if self.action >= 0 else len(mask) - 1


def scenario(**more: Any) -> Any:
    data = load("llm/tiny").model_dump(mode="json")
    levels = {"token_budgets": [16, 32, 64], "watermarks": [0.0, 0.1]}
    return load(data | {"decide": ["budget", "evict"], "levels": levels} | more)


def lane_of(simulator: Simulator[Any], policy: Any) -> tuple[EngineLane, dict[int, int], list[int]]:
    """Return the lane of an engine in the state of the simulator, its numbers by request, and the batch."""
    lane = EngineLane(simulator.scenario, simulator.scenario.engine, policy)
    own, requests = simulator.arrays["engines"][0, 0], simulator.arrays["requests"][0]
    numbers: dict[int, int] = {}
    present = np.flatnonzero((requests["status"] == WAITING) | (requests["status"] == RUNNING))
    for number in present[present < simulator.header["arrived"]].tolist():
        row = requests[number]
        numbers[number] = lane.arrive(int(row["prompt"]), int(row["arrival"]), int(row["group"]), int(row["predicted"]))
        for name in ("known", "first", "preemptions", "blocks"):
            lane.requests[name][numbers[number]] = row[name]
    waiting = simulator.arrays["waiting"][0, 0, int(own["first"]) if "first" in own.dtype.names else 0 :]
    for number in waiting[: own["waiting"]].tolist():
        lane.enqueue(numbers[number])
    lane.service = simulator.arrays["clients"]["service"][0].tolist()
    return lane, numbers, [numbers[number] for number in simulator.arrays["running"][0, 0, : own["running"]].tolist()]


def moment_of(simulator: Simulator[Any]) -> Moment:
    own = simulator.arrays["engines"][0, 0]
    free, budget, headroom, left = (int(own[name]) for name in ("free", "budget", "headroom", "left"))
    flight = int(own["flight"])
    return Moment(
        int(simulator.header["now"]), free, budget, headroom, left, int(own["sequences"]), flight, int(own["duration"])
    )


@pytest.mark.parametrize("prefix", [False, True])
def test_a_lane_shows_the_rows_of_the_simulator(prefix: bool) -> None:
    engine = load("llm/tiny").model_dump(mode="json")["engine"] | {"prefix_cache": prefix}
    simulator, kinds = Simulator(scenario(engine=engine)), []
    simulator.reset(5)
    for number in range(250):
        if not simulator.asking:
            break
        globals_row, rows, mask = (array.copy() for array in simulator.observe())
        legal = np.flatnonzero(mask)
        kinds.append(int(simulator.header["kind"]))
        if number % 3 == 0 or kinds[-1] == EVICTS:
            policy = Watching()
            lane, numbers, batch = lane_of(simulator, policy)
            own, size = simulator.arrays["engines"][0, 0], simulator.scenario.engine.block_tokens
            if kinds[-1] == ADMITS:
                for row in rows[legal[legal < len(mask) - 1]]:
                    # An engine tells how many blocks it found, and how many of them nobody uses.
                    known = round(row[f.PROMPT] + row[f.GENERATED])
                    hits = round(row[f.CACHED] / size)
                    free = round(row[f.BLOCKS] * (simulator.scenario.engine.blocks - 1)) - (-(-known // size) - hits)
                    lane.found[numbers[int(row[f.NUMBER])]] = hits, free
            chosen = lane.decide(kinds[-1], moment_of(simulator), batch)
            shown_globals, shown, _ = policy.seen
            if kinds[-1] != ADMITS or own["flight"] or own["sequences"]:
                expected = rows[legal]
                shown[:, OTHER] = expected[:, OTHER]
                assert np.array_equal(shown, expected)
            observed = slice(0, len(f.GLOBAL.observed))
            assert np.array_equal(shown_globals[observed], globals_row[observed])
            assert chosen == 0
        simulator.step(int(legal[number % len(legal)]))
    assert {ADMITS, EVICTS, LEVELS} == set(kinds)


def test_a_lane_chooses_as_the_simulator_does() -> None:
    simulator = Simulator(load("llm/tiny"))
    for name in ("fcfs", "shortest-prompt", "mc-sf", "hrrn"):
        policy = find(name, "llm")
        simulator.reset(3)
        for _ in range(60):
            if not simulator.asking:
                break
            action = policy.choose(*simulator.observe())
            lane, _, batch = lane_of(simulator, policy)
            waits = action == len(simulator.raw["mask"][0]) - 1
            assert lane.decide(ADMITS, moment_of(simulator), batch) == (-1 if waits else action)
            simulator.step(action)


def test_a_lane_grows_with_its_requests() -> None:
    base: Any = load("llm/tiny")
    lane = EngineLane(base, base.engine, find_for("shortest-prompt", base))
    for number in range(CAPACITY + 10):
        lane.enqueue(lane.arrive(1000 - number, 0), front=number % 2 == 0)
    moment = Moment(1, 30, 64, 0, 64, 0, 0, 0)
    assert lane.decide(ADMITS, moment) == lane.queued - 1
    lane.dequeue(lane.queued - 1)
    lane.dequeue(0)
    assert lane.decide(ADMITS, moment) == lane.queued - 1
    lane.requeue([3, 1, 2])
    assert lane.decide(ADMITS, moment) == 0


def test_a_class_that_returns_is_lifted_to_the_least_service() -> None:
    base: Any = load("llm/tiny")
    lane = EngineLane(base, base.engine, find_for("vtc", base))
    first = lane.arrive(10, 0, 0)
    lane.start(first)
    lane.start(first)
    assert lane.service == [10, 0]
    second = lane.arrive(10, 0, 1)
    assert lane.service == [10, 10]
    lane.leave(first)
    lane.leave(second)
    assert (lane.unfinished, lane.active) == (0, [0, 0])


def test_an_idle_engine_may_not_wait() -> None:
    base, policy = scenario(), Watching()
    policy.action = -1
    lane = EngineLane(base, base.engine, policy)
    lane.enqueue(lane.arrive(10, 0))
    assert lane.decide(ADMITS, Moment(1, 30, 64, 0, 64, 0, 0, 0)) == 0
    assert lane.decide(ADMITS, Moment(1, 30, 64, 0, 64, 0, 1, 0)) == -1
    assert lane.mistakes == 1


def test_policies_that_simulate_ahead_are_refused() -> None:
    base: Any = load("llm/tiny")
    with pytest.raises(PolicyError, match="expected a rule or a network"):
        EngineLane(base, base.engine, find_for("rollout", base))


def test_a_recording_is_a_scenario_and_a_log_of_it() -> None:
    base: Any = load("llm/tiny")
    recorder = Recorder()
    recorder.arrive(7, 1000, 0, 8, 5, [11, 12])
    recorder.arrive(8, 1000, 1, 8, None, [11, 13])
    recorder.start(7, 1500, 0)
    recorder.arrive(9, 1200, 0, 4, None, [])
    recorder.start(8, 1500, 1)
    recorder.token(7, 5000, 1)
    recorder.step(5000, 4, 12, 2)
    recorder.preempt(8, 5000)
    recorder.token(7, 9000, 1)
    recorder.leave(7, 9000)
    recorder.step(9000, 2, 1, 1)
    recorder.start(8, 9000, 2)
    recorder.token(8, 9500, 1)
    recorder.step(9500, 2, 8, 1)
    recorder.preempt(8, 9500)
    recorder.leave_all(9600)
    found, events = recorder.result(base, base.engine)
    check(events, found)
    assert events["time"][0] == 0
    listed = found.requests
    assert listed.kind == "list"
    assert [(one.prompt, one.output, one.client, one.predicted, one.hashes) for one in listed.requests] == [
        (8, 2, "chat", 5, [11]),
        (8, 1, "batch", None, [11]),
        (4, 1, "chat", None, []),
    ]
    kinds = events["kind"].tolist()
    counts = [kinds.count(kind) for kind in (START, READY, PREEMPT, FINISH, DONE)]
    assert counts == [4, 2, 2, 2, 3]
    assert metrics(found, events)["preemptions"] == 2
