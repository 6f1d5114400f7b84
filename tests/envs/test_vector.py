"""Lane k of a vector is the single environment seeded s + k, whatever the number of lanes and threads."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from slipstream.envs.env import SchedulingEnv
from slipstream.envs.vector import SchedulingVectorEnv
from slipstream.errors import InputError
from slipstream.policies import find
from tests.envs.test_env import same

SEED = 11


def lane_of(value, lane):
    """Return one lane of a nested structure of batched arrays."""
    if isinstance(value, dict):
        return {key: lane_of(item, lane) for key, item in value.items() if not key.startswith("_")}
    return value[lane]


def legal_actions(rng, masks):
    return np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])


def assert_lanes_equal_singles(vector, lanes, steps, scenario):
    singles = {lane: SchedulingEnv("edge", scenario) for lane in lanes}
    observation, info = vector.reset(seed=SEED)
    for lane, env in singles.items():
        assert same((lane_of(observation, lane), lane_of(info, lane)), env.reset(seed=SEED + lane))
    rng, over = np.random.default_rng(0), dict.fromkeys(lanes, False)
    episodes = 0
    for _ in range(steps):
        actions = legal_actions(rng, info["action_mask"])
        observation, reward, terminated, truncated, info = vector.step(actions)
        for lane, env in singles.items():
            shown = (lane_of(observation, lane), reward[lane], terminated[lane], truncated[lane], lane_of(info, lane))
            if over[lane]:
                first, about = env.reset()
                assert same(shown, (first, 0.0, False, False, about))
                over[lane], episodes = False, episodes + 1
            else:
                step = env.step(actions[lane])
                assert same(shown, step)
                over[lane] = step[2] or step[3]
    return episodes


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [1, 7, 9, 1024])
def test_every_lane_equals_the_single_env_bit_for_bit(count, threads):
    vector = SchedulingVectorEnv(count, "edge", "edge/tiny", threads=threads)
    lanes = range(count) if count <= 9 else (0, 1, 511, 512, 513, 1023)
    assert assert_lanes_equal_singles(vector, lanes, 60, "edge/tiny") > 0
    vector.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_lanes_of_random_arrivals_equal_singles_over_several_episodes(threads):
    scenario = SchedulingEnv("edge", "edge/overload").scenario
    short = scenario.model_copy(update={"horizon_ms": 60.0})
    vector = SchedulingVectorEnv(7, "edge", short, threads=threads)
    assert assert_lanes_equal_singles(vector, range(7), 250, short) > 7
    vector.close()


def test_make_vec_gives_the_native_environment():
    vector = gymnasium.make_vec(
        "slipstream/Edge-v0", num_envs=3, vectorization_mode="vector_entry_point", scenario="edge/drone"
    )
    assert isinstance(vector.unwrapped, SchedulingVectorEnv)
    observation, _ = vector.reset(seed=0)
    assert vector.observation_space.contains(observation)
    assert vector.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    vector.close()


def test_same_step_autoreset_keeps_what_was_seen_last():
    kwargs = {"scenario": "edge/tiny", "num_envs": 4, "family": "edge"}
    later = SchedulingVectorEnv(autoreset_mode=AutoresetMode.NEXT_STEP, **kwargs)
    at_once = SchedulingVectorEnv(autoreset_mode=AutoresetMode.SAME_STEP, **kwargs)
    _, info = later.reset(seed=0)
    at_once.reset(seed=0)
    for _ in range(50):
        actions = info["action_mask"].argmax(axis=1)
        observation, _, terminated, _, info = later.step(actions)
        shown, _, ended, _, about = at_once.step(actions)
        assert same(terminated, ended)
        if terminated.any():
            break
        assert same(observation, shown)
    assert terminated.all()
    assert same(about["final_obs"], observation)
    assert same(about["final_info"], info)
    assert about["_final_obs"].all()
    observation, reward, terminated, truncated, info = later.step(actions)
    assert same(shown, observation)
    assert not reward.any()
    assert not (terminated | truncated).any()


def test_without_autoreset_ended_lanes_stay_until_they_are_reset():
    vector = SchedulingVectorEnv(2, "edge", "edge/tiny", autoreset_mode=AutoresetMode.DISABLED)
    _, info = vector.reset(seed=0)
    for _ in range(50):
        _, _, terminated, _, info = vector.step(info["action_mask"].argmax(axis=1))
    assert terminated.all()
    _, again = vector.reset(options={"reset_mask": np.array([True, False])})
    assert again["time"][0] == 0.0
    assert again["time"][1] > 0.0


def test_in_place_buffers_are_overwritten_and_copies_are_not():
    for copy in (True, False):
        vector = SchedulingVectorEnv(2, "edge", "edge/heavy", copy=copy)
        first, info = vector.reset(seed=0)
        before = first["candidates"].copy()
        second = vector.step(info["action_mask"].argmax(axis=1))[0]
        assert same(first["candidates"], before) is copy
        assert (second["candidates"] is first["candidates"]) is not copy


def test_a_list_of_seeds_sets_every_lane():
    by_list = SchedulingVectorEnv(3, "edge").reset(seed=[4, 5, 6])[0]
    assert same(by_list, SchedulingVectorEnv(3, "edge").reset(seed=4)[0])
    with pytest.raises(InputError, match="2 seeds for 3 lanes"):
        SchedulingVectorEnv(3, "edge").reset(seed=[1, 2])


@pytest.mark.parametrize("name", ["edf", "edf-fit"])
def test_a_heuristic_chooses_in_every_lane_as_it_does_alone(name):
    policy = find(name, "edge")
    vector = SchedulingVectorEnv(5, "edge", "edge/heavy", threads=2)
    env = SchedulingEnv("edge", "edge/heavy")
    vector.reset(seed=SEED)
    env.reset(seed=SEED + 3)
    for _ in range(200):
        actions = vector.choose(policy)
        shown = vector.step(actions)
        assert same(lane_of(shown[0], 3), env.step(actions[3])[0])
    assert not shown[4]["illegal_action"].any()
    vector.close()


def test_impossible_sizes_are_worded():
    with pytest.raises(InputError, match="expected at least 1 of each"):
        SchedulingVectorEnv(0, "edge")


def test_step_before_reset_is_refused():
    with pytest.raises(gymnasium.error.ResetNeeded):
        SchedulingVectorEnv(2, "edge").step(np.zeros(2, np.int64))


def test_in_place_same_step_keeps_the_reward_of_the_step_that_ended():
    kwargs = {"scenario": "edge/tiny", "num_envs": 2, "family": "edge", "autoreset_mode": AutoresetMode.SAME_STEP}
    copied, in_place = SchedulingVectorEnv(**kwargs), SchedulingVectorEnv(copy=False, **kwargs)
    _, info = copied.reset(seed=0)
    in_place.reset(seed=0)
    for _ in range(20):
        actions = info["action_mask"].argmax(axis=1)
        one, other = copied.step(actions), in_place.step(actions)
        info = one[4]
        assert same(one, other)


@pytest.mark.parametrize("copy", [True, False])
def test_what_is_handed_out_outlives_the_next_step_only_as_a_copy(copy):
    env = SchedulingVectorEnv(3, "edge", "edge/tiny", copy=copy)
    env.reset(seed=0)
    (seen, *told, info), (seen_next, *told_next, info_next) = (env.step(np.zeros(3, np.int64)) for _ in range(2))
    pairs = [*zip(told, told_next, strict=True), *((seen[name], seen_next[name]) for name in seen)]
    pairs += [(info[name], info_next[name]) for name in info if name != "rewards"]
    pairs += [(info["rewards"][term], info_next["rewards"][term]) for term in info["rewards"]]
    assert {bool(np.shares_memory(*pair)) for pair in pairs} == {not copy}


def test_a_render_mode_is_refused():
    with pytest.raises(InputError, match="render_mode 'rgb_array': the vector environment draws nothing"):
        SchedulingVectorEnv(2, "edge", render_mode="rgb_array")
