"""The dag environments keep Gymnasium's contract: fixed spaces, masks, lanes bit-identical to single ones."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from slipstream.core.vector import SchedulingVectorEnv
from slipstream.dag import features
from slipstream.policies.base import find
from slipstream.scenario import load

KEYS = {"globals", "candidates", "nodes", "node_job", "edges", "candidate_node"}


@pytest.mark.parametrize("name", ["dag/tiny", "dag/small", "dag/ml-workflow", "dag/batch-50x20", "dag/stream-50x200"])
def test_every_built_in_passes_the_checker_without_a_warning(name):
    check_env(gymnasium.make("slipstream/Dag-v0", scenario=name).unwrapped, skip_render_check=name != "dag/tiny")


def test_spaces_are_fixed_and_observations_stay_inside():
    env = gymnasium.make("slipstream/Dag-v0", scenario="dag/small", mask_in_observation=True).unwrapped
    rng = np.random.default_rng(0)
    observation, info = env.reset(seed=3)
    assert set(observation) == KEYS | {"action_mask"}
    for _ in range(400):
        assert env.observation_space.contains(observation)
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        observation, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            observation, info = env.reset()


def test_phases_follow_each_other_at_the_same_instant():
    env = gymnasium.make("slipstream/Dag-v0", scenario="dag/batch-50x20").unwrapped
    observation, info = env.reset(seed=0)
    assert observation["globals"][features.PHASE] == 0.0
    assert info["action_mask"][-1] == 0  # with everybody idle and nothing to come, nobody may stop
    observation, reward, _, _, info = env.step(0)
    assert observation["globals"][features.PHASE] == 1.0
    assert (reward, info["elapsed"]) == (0.0, 0.0)
    most = round(observation["globals"][features.MOST] * 10)
    assert info["action_mask"].sum() == most
    assert len(set(observation["candidate_node"][:most].tolist())) == 1


def test_a_lane_of_a_vector_is_a_single_environment():
    vector = gymnasium.make_vec(
        "slipstream/Dag-v0", num_envs=4, vectorization_mode="vector_entry_point", scenario="dag/small", threads=2
    )
    single = gymnasium.make("slipstream/Dag-v0", scenario="dag/small").unwrapped
    shown, info = vector.reset(seed=10)
    alone, _ = single.reset(seed=12)
    rng = np.random.default_rng(1)
    for _ in range(150):
        assert all(np.array_equal(shown[key][2], alone[key]) for key in KEYS)
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in info["action_mask"]])
        shown, rewards, terminated, truncated, info = vector.step(actions)
        alone, reward, *_ = single.step(actions[2])
        assert rewards[2] == reward
        if terminated[2] or truncated[2]:
            break
    vector.close()


@pytest.mark.parametrize("name", ["fair", "srpt(2)"])
def test_heuristics_choose_in_every_lane(name):
    policy = find(name, "dag")
    vector = SchedulingVectorEnv(3, "dag", "dag/small")
    vector.reset(seed=0)
    rows = vector.single_action_space.n
    for _ in range(100):
        actions = vector.choose(policy)
        actions[actions >= rows] = rows - 1
        assert not vector.step(actions)[4]["illegal_action"].any()
    vector.close()


def test_jobs_that_do_not_fit_the_window_are_counted():
    scenario = load("dag/batch-50x20").model_copy(update={"window": load(SMALL).window})
    env = gymnasium.make("slipstream/Dag-v0", scenario=scenario).unwrapped
    observation, _ = env.reset(seed=0)
    hidden = round(float(observation["globals"][features.HIDDEN_JOBS]) * 10)
    shown = len(set(observation["node_job"].tolist()) - {-1})
    assert hidden > 0
    assert hidden + shown == 20


SMALL = {
    "family": "dag",
    "executors": 1,
    "arrivals": {"kind": "batch", "jobs": 1},
    "window": {"candidates": 20, "nodes": 40, "edges": 40},
}


def test_column_constants_follow_the_tables():
    for table, prefix in ((features.CANDIDATE, ""), (features.GLOBAL, ""), (features.NODE, "NODE_")):
        for place, name in enumerate(table.names):
            assert getattr(features, prefix + name.upper()) == place


def test_every_feature_is_explained_and_bounded():
    for table in (features.CANDIDATE, features.GLOBAL, features.NODE):
        assert len(set(table.names)) == len(table)
        for feature in table.features:
            assert feature.unit
            assert len(feature.meaning.split()) >= 3
            assert feature.low < feature.high
