"""Environments, simulators, policies and scenarios are copied and pickled; a copy goes on alike, and by itself."""

from __future__ import annotations

import copy
import pickle

import gymnasium
import numpy as np
import pytest

import slipstream
from slipstream.envs.env import SchedulingEnv
from slipstream.envs.vector import SchedulingVectorEnv
from slipstream.errors import InputError
from slipstream.interop.flat import FlatMaskedObservation, FlatObservation
from slipstream.policies.base import Heuristic, find, names
from slipstream.policies.learned import load_policy, shipped
from slipstream.sim.simulator import Simulator
from tests.envs.test_env import same
from tests.subjects import SUBJECTS, Subject, subject_of


def through_pickle(thing):
    return pickle.loads(pickle.dumps(thing))


def through_buffers(thing):
    """Return what came through buffers that somebody else keeps, and that cannot be written, as Ray passes them on."""
    kept: list[pickle.PickleBuffer] = []
    content = pickle.dumps(thing, protocol=5, buffer_callback=kept.append)
    return pickle.loads(content, buffers=[bytes(buffer.raw()) for buffer in kept])


WAYS = [copy.deepcopy, through_pickle, through_buffers]


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return subject_of(request.param)


def continue_episode(env, info, steps=60, seed=0):
    """Return what an agent sees during random legal steps."""
    rng = np.random.default_rng(seed)
    seen = []
    for _ in range(steps):
        masks = np.atleast_2d(info["action_mask"])
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        seen.append(env.step(actions if isinstance(env, SchedulingVectorEnv) else int(actions[0])))
        info = seen[-1][4]
        if not isinstance(env, SchedulingVectorEnv) and (seen[-1][2] or seen[-1][3]):
            break
    return seen


def stand_alike(env, ways=WAYS):
    """Assert that copies of an environment that is under way go on as it does, each untouched by the others."""
    _, info = env.reset(seed=3)
    info = continue_episode(env, info, 25)[-1][4]
    copies = [way(env) for way in ways]
    expected = continue_episode(env, info), env.reset()
    for other in copies:
        # Other actions first, in a copy of the copy: what they do there must not show here.
        continue_episode(copy.deepcopy(other), info, seed=1)
        assert same((continue_episode(other, info), other.reset()), expected)


def test_a_copy_of_an_environment_goes_on_alike_and_alone(subject):
    stand_alike(SchedulingEnv(subject.name, subject.busy, mask_in_observation=True))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_copy_of_a_vector_goes_on_alike_and_alone(subject, threads):
    stand_alike(SchedulingVectorEnv(3, subject.name, subject.busy, threads=threads))


def test_a_copy_that_overwrites_what_it_hands_out_goes_on_alike():
    env = SchedulingVectorEnv(2, "edge", "edge/heavy", copy=False)
    _, info = env.reset(seed=0)
    other = copy.deepcopy(env)
    actions = info["action_mask"].argmax(axis=1)
    ours, theirs = env.step(actions), other.step(actions)
    assert same(ours, theirs)
    assert not np.shares_memory(ours[0]["candidates"], theirs[0]["candidates"])


