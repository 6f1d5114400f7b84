"""Stable-Baselines3 and sb3-contrib drive the native vector environment as they drive a loop over single ones."""

import importlib
import sys

import numpy as np
import pytest
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.vec_env import DummyVecEnv

from slipstream.envs.env import SchedulingEnv
from slipstream.errors import InputError
from slipstream.interop.flat import FlatObservation
from slipstream.interop.sb3 import SlipstreamVecEnv
from tests.envs.test_env import same
from tests.envs.test_vector import legal_actions

SEED = 11


def singles(scenario, lanes, flat, mask_in_observation=False):
    """Return Stable-Baselines3's own loop over single environments: what the adapter has to equal."""

    def make():
        env = SchedulingEnv("edge", scenario, mask_in_observation)
        return FlatObservation(env) if flat else env

    return DummyVecEnv([make] * lanes)


# The adapter


@pytest.mark.parametrize("scenario", ["edge/tiny", "small", "unlike"])
@pytest.mark.parametrize(("flat", "mask_in_observation"), [(True, False), (True, True), (False, False), (False, True)])
def test_the_adapter_equals_a_loop_over_single_environments(scenario, flat, mask_in_observation, small):
    unlike = small.model_copy(update={"tasks": small.tasks[1:]})  # no task at time 0: every episode begins otherwise
    scenario = {"small": small, "unlike": unlike}.get(scenario, scenario)
    ours = SlipstreamVecEnv(scenario, 3, flat=flat, threads=2, mask_in_observation=mask_in_observation)
    theirs = singles(scenario, 3, flat, mask_in_observation)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.seed(SEED) == theirs.seed(SEED)
    assert same(ours.reset(), theirs.reset())
    assert same(ours.reset_infos, theirs.reset_infos)
    rng, endings = np.random.default_rng(0), 0
    for _ in range(250):
        assert same(get_action_masks(ours), get_action_masks(theirs))
        actions = legal_actions(rng, get_action_masks(ours))
        one, other = ours.step(actions), theirs.step(actions)
        assert same(one, other)
        assert same(ours.reset_infos, theirs.reset_infos)
        endings += sum("terminal_observation" in info for info in one[3])
    assert endings >= 3
    ours.close()


def test_horizon_end_is_marked_as_truncation_and_a_finished_trace_is_not(small):
    for scenario, cut in ((small, True), ("edge/tiny", False)):
        env = SlipstreamVecEnv(scenario, 2)
        env.reset()
        done = np.zeros(2, bool)
        while not done.any():
            _, _, done, infos = env.step(np.argmax(get_action_masks(env), axis=1))
        assert {info["TimeLimit.truncated"] for info in np.array(infos)[done]} == {cut}


def test_what_was_shown_is_not_overwritten_by_later_steps(small):
    for flat in (True, False):
        env = SlipstreamVecEnv(small, 2, flat=flat)
        env.seed(0)
        first = env.reset()
        kept, infos = np.copy(first if flat else first["globals"]), env.reset_infos
        masks = [info["action_mask"].copy() for info in infos]
        for _ in range(10):
            env.step(np.argmax(get_action_masks(env), axis=1))
        assert same(first if flat else first["globals"], kept)
        assert same([info["action_mask"] for info in infos], masks)


def test_options_reach_every_lane_and_may_not_differ(small):
    drawn = {}
    for split in ("train", "test"):
        env = SlipstreamVecEnv(small, 2)
        env.seed(0)
        env.set_options({"split": split})
        env.reset()
        drawn[split] = [env.step(np.full(2, env.action_space.n - 1))[3][1]["time"] for _ in range(9)]
    assert drawn["train"] != drawn["test"]
    env.set_options([{"split": "train"}, {}])
    with pytest.raises(InputError, match="options differ between lanes: expected the same"):
        env.reset()


def test_lanes_answer_for_some_or_all_of_them():
    env = SlipstreamVecEnv("edge/tiny", 3)
    env.reset()
    assert env.get_attr("render_mode") == [None] * 3
    assert env.get_attr("observation_space", indices=1) == [env.observation_space]
    assert [scenario.name for scenario in env.get_attr("scenario", [0, 2])] == ["tiny"] * 2
    assert same([ask() for ask in env.get_attr("action_masks")], env.env_method("action_masks"))
    assert len(env.env_method("action_masks", indices=[2, 0])) == 2
    assert env.env_is_wrapped(FlatObservation) == [False] * 3
    assert is_masking_supported(env)
    assert not env.has_attr("nothing")


def test_what_lanes_do_not_have_is_refused_in_one_line():
    env = SlipstreamVecEnv("edge/tiny", 2)
    with pytest.raises(AttributeError, match="no method 'render': expected action_masks"):
        env.env_method("render")
    with pytest.raises(AttributeError, match="no attribute 'engine': expected action_masks, action_space"):
        env.get_attr("engine")
    with pytest.raises(InputError, match="attribute 'scenario': lanes have none to set"):
        env.set_attr("scenario", "edge/heavy")


def test_a_missing_library_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.vec_env", None)
    monkeypatch.delitem(sys.modules, "slipstream.interop.sb3")
    with pytest.raises(ImportError, match=r"needs Stable-Baselines3: run `pip install 'slipstream\[interop\]'`"):
        importlib.import_module("slipstream.interop.sb3")
