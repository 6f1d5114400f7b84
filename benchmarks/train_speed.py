"""How fast PPO trains here, next to sb3-contrib's MaskablePPO with a network of the same size on the same scenario.

Keys: ours_steps_per_s, ours_autograd_steps_per_s, ours_torch_steps_per_s, sb3_steps_per_s and ratio: complete training,
collection and updates, 4 epochs each, networks of two hidden layers of the same width. ours_autograd_steps_per_s is
with gradients by autograd, ours_torch_steps_per_s with a network of a user's own that torch plays, too. SB3 drives the
native vector environment through `slipstream.interop.sb3`, with each number of environments and size of minibatch
given, and its fastest counts; ratio_at_sb3_default_minibatch is against its fastest with the minibatch of 64 that is
its default.

seconds_to_edf_fit (of ours and of SB3) and time_ratio: wall time of training from random weights until the greedy
policy reaches the mean reward of `edf-fit` on held-out seeds; the median over several seeds of the network, each side
at its quickest number of lanes or environments (SB3 is stopped after 6 s: a time above that says "at least").
time_ratio_at_our_rollout is against an SB3 that also has our small rollout, minibatch and learning rate. Compiling
and evaluating are not counted, for neither.

    python benchmarks/train_speed.py --json
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import torch
from options import print_figures
from torch import nn

import slipstream
from slipstream.envs.env import SchedulingEnv
from slipstream.evaluation import evaluate
from slipstream.interop.flat import FlatObservation
from slipstream.interop.sb3 import SlipstreamVecEnv
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer
from slipstream.networks import Columns, spread
from slipstream.networks.import_path import path_of

SCENARIO, WIDTH, EPOCHS, EPISODES = "edge/heavy", 32, 4, 4
ENVIRONMENTS = (64, 256)
MINIBATCHES = (64, 1024, 4096)
"""64 is the default of SB3, 4096 ours."""
LANES = (32, 64, 128)
SMALL_ROLLOUT = {"n_steps": 16, "ppo.batch_size": 128, "ppo.learning_rate": 3e-3}
"""How we train towards the goal: it is near, so a few hundred choices show the way."""
SEEDS = 3
MOST_SECONDS = 6.0
"""Longest training of SB3 towards the goal."""


def our_settings() -> TrainSettings:
    """Return the defaults, with what both sides share."""
    return TrainSettings().with_changes({"network.width": WIDTH, "ppo.n_epochs": EPOCHS, "ppo.target_kl": 0.0})


class TorchNetwork(nn.Module):
    """Two hidden layers with an activation that compiled code does not have."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self.row, self.globals = nn.Linear(len(columns.rows), WIDTH), nn.Linear(len(columns.globals), WIDTH)
        self.second, self.logit, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 1)

    def forward(self, rows: torch.Tensor, offsets: torch.Tensor, global_rows: torch.Tensor) -> Any:
        context = self.globals(global_rows)
        hidden = nn.functional.silu(self.row(rows) + spread(context, offsets))
        logits = self.logit(nn.functional.silu(self.second(hidden)))
        return logits.squeeze(1), self.value(nn.functional.silu(context)).squeeze(1)


def our_speed(seconds: float, **changes: Any) -> float:
    """Return our choices per second of complete training, at the best of several stretches."""
    trainer = Trainer(slipstream.load(SCENARIO), our_settings().with_changes(changes))
    trainer.update()
    best, ends = 0.0, perf_counter() + seconds
    while perf_counter() < ends:
        began, before = perf_counter(), trainer.steps
        for _ in range(2):
            trainer.update()
        best = max(best, (trainer.steps - before) / (perf_counter() - began))
    return best


def our_seconds_to(goal: float, lanes: int, seed: int) -> float:
    """Return how long we train until the goal is reached."""
    scenario = slipstream.load(SCENARIO)
    trainer = Trainer(scenario, our_settings().with_changes({**SMALL_ROLLOUT, "n_envs": lanes, "seed": seed}))
    spent = 0.0
    while evaluate(scenario, trainer.policy(), EPISODES, split="eval").mean("reward") < goal:
        began = perf_counter()
        trainer.update()
        spent += perf_counter() - began
    return spent


