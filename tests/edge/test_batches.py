"""Batches in files, logs, metrics, pictures, bounds and policies; the cases say what the machine does with them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from slipstream.device.workload import check_device
from slipstream.errors import DeviceError, InvariantError, SlipstreamError
from slipstream.families.edge.family import FAMILY
from slipstream.families.edge.invariants import check
from slipstream.families.edge.metrics import metrics
from slipstream.families.edge.oracle.optimum import optimum_bounds
from slipstream.families.edge.policies import policy_refusal
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.edge.workload.generator import Settings, generate
from slipstream.policies import find
from slipstream.scenario import digest, load
from slipstream.sim.eventlog import ARRIVAL, END, EVENT, FINISH, START
from slipstream.sim.simulator import Simulator
from tests.edge.cases import scenario, task, trace


def pair(latency: float, **more: Any) -> dict[str, Any]:
    return {"batches": [{"size": 2, "latency_ms": latency, **more}]}


def built(*tasks: dict[str, Any], horizon: float = 100.0, **device: Any) -> EdgeScenario:
    return EdgeScenario.model_validate(scenario(horizon, list(tasks), **device))


def log(*rows: tuple[float, int, int, int, int, int]) -> np.ndarray:
    """Return an event log from (ms, kind, task, job, variant, resource)."""
    events = np.zeros(len(rows), EVENT)
    for event, (time, kind, number, job, variant, resource) in zip(events, rows, strict=True):
        event["time"], event["kind"], event["task"] = time * 1_000_000, kind, number
        event["job"], event["variant"], event["resource"] = job, variant, resource
    return events


# Files


def refusal(*tasks: dict[str, Any]) -> str:
    with pytest.raises(SlipstreamError) as caught:
        load(scenario(100, list(tasks)))
    return str(caught.value)


def test_batches_that_do_not_grow_are_refused() -> None:
    sizes = [{"size": 4, "latency_ms": 6.0}, {"size": 2, "latency_ms": 7.0}]
    assert "batches[1] of 2 jobs takes 7.0 ms, after 4 jobs in 6.0 ms" in refusal(
        task(trace(0), [4], ladder={"batches": sizes})
    )
    assert "after 1 jobs in 4.0 ms: expected larger sizes that are no faster" in refusal(
        task(trace(0), [4], ladder=pair(3))
    )


def test_variants_of_a_task_have_the_same_batch_sizes_the_fastest_first() -> None:
    mixed = task(trace(0), [4, 5], ladder=pair(6))
    mixed["variants"][1]["batches"] = [{"size": 3, "latency_ms": 8.0}]
    assert "variant 1 has other batch sizes than variant 0" in refusal(mixed)
    mixed["variants"][1]["batches"] = None
    assert "variant 1 has other batch sizes than variant 0" in refusal(mixed)
    mixed["variants"][1]["batches"] = [{"size": 2, "latency_ms": 5.5}]
    assert "a batch of variant 1 is faster than that of variant 0" in refusal(mixed)


def test_a_wait_for_batches_needs_batches() -> None:
    assert "fill_ms is set but no variant has batches" in refusal(task(trace(0), [4], fill_ms=1.0))


def test_batches_and_waits_count_in_the_digest_and_their_absence_does_not() -> None:
    plain, batched, filled = (
        digest(built(task(trace(0), [4], **more)))
        for more in ({}, {"ladder": pair(6)}, {"ladder": pair(6), "fill_ms": 1.0})
    )
    assert len({plain, batched, filled}) == 3
    assert plain == digest(built(task(trace(0), [4], ladder={"batches": None}, fill_ms=None)))


def test_a_device_refuses_batches() -> None:
    with pytest.raises(DeviceError, match="a task has batches: expected none"):
        check_device(built(task(trace(0), [4], ladder=pair(6))))


# Logs, metrics and pictures

DEVICE = built(
    task(trace(), [4], 9, ladder={"power_w": 2.0, **pair(6, power_w=5.0)}), horizon=20, idle_w=1.0, queue_limit=3
)
ROWS = [
    (0, ARRIVAL, 0, 0, -1, -1),
    (1, ARRIVAL, 0, 1, -1, -1),
    (1, ARRIVAL, 0, 2, -1, -1),
    (1, START, 0, 0, 0, 0),
    (1, START, 0, 1, 0, 0),
    (7, FINISH, 0, 0, 0, 0),
    (7, FINISH, 0, 1, 0, 0),
    (7, START, 0, 2, 0, 0),
    (11, FINISH, 0, 2, 0, 0),
    (20, END, -1, -1, -1, -1),
]


def test_metrics_count_a_batch_once() -> None:
    figures = metrics(DEVICE, log(*ROWS))
    assert figures["jobs_per_run"] == pytest.approx(3 / 2)
    assert figures["utilisation"] == pytest.approx((6 + 4) / 20)
    assert figures["latency_increase"] == pytest.approx(1.0)
    # Alone each takes 4.
    assert figures["stp"] == pytest.approx(3 * 4 / 10)
    assert figures["antt"] == pytest.approx((7 / 4 + 6 / 4 + 10 / 4) / 3)
    assert figures["energy_j"] == pytest.approx(0.020 * 1 + 0.006 * 5 + 0.004 * 2)
    assert figures["miss_rate"] == pytest.approx(1 / 3)


def test_jobs_per_run_says_nothing_without_batches() -> None:
    unmodelled = FAMILY.members.unmodelled_metrics
    assert unmodelled is not None
    assert "jobs_per_run" in unmodelled(built(task(trace(0), [4])))
    assert "jobs_per_run" not in unmodelled(DEVICE)


def test_a_batch_is_one_slice_named_after_its_first_miss() -> None:
    line = FAMILY.timeline(DEVICE, log(*ROWS))
    assert line.slice_job.tolist() == [0, 2]
    assert [line.parts[part] for part in line.slice_part] == ["batch of 2", "alone"]
    late = [(10.0, *row[1:]) if row[0] == 7 and row[1] == FINISH else row for row in ROWS[:7]]
    line = FAMILY.timeline(DEVICE, log(*late, (20, END, -1, -1, -1, -1)))
    assert (line.missed.tolist(), line.slice_job.tolist()) == ([True, False, True], [0])


def test_the_rows_of_a_batch_are_allowed() -> None:
    check(log(*ROWS), DEVICE)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([*ROWS[:5], (1, START, 0, 2, 0, 0), *ROWS[5:7], (7, FINISH, 0, 2, 0, 0), ROWS[-1]], "has 3 jobs"),
        ([*ROWS[:4], (2, START, 0, 1, 0, 0), *ROWS[5:7], ROWS[-1]], "busy since row 3"),
        ([*ROWS[:6], (8, FINISH, 0, 1, 0, 0), ROWS[-1]], "leave at different times"),
    ],
)
def test_rows_that_no_batch_has_are_reported(rows: list[tuple[float, int, int, int, int, int]], words: str) -> None:
    with pytest.raises(InvariantError, match=re.escape(words)):
        check(log(*rows), DEVICE)


def test_rows_are_named_with_their_jobs() -> None:
    simulator = Simulator(built(task(trace(0, 0), [4, 5], ladder=pair(6))))
    simulator.reset(0)
    assert [FAMILY.row_name(simulator, row) for row in (1, 2, 3)] == [
        "stream 0 runs task-0 as variant 1",
        "stream 0 runs 2 jobs of task-0 as variant 0",
        "stream 0 runs 2 jobs of task-0 as variant 1",
    ]


# Bounds


def test_the_optimum_of_a_short_episode_uses_batches() -> None:
    # One by one only the first is on time.
    found = optimum_bounds(built(task(trace(0, 0), [4], 7, ladder=pair(6))), 0)
    assert found.exact
    assert found.best_known == pytest.approx(2 * 0.5)


# The generator


def test_the_generator_writes_batches_of_linear_latency() -> None:
    plain = generate(Settings(ladder="geometric"), 3)
    found = generate(Settings(ladder="geometric", largest_batch=7, batch_cost=0.25, fill=0.5), 3)
    for before, after in zip(plain.tasks, found.tasks, strict=True):
        assert after.batch_sizes == [1, 2, 4]
        assert after.fill_ms == pytest.approx(after.relative_deadline_ms / 2)
        assert after.arrival == before.arrival
        for variant in after.ladder:
            assert variant.batches is not None
            assert [batch.latency_ms for batch in variant.batches] == pytest.approx(
                [1.25 * variant.latency_ms, 1.75 * variant.latency_ms], rel=1e-5
            )


# Policies


def asked(*tasks: dict[str, Any], at_ms: float, **device: Any) -> Simulator[EdgeScenario]:
    """Return the simulator at the first choice not before `at_ms`; until then it waits."""
    simulator = Simulator(built(*tasks, horizon=1000.0, **device))
    simulator.reset(0)
    while simulator.header["now"] < at_ms * 1e6:
        simulator.step(len(simulator.observe()[2]) - 1)
    return simulator


SIZES = {"batches": [{"size": 2, "latency_ms": 6.0}, {"size": 4, "latency_ms": 10.0}]}
"""With a single run of 4; rows: 0 runs one, 1 two, 2 four."""


@pytest.mark.parametrize(
    ("policy", "deadline", "at", "row"),
    [
        ("clipper", 100.0, 3, 2),  # four wait, and 10 is within the deadline
        ("clipper", 9.0, 3, 1),  # a run of 10 would not be
        ("clipper", 100.0, 1, 1),  # two wait: no reason to wait for others
        ("edf", 100.0, 3, 0),  # a rule of single jobs
        ("edgeserving", 100.0, 3, 2),
        ("edgeserving", 12.0, 3, 1),  # the oldest has 9 left: four would be late
        ("deeprt", 12.0, 3, 1),
        ("deeprt", 100.0, 3, 2),
    ],
)
def test_batches_are_as_large_as_they_may_be(policy: str, deadline: float, at: float, row: int) -> None:
    simulator = asked(task(trace(0, 1, 2, 3), [4], deadline, ladder=SIZES), at_ms=at)
    assert find(policy, "edge").choose(*simulator.observe()) == row


@pytest.mark.parametrize("policy", ["clipper", "deeprt"])
def test_a_batch_is_filled_for_as_long_as_the_scenario_says(policy: str) -> None:
    source = task(trace(0, 1, 500), [4], 100.0, ladder=SIZES, fill_ms=5.0)
    wait = len(asked(source, at_ms=0).observe()[2]) - 1
    assert find(policy, "edge").choose(*asked(source, at_ms=1).observe()) == wait
    assert find(policy, "edge").choose(*asked(source, at_ms=5).observe()) == 1
    full = task(trace(0, 0, 0, 0), [4], 100.0, ladder=SIZES, fill_ms=5.0)
    assert find(policy, "edge").choose(*asked(full, at_ms=0).observe()) == 2


def test_deeprt_drops_what_is_too_late_and_takes_the_earliest_deadline() -> None:
    late, early = task(trace(0), [4], 3.0, ladder=SIZES), task(trace(0), [4], 50.0, ladder=SIZES)
    # Rows: 0 to 2 and 3 to 5 dispatch, 6 and 7 drop.
    assert find("deeprt", "edge").choose(*asked(late, early, at_ms=0).observe()) == 6
    soon = task(trace(0), [4], 20.0, ladder=SIZES)
    assert find("deeprt", "edge").choose(*asked(early, soon, at_ms=0).observe()) == 3


def test_edgeserving_relieves_the_queue_whose_wait_costs_most_in_the_deepest_variant_in_time() -> None:
    relaxed, crowded = task(trace(0), [4, 5], 400.0, ladder=pair(6)), task(trace(0, 0), [4, 5], 40.0, ladder=pair(6))
    # Rows: 0 to 3 and 4 to 7 dispatch; 7 is two jobs in the second variant.
    assert find("edgeserving", "edge").choose(*asked(relaxed, crowded, at_ms=0).observe()) == 7


def test_policies_of_batches_are_refused_without_any() -> None:
    plain, batched = built(task(trace(0), [4])), built(task(trace(0), [4], ladder=pair(6)))
    for name in ("clipper", "deeprt", "edgeserving"):
        assert "expected 'batches'" in policy_refusal(plain, name)
        assert policy_refusal(batched, name) == ""
