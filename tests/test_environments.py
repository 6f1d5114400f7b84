"""Environments of every family keep Gymnasium's contract: fixed spaces, masks, lanes bit-identical to single ones."""

from __future__ import annotations

from importlib import import_module

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from slipstream.envs.vector import SchedulingVectorEnv
from slipstream.families.contract import FAMILIES
from slipstream.policies.base import find
from slipstream.scenario import builtin_names
from tests.subjects import SUBJECTS, Subject, subject_of

GRAPH_KEYS = {"nodes", "node_job", "edges", "candidate_node"}


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return subject_of(request.param)


def make(name: str, **options):
    return gymnasium.make(FAMILIES[name.partition("/")[0]].env_id, scenario=name, **options).unwrapped


def tables_of(subject: Subject):
    family = subject.family
    return ((family.candidate_features, ""), (family.global_features, ""), (family.node_features, "NODE_"))


@pytest.mark.parametrize("family", SUBJECTS)
def test_an_environment_without_a_scenario_passes_the_checker_without_a_warning(family):
    check_env(gymnasium.make(FAMILIES[family].env_id).unwrapped)


@pytest.mark.parametrize("name", builtin_names())
def test_every_built_in_passes_the_checker_without_a_warning(name):
    check_env(make(name), skip_render_check=True)


@pytest.mark.parametrize("name", sorted({name for family in SUBJECTS for name in subject_of(family).shown}))
def test_spaces_are_fixed_and_observations_stay_inside(name):
    env = make(name, mask_in_observation=True)
    graph = env.family.graph(env.scenario) is not None
    rng = np.random.default_rng(0)
    observation, info = env.reset(seed=3)
    assert set(observation) == {"globals", "candidates", "action_mask"} | (GRAPH_KEYS if graph else set())
    for _ in range(300):
        assert env.observation_space.contains(observation)
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        observation, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            observation, info = env.reset()


def test_a_lane_of_a_vector_is_a_single_environment(subject):
    options = {"num_envs": 4, "vectorization_mode": "vector_entry_point", "threads": 2}
    vector = gymnasium.make_vec(subject.family.env_id, scenario=subject.busy, **options)
    single = make(subject.busy)
    shown, info = vector.reset(seed=10)
    alone, _ = single.reset(seed=12)
    rng = np.random.default_rng(1)
    for _ in range(150):
        assert all(np.array_equal(shown[key][2], alone[key]) for key in alone)
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in info["action_mask"]])
        shown, rewards, terminated, truncated, info = vector.step(actions)
        alone, reward, *_ = single.step(actions[2])
        assert rewards[2] == reward
        if terminated[2] or truncated[2]:
            break
    vector.close()


def test_heuristics_choose_in_every_lane(subject):
    vector = SchedulingVectorEnv(3, subject.name, subject.busy)
    rows = vector.single_action_space.n
    for name in subject.played:
        policy = find(name, subject.name)
        vector.reset(seed=0)
        for _ in range(100):
            actions = vector.choose(policy)
            actions[actions >= rows] = rows - 1
            assert not vector.step(actions)[4]["illegal_action"].any()
    vector.close()


def test_column_constants_follow_the_tables(subject):
    features = import_module(type(subject.family).__module__.removesuffix("family") + "features")
    for table, prefix in tables_of(subject):
        for place, name in enumerate(table.names):
            assert getattr(features, prefix + name.upper()) == place


def test_hidden_columns_stand_last_so_that_indices_agree(subject):
    for table, _ in tables_of(subject):
        shown = len(table.observed)
        assert table.names[:shown] == table.observed.names
        assert not any(feature.observed for feature in table.features[shown:])


def test_every_feature_is_explained_and_bounded(subject):
    for table, _ in tables_of(subject):
        assert len(set(table.names)) == len(table)
        for feature in table.features:
            assert feature.unit
            assert len(feature.meaning.split()) >= 3
            assert np.isfinite([feature.low, feature.high, feature.scale]).all()
            assert feature.low < feature.high
