"""Metrics and pictures come from the log alone, and the laws notice logs that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slipstream.errors import InvariantError
from slipstream.families.serving.family import FAMILY
from slipstream.families.serving.invariants import check
from slipstream.families.serving.labels import run_labels
from slipstream.families.serving.metrics import metrics, requests_of
from slipstream.families.serving.oracle.optimum import bound, optimum_bounds
from slipstream.families.serving.timeline import timeline
from slipstream.families.shared.timeline import DROPPED, ON_TIME
from slipstream.policies.base import find
from slipstream.render.scene import BatchScene, scene_of
from slipstream.scenario import load
from slipstream.sim.eventlog import EVENT, START
from slipstream.sim.simulator import Simulator
from tests.serving.cases import CASES

BY_NAME = {case.name: case for case in CASES}


def played(name: str) -> tuple[Any, np.ndarray]:
    scenario: Any = load(BY_NAME[name].scenario)
    return scenario, Simulator(scenario).play(find("eft", "serving"), 0)


def test_figures_of_a_case_worked_out_by_hand() -> None:
    # Four requests: 0 alone until 10, 1 and 2 together until 22, and 3 given up at 22; all at 90%.
    scenario, events = played("a batch is only so large that the first of it is on time")
    figures = metrics(scenario, events)
    assert figures["requests"] == 4
    assert figures["on_time_accuracy"] == pytest.approx(3 * 0.9 / 4)
    assert figures["violation_ratio"] == 0.25
    assert figures["drop_ratio"] == 0.25
    assert figures["effective_accuracy"] == pytest.approx(0.9)
    assert figures["max_accuracy_drop"] == pytest.approx(0.1)
    assert figures["p50_ms"] == 20.0
    assert figures["mean_batch"] == 1.5
    assert figures["utilisation"] == pytest.approx(1.0)
    assert figures["throughput_hz"] == pytest.approx(3 / 0.022)
    assert figures["reward"] == pytest.approx(3 * 0.9 - 1)


def test_a_batch_is_one_slice() -> None:
    scenario, events = played("a batch is only so large that the first of it is on time")
    line = timeline(scenario, events)
    assert line.slice_start.tolist() == [0, 10_000_000]
    assert line.slice_end.tolist() == [10_000_000, 22_000_000]
    assert line.fate.tolist() == [ON_TIME, ON_TIME, ON_TIME, DROPPED]
    assert line.wait_end.tolist() == [0, 10_000_000, 10_000_000, 22_000_000]


def test_the_scene_counts_every_request_of_a_batch() -> None:
    scenario, events = played("three take as long as four, and are answered faster than two")
    scene = scene_of(run_labels(scenario))
    assert isinstance(scene, BatchScene)
    scene.update(events[:-4])
    assert scene.waiting == [0]
    scene.update(events[-4:])
    assert (scene.finished, scene.on_time, scene.over) == ([4], [4], True)
    assert [(one.start, one.end) for one in scene.slices(0)] == [(0, 10_000_000), (10_000_000, 26_000_000)]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda e: e[:-1], "the end is not the last row"),
        (lambda e: np.delete(e, 2), "which does not wait"),
        (lambda e: np.delete(e, np.flatnonzero(e["kind"] == START)[0]), "not the next of its batch"),
        (lambda e: np.repeat(e, np.where(np.arange(len(e)) == np.argmax(e["kind"] == START), 2, 1)), "does not wait"),
        (lambda e: e[1:], "does not host it"),
        (lambda e: np.zeros(0, EVENT), "the log is empty"),
    ],
)
def test_logs_that_cannot_be_are_refused(change: Any, text: str) -> None:
    scenario, events = played("what waits goes together, in a batch of two")
    check(events, scenario)
    with pytest.raises(InvariantError, match=text):
        check(change(events), scenario)


def test_the_bound_is_above_every_policy() -> None:
    scenario: Any = load("serving/tiny")
    found = optimum_bounds(scenario, 3)
    assert found.best_known <= found.bound
    assert found.source
    # All requests answered at their best would be more than the fleet can do.
    data = scenario.model_dump(mode="json")
    heavy: Any = load({**data, "models": [{**data["models"][0], "arrivals": {"kind": "even", "rate_hz": 2000.0}}]})
    events = Simulator(heavy).play(find("milp", "serving"), 0)
    offered = metrics(heavy, events)["requests"]
    assert metrics(heavy, events)["reward"] <= bound(heavy, events) < 0.9 * offered


def test_the_bound_is_reached_where_nothing_is_scarce() -> None:
    scenario, events = played("one request is answered at once")
    assert bound(scenario, events) == pytest.approx(0.9)
    found = optimum_bounds(scenario, 0)
    assert found.exact


def test_pictures_show_capacity_demand_and_what_was_hosted() -> None:
    scenario: Any = load("serving/tiny")
    events = Simulator(scenario).play(find("milp", "serving"), 3)
    capacity, hosting = FAMILY.charts(scenario, events)
    lines = {trace["name"]: np.array(trace["y"]) for trace in capacity.figure["data"]}
    seconds = requests_of(scenario, events).end / 1e9
    assert lines["demand"].mean() * seconds == pytest.approx(metrics(scenario, events)["requests"])
    assert lines["answered on time"].mean() == pytest.approx(metrics(scenario, events)["goodput_hz"])
    assert lines["capacity"].max() > lines["answered on time"].mean()
    # Every accelerator hosts at most one variant at a time.
    hosted = np.array(hosting.figure["data"][0]["z"]).sum(axis=0)
    assert hosted.max() <= sum(kind.count for kind in scenario.accelerators) + 1e-6
    assert hosted.max() > 0.0


def test_figures_of_each_model_add_up() -> None:
    scenario: Any = load("serving/tiny")
    figures = metrics(scenario, Simulator(scenario).play(find("milp", "serving"), 3))
    each = [figures[f"throughput_hz/{model.name}"] for model in scenario.models]
    assert sum(each) == pytest.approx(figures["throughput_hz"])
    assert min(figures[f"on_time_accuracy/{model.name}"] for model in scenario.models) <= figures["on_time_accuracy"]
