"""Figures, laws and pictures of episodes whose logs can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

import slipstream
from slipstream.errors import InvariantError
from slipstream.families.taskgraph.family import FAMILY
from slipstream.families.taskgraph.invariants import check
from slipstream.families.taskgraph.metrics import metrics
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.eventlog import EVICT, FINISH, MOVE, READY, TAKE
from slipstream.sim.simulator import Simulator
from tests.taskgraph.cases import CASES, task
from tests.taskgraph.cases import scenario as scenario_of

BY_NAME = {case.name: case for case in CASES}


def played(name):
    scenario = load(BY_NAME[name].scenario)
    return scenario, Simulator(scenario).play(find("fifo", "taskgraph"), 0)


def test_figures_of_an_episode_with_a_write_back():
    scenario, events = played("what was written is written back before it goes")
    figures = metrics(scenario, events)
    # Loads at 0 to 1, 2 to 3 and 5 to 6, a write-back from 4 to 5, and tasks from 1 to 2, 3 to 4 and 6 to 7.
    assert figures["makespan_ms"] == 7.0
    assert figures["moved_mb"] == 4.0
    assert figures["sent_back_mb"] == 1.0
    assert (figures["transfers"], figures["evictions"], figures["tasks"]) == (4.0, 1.0, 3.0)
    assert figures["busy_share"] == pytest.approx(3 / 7)
    assert figures["stall_share"] == pytest.approx(4 / 7)
    assert figures["idle_share"] == pytest.approx(0.0, abs=1e-12)
    assert figures["overlap_share"] == 0.0
    # One processor, three tasks of 1 ms in a chain, and three tiles to load.
    assert figures["bound_ms"] == 3.0
    assert figures["ratio_to_bound"] == pytest.approx(7 / 3)


def test_overlap_is_the_share_of_transfers_under_work():
    scenario, events = played("with a pipeline they are loaded while a task runs")
    figures = metrics(scenario, events)
    # The second of two loads, from 1 to 2, while the first task runs.
    assert figures["overlap_share"] == pytest.approx(0.5)
    assert figures["stall_share"] == pytest.approx(1 / 5)


def test_waiting_is_idle_time():
    scenario = load(BY_NAME["waiting for the fast processor beats the slow one"].scenario)
    events = Simulator(scenario).play(find("mct", "taskgraph"), 0)
    figures = metrics(scenario, events)
    assert figures["makespan_ms"] == 4.0
    assert figures["idle_share"] == pytest.approx(0.5)


def test_the_bound_of_a_noisy_episode_knows_its_luck():
    noise = {"kind": "lognormal", "cv": 0.4}
    chain = {"a": task({"cpu": 2.0}), "b": task({"cpu": 3.0}, "a")}
    scenario = load(scenario_of(chain, [{"name": "cpu", "count": 1}], noise=noise))
    for seed in range(5):
        events = Simulator(scenario).play(find("fifo", "taskgraph"), seed)
        # One processor: nothing could have ended sooner, whatever the luck.
        assert FAMILY.metrics(scenario, events, seed)["ratio_to_bound"] == pytest.approx(1.0, abs=1e-6)
        # Without the seed only the least that luck allows is certain, a nanosecond a task.
        assert FAMILY.metrics(scenario, events)["bound_ms"] == 2e-6


@pytest.mark.parametrize("name", ["taskgraph/noisy", "taskgraph/unrolled"])
def test_nobody_beats_the_bound_that_knows_the_luck(name):
    scenario = load(name)
    for policy in ("mct", "peft"):
        found = slipstream.evaluate(scenario, policy, 5, 40)
        assert (found.of("ratio_to_bound") >= 1.0).all()
        assert (found.of("ratio_to_bound") < 3.0).all()


def test_a_timeline_shows_processors_and_links():
    scenario, events = played("what was written is written back before it goes")
    timeline = FAMILY.timeline(scenario, events)
    assert timeline.resources == ("gpu 0", "load gpu 0", "send gpu 0", "peer gpu 0")
    assert timeline.variants[0] == ("gpu", "load", "send", "peer")
    shown = list(zip(timeline.slice_resource, timeline.slice_variant, timeline.slice_start // 1_000_000, strict=True))
    assert shown == [(1, 1, 0), (0, 0, 1), (1, 1, 2), (0, 0, 3), (2, 2, 4), (1, 1, 5), (0, 0, 6)]
    assert timeline.finish.tolist() == [7_000_000]
    assert FAMILY.run_labels(scenario).end > 0


def changed(events, row, **values):
    copy = events.copy()
    for name, value in values.items():
        copy[name][row] = value
    return copy


def row_of(events, kind, which=0):
    return int(np.flatnonzero(events["kind"] == kind)[which])


BREAKS = {
    "which is busy": lambda e: np.insert(e, row_of(e, MOVE) + 1, e[row_of(e, MOVE)]),
    "before its parents have ended": lambda e: changed(e, row_of(e, TAKE), task=1),
    "was taken before": lambda e: changed(e, row_of(e, TAKE, 1), task=0),
    "which does not run it": lambda e: changed(e, row_of(e, FINISH), task=2),
    "which did not carry it": lambda e: changed(e, row_of(e, READY), task=2),
    "is not where it comes from": lambda e: changed(e, row_of(e, MOVE, 1), variant=1, resource=2),
    "where its only copy is": lambda e: changed(e, row_of(e, EVICT), task=0, time=e["time"][row_of(e, EVICT)]),
    "the clock ran backwards": lambda e: changed(e, row_of(e, FINISH), time=0),
    "never arrived": lambda e: changed(e, row_of(e, TAKE), job=3),
    "the end is not the last row": lambda e: e[:-1],
    "is not at node": lambda e: np.delete(e, [row_of(e, MOVE), row_of(e, READY)]),
}


@pytest.mark.parametrize("text", BREAKS)
def test_a_log_that_breaks_a_law_is_told(text):
    scenario, events = played("what was written is written back before it goes")
    check(events, scenario)
    broken = BREAKS[text](events)
    if text == "where its only copy is":
        # Without the write-back, what leaves the device is lost.
        link = np.flatnonzero((broken["kind"] == MOVE) & (broken["variant"] == 1))
        back = np.flatnonzero((broken["kind"] == READY) & (broken["variant"] == 1))
        broken = np.delete(broken, np.concatenate((link, back)))
    with pytest.raises(InvariantError, match=text):
        check(broken, scenario)


def test_more_than_fits_is_told():
    case = BY_NAME["a full memory lets the least recently used tile go"]
    scenario = load(case.scenario)
    events = Simulator(scenario).play(find("fifo", "taskgraph"), 0)
    with pytest.raises(InvariantError, match="more than fit"):
        check(np.delete(events, row_of(events, EVICT)), scenario)


def test_an_empty_log_is_told():
    scenario, events = played("a chain runs one after the other")
    with pytest.raises(InvariantError, match="the log is empty"):
        check(events[:0], scenario)
