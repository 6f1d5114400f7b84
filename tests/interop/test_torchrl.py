"""TorchRL drives the native vector environment: lanes stay what they are, and it resets those that ended."""

import importlib
import sys

import numpy as np
import pytest
import torch
from tensordict.nn import TensorDictModule
from torchrl.envs import check_env_specs

from slipstream.envs.env import SchedulingEnv
from slipstream.interop.flat import FlatMaskedObservation
from slipstream.interop.torchrl import make_env

SEED = 11


def play(env, steps, choose):
    """Return a run from the seed on; `choose` makes actions of masks."""
    policy = TensorDictModule(choose, ["action_mask"], ["action"])
    start = env.reset(seed=SEED)
    return env.rollout(steps, policy, auto_reset=False, tensordict=start, break_when_any_done=False)


def random_legal(mask):
    return torch.multinomial(mask.float(), 1).squeeze(-1)


def wait(mask):
    return torch.full(mask.shape[:-1], mask.shape[-1] - 1)


def test_the_specs_agree_with_what_is_shown(small):
    check_env_specs(make_env(small, 3))


def test_every_lane_is_the_single_environment_of_its_seed_over_several_episodes(small):
    torch.manual_seed(0)
    run = play(make_env(small, 3, threads=2), 600, random_legal)
    for lane in range(3):
        single = FlatMaskedObservation(SchedulingEnv("edge", small))
        (shown, _), episodes = single.reset(seed=SEED + lane), 0
        for step in run[lane]:
            assert np.array_equal(step["observation"], shown["observations"])
            assert np.array_equal(step["action_mask"], shown["action_mask"])
            shown, reward, terminated, truncated, info = single.step(step["action"].item())
            assert not info["illegal_action"]
            after = step["next"]
            assert np.array_equal(after["observation"], shown["observations"])
            assert after["reward"].item() == np.float32(reward)
            assert (after["terminated"].item(), after["truncated"].item()) == (terminated, truncated)
            if terminated or truncated:
                (shown, _), episodes = single.reset(), episodes + 1
        assert episodes >= 2


def test_training_and_test_lanes_draw_different_arrivals(small):
    train, test = (play(make_env(small, 2, split=name), 20, wait) for name in ("train", "test"))
    assert not torch.equal(train["next", "observation"], test["next", "observation"])


def test_a_missing_library_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchrl.envs", None)
    monkeypatch.delitem(sys.modules, "slipstream.interop.torchrl")
    with pytest.raises(ImportError, match=r"needs TorchRL: run `pip install 'slipstream\[interop\]'`"):
        importlib.import_module("slipstream.interop.torchrl")
