"""The taskgraph environments keep Gymnasium's contract: fixed spaces, masks, lanes bit-identical to single ones."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from slipstream.core.vector import SchedulingVectorEnv
from slipstream.policies.base import find
from slipstream.scenario import builtin_names, load
from slipstream.taskgraph import features

ID = "slipstream/Taskgraph-v0"
KEYS = {"globals", "candidates", "nodes", "node_job", "edges", "candidate_node"}
BUILT_INS = [name for name in builtin_names() if name.startswith("taskgraph/")]


@pytest.mark.parametrize("name", BUILT_INS)
def test_every_built_in_passes_the_checker_without_a_warning(name):
    rendered = name == "taskgraph/wait-for-reuse"
    check_env(gymnasium.make(ID, scenario=name).unwrapped, skip_render_check=not rendered)


@pytest.mark.parametrize("name", ["taskgraph/tight-memory", "taskgraph/push-8-2g2c", "taskgraph/unrolled"])
def test_spaces_are_fixed_and_observations_stay_inside(name):
    env = gymnasium.make(ID, scenario=name, mask_in_observation=True).unwrapped
    rng = np.random.default_rng(0)
    observation, info = env.reset(seed=3)
    assert set(observation) == KEYS | {"action_mask"}
    for _ in range(300):
        assert env.observation_space.contains(observation)
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        observation, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            observation, info = env.reset()


def test_a_lane_of_a_vector_is_a_single_environment():
    scenario = "taskgraph/unrolled"
    vector = gymnasium.make_vec(ID, num_envs=4, vectorization_mode="vector_entry_point", scenario=scenario, threads=2)
    single = gymnasium.make(ID, scenario=scenario).unwrapped
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


@pytest.mark.parametrize("name", ["mct", "heft"])
def test_heuristics_choose_in_every_lane(name):
    policy = find(name, "taskgraph")
    vector = SchedulingVectorEnv(3, "taskgraph", "taskgraph/cholesky-4-2g2c")
    vector.reset(seed=0)
    rows = vector.single_action_space.n
    ended = 0
    for _ in range(100):
        actions = vector.choose(policy)
        actions[actions >= rows] = rows - 1
        _, _, terminated, _, info = vector.step(actions)
        assert not info["illegal_action"].any()
        ended += int(terminated[0])
        if terminated[0]:
            assert info["time"][0] == {"mct": 77.0, "heft": 85.0}[name]
    assert ended >= 2
    vector.close()


def test_what_does_not_fit_is_counted():
    scenario = load("taskgraph/cholesky-8-2g2c")
    small = scenario.window.model_copy(update={"nodes": 5, "depth": 50})
    env = gymnasium.make(ID, scenario=scenario.model_copy(update={"window": small})).unwrapped
    observation, _ = env.reset(seed=0)
    assert (observation["node_job"] >= 0).sum() == 5
    assert observation["globals"][features.HIDDEN] * 100 == pytest.approx(115)


def test_the_graph_reaches_as_deep_as_the_window():
    scenario = load("taskgraph/cholesky-4-2g2c")
    for depth, nodes in ((0, 1), (1, 4), (2, 10)):
        window = scenario.window.model_copy(update={"depth": depth})
        env = gymnasium.make(ID, scenario=scenario.model_copy(update={"window": window})).unwrapped
        observation, _ = env.reset(seed=0)
        # POTRF; then three TRSM; then the GEMM and SYRK that read what these write.
        assert (observation["node_job"] >= 0).sum() == nodes


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
