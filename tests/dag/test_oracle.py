"""The bracket of the hindsight optimum: known optima, and bounds that no policy ever beats."""

from __future__ import annotations

import pytest

from slipstream.errors import InputError
from slipstream.evaluation import compare
from slipstream.families.dag.metrics import metrics
from slipstream.families.dag.oracle.bounds import least_job_seconds, least_makespan, shortest_work_first
from slipstream.families.dag.oracle.hindsight import jobs_of_episode
from slipstream.families.dag.oracle.optimum import optimum_bounds
from slipstream.families.dag.oracle.schedule import least_cost
from slipstream.families.dag.scenario import DagScenario
from slipstream.policies.base import find, names
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator
from tests.dag.strategies import dag_scenarios
from tests.strategies import episode_seeds, in_short_runs


def single(stages, jobs=1, executors=2, **more):
    return load(
        {
            "family": "dag",
            "executors": executors,
            "moving_delay_s": 0.0,
            "warmup_delay_s": 0.0,
            "arrivals": {"kind": "batch", "jobs": jobs},
            "jobs": {"kind": "inline", "jobs": [{"name": "one", "stages": stages}]},
            **more,
        }
    )


def test_the_optimum_of_tiny_is_the_one_worked_out_on_the_page():
    found = optimum_bounds(load("dag/tiny"), 0, seconds=20.0)
    assert found.exact
    assert found.best_known == pytest.approx(-17.0)


def test_a_place_says_how_near_a_policy_comes_where_rewards_are_costs():
    found = compare("dag/tiny", "fifo,sjf-cp", episodes=1, oracle_seconds=10.0)
    assert found.share_of_bound("sjf-cp") == pytest.approx(1.0)
    assert found.share_of_bound("fifo") == pytest.approx(17 / 22)
    assert found.optimum_bounds[0].share_of_bound(-34.0) == pytest.approx(0.5)


def test_a_chain_takes_as_long_as_its_critical_path():
    stages = [{"name": "a", "duration_s": 3}, {"name": "b", "duration_s": 4, "parents": ["a"]}]
    found = optimum_bounds(single(stages), 0)
    assert (found.exact, found.best_known, found.method) == (True, -7.0, "critical path")


def test_many_tasks_take_as_long_as_their_area():
    found = optimum_bounds(single([{"name": "a", "tasks": 8, "duration_s": 3}]), 0)
    assert (found.exact, found.best_known) == (True, -12.0)


def test_jobs_of_one_task_on_one_executor_are_best_served_shortest_first():
    scenario = load(
        {
            "family": "dag",
            "executors": 1,
            "moving_delay_s": 0.0,
            "warmup_delay_s": 0.0,
            "arrivals": {"kind": "trace", "times_s": [0, 0, 0], "names": ["c", "a", "b"]},
            "jobs": {
                "kind": "inline",
                "jobs": [
                    {"name": name, "stages": [{"name": "s", "duration_s": time}]}
                    for name, time in (("a", 1), ("b", 2), ("c", 4))
                ],
            },
        }
    )
    found = optimum_bounds(scenario, 0)
    assert (found.exact, found.best_known) == (True, -(1.0 + 3.0 + 7.0))


def test_the_makespan_is_bounded_too():
    scenario = single([{"name": "a", "tasks": 5, "duration_s": 3}], reward={"job_seconds": 0.0, "makespan": 1.0})
    found = optimum_bounds(scenario, 0)
    assert (found.exact, found.best_known) == (True, -9.0)


def test_least_work_first_on_one_fast_machine():
    scenario = single([{"name": "a", "tasks": 2, "duration_s": 2}], jobs=2)
    events = Simulator(scenario).play(find("fifo", "dag"), 0)
    jobs = jobs_of_episode(scenario, events, 0, "test")
    assert [job.work for job in jobs] == [4_000_000_000] * 2
    assert shortest_work_first(scenario, jobs) == [2e9, 4e9]


