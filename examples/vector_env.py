"""64 lanes of the native vector environment: random legal rows against a compiled heuristic."""

import gymnasium
import numpy as np

import slipstream  # noqa: F401  importing it registers the environments
from slipstream.policies import find

LANES, STEPS = 64, 500


def mean_reward(policy: str) -> float:
    """Return the mean reward per choice over all lanes."""
    env = gymnasium.make_vec(
        "slipstream/Edge-v0", num_envs=LANES, vectorization_mode="vector_entry_point", scenario="edge/light"
    )
    generator = np.random.default_rng(0)
    _, info = env.reset(seed=0)  # lane k plays the episode of seed k
    total = 0.0
    for _ in range(STEPS):
        if policy == "random legal rows":
            actions = np.argmax(generator.random(info["action_mask"].shape) * info["action_mask"], axis=1)
        else:
            actions = env.choose(find(policy, "edge"))
        _, rewards, _, _, info = env.step(actions)
        total += float(rewards.sum())
    env.close()
    return total / (LANES * STEPS)


for name in ("random legal rows", "edf", "edf-degrade"):
    print(f"{name:18} reward per choice {mean_reward(name):+.3f}")
