"""What is known without simulating: one executor, batches, little's law, averages of waves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slipstream.families.dag.invariants import check
from slipstream.families.dag.metrics import jobs_in_system, jobs_of, metrics, tasks_of
from slipstream.policies.base import find, names
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator


def played(scenario, policy="fifo", seed=0):
    events = Simulator(scenario).play(find(policy, "dag"), seed)
    check(events, scenario)
    return events


def inline(stages, **more):
    return load(
        {
            "family": "dag",
            "executors": 1,
            "moving_delay_s": 0.0,
            "warmup_delay_s": 0.0,
            "jobs": {"kind": "inline", "jobs": [{"name": "one", "stages": stages}]},
            **more,
        }
    )


def test_one_executor_is_a_queue_with_one_server():
    # M/D/1: mean time in the system 1 + rho / (2 (1 - rho)) services.
    scenario = inline(
        [{"name": "s", "duration_s": 1.0}],
        arrivals={"kind": "poisson", "jobs": 40_000, "mean_gap_s": 2.0, "initial_jobs": 0},
    )
    found = metrics(scenario, Simulator(scenario).play(find("fifo", "dag"), 1))["avg_jct_s"]
    assert found == pytest.approx(1.0 + 0.5 / (2 * 0.5), rel=0.03)


def test_one_executor_under_fifo_serves_job_after_job():
    scenario = inline(
        [{"name": "a", "tasks": 3, "duration_s": 2.0}, {"name": "b", "duration_s": 1.0, "parents": ["a"]}],
        arrivals={"kind": "batch", "jobs": 5},
        moving_delay_s=0.5,
    )
    jobs = jobs_of(played(scenario))
    assert (jobs.done / 1e9).tolist() == [7.5 * (number + 1) for number in range(5)]


@pytest.mark.parametrize("executors", [1, 2, 3, 7, 12, 20])
def test_a_stage_takes_as_many_waves_as_its_tasks_need(executors):
    scenario = inline(
        [{"name": "a", "tasks": 12, "duration_s": 1.0}], arrivals={"kind": "batch", "jobs": 1}, executors=executors
    )
    assert metrics(scenario, played(scenario))["makespan_s"] == math.ceil(12 / executors)


@pytest.mark.parametrize("name", names("dag"))
def test_a_batch_ends_between_its_area_and_the_sum_of_all(name):
    scenario = load("dag/batch-50x20")
    events = played(scenario, name)
    tasks = tasks_of(events)
    figures = metrics(scenario, events)
    assert tasks.total_s / scenario.executors <= figures["makespan_s"]
    assert figures["utilisation"] + figures["moving_share"] <= 1.0


def test_littles_law_holds_exactly_over_an_episode():
    scenario = load("dag/small")
    events = played(scenario, "fair", 4)
    figures = metrics(scenario, events)
    moments, counts = jobs_in_system(jobs_of(events))
    area = float((counts[:-1] * np.diff(moments)).sum()) / 1e9
    assert area == pytest.approx(figures["job_seconds"])
    arrivals_per_s = figures["jobs_arrived"] / figures["makespan_s"]
    assert arrivals_per_s * figures["avg_jct_s"] == pytest.approx(figures["jobs_in_system_mean"])


def test_interpolation_is_linear_between_two_levels():
    # 1 s measured with 2 executors, 3 s with 6: with 3 at the job, 1.5 s on average, however it is drawn.
    stage = {
        "name": "a",
        "tasks": 30_000,
        "waves": [{"executors": 2, "first_s": [1.0]}, {"executors": 6, "first_s": [3.0]}],
    }
    for compat, mean in ((None, 1.5), ("decima", 2.5)):
        scenario = inline([stage], arrivals={"kind": "batch", "jobs": 1}, executors=3, compat=compat)
        tasks = tasks_of(Simulator(scenario).play(find("fifo", "dag"), 0))
        # The first and the last tasks may find fewer executors; 30,000 draws of 1 or 3 scatter by 0.005.
        assert (tasks.end - tasks.start).mean() / 1e9 == pytest.approx(mean, abs=0.03)


def test_stragglers_and_failures_come_at_their_rate():
    stages = [{"name": f"s{number}", "tasks": 10, "duration_s": 1.0} for number in range(10)]
    scenario = inline(
        stages,
        arrivals={"kind": "batch", "jobs": 50},
        executors=5,
        stragglers={"probability": 0.2, "factor": 4.0},
        failures={"probability": 0.3, "most": 1},
    )
    events = played(scenario)
    tasks = tasks_of(events)
    slow = (tasks.end - tasks.start) > 2e9
    # 6,500 tasks and 500 stages: standard errors of 0.005 and 0.02.
    assert slow.mean() == pytest.approx(0.2, abs=0.02)
    assert metrics(scenario, events)["stage_failures"] / 500 == pytest.approx(0.3, abs=0.08)
