"""Masked PPO in one file: a scorer with shared weights over the candidate rows, on the native vector environment.

Every row gets a score from the same small network, so what it learns does not depend on how many rows there are. Time
between choices varies, so returns are discounted by simulated time. Copy the file and change what you like.

    python examples/ppo_single_file.py --scenario edge/light --updates 100
"""

import argparse
from dataclasses import dataclass, fields

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import slipstream
from slipstream.families.edge.workload.generator import Settings, generate


@dataclass
class Arguments:
    """The settings; each is an option of the command line."""

    scenario: str = ""
    """A built-in name or a file; empty for a small one of three tasks."""
    seed: int = 0
    lanes: int = 32
    """Simulated machines side by side."""
    steps: int = 64
    """Choices of every lane between two updates."""
    updates: int = 16
    epochs: int = 4
    """Passes over the choices of an update."""
    minibatch: int = 512
    learning_rate: float = 3e-3
    """At the start; it falls to 0 in a straight line."""
    half_life_ms: float = 200.0
    """Simulated time after which a reward counts half."""
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    value: float = 0.5
    """Weight of the value loss."""
    gradient: float = 0.5
    """Largest norm of the gradient."""


class Scorer(nn.Module):
    """Scores every row by the same network; the value comes from the globals and the mean of the legal rows."""

    def __init__(self, columns: int, global_columns: int, width: int = 64) -> None:
        super().__init__()
        self.rows = nn.Sequential(nn.Linear(columns + global_columns, width), nn.Tanh())
        self.score = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        self.value = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, shown: dict[str, torch.Tensor]) -> tuple[Categorical, torch.Tensor]:
        """Return what to choose from, and what the choices to come are worth."""
        rows, mask = shown["candidates"], shown["action_mask"].bool()
        everywhere = shown["globals"].unsqueeze(-2).expand(*rows.shape[:-1], -1)
        seen = self.rows(torch.cat([rows, everywhere], dim=-1))
        scores = self.score(seen).squeeze(-1).masked_fill(~mask, -1e9)
        legal = mask.unsqueeze(-1)
        mean = (seen * legal).sum(dim=-2) / legal.sum(dim=-2)
        return Categorical(logits=scores), self.value(mean).squeeze(-1)


def make(scenario, lanes: int, split: str):
    """Return the native vector environment; a lane that ended starts again at once."""
    return gymnasium.make_vec(
        "slipstream/Edge-v0",
        num_envs=lanes,
        vectorization_mode="vector_entry_point",
        scenario=scenario,
        autoreset_mode="SameStep",
        mask_in_observation=True,
        split=split,
    )


def tensors(observation: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.as_tensor(array) for name, array in observation.items()}


@torch.no_grad()
def evaluate(model: Scorer, scenario, episodes: int = 32) -> float:
    """Return the mean reward of episodes that no training can see, taking the best row at every choice."""
    env = make(scenario, episodes, "test")
    observation, _ = env.reset(seed=0)
    total, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        actions = model(tensors(observation))[0].probs.argmax(dim=-1).numpy()
        observation, rewards, terminated, truncated, _ = env.step(actions)
        total += rewards * running
        running &= ~(terminated | truncated)
    return float(total.mean())


class Rollouts:
    """Plays all lanes with the present policy, and says how much better each choice was than expected."""

    def __init__(self, env, model: Scorer, arguments: Arguments) -> None:
        self.env, self.model, self.arguments = env, model, arguments
        self.shown = tensors(env.reset(seed=arguments.seed)[0])

    @torch.no_grad()
    def collect(self) -> dict[str, torch.Tensor]:
        """Return choices of all lanes as one long batch."""
        kept = []
        for _ in range(self.arguments.steps):
            choice, value = self.model(self.shown)
            actions = choice.sample()
            observation, rewards, terminated, truncated, info = self.env.step(actions.numpy())
            record = {**self.shown, "actions": actions, "log_prob": choice.log_prob(actions), "values": value}
            self.shown = tensors(observation)
            following = self.model(self.shown)[1]
            ended = torch.as_tensor(terminated | truncated)
            elapsed = info["elapsed"]
            if ended.any():  # cut off at the horizon is no end: what would have followed is worth what the model says
                last = self.model(tensors(info["final_obs"]))[1]
                following = torch.where(ended, last * torch.as_tensor(~terminated), following)
                elapsed = np.where(ended, info["final_info"]["elapsed"], elapsed)
            discount = torch.as_tensor(0.5 ** (elapsed / self.arguments.half_life_ms), dtype=torch.float32)
            error = torch.as_tensor(rewards, dtype=torch.float32) + discount * following - value
            kept.append({**record, "error": error, "carry": discount * self.arguments.gae_lambda * ~ended})
        batch = {name: torch.stack([one[name] for one in kept]) for name in kept[0]}
        advantages, running = torch.zeros_like(batch["error"]), torch.zeros(self.env.num_envs)
        for step in reversed(range(self.arguments.steps)):
            running = batch["error"][step] + batch["carry"][step] * running
            advantages[step] = running
        batch |= {"advantages": advantages, "returns": advantages + batch["values"]}
        return {name: array.flatten(0, 1) for name, array in batch.items()}


def loss_of(model: Scorer, part: dict[str, torch.Tensor], arguments: Arguments) -> torch.Tensor:
    """Return PPO's clipped loss (Schulman et al., Proximal Policy Optimization Algorithms, 2017)."""
    choice, value = model(part)
    ratio = (choice.log_prob(part["actions"]) - part["log_prob"]).exp()
    gain = part["advantages"]
    gain = (gain - gain.mean()) / (gain.std() + 1e-8)
    policy = -torch.min(ratio * gain, ratio.clamp(1 - arguments.clip, 1 + arguments.clip) * gain).mean()
    return (
        policy
        + arguments.value * (value - part["returns"]).square().mean()
        - arguments.entropy * choice.entropy().mean()
    )


def main(arguments: Arguments) -> None:
    small = Settings(periodic_tasks=1, poisson_tasks=2, utilisation=1, rate_hz=200, horizon_ms=500)
    scenario = slipstream.load(arguments.scenario) if arguments.scenario else generate(small, seed=0)
    torch.manual_seed(arguments.seed)
    env = make(scenario, arguments.lanes, "train")
    shapes = env.single_observation_space
    model = Scorer(shapes["candidates"].shape[-1], shapes["globals"].shape[-1])
    optimiser = torch.optim.Adam(model.parameters(), lr=arguments.learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, arguments.updates)
    rollouts = Rollouts(env, model, arguments)
    print(f"reward {evaluate(model, scenario):.1f} before")
    for update in range(1, arguments.updates + 1):
        batch = rollouts.collect()
        for _ in range(arguments.epochs):
            for picks in torch.randperm(len(batch["actions"])).split(arguments.minibatch):
                loss = loss_of(model, {name: array[picks] for name, array in batch.items()}, arguments)
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), arguments.gradient)
                optimiser.step()
        schedule.step()
        if update % 8 == 0:
            print(f"reward {evaluate(model, scenario):.1f} after {update} updates")
    for name in ("random", "edf"):
        print(f"{name} {slipstream.evaluate(scenario, name, episodes=32).mean('reward'):.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for field in fields(Arguments):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=field.type, default=field.default)
    main(Arguments(**vars(parser.parse_args())))
