"""One episode of the single environment: masks, named reward terms and the time between choices."""

import gymnasium

import slipstream  # noqa: F401  importing it registers the environments

env = gymnasium.make("slipstream/Edge-v0", scenario="edge/light")
env.action_space.seed(0)
observation, info = env.reset(seed=0)
print(f"candidates {observation['candidates'].shape}, globals {observation['globals'].shape}")

total, steps, ended = 0.0, 0, False
terms = dict.fromkeys(info["rewards"], 0.0)
while not ended:
    action = env.action_space.sample(mask=info["action_mask"])  # a random legal row
    observation, reward, terminated, truncated, info = env.step(action)
    total, steps, ended = total + reward, steps + 1, terminated or truncated
    for term, value in info["rewards"].items():
        terms[term] += value

print(f"{steps} choices in {info['time']:.0f} ms of simulated time, reward {total:.1f}")
print("terms:", ", ".join(f"{term} {value:.1f}" for term, value in terms.items()))