def make_sb3(environments: int, minibatch: int, choices: int = 8192, seed: int = 0, learning_rate: float = 3e-4) -> Any:
    """Return an untrained MaskablePPO; the learning rate is its default."""
    from sb3_contrib import MaskablePPO

    return MaskablePPO(
        "MlpPolicy",
        SlipstreamVecEnv(SCENARIO, environments, threads=2),
        n_steps=max(16, choices // environments),
        batch_size=minibatch,
        n_epochs=EPOCHS,
        learning_rate=learning_rate,
        policy_kwargs={"net_arch": [WIDTH, WIDTH]},
        seed=seed,
        device="cpu",
    )


def sb3_speed(environments: int, minibatch: int, rollouts: int) -> float:
    """Return SB3's choices per second of complete training, at the best of several rollouts."""
    model = make_sb3(environments, minibatch)
    per_rollout = model.n_steps * environments
    model.learn(per_rollout)
    best = 0.0
    for _ in range(rollouts):
        began = perf_counter()
        model.learn(per_rollout, reset_num_timesteps=False)
        best = max(best, per_rollout / (perf_counter() - began))
    model.env.close()
    return best


def sb3_reward(model: Any) -> float:
    """Return the mean reward of the greedy policy on held-out seeds."""
    env = FlatObservation(SchedulingEnv("edge", SCENARIO, split="eval"))
    total = 0.0
    for seed in range(EPISODES):
        observation, info = env.reset(seed=seed)
        over = False
        while not over:
            action, _ = model.predict(observation, action_masks=info["action_mask"].astype(bool), deterministic=True)
            observation, reward, terminated, truncated, info = env.step(int(action))
            total += float(reward)
            over = terminated or truncated
    return total / EPISODES


def sb3_seconds_to(goal: float, model: Any) -> float:
    """Return how long SB3 trains until the goal is reached; what is longer than the most is at least that."""
    per_rollout, spent = model.n_steps * model.n_envs, 0.0
    while spent < MOST_SECONDS and sb3_reward(model) < goal:
        began = perf_counter()
        model.learn(per_rollout, reset_num_timesteps=False)
        spent += perf_counter() - began
    model.env.close()
    return spent


def times_to(goal: float) -> dict[str, dict[Any, float]]:
    """Return the median seconds to the goal of ours, of SB3, and of SB3 with our rollout, by their sizes."""
    small = {"minibatch": SMALL_ROLLOUT["ppo.batch_size"], "learning_rate": SMALL_ROLLOUT["ppo.learning_rate"]}

    def median(seconds_to: Callable[[int], float]) -> float:
        return float(np.median([seconds_to(seed) for seed in range(SEEDS)]))

    torch.set_num_threads(2)
    # Small minibatches take more gradient steps per choice, so they may reach the goal first although they are slower.
    theirs = {
        (n, size): median(lambda seed, n=n, size=size: sb3_seconds_to(goal, make_sb3(n, size, seed=seed)))
        for n in ENVIRONMENTS
        for size in MINIBATCHES[:2]
    }
    at_our_rollout = {
        n: median(
            lambda seed, n=n: sb3_seconds_to(
                goal, make_sb3(n, choices=n * SMALL_ROLLOUT["n_steps"], seed=seed, **small)
            )
        )
        for n in LANES
    }
    torch.set_num_threads(1)
    ours = {lanes: median(lambda seed, lanes=lanes: our_seconds_to(goal, lanes, seed)) for lanes in LANES}
    return {"ours": ours, "sb3": theirs, "sb3_at_our_rollout": at_our_rollout}


def measure(seconds: float) -> dict[str, Any]:
    """Return every figure."""
    warnings.filterwarnings("ignore", module="stable_baselines3")
    goal = evaluate(SCENARIO, "edf-fit", EPISODES, split="eval").mean("reward")
    torch.set_num_threads(1)
    ours = our_speed(seconds)
    autograd = our_speed(seconds, backend="torch")
    in_torch = our_speed(seconds, **{"network.module": path_of(TorchNetwork)})
    torch.set_num_threads(2)
    speeds = {(n, size): sb3_speed(n, size, 3) for n in ENVIRONMENTS for size in MINIBATCHES}
    fastest = max(speeds, key=lambda key: speeds[key])
    default_speed = max(speeds[n, MINIBATCHES[0]] for n in ENVIRONMENTS)
    times = times_to(goal)
    best = {side: min(found.values()) for side, found in times.items()}
    return {
        "ours_steps_per_s": ours,
        "ours_autograd_steps_per_s": autograd,
        "ours_torch_steps_per_s": in_torch,
        "sb3_steps_per_s": speeds[fastest],
        "ratio": ours / speeds[fastest],
        "sb3_default_minibatch_steps_per_s": default_speed,
        "ratio_at_sb3_default_minibatch": ours / default_speed,
        "sb3_fastest": {"environments": fastest[0], "minibatch": fastest[1]},
        "edf_fit_reward": goal,
        "seconds_to_edf_fit": best,
        "time_ratio": best["sb3"] / best["ours"],
        "time_ratio_at_our_rollout": best["sb3_at_our_rollout"] / best["ours"],
        "sb3_steps_per_s_of_all": {f"{n} x {size}": round(speed) for (n, size), speed in speeds.items()},
        "seconds_of_all": {
            side: {str(key): round(took, 3) for key, took in found.items()} for side, found in times.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long our speed is measured")
    figures = measure(parser.parse_args().seconds)
    print_figures(figures, parser.parse_args().json)


if __name__ == "__main__":
    main()
