"""A lane that follows a device: told what the simulator would do, it writes the simulator's log; told else, that."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from slipstream.device.lane import DeviceLane
from slipstream.errors import DeviceError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared import invariants
from slipstream.policies import find
from slipstream.render.scene import Scene
from slipstream.scenario import load
from slipstream.sim.eventlog import ARRIVAL, END, FAIL, FINISH, START
from slipstream.sim.simulator import Simulator

MS = 1_000_000


def tell(scenario, policy, seed, ends, at_once):
    """Play a lane whose device ends the runs of each stream at the given times.

    `at_once` lets the policy choose as soon as a choice is due, before anybody asks whether one is.
    """
    lane = DeviceLane(scenario)
    lane.begin(seed, "test")
    while not lane.over:
        while lane.asking:
            lane.decide(policy)
        if not lane.over:
            busy = [stream for stream in range(len(ends)) if lane.running(stream) is not None]
            due = {stream: ends[stream][0] for stream in busy if ends[stream]}
            moment = min([lane.next_timer, *due.values()])
            for stream, time in due.items():
                if time == moment:
                    lane.end(stream, ends[stream].pop(0))
            lane.follow(moment, policy if at_once else None)
    return lane


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("policy", ["edf", "edf-fit", "lookahead", "accuracy-first", "random", "learned-robust"])
@pytest.mark.parametrize("interference", [{"kind": "none"}, {"kind": "share"}, {"kind": "roofline"}])
def test_a_lane_that_is_told_what_the_simulator_does_writes_the_same_log(policy, interference, at_once):
    data = load("edge/heavy").model_dump(mode="json", exclude_unset=True)
    data["device"]["interference"] = interference
    data["horizon_ms"] = 400
    for number, row in enumerate(data["tasks"]):
        if row["arrival"]["kind"] == "periodic":  # the device's clock shows 1 ns when it starts, not 0
            row["arrival"]["phase_ms"] = 1 + number
    scenario = EdgeScenario.model_validate(data)
    player = find(policy, "edge")
    simulator = Simulator(scenario)
    expected = simulator.play(player, 5)
    finishes = expected[expected["kind"] == FINISH]
    ends = [finishes[finishes["resource"] == stream]["time"].tolist() for stream in range(2)]
    lane = tell(scenario, player, 5, ends, at_once)
    assert np.array_equal(lane.events(), expected)
    assert len(finishes) > 20
    for field in ("busy_time", "finished", "missed", "released", "joules"):
        assert lane.header[field] == simulator.header[field]


def one_task(**device):
    task = {
        "name": "task",
        "model": "m",
        "dataset": "d",
        "num_variants": 1,
        "variants": [{"latency_ms": 2, "accuracy": 0.8}],
        "arrival": {"kind": "trace", "times_ms": [1, 1, 1, 40]},
        "deadline_ms": 30,
    }
    chosen = {"latency": {"kind": "fixed"}, "interference": {"kind": "share"}, **device}
    return EdgeScenario.model_validate({"family": "edge", "horizon_ms": 100, "device": chosen, "tasks": [task]})


def rows(lane, *kinds):
    """Return time in ms, job and resource of the rows of some kinds."""
    events = lane.events()
    chosen = events[np.isin(events["kind"], kinds)]
    return [(row["time"] / MS, int(row["job"]), int(row["resource"])) for row in chosen]


def started():
    """Return a lane with two jobs on its streams since 1 ms, and one that waits."""
    lane = DeviceLane(one_task())
    lane.begin(0, "test")
    lane.follow(1 * MS)
    for _ in range(2):
        lane.decide(find("edf", "edge"))
    assert not lane.asking
    return lane


def test_runs_do_not_end_before_the_device_says_so():
    lane = started()
    lane.follow(20 * MS)  # ten times as long as expected
    assert lane.header["finished"] == 0
    assert [lane.running(stream) for stream in range(2)] == [(0, 0, 0), (0, 1, 0)]
    lane.end(1, 21 * MS)
    lane.follow(21 * MS)
    lane.decide(find("edf", "edge"))  # beside a run that has no work left by the plan
    assert lane.running(0) == (0, 0, 0)
    assert lane.running(1) == (0, 2, 0)
    assert rows(lane, FINISH) == [(21.0, 1, 1)]


def test_runs_that_end_together_are_both_heard():
    lane = started()
    lane.end(0, 3 * MS)
    lane.end(1, 4 * MS)
    lane.follow(5 * MS)
    assert rows(lane, FINISH) == [(3.0, 0, 0), (4.0, 1, 1)]
    assert lane.asking
    assert lane.header["now"] == 5 * MS


def test_what_is_heard_late_does_not_turn_the_clock_back():
    lane = started()
    lane.follow(6 * MS)
    lane.end(0, 2 * MS)
    lane.follow(7 * MS)
    assert rows(lane, FINISH) == [(6.0, 0, 0)]


def test_a_failed_job_counts_as_dropped_and_leaves_its_stream():
    lane = started()
    lane.end(0, 3 * MS, failed=True)
    lane.follow(3 * MS)
    assert rows(lane, FAIL) == [(3.0, 0, 0)]
    assert lane.header["missed"] == 1
    assert lane.arrays["terms"][0].tolist()[:3] == [0.0, 0.0, 1.0]
    lane.decide(find("edf", "edge"))
    assert lane.running(0) == (0, 2, 0)
    lane.end(0, 4 * MS)
    lane.end(1, 4 * MS)
    lane.follow(4 * MS)
    lane.follow(5 * MS, last=True)
    assert lane.over
    events = lane.events()
    invariants.check(events, 2)
    figures = lane.family.metrics(lane.scenario, events)
    assert figures["fail_rate"] == pytest.approx(1 / 3)
    assert figures["miss_rate"] == pytest.approx(1 / 3)
    assert figures["drop_rate"] == 0.0
    assert figures["reward"] == pytest.approx(2 * 0.8 - 0.5)
    scene = Scene(lane.family.run_labels(lane.scenario))
    scene.update(events)
    assert (sum(scene.missed), sum(scene.finished), sum(scene.waiting)) == (1, 2, 0)
    assert lane.family.timeline(lane.scenario, events).slice_end.tolist() == [3 * MS, 4 * MS, 4 * MS]


def test_an_episode_can_be_ended_before_its_time():
    lane = started()
    lane.follow(7 * MS, last=True)
    assert lane.over
    assert lane.events()[-1]["kind"] == END
    assert lane.events()[-1]["time"] == 7 * MS
    invariants.check(lane.events(), 2)


def test_the_next_timer_is_no_end_of_a_run():
    lane = started()
    assert lane.next_timer == 31 * MS  # the job that waits expires, after both runs should have ended


def test_a_simulator_after_a_device_simulates():
    scenario = one_task()
    started()
    events = Simulator(scenario).play(find("edf", "edge"), 0)
    assert (events["kind"] == ARRIVAL).sum() == 4 == (events["kind"] == START).sum()


@pytest.mark.parametrize("way", [copy.deepcopy, pickle.dumps])
def test_a_lane_that_follows_a_device_is_not_copied(way):
    with pytest.raises(DeviceError, match="a lane that follows a device cannot be copied"):
        way(DeviceLane(load("edge/tiny")))
