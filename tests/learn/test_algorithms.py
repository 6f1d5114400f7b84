"""PPO, REINFORCE and imitation solve small problems whose optimum is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slipstream.learn.algorithms.imitation import Imitation, ImitationSettings
from slipstream.learn.algorithms.ppo import PPO, PPOSettings
from slipstream.learn.algorithms.reinforce import Reinforce, ReinforceSettings
from tests.learn.toys import Bandit, Corridor, greedy, make_learner, play

ALGORITHMS = {
    "ppo": lambda learner: PPO(learner, PPOSettings(learning_rate=0.01, batch_size=256, ent_coef=0.01), 50.0),
    "reinforce": lambda learner: Reinforce(
        learner, ReinforceSettings(learning_rate=0.02, same_arrivals=16, ent_coef=0.01), 50.0
    ),
    "reinforce in several steps": lambda learner: Reinforce(
        learner,
        ReinforceSettings(learning_rate=0.01, same_arrivals=16, ent_coef=0.01, n_epochs=3, batch_size=128),
        50.0,
    ),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_bandit_is_solved(name):
    toy, rng = Bandit(), np.random.default_rng(0)
    learner = make_learner(toy)
    algorithm = ALGORITHMS[name](learner)
    for update in range(40):
        algorithm.update(play(toy, learner, 16, 16, rng), update / 40, rng)
    rollout = play(toy, learner, 16, 16, rng)
    assert greedy(toy, learner)[0] == 2
    assert rollout.reward.mean() > 0.95


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_corridor_with_a_small_temptation_is_walked_to_its_end(name):
    toy, rng = Corridor(), np.random.default_rng(1)
    learner = make_learner(toy, seed=1)
    algorithm = ALGORITHMS[name](learner)
    for update in range(80):
        algorithm.update(play(toy, learner, 32, 32, rng), update / 80, rng)
    assert greedy(toy, learner).tolist() == [1, 1, 1, 1, 1]


def test_imitation_learns_what_the_expert_would_do():
    toy, rng = Corridor(), np.random.default_rng(0)
    learner = make_learner(toy)
    imitation = Imitation(learner, ImitationSettings(batch_size=128), 50.0)
    for update in range(60):
        rollout = play(toy, learner, 16, 16, rng)
        places = rollout.globals.argmax(axis=2)
        rollout.arrays["label"][:] = places < 3
        imitation.update(rollout, update / 60, rng)
    assert greedy(toy, learner)[:4].tolist() == [1, 1, 1, 0]


def test_where_the_expert_says_nothing_nothing_is_imitated():
    toy, rng = Bandit(), np.random.default_rng(0)
    learner = make_learner(toy)
    imitation = Imitation(learner, ImitationSettings(vf_coef=0.0), 50.0)
    rollout = play(toy, learner, 4, 4, rng)
    rollout.arrays["label"][:] = -1
    before = [parameter.clone() for parameter in learner.network.parameters()]
    imitation.update(rollout, 0.0, rng)
    assert all(torch.equal(a, b) for a, b in zip(before, learner.network.parameters(), strict=True))


@pytest.mark.parametrize(
    ("algorithm", "settings", "more"), [(PPO, PPOSettings, {}), (Reinforce, ReinforceSettings, {"same_arrivals": 16})]
)
def test_an_update_stops_when_the_policy_has_moved_far_enough(algorithm, settings, more):
    def updates(target):
        toy, rng = Bandit(), np.random.default_rng(0)
        learner = make_learner(toy)
        chosen = settings(learning_rate=0.05, n_epochs=50, batch_size=256, target_kl=target, **more)
        made = algorithm(learner, chosen, 50.0)
        made.update(play(toy, learner, 16, 16, rng), 0.0, rng)
        return made

    careful, bold = updates(0.01), updates(0.0)
    steps = [int(one.optimizer.adam.state_dict()["state"][0]["step"]) for one in (careful, bold)]
    assert steps[0] < steps[1] == 50


def test_the_expert_probability_falls_from_the_expert_alone_to_the_network_alone():
    settings = ImitationSettings(rollouts=12, expert_rollouts=3)
    shares = [settings.expert_probability(rollout) for rollout in range(12)]
    assert shares[:3] == [1.0, 1.0, 1.0]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == 0.0