@pytest.mark.parametrize("way", WAYS)
def test_an_environment_that_has_not_begun_is_copied(subject, way):
    env = SchedulingEnv(subject.name, subject.small)
    other = way(env)
    assert same(env.reset(seed=5), other.reset(seed=5))
    with pytest.raises(gymnasium.error.ResetNeeded):
        way(SchedulingEnv(subject.name, subject.small)).step(0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_a_copy_draws_what_its_original_draws(subject, way, mode):
    env = SchedulingEnv(subject.name, subject.busy, render_mode=mode)
    _, info = env.reset(seed=1)
    info = continue_episode(env, info, 10)[-1][4]
    other = way(env)
    assert np.array_equal(other.render(), env.render())
    before = env.render()
    continue_episode(other, info, 20)
    assert np.array_equal(env.render(), before)
    continue_episode(env, info, 20)
    assert np.array_equal(other.render(), env.render())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrap", [FlatObservation, FlatMaskedObservation])
def test_wrapped_environments_are_copied(way, wrap):
    env = wrap(gymnasium.make("slipstream/Edge-v0"))
    env.reset(seed=1)
    other = way(env)
    assert same(env.step(0), other.step(0))
    assert same(env.action_masks(), other.action_masks())


@pytest.mark.parametrize("way", WAYS)
def test_the_adapter_for_stable_baselines_is_copied(way):
    sb3 = pytest.importorskip("slipstream.interop.sb3")
    env = sb3.SlipstreamVecEnv("edge/heavy", 2)
    env.seed(4)
    env.reset()
    other = way(env)
    for _ in range(10):
        actions = np.array([np.flatnonzero(mask)[0] for mask in env.env_method("action_masks")])
        assert same(env.step(actions), other.step(actions))


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_of_a_simulator_goes_on_alike_and_alone(subject, way):
    simulator = Simulator(slipstream.load(subject.busy))
    policy = find(subject.played[0], subject.name)
    simulator.reset(2)
    for _ in range(10):
        simulator.step(int(np.flatnonzero(simulator.observe()[2])[0]))
    other, unplayed = way(simulator), way(simulator)
    assert other.family is simulator.family
    pieces: list[np.ndarray] = []
    others: list[np.ndarray] = []
    simulator.continue_episode(policy, pieces.append)
    assert same(unplayed.save(), other.save())
    other.continue_episode(policy, others.append)
    assert same(simulator.save(), other.save())
    assert same([*pieces, simulator.log()], [*others, other.log()])


@pytest.mark.parametrize("way", WAYS)
def test_every_policy_of_a_family_is_copied(subject, way):
    scenario = slipstream.load(subject.small)
    for name in names(subject.name):
        policy = find(name, subject.name)
        other = way(policy)
        assert (other.name, other.family) == (policy.name, policy.family)
        if name in subject.played:
            rewards = [slipstream.evaluate(scenario, one, episodes=2).mean("reward") for one in (policy, other)]
            assert rewards[0] == rewards[1]
    for name, folder in shipped(subject.name).items():
        policy = load_policy(folder, name)
        assert same(way(policy).tensors, policy.tensors)


@pytest.mark.parametrize("way", WAYS)
def test_policies_with_a_number_or_a_function_of_ones_own_are_copied(way):
    numbered = find("weighted-fair(0.123456789)", "dag")
    assert way(numbered) == numbered
    factor = 2.0
    own = Heuristic("own", "edge", lambda row: -factor * row[0], True)
    other = way(own)
    rewards = [slipstream.evaluate("edge/tiny", one, episodes=1).mean("reward") for one in (own, other)]
    assert rewards[0] == rewards[1]


@pytest.mark.parametrize("way", WAYS)
def test_scenarios_are_copied(subject, way):
    scenario = slipstream.load(subject.busy)
    assert way(scenario) == scenario


NO_ACTIONS = [1.5, np.float32(2.0), "a", None, True, np.True_, np.array([1]), np.array(1.0), [0], 2**70, float("nan")]


@pytest.mark.parametrize("action", NO_ACTIONS, ids=repr)
def test_what_is_no_integer_is_no_action(action):
    env, simulator = SchedulingEnv("edge", "edge/tiny"), Simulator(slipstream.load("edge/tiny"))
    env.reset(seed=0)
    simulator.reset(0)
    before = simulator.save()
    for step in (env.step, simulator.step):
        with pytest.raises(InputError, match=r"^action .*: expected an integer, the index of a row$"):
            step(action)
    assert same(simulator.save(), before)


@pytest.mark.parametrize("kind", [int, np.int8, np.uint16, np.int32, np.uint64, np.array])
def test_every_kind_of_integer_is_an_action(kind):
    one, other = SchedulingEnv("edge", "edge/heavy"), SchedulingEnv("edge", "edge/heavy")
    one.reset(seed=0)
    other.reset(seed=0)
    assert same(one.step(kind(1)), other.step(1))


@pytest.mark.parametrize("action", [-1, -(2**62), 2**62, 10_000])
def test_the_index_of_no_row_counts_as_wait(subject, action):
    one, other = SchedulingEnv(subject.name, subject.busy), SchedulingEnv(subject.name, subject.busy)
    one.reset(seed=1)
    other.reset(seed=1)
    wrong, right = one.step(action), other.step(one.action_space.n - 1)
    assert wrong[4]["illegal_action"]
    assert same(wrong[:2], right[:2])


NO_BATCHES = {
    "float": np.zeros(3),
    "bool": np.zeros(3, np.bool_),
    "text": ["a", "b", "c"],
    "nothing": None,
    "one for all": 0,
    "too few": np.zeros(2, np.int64),
    "a column": np.zeros((3, 1), np.int64),
    "ragged": [[0], [0, 1], 2],
    "objects": np.array([0, 1, None]),
    "too large": [2**70, 0, 0],
}


@pytest.mark.parametrize("actions", NO_BATCHES.values(), ids=NO_BATCHES)
def test_what_is_no_integer_for_every_lane_is_no_action_of_a_vector(actions):
    vector = SchedulingVectorEnv(3, "edge", "edge/tiny")
    vector.reset(seed=0)
    with pytest.raises(InputError, match=r"^actions .*: expected 3 integers, the index of a row for every lane$"):
        vector.step(actions)
    vector.step([0, np.int8(1), 2])
    vector.step(np.zeros(3, np.uint8))


@pytest.mark.parametrize("seed", [1.5, "a", [1, 2.5], [0, "a"], -1, 2**62, True], ids=repr)
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(InputError, match=r"^seed .*: expected a number from 0 to 2\*\*62 - 1$"):
        SchedulingVectorEnv(2, "edge", "edge/tiny").reset(seed=seed)
    if not isinstance(seed, list):
        with pytest.raises(InputError, match=r"^seed .*: expected a number"):
            Simulator(slipstream.load("edge/tiny")).reset(seed)


def test_a_reset_mask_of_another_shape_is_refused():
    vector = SchedulingVectorEnv(3, "edge", "edge/tiny")
    with pytest.raises(InputError, match=r"reset_mask of shape \(2,\): expected a boolean for"):
        vector.reset(seed=0, options={"reset_mask": np.array([True, False])})
