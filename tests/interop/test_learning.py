"""Short training runs with other libraries: each earns clearly more on episodes it never saw than at its start.

What is trained are the examples that users copy; each is run once. RLlib's is in test_rllib.py.
"""

import pytest
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

from slipstream.interop.sb3 import SlipstreamVecEnv
from tests.test_examples import output_of, rewards_in

MARGIN = 20.0
"""Of about 60 between random legal rows and earliest deadline first."""


@pytest.mark.thorough
def test_ppo_and_dqn_of_stable_baselines3_improve_over_their_start():
    ppo_before, ppo_after, dqn_before, dqn_after = rewards_in(output_of("train_sb3.py"))
    assert ppo_after > ppo_before + MARGIN
    assert dqn_after > dqn_before + MARGIN


@pytest.mark.thorough
def test_maskable_ppo_improves_over_its_start_and_beats_random_legal_rows():
    before, after, random, _ = rewards_in(output_of("train_sb3_maskable.py"))
    assert after > before + MARGIN
    assert after > random + MARGIN


@pytest.mark.thorough
def test_torchrl_improves_over_its_start():
    before, after = rewards_in(output_of("train_torchrl.py"))
    assert after > before + MARGIN


@pytest.mark.thorough
def test_ppo_in_one_file_improves_over_its_start_and_beats_random_legal_rows():
    before, *_, after, random, _ = rewards_in(output_of("ppo_single_file.py"))
    assert after > before + MARGIN
    assert after > random + MARGIN


def test_maskable_ppo_learns_from_dictionaries_too(small, random_reward):
    settings = {"n_steps": 128, "batch_size": 256, "n_epochs": 5, "learning_rate": 1e-3}
    model = MaskablePPO("MultiInputPolicy", SlipstreamVecEnv(small, 16, flat=False), seed=0, **settings)
    model.learn(8_192)
    env = VecMonitor(SlipstreamVecEnv(small, 10, flat=False, split="test"))
    env.seed(0)
    assert evaluate_policy(model, env, n_eval_episodes=30)[0] > random_reward + MARGIN
