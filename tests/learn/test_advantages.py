"""Advantages worked out by hand."""

from __future__ import annotations

import math

import numpy as np

from slipstream.learn.algorithms.advantages import discounts, generalised_advantages, returns_to_go
from slipstream.learn.algorithms.reinforce import (
    Reinforce,
    ReinforceSettings,
    mean_at_same_time,
    mean_magnitude,
    terminal_rewards,
)
from slipstream.learn.compiled.collect import CUT_OFF, ENDED
from tests.learn.toys import Corridor, make_learner, play


def advantages(reward, value, next_value, ended, discount, gae_lambda, length=None):
    arrays = [np.array([row], float) for row in (reward, value, next_value)]
    length = np.array([len(reward) if length is None else length])
    return generalised_advantages(*arrays, np.array([ended]), np.array([discount]), gae_lambda, length)[0]


def test_advantages_are_those_worked_out_by_hand():
    # surprises: 1 + 0.5*4 - 2 = 1;  2 + 0.25*6 - 4 = -0.5;  3 + 1*8 - 6 = 5
    # advantages: 5;  -0.5 + 0.25*0.8*5 = 0.5;  1 + 0.5*0.8*0.5 = 1.2
    found = advantages([1, 2, 3], [2, 4, 6], [0, 0, 8], [0, 0, 0], [0.5, 0.25, 1.0], 0.8)
    np.testing.assert_allclose(found, [1.2, 0.5, 5.0])


def test_an_end_counts_nothing_after_it_and_a_cut_off_what_was_expected():
    ended = advantages([1, 1], [0, 5], [7, 0], [ENDED, 0], [0.5, 0.5], 0.9)
    cut_off = advantages([1, 1], [0, 5], [7, 0], [CUT_OFF, 0], [0.5, 0.5], 0.9)
    assert ended[0] == 1.0
    assert cut_off[0] == 1.0 + 0.5 * 7.0
    assert ended[1] == cut_off[1] == 1.0 - 5.0


def test_choices_at_the_same_instant_are_not_discounted():
    discount = discounts(np.array([0, 0, 10]), 10.0)
    np.testing.assert_allclose(discount, [1.0, 1.0, math.exp(-1.0)])
    returns = returns_to_go(
        np.array([[1.0, 2.0, 4.0]]), np.array([[0.0, 0.0, 3.0]]), np.array([[0, 0, 0]]), discount[None], np.array([3])
    )
    last = 4.0 + math.exp(-1.0) * 3.0
    np.testing.assert_allclose(returns[0], [3.0 + last, 2.0 + last, last])


def test_steps_beyond_the_length_of_a_lane_do_not_count():
    found = advantages([1, 2, 100], [0, 0, 100], [0, 5, 100], [0, 0, 0], [1.0, 1.0, 1.0], 1.0, length=2)
    np.testing.assert_allclose(found, [8.0, 7.0, 0.0])


def test_the_baseline_is_the_mean_of_what_the_lanes_had_to_come_at_the_same_time():
    # Lane 0 chooses at 0 and 10 with 6 and 2 to come, lane 1 at 0, 5 and 20 with 4, 3 and 1 to come.
    time = np.array([[0, 10, 0], [0, 5, 20]])
    returns = np.array([[6.0, 2.0, 0.0], [4.0, 3.0, 1.0]])
    mean = mean_at_same_time(returns, time, np.array([2, 3]), horizon=10.0)
    np.testing.assert_allclose(mean[0, :2], [(6 + 4) / 2, (2 + 1 * math.exp(-1.0)) / 2])
    np.testing.assert_allclose(mean[1], [(4 + 6) / 2, (3 + 2 * math.exp(-0.5)) / 2, (1 + 0) / 2])


def test_a_terminal_reward_is_all_that_a_lane_got_at_its_last_choice():
    reward = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 100.0], [7.0, 7.0, 7.0]])
    moved = terminal_rewards(reward, np.array([3, 2, 0]))
    assert moved.tolist() == [[0.0, 0.0, 7.0], [0.0, 8.0, 0.0], [0.0, 0.0, 0.0]]


def test_what_came_before_a_choice_is_its_merit_only_with_a_terminal_reward():
    toy, rng = Corridor(), np.random.default_rng(0)
    learner = make_learner(toy)
    rollout = play(toy, learner, 16, 16, rng)
    rollout.arrays["reward"][:] = 0.0
    rollout.arrays["reward"][0, 0] = 1.0
    found = [
        Reinforce(learner, ReinforceSettings(same_arrivals=16, terminal=terminal), 1e9).advantages(rollout)[0, 1]
        for terminal in (False, True)
    ]
    assert found[0] <= 0.0 < found[1]


def test_with_relative_advantages_sets_of_lanes_count_alike_however_much_they_earn():
    toy, rng = Corridor(), np.random.default_rng(0)
    learner = make_learner(toy)
    rollout = play(toy, learner, 16, 16, rng)
    for name in ("reward", "elapsed", "time", "ended", "length"):
        rollout.arrays[name][8:] = rollout.arrays[name][:8]
    rollout.arrays["reward"][8:] *= 1000.0
    plain, relative = (
        Reinforce(learner, ReinforceSettings(same_arrivals=8, relative=relative), 1e9).advantages(rollout)
        for relative in (False, True)
    )
    np.testing.assert_allclose(plain[8:], 1000.0 * plain[:8])
    np.testing.assert_allclose(relative[8:], relative[:8])
    assert np.abs(relative).max() > 0.0


def test_the_typical_size_is_what_lanes_earn_on_average_without_what_lies_beyond_their_length():
    reward = np.array([[-1.0, -2.0, 100.0], [-4.0, -1.0, -2.0]])
    assert mean_magnitude(reward, np.array([2, 3])) == 5.0
    assert mean_magnitude(np.zeros((2, 3)), np.array([3, 0])) == 1.0
