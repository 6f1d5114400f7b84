"""The single environment keeps Gymnasium's contract and the project's own rules of choice."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import slipstream
from slipstream.core.family import FAMILIES
from slipstream.errors import InputError, ScenarioError

IDS = [family.env_id for family in FAMILIES.values()]


def make(**options):
    return gymnasium.make("slipstream/Edge-v0", **options).unwrapped


def play(env, seed, steps=300, rng_seed=0):
    """Return everything an agent sees during some random legal steps."""
    rng = np.random.default_rng(rng_seed)
    observation, info = env.reset(seed=seed)
    seen = [(observation, info)]
    for _ in range(steps):
        step = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        info = step[4]
        seen.append(step)
        if step[2] or step[3]:
            break
    return seen


def same(one, other):
    """Return whether two nested structures of arrays, numbers and dictionaries are equal bit for bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(np.array_equal(one, other))


@pytest.mark.parametrize("env_id", IDS)
def test_every_registered_id_passes_the_checker_without_a_warning(env_id):
    check_env(gymnasium.make(env_id).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", ["edge/light", "edge/medium", "edge/overload", "edge/drone", "edge/tiny"])
def test_every_built_in_passes_the_checker_without_a_warning(name):
    check_env(make(scenario=name), skip_render_check=True)


def test_observations_stay_inside_their_space():
    for scenario in ("edge/overload", "edge/tiny", "edge/drone"):
        env = make(scenario=scenario, mask_in_observation=True)
        for step in play(env, seed=3):
            assert env.observation_space.contains(step[0])


def test_the_same_seed_gives_the_same_episode_and_another_seed_another():
    one, again, other = (play(make(), seed) for seed in (7, 7, 8))
    assert same(one, again)
    assert not same(one, other)


def test_namespaces_give_different_arrivals_for_the_same_seed():
    episodes = [play(make(namespace=name), 7) for name in ("train", "eval", "test")]
    assert not same(episodes[0], episodes[1])
    assert not same(episodes[1], episodes[2])
    by_option = make()
    by_option.reset(seed=7, options={"namespace": "test"})
    by_name = make(namespace="test")
    by_name.reset(seed=7)
    assert same([by_option.step(0) for _ in range(50)], [by_name.step(0) for _ in range(50)])


def test_reset_without_a_seed_goes_on_to_a_derived_episode():
    env, other = make(), make()
    env.reset(seed=5)
    other.reset(seed=5)
    second = play(env, seed=None)
    assert same(second, play(other, seed=None))
    assert not same(second, play(make(), seed=5))


def test_an_illegal_action_counts_as_wait_and_is_flagged():
    one, other = make(scenario="edge/heavy"), make(scenario="edge/heavy")
    _, info = one.reset(seed=1)
    other.reset(seed=1)
    illegal = int(np.flatnonzero(info["action_mask"] == 0)[0])
    wrong, right = one.step(illegal), other.step(one.action_space.n - 1)
    assert wrong[4]["illegal_action"]
    assert not right[4]["illegal_action"]
    assert same(wrong[0], right[0])
    assert wrong[1] == right[1]


def test_wait_is_always_legal():
    for step in play(make(scenario="edge/overload"), seed=2):
        assert step[-1]["action_mask"][-1] == 1


def test_reward_is_the_weighted_sum_of_its_named_terms():
    env = make(scenario="edge/overload")
    weights = env.scenario.reward
    for step in play(env, seed=4)[1:]:
        terms = step[4]["rewards"]
        expected = (
            weights.on_time_accuracy * terms["on_time_accuracy"]
            - weights.lateness * terms["lateness"]
            - weights.drops * terms["drops"]
            + weights.utilisation * terms["utilisation"]
        )
        assert step[1] == pytest.approx(expected)


def test_elapsed_adds_up_to_the_clock():
    steps = play(make(scenario="edge/drone"), seed=1, steps=10_000)
    began = steps[0][1]["time"]
    assert began + sum(step[4]["elapsed"] for step in steps[1:]) == pytest.approx(10_000.0)
    assert steps[-1][3] is True
    assert steps[-1][2] is False


def test_a_finite_trace_ends_terminated():
    steps = play(make(scenario="edge/tiny"), seed=1)
    assert steps[-1][2] is True
    assert steps[-1][3] is False


def test_returned_arrays_are_not_reused():
    env = make()
    observation, info = env.reset(seed=1)
    before = {name: array.copy() for name, array in observation.items()}
    env.step(int(np.flatnonzero(info["action_mask"])[0]))
    assert same(observation, before)


def test_action_masks_agree_with_info_and_observation():
    env = make(mask_in_observation=True)
    observation, info = env.reset(seed=1)
    assert env.action_masks().dtype == np.bool_
    assert same(env.action_masks(), info["action_mask"].astype(bool))
    assert same(observation["action_mask"], info["action_mask"])


def test_decision_time_is_charged_to_the_clock():
    scenario = slipstream.load("edge/tiny").model_dump(mode="json", exclude_unset=True)
    scenario["device"]["decision_time_ms"] = 0.5
    env = make(scenario=scenario)
    env.reset(seed=0)
    assert env.step(0)[4]["elapsed"] >= 0.5


def test_bad_arguments_are_worded():
    with pytest.raises(InputError, match="namespace 'exam': expected one of train, eval, test"):
        make(namespace="exam")
    with pytest.raises(InputError, match="expected a number from 0"):
        make().reset(seed=2**62)
    with pytest.raises(ScenarioError, match="edge/hevy"):
        make(scenario="edge/hevy")


def test_step_before_reset_is_refused():
    with pytest.raises(gymnasium.error.ResetNeeded):
        make().step(0)
