"""Metrics, timeline and laws of cluster episodes, all from the log."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.errors import InvariantError
from slipstream.families.cluster.family import FAMILY
from slipstream.families.cluster.invariants import check
from slipstream.families.cluster.metrics import integral_at_hourly_rates, jain, jobs_of, metrics
from slipstream.families.cluster.timeline import timeline
from slipstream.families.shared.runs import spans_of
from slipstream.policies.base import find
from slipstream.render.scene import scene_of
from slipstream.render.terminal import frame
from slipstream.scenario import changed, load
from slipstream.sim.eventlog import FINISH, START, TAKE
from slipstream.sim.simulator import Simulator
from tests.cluster.cases import MIDDLE
from tests.cluster.subject import EVERYTHING

HOUR = 3_600 * 10**9
WEIGHTS = '{"slowdown":1.0,"waiting":0.5,"throughput":2.0,"utilisation":3.0,"energy":0.25,"unfairness":7.0}'


SLEEPY = '{"after_s":40.0,"watts":30.0,"wake_s":5.0}'


@pytest.mark.parametrize(
    ("policy", "sleep"), [("srsf", "null"), ("random", SLEEPY), ("power-aware", "null"), ("saf", SLEEPY)]
)
def test_the_reward_of_all_terms_is_that_of_the_steps(policy: str, sleep: str) -> None:
    scenario = changed(changed(load(EVERYTHING), f"reward={WEIGHTS}"), f"sleep={sleep}")
    simulator, player, total = Simulator(scenario), find(policy, "cluster"), 0.0
    simulator.reset(3)
    simulator.header["parameter"] = getattr(player, "parameter", None) or 0.0
    while simulator.asking:
        simulator.step(player.choose(*simulator.observe()))
        total += float(simulator.header["reward"])
    assert total == pytest.approx(metrics(scenario, simulator.log())["reward"])


def test_time_before_the_beginning_counts_as_waiting_but_costs_no_reward() -> None:
    weights = {"slowdown": 1.0, "waiting": 0.5, "energy": 0.25, "unfairness": 7.0, "utilisation": 3.0}
    scenario = load({**MIDDLE, "reward": weights})
    simulator, total = Simulator(scenario), 0.0
    simulator.reset(0)
    while simulator.asking:
        simulator.step(int(simulator.observe()[2].argmax()))
        total += float(simulator.header["reward"])
    check(simulator.log(), scenario)
    figures = metrics(scenario, simulator.log())
    assert total == pytest.approx(figures["reward"])
    assert figures["wait_mean_s"] == pytest.approx((0.0 + 190.0 + 80.0 + 100.0) / 4.0)
    assert figures["jct_mean_s"] == pytest.approx((200.0 + 210.0 + 110.0 + 190.0) / 4.0)
    picture = timeline(scenario, simulator.log())
    assert picture.release.min() == 0
    bounds = FAMILY.members.optimum_bounds(scenario, 0, "test", 1.0)
    assert bounds.best_known <= bounds.bound


def test_a_job_that_ran_at_the_beginning_is_never_moved_or_delayed_in_a_log() -> None:
    scenario = load(MIDDLE)
    events = Simulator(scenario).play(find("fifo", "cluster"), 0)
    moved = events.copy()
    moved["resource"][2] = 0
    with pytest.raises(InvariantError, match="job 0 starts on"):
        check(moved, scenario)
    late = np.concatenate((events[:1], events[3:4], events[1:3], events[4:]))
    with pytest.raises(InvariantError, match="job 0 ran at the beginning: expected its start"):
        check(late, scenario)


def test_figures_of_the_smallest_episode() -> None:
    scenario = load("cluster/tiny")
    figures = metrics(scenario, Simulator(scenario).play(find("fifo", "cluster"), 0))
    # Jobs 0 and 1 start at 0 s; job 2 wants all GPUs, and starts at 300 s, when job 1 ends; the last ends 80 s later.
    assert figures["makespan_s"] == 380.0
    assert figures["jobs"] == 6.0
    assert 0.0 < figures["allocation"] <= 1.0
    assert figures["energy_kwh"] == pytest.approx(figures["cost"] / 0.2)
    assert figures["co2_kg"] == pytest.approx(figures["energy_kwh"] * 0.4)
    assert figures["power_peak_w"] == 1000.0


def test_a_node_that_sleeps_saves_all_but_what_sleep_draws() -> None:
    nodes = [{"name": "node", "count": 2, "gpus": 2, "idle_w": 50.0, "busy_w": 250.0, "node_w": 100.0}]
    jobs = [{"submit_s": 0.0, "gpus": 1, "run_s": 3600.0}, {"submit_s": 7200.0, "gpus": 1, "run_s": 1800.0}]
    sleep = {"after_s": 1800.0, "watts": 20.0, "wake_s": 1800.0}
    source = {"family": "cluster", "nodes": nodes, "placement": "first-fit", "jobs": {"kind": "list", "jobs": jobs}}
    figures = []
    for more in ({}, {"sleep": sleep}):
        scenario = load({**source, **more})
        figures.append(metrics(scenario, Simulator(scenario).play(find("fifo", "cluster"), 0)))
    assert (figures[0]["makespan_s"], figures[1]["makespan_s"]) == (9000.0, 10800.0)
    # The second node sleeps from half an hour on, for 2.5 hours; the first from 1.5 to 2 hours. Each saves 180 W, and
    # the second job, which wakes a node for half an hour, keeps all awake and a GPU at work for so much longer.
    awake = figures[0]["energy_kwh"] + 0.5 * (0.4 + 0.2)
    assert figures[1]["energy_kwh"] == pytest.approx(awake - 0.18 * (2.5 + 0.5))
    assert figures[1]["power_peak_w"] == 600.0


def test_prices_go_by_the_hour() -> None:
    times, watts = np.array([0, HOUR // 2]), np.array([1000.0, 3000.0])
    # Half an hour at 1 kW and half at 3 kW in the first hour, an hour at 3 kW in the second, at twice the price.
    assert integral_at_hourly_rates(times, watts, 2 * HOUR, [1.0, 2.0]) == pytest.approx(500.0 + 1500.0 + 6000.0)
    assert integral_at_hourly_rates(times, watts, 2 * HOUR, [0.5]) == pytest.approx(0.5 * 5000.0)


def test_jain_is_one_if_all_are_alike_and_least_if_one_has_all() -> None:
    assert jain(np.array([3.0, 3.0, 3.0])) == pytest.approx(1.0)
    assert jain(np.array([0.0, 0.0, 9.0])) == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["cluster/light", "cluster/bursty"])
def test_a_timeline_gives_each_gpu_one_job_at_a_time(name: str) -> None:
    scenario = load(name)
    events = Simulator(scenario).play(find("srsf", "cluster"), 2)
    found, spans = timeline(scenario, events), spans_of(events)
    assert len(found.slice_job) == int(spans.gpus.sum())
    order = np.lexsort((found.slice_start, found.slice_resource))
    same = found.slice_resource[order][1:] == found.slice_resource[order][:-1]
    assert (found.slice_start[order][1:] >= found.slice_end[order][:-1])[same].all()
    waited = np.bincount(found.wait_job, weights=found.wait_end - found.wait_start)
    jobs = jobs_of(scenario, events)
    assert waited.tolist() == (jobs.finish - jobs.submit - jobs.served).tolist()


def test_the_laws_notice_a_log_that_cannot_be() -> None:
    scenario = load("cluster/light")
    events = Simulator(scenario).play(find("saf", "cluster"), 2)
    check(events, scenario)
    for kind, column in ((START, "task"), (TAKE, "task"), (START, "job"), (FINISH, "job")):
        broken = events.copy()
        row = int(np.flatnonzero(events["kind"] == kind)[3])
        broken[column][row] += 1
        with pytest.raises(InvariantError):
            check(broken, scenario)
    late = events.copy()
    late["time"][5] += 10**18
    with pytest.raises(InvariantError, match=r"row 6: .* the clock ran backwards"):
        check(late, scenario)


@pytest.mark.parametrize("name", ["cluster/light", "cluster/bursty"])
def test_a_scene_shows_every_job_on_as_many_gpus_as_it_has(name: str) -> None:
    scenario = load(name)
    events = Simulator(scenario).play(find("srsf", "cluster"), 2)
    scene = scene_of(FAMILY.run_labels(scenario))
    spans = spans_of(events)
    for row in range(0, len(events), 40):
        # Up to the end of an instant, so that allocations are logged in full.
        last = int(np.searchsorted(events["time"], events["time"][row], side="right"))
        scene = scene_of(FAMILY.run_labels(scenario))
        scene.update(events[:last])
        now = int(events["time"][row])
        busy = int(spans.gpus[(spans.start <= now) & (spans.end > now)].sum())
        assert sum(one is not None for one in scene.running) == busy
    scene.update(events[last:])
    assert scene.over
    assert sum(scene.finished) == 256
    assert frame(scene, scenario.name, 100).plain
