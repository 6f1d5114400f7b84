"""Stable-Baselines3: PPO and DQN on 16 lanes of the native vector environment. They see no mask: illegal rows wait."""

from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

from slipstream.families.edge.workload.generator import Settings, generate
from slipstream.interop.sb3 import SlipstreamVecEnv

SCENARIO = generate(Settings(periodic_tasks=1, poisson_tasks=2, utilisation=1, rate_hz=200, horizon_ms=500), seed=0)
SETTINGS = {
    PPO: {"n_steps": 128, "batch_size": 256, "n_epochs": 5},
    DQN: {"learning_starts": 500, "gradient_steps": 4, "target_update_interval": 500, "exploration_fraction": 0.3},
}


def reward(model) -> float:
    """Return the mean reward of 30 episodes from the split that no training can see."""
    env = VecMonitor(SlipstreamVecEnv(SCENARIO, num_envs=10, split="test"))
    env.seed(0)
    return float(evaluate_policy(model, env, n_eval_episodes=30)[0])


for algorithm, settings in SETTINGS.items():
    model = algorithm("MlpPolicy", SlipstreamVecEnv(SCENARIO, num_envs=16), learning_rate=1e-3, seed=0, **settings)
    before = reward(model)
    model.learn(16_384)
    print(f"{algorithm.__name__}: reward {before:.1f} before, {reward(model):.1f} after")
