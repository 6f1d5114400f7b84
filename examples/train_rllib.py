"""RLlib's present API stack: masked PPO. It needs an environment of its own: see docs/other-libraries.md."""

import gymnasium
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env

from slipstream.families.edge.workload.generator import Settings, generate
from slipstream.interop.flat import FlatMaskedObservation

SCENARIO = generate(Settings(periodic_tasks=1, poisson_tasks=2, utilisation=1, rate_hz=200, horizon_ms=500), seed=0)


def make(config: dict) -> gymnasium.Env:
    return FlatMaskedObservation(gymnasium.make("slipstream/Edge-v0", scenario=SCENARIO, **config))


register_env("edge", make)
module = RLModuleSpec(module_class=ActionMaskingTorchRLModule, model_config={"fcnet_hiddens": [64, 64]})
config = PPOConfig().environment("edge", env_config={"split": "train"}).rl_module(rl_module_spec=module)
config.env_runners(num_env_runners=0, num_envs_per_env_runner=8).debugging(seed=0)
config.training(
    train_batch_size_per_learner=2048, minibatch_size=256, num_epochs=5, lr=1e-3, grad_clip=0.5, entropy_coeff=0.02
)
tests = {"env_config": {"split": "test"}, "explore": False}
config.evaluation(evaluation_duration=30, evaluation_config=tests)
algorithm = config.build_algo()
for updates in (0, 12):
    for _ in range(updates):
        algorithm.train()
    reward = algorithm.evaluate()["env_runners"]["episode_return_mean"]
    print(f"PPO: reward {reward:.1f} after {updates} updates")
algorithm.stop()