def test_the_later_of_path_and_area_counts_for_each_completion():
    # Two executors. Alone the short job needs 3 s for its one task, the wide one 10 tasks / 2; together 13 s / 2.
    wide = {"name": "wide", "stages": [{"name": "s", "tasks": 10, "duration_s": 1}]}
    short = {"name": "short", "stages": [{"name": "s", "duration_s": 3}]}
    scenario = load(
        {
            "family": "dag",
            "executors": 2,
            "moving_delay_s": 0.0,
            "warmup_delay_s": 0.0,
            "arrivals": {"kind": "trace", "times_s": [0, 0], "names": ["wide", "short"]},
            "jobs": {"kind": "inline", "jobs": [wide, short]},
        }
    )
    events = Simulator(scenario).play(find("fifo", "dag"), 0)
    jobs = jobs_of_episode(scenario, events, 0, "test")
    assert shortest_work_first(scenario, jobs) == [1.5e9, 6.5e9]
    assert least_job_seconds(scenario, jobs) == (3.0 + 6.5, "critical path and SRPT relaxation")


def test_a_bound_counts_from_the_arrival_of_each_job():
    stages = [{"name": "a", "tasks": 2, "duration_s": 2}]
    scenario = single(stages, jobs=2, arrivals={"kind": "trace", "times_s": [0, 10], "names": ["one", "one"]})
    jobs = jobs_of_episode(scenario, Simulator(scenario).play(find("fifo", "dag"), 0), 0, "test")
    assert least_job_seconds(scenario, jobs) == (4.0, "critical path")


def test_no_policy_ever_beats_a_bound():
    def check(scenario: DagScenario, seed: int) -> None:
        if scenario.horizon.kind != "none" or scenario.reward.discount_per_s > 0.0:
            return
        simulator = Simulator(scenario)
        played = {name: simulator.play(find(name, "dag"), seed) for name in names("dag")}
        jobs = jobs_of_episode(scenario, played["fifo"], seed, "test")
        bound, area = least_job_seconds(scenario, jobs)[0], least_makespan(scenario, jobs)[0]
        for events in played.values():
            figures = metrics(scenario, events)
            assert figures["job_seconds"] >= bound * (1 - 1e-9)
            assert figures["makespan_s"] >= area * (1 - 1e-9)

    in_short_runs(check, 150, dag_scenarios(), episode_seeds())


def test_a_plan_costs_no_more_than_any_policy_and_no_less_than_the_bounds():
    def check(scenario: DagScenario, seed: int) -> None:
        if scenario.horizon.kind != "none" or scenario.reward.discount_per_s > 0.0:
            return
        simulator = Simulator(scenario)
        events = simulator.play(find("sjf-cp", "dag"), seed)
        jobs = jobs_of_episode(scenario, events, seed, "test")
        if sum(len(times) for job in jobs for attempts in job.attempts for times in attempts) > 12:
            return
        best = max(metrics(scenario, simulator.play(find(name, "dag"), seed))["reward"] for name in names("dag"))
        assert least_cost(scenario, jobs, 5.0) <= -best + 1e-5 * abs(best)

    in_short_runs(check, 30, dag_scenarios(), episode_seeds())


@pytest.mark.parametrize("name", ["dag/small", "dag/ml-workflow"])
def test_long_episodes_are_bracketed(name):
    found = optimum_bounds(load(name), 3)
    assert found.best_known <= found.bound < 0.0
    assert found.method in ("critical path", "SRPT relaxation", "critical path and SRPT relaxation")


def test_an_episode_that_is_cut_off_is_refused():
    scenario = load("dag/tiny").model_copy(update={"horizon": load({**TINY, "horizon": CUT}).horizon})
    with pytest.raises(InputError, match="expected no horizon"):
        optimum_bounds(scenario, 0)


CUT = {"kind": "fixed", "time_s": 5.0}
TINY = {"family": "dag", "executors": 1, "arrivals": {"kind": "batch", "jobs": 1}}
