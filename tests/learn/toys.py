"""Small decision problems in plain Python, whose optimum is known, played by a network that learns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from slipstream.learn.compiled.collect import CUT_OFF, ENDED, rollout_arrays
from slipstream.learn.networks.networks import CandidateScorer, NetworkSettings
from slipstream.learn.rollout.learner import Learner
from slipstream.learn.rollout.rollout import Rollout


@dataclass
class Bandit:
    """One choice per episode among arms with fixed rewards; only the arm's number is seen."""

    rewards: tuple[float, ...] = (0.0, 0.3, 1.0, 0.5)

    @property
    def actions(self):
        return len(self.rewards)

    def start(self):
        return 0

    def step(self, state, action):
        """Return the next state, the reward, and how the episode ended."""
        return 0, self.rewards[action], ENDED


@dataclass
class Corridor:
    """Five places in a row; going right from the last pays 10 and ends, staying left pays 0.1 a step, for 20 steps.

    From place 0 the best is to go right at once: 4 steps for nothing, then 10.
    """

    length: int = 5
    actions: int = 2

    def start(self):
        return 0

    def step(self, state, action):
        if action == 1:
            return (state + 1, 0.0, 0) if state + 1 < self.length else (0, 10.0, ENDED)
        return 0, 0.1, 0


def make_learner(toy, seed=0, width=16):
    torch.manual_seed(seed)
    places = getattr(toy, "length", 1)
    network = CandidateScorer(toy.actions, places, NetworkSettings(width))
    return Learner(network, toy.actions)


def play(toy, learner, lanes, steps, rng, most_steps=20):
    """Return a rollout as the compiled collector would make it; episodes are cut off after `most_steps`."""
    places = getattr(toy, "length", 1)
    arrays = rollout_arrays(lanes, steps, toy.actions, (toy.actions, places))
    state, age = [toy.start() for _ in range(lanes)], [0] * lanes
    eye = np.eye(toy.actions, dtype=np.float32)
    for step in range(steps):
        seen = np.zeros((lanes, places), np.float32)
        seen[np.arange(lanes), state] = 1.0
        logits, values = _score(learner, eye, seen)
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        arrays["value"][:, step] = values
        arrays["globals"][:, step] = seen
        for lane in range(lanes):
            action = int(rng.choice(toy.actions, p=chances[lane]))
            begin = (lane * steps + step) * toy.actions
            arrays["rows"][begin : begin + toy.actions] = eye
            arrays["begin"][lane, step], arrays["count"][lane, step] = begin, toy.actions
            arrays["taken"][lane, step] = action
            arrays["log_prob"][lane, step] = np.log(chances[lane, action])
            state[lane], arrays["reward"][lane, step], ended = toy.step(state[lane], action)
            arrays["elapsed"][lane, step] = 1
            age[lane] += 1
            if not ended and age[lane] == most_steps:
                ended = CUT_OFF
            arrays["ended"][lane, step] = ended
            if ended == CUT_OFF or (not ended and step + 1 == steps):
                after = np.zeros((1, places), np.float32)
                after[0, state[lane]] = 1.0
                arrays["next_value"][lane, step] = _score(learner, eye, after)[1][0]
            if ended:
                state[lane], age[lane] = toy.start(), 0
    arrays["length"][:] = steps
    return Rollout(arrays)


def _score(learner, rows, global_rows):
    count = len(global_rows)
    with torch.no_grad():
        counts = torch.full((count,), len(rows))
        logits, values = learner.network(torch.from_numpy(rows).repeat(count, 1), torch.from_numpy(global_rows), counts)
    return logits.numpy().reshape(count, -1), values.numpy()


def greedy(toy, learner):
    """Return the network's best action in every place."""
    places = getattr(toy, "length", 1)
    logits, _ = _score(learner, np.eye(toy.actions, dtype=np.float32), np.eye(places, dtype=np.float32))
    return logits.argmax(axis=1)
