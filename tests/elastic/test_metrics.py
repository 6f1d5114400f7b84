"""Metrics of elastic jobs, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.errors import InvariantError
from slipstream.families.elastic.charts import charts
from slipstream.families.elastic.invariants import check
from slipstream.families.elastic.metrics import finish_time_ratios, jobs_of, metrics, unmodelled
from slipstream.families.elastic.oracle.bounds import bound
from slipstream.families.elastic.timeline import timeline
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator
from tests.elastic.cases import CASES, scenario
from tests.kernels import KernelLane


def events_of(name: str) -> tuple[object, np.ndarray]:
    """Return scenario and log of a case."""
    case = next(one for one in CASES if one.name == name)
    found = load(case.scenario)
    lane = KernelLane(found, 0)
    actions = list(case.actions)
    while not lane.over:
        mask = lane.mask()
        lane.step(actions.pop(0) if actions else mask.index(1))
    return found, lane.events


def test_metrics_of_a_restart() -> None:
    found, events = events_of("another kind costs a restart, and work that is done is kept")
    values = metrics(found, events)  # type: ignore[arg-type]
    assert values["jct_mean_s"] == values["makespan_s"] == 38.0
    assert (values["restarts"], values["wait_mean_s"], values["jobs"]) == (1.0, 0.0, 1.0)
    # One of three GPUs all of the time, 6 s of it in set-ups.
    assert values["busy_share"] == pytest.approx(1 / 3)
    assert values["setup_share"] == pytest.approx(6 / 38)
    assert values["reward"] == -38.0


def test_finish_time_ratio_is_the_time_over_that_on_the_own_part() -> None:
    # Alone the job may have both fast GPUs and the slow one, but no more than all of the time: (1.5 + 0.5) / 2.
    found, events = events_of("a job runs at its throughput and ends within the round")
    assert finish_time_ratios(found, jobs_of(events)) == pytest.approx([4.0 / 6.0])  # type: ignore[arg-type]
    assert metrics(found, events)["unfair_share"] == 0.0  # type: ignore[arg-type]


def test_with_two_jobs_each_owns_a_half() -> None:
    # Two jobs from 0 to 10, one of them 20 units of work long: it is there for 22 s, with 32 / 22 jobs on average.
    data = scenario((0, 10), (0, 22), round_s=None)
    found = load(data)
    lane = KernelLane(found, 0)
    for action in (0, 0):
        lane.step(action)
    while not lane.over:
        mask = lane.mask()
        lane.step(mask.index(1))
    jobs = jobs_of(lane.events)
    assert (jobs.finish / 1e9).tolist() == [10.0, 22.0]
    crowd = 32 / 22
    fast, slow = 2 / crowd, 1 / crowd
    # One GPU all of the time, at 1 a second, or two for fast / 2 of it at 1.5: the latter is more.
    share, rest = fast / 2, slow
    rate = (1.5 * share + 0.5 * rest) / (share + rest)
    assert finish_time_ratios(found, jobs)[1] == pytest.approx(22 / (22 / rate))  # type: ignore[arg-type]


def test_set_ups_are_modelled_only_where_there_are_some() -> None:
    assert unmodelled(load("elastic/tiny")) == set()  # type: ignore[arg-type]
    assert unmodelled(load(scenario((0, 1)))) == {"setup_share"}  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["fifo", "srpt", "las", "random"])
def test_no_policy_exceeds_the_bound(policy: str) -> None:
    found = load("elastic/tiny")
    for seed in range(5):
        events = Simulator(found).play(find(policy, "elastic"), seed)
        assert metrics(found, events)["reward"] <= bound(found, events, seed, "test")  # type: ignore[arg-type]


def test_a_lone_job_reaches_the_bound() -> None:
    found, events = events_of("a job runs at its throughput and ends within the round")
    assert bound(found, events, 0, "test") == pytest.approx(-4.0)  # type: ignore[arg-type]


def test_jobs_that_share_a_kind_are_bounded_by_its_capacity() -> None:
    # Three jobs of 10 s on one GPU: 10 + 20 + 30 if one comes after the other.
    data = scenario((0, 10), (0, 10), (0, 10))
    data["kinds"] = [{"name": "fast", "gpus": 1}]
    data["models"][0]["configurations"] = [{"kind": "fast", "gpus": 1, "per_s": 1.0}]
    found = load(data)
    events = Simulator(found).play(find("fifo", "elastic"), 0)
    assert bound(found, events, 0, "test") == pytest.approx(-60.0)  # type: ignore[arg-type]


def test_the_timeline_puts_jobs_on_gpus_of_their_kind() -> None:
    found, events = events_of("another kind costs a restart, and work that is done is kept")
    line = timeline(found, events)  # type: ignore[arg-type]
    assert line.resources == ("fast GPU 0", "fast GPU 1", "slow GPU 0")
    assert line.slice_resource.tolist() == [0, 2]
    assert (line.slice_end / 1e9).tolist() == [10.0, 38.0]


def test_charts_count_gpus_by_kind() -> None:
    found, events = events_of("another kind costs a restart, and work that is done is kept")
    use = charts(found, events)[0]  # type: ignore[arg-type]
    fast, slow = use.lines  # type: ignore[union-attr]
    assert (fast.y.tolist(), slow.y.tolist()) == ([1.0, 0.0], [0.0, 1.0, 0.0])


def damaged(row: int, **values: int) -> np.ndarray:
    events = events_of("another kind costs a restart, and work that is done is kept")[1].copy()
    for name, value in values.items():
        events[name][row] = value
    return events


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (damaged(1, task=2), "row 1: job 0 starts with other GPUs"),
        (damaged(1, variant=7), "row 1: configuration 7: expected one from 0 to 2"),
        (damaged(2, kind=7), "row 2: preempt out of order"),
        (damaged(3, job=1), "row 3: job 1 is ready, but has no set-up"),
        (damaged(4, resource=1), "row 4: preemption of job 0 with GPUs that it does not have"),
        (damaged(8, kind=7), "row 9: the end: a job still waits or runs"),
    ],
)
def test_a_damaged_log_is_refused_at_its_row(events: np.ndarray, told: str) -> None:
    with pytest.raises(InvariantError, match=told):
        check(events, load(CASES[3].scenario))  # type: ignore[arg-type]
