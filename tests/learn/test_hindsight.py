"""What each candidate would have earned is what the simulator says it earns on the same future."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import slipstream
from slipstream.core.simulator import Simulator
from slipstream.errors import InputError
from slipstream.learn.hindsight import Hindsight, HindsightSettings, Situations
from slipstream.learn.learner import Choices
from slipstream.learn.rollout import LanePool
from slipstream.learn.settings import TrainSettings
from slipstream.policies import find
from tests.learn.test_rollout import learner_for

WINDOW_NS = 100e6


def prepare(scenario, lanes=3, groups=1, **settings):
    pool = LanePool([scenario] * groups, lanes, 1)
    learner = learner_for(scenario, pool.candidates)
    pool.start(np.arange(lanes))
    hindsight = Hindsight(learner, HindsightSettings(**settings), find("lookahead", "edge"), WINDOW_NS)
    return pool, hindsight


def earned_by(scenario, seed, before, action, policy):
    """Return what an action earns after some others, by stepping a simulator of its own."""
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(seed, "train")
    for earlier in before:
        simulator.step(earlier)
    began = simulator.header["now"]
    simulator.step(action)
    total = float(simulator.header["reward"])
    while simulator.asking and simulator.header["now"] < began + WINDOW_NS:
        simulator.step(policy.choose(*simulator.observe()))
        total += float(simulator.header["reward"])
    return total


def test_every_candidate_earns_what_it_earns_in_the_simulator():
    scenario = slipstream.load("edge/heavy")
    pool, hindsight = prepare(scenario)
    situations = hindsight.look_around(pool)
    policy, place = find("lookahead", "edge"), 0
    for lane in range(3):
        simulator = Simulator(scenario, log_rows=0)
        simulator.reset(lane, "train")
        mask = simulator.observe()[2].copy()
        legal = np.flatnonzero(mask)
        by_hand = np.array([earned_by(scenario, lane, [], int(action), policy) for action in legal])
        count = situations.choices.count[lane]
        assert count == len(legal)
        found = situations.earned[place : place + count]
        # The collector lists rows in the order of their numbers where nothing can be interrupted.
        np.testing.assert_allclose(found, by_hand - by_hand.mean(), atol=1e-5)
        place += count


def test_looking_around_moves_no_lane():
    pool, hindsight = prepare(slipstream.load("edge/heavy"), lanes=4, groups=2)
    before = [{name: array.tobytes() for name, array in group.arrays.items()} for group in pool.groups]
    hindsight.look_around(pool)
    after = [{name: array.tobytes() for name, array in group.arrays.items()} for group in pool.groups]
    assert before == after


def test_the_candidate_that_earned_most_becomes_the_likeliest():
    scenario = slipstream.load("edge/heavy")
    _, hindsight = prepare(scenario, minibatches=30, minibatch=64, learning_rate=0.01, entropy_weight=0.0)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200 * 4, 32)).astype(np.float32)
    earned = rows[:, 3].copy()
    begin = np.arange(0, 800, 4, dtype=np.int64)
    choices = Choices(rows, np.zeros((200, 16), np.float32), begin, np.full(200, 4, np.int32))
    for round_number in range(5):
        hindsight.update(Situations(choices, earned), round_number / 5, rng)
    with torch.no_grad():
        seen = (torch.from_numpy(rows), torch.zeros(200, 16), torch.full((200,), 4))
        logits = hindsight.learner.network(*seen)[0].numpy().reshape(200, 4)
    assert (logits.argmax(axis=1) == earned.reshape(200, 4).argmax(axis=1)).mean() > 0.9


def test_only_the_latest_rounds_are_remembered():
    _, hindsight = prepare(slipstream.load("edge/heavy"), remembered=3, minibatches=1)
    rng = np.random.default_rng(0)
    for number in range(5):
        rows = np.full((2, 32), number, np.float32)
        choices = Choices(rows, np.zeros((1, 16), np.float32), np.zeros(1, np.int64), np.array([2], np.int32))
        hindsight.update(Situations(choices, np.zeros(2, np.float32)), 0.0, rng)
    assert [int(one.choices.rows[0, 0]) for one in hindsight.memory] == [2, 3, 4]


def test_hindsight_without_a_warm_start_is_refused():
    with pytest.raises(InputError, match="hindsight goes on from a warm start"):
        TrainSettings().with_changes({"hindsight.rounds": 5})
