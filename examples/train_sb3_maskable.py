"""sb3-contrib: MaskablePPO on 16 lanes of the native vector environment; it never takes an illegal row."""

from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

import slipstream
from slipstream.families.edge.workload.generator import Settings, generate
from slipstream.interop.sb3 import SlipstreamVecEnv

SCENARIO = generate(Settings(periodic_tasks=1, poisson_tasks=2, utilisation=1, rate_hz=200, horizon_ms=500), seed=0)


def reward() -> float:
    """Return the mean reward of 30 episodes from the split that no training can see."""
    env = VecMonitor(SlipstreamVecEnv(SCENARIO, num_envs=10, split="test"))
    env.seed(0)
    return float(evaluate_policy(model, env, n_eval_episodes=30)[0])


env = SlipstreamVecEnv(SCENARIO, num_envs=16)
model = MaskablePPO("MlpPolicy", env, n_steps=128, batch_size=256, n_epochs=5, learning_rate=1e-3, seed=0)
before = reward()
model.learn(16_384)
print(f"MaskablePPO: reward {before:.1f} before, {reward():.1f} after")
for name in ("random", "edf"):
    print(f"{name}: reward {slipstream.evaluate(SCENARIO, name, episodes=30).mean('reward'):.1f}")
