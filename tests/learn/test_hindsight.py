"""What each candidate would have earned is what the simulator says it earns on the same future."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import slipstream
from slipstream.errors import InputError
from slipstream.families.contract import FAMILIES
from slipstream.learn.algorithms.hindsight import Hindsight, HindsightSettings
from slipstream.learn.algorithms.oracle_imitation import Oracle
from slipstream.learn.algorithms.states import Branching, States
from slipstream.learn.rollout.learner import Choices
from slipstream.learn.rollout.rollout import LanePool
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer
from slipstream.policies import find
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.sim.simulator import Simulator
from tests.edge.test_oracle import best_from
from tests.learn.test_rollout import learner_for

WINDOW_NS = 100e6


def prepare(scenario, lanes=3, groups=1, base="lookahead", candidates=1000, based_rounds=1):
    pool = LanePool([scenario] * groups, lanes, 1)
    pool.start(np.arange(lanes))
    heuristic = find(base, scenario.family)
    learner = learner_for(scenario, pool.candidates)
    return pool, Branching(learner, heuristic, WINDOW_NS, candidates, based_rounds)


def earned_by(scenario, seed, before, action, policy):
    """Return what an action earns after some others, by stepping a simulator of its own."""
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(seed, "train")
    for earlier in before:
        simulator.step(earlier)
    began = simulator.header["now"]
    simulator.step(action)
    total = float(simulator.header["reward"])
    while simulator.asking and simulator.header["now"] < began + WINDOW_NS:
        simulator.step(policy.choose(*simulator.observe()))
        total += float(simulator.header["reward"])
    return total


def test_every_candidate_earns_what_it_earns_in_the_simulator():
    scenario = slipstream.load("edge/heavy")
    pool, branching = prepare(scenario)
    states = branching.evaluate_states(pool, 0)
    policy, place = find("lookahead", "edge"), 0
    for lane in range(3):
        simulator = Simulator(scenario, log_rows=0)
        simulator.reset(lane, "train")
        mask = simulator.observe()[2].copy()
        legal = np.flatnonzero(mask)
        by_hand = np.array([earned_by(scenario, lane, [], int(action), policy) for action in legal])
        count = states.choices.count[lane]
        assert count == len(legal)
        found = states.advantages[place : place + count]
        # The collector lists rows in the order of their numbers where nothing can be interrupted.
        np.testing.assert_allclose(found, by_hand - by_hand.mean(), atol=1e-5)
        place += count


def first_choice(scenario, seed):
    """Return the legal rows of the first choice of an episode."""
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(seed, "train")
    return np.flatnonzero(simulator.observe()[2])


def test_copies_can_go_on_under_the_network_itself():
    scenario = slipstream.load("edge/heavy")
    pool, branching = prepare(scenario, based_rounds=0)
    network = branching.learner.network
    policy = CompiledPolicy("itself", "edge", network.operations(), network.arrays())
    states, place = branching.evaluate_states(pool, 0), 0
    for lane in range(3):
        by_hand = np.array([earned_by(scenario, lane, [], int(a), policy) for a in first_choice(scenario, lane)])
        found = states.advantages[place : place + len(by_hand)]
        np.testing.assert_allclose(found, by_hand - by_hand.mean(), atol=1e-5)
        place += len(by_hand)
    assert place == len(states.advantages)


def test_only_what_the_network_likes_best_is_tried():
    scenario = slipstream.load("edge/heavy")
    pool, branching = prepare(scenario, lanes=1, candidates=3)
    states = branching.evaluate_states(pool, 0)
    seen = states.choices
    with torch.no_grad():
        rows, globals_in = torch.from_numpy(seen.rows), torch.from_numpy(seen.global_rows)
        logits = branching.learner.network(rows, globals_in, torch.from_numpy(seen.count.astype(np.int64)))[0].numpy()
    liked = np.argsort(-logits)[:3]
    actions = first_choice(scenario, 0)
    by_hand = np.array([earned_by(scenario, 0, [], int(actions[one]), branching.base) for one in liked])
    np.testing.assert_allclose(states.advantages[liked], by_hand - by_hand.mean(), atol=1e-5)
    assert not np.delete(states.advantages, liked).any()
    assert len(set(by_hand)) > 1


def test_a_heuristic_with_a_number_is_followed_with_that_number():
    scenario = slipstream.load("dag/small")
    found = {}
    for name in ("srpt(1)", "srpt(5)"):
        pool, branching = prepare(scenario, lanes=1, base=name)
        branching.horizon = 1e16
        earned = branching.evaluate_states(pool, 0).advantages
        by_hand = []
        for action in first_choice(scenario, 0):
            simulator = Simulator(scenario, log_rows=0)
            simulator.reset(0, "train")
            simulator.step(int(action))
            total = float(simulator.header["reward"])
            while simulator.asking:
                simulator.step(branching.base.choose(*simulator.observe()))
                total += float(simulator.header["reward"])
            by_hand.append(total)
        np.testing.assert_allclose(earned, np.array(by_hand) - np.mean(by_hand), rtol=1e-4, atol=1e-3)
        found[name] = by_hand
    assert found["srpt(1)"] != found["srpt(5)"]


def test_looking_around_moves_no_lane():
    pool, branching = prepare(slipstream.load("edge/heavy"), lanes=4, groups=2)
    before = [{name: array.tobytes() for name, array in group.arrays.items()} for group in pool.groups]
    branching.evaluate_states(pool, 0)
    after = [{name: array.tobytes() for name, array in group.arrays.items()} for group in pool.groups]
    assert before == after


def test_the_candidate_that_earned_most_becomes_the_likeliest():
    learner = learner_for(slipstream.load("edge/heavy"), 4)
    settings = HindsightSettings(gradient_steps=30, batch_size=64, learning_rate=0.01, ent_coef=0.0)
    hindsight = Hindsight(learner, settings)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200 * 4, 32)).astype(np.float32)
    earned = rows[:, 3].copy()
    begin = np.arange(0, 800, 4, dtype=np.int64)
    choices = Choices(rows, np.zeros((200, 16), np.float32), begin, np.full(200, 4, np.int32))
    for round_number in range(5):
        hindsight.update(States(choices, earned), round_number / 5, rng)
    with torch.no_grad():
        seen = (torch.from_numpy(rows), torch.zeros(200, 16), torch.full((200,), 4))
        logits = learner.network(*seen)[0].numpy().reshape(200, 4)
    assert (logits.argmax(axis=1) == earned.reshape(200, 4).argmax(axis=1)).mean() > 0.9


def test_only_the_latest_rounds_are_kept():
    hindsight = Hindsight(
        learner_for(slipstream.load("edge/heavy"), 2), HindsightSettings(buffer_rounds=3, gradient_steps=1)
    )
    rng = np.random.default_rng(0)
    for number in range(5):
        rows = np.full((2, 32), number, np.float32)
        choices = Choices(rows, np.zeros((1, 16), np.float32), np.zeros(1, np.int64), np.array([2], np.int32))
        hindsight.update(States(choices, np.zeros(2, np.float32)), 0.0, rng)
    assert [int(one.choices.rows[0, 0]) for one in hindsight.buffer] == [2, 3, 4]


def test_where_no_lane_has_a_choice_nothing_is_learned_and_the_training_goes_on(monkeypatch):
    # A Cholesky factorisation begins with one task, and a single processor may not wait then.
    noisy = slipstream.load("taskgraph/noisy")
    alone = noisy.model_copy(update={"processors": [noisy.processors[0].model_copy(update={"count": 1})]})
    pool, branching = prepare(alone, base="mct")
    assert branching.evaluate_states(pool, 0) is None
    settings = {"warm_start": "mct", "imitation.rollouts": 1, "hindsight.rounds": 1, "n_envs": 8, "n_steps": 8}
    trainer = Trainer(slipstream.load("taskgraph/noisy"), TrainSettings().with_changes({**settings, "threads": 1}))
    trainer.update()
    monkeypatch.setattr(Branching, "evaluate_states", lambda *_: None)
    weights, steps = trainer.learner.weights.copy(), trainer.steps
    trainer.update()
    assert np.array_equal(trainer.learner.weights, weights)
    assert trainer.steps > steps


def test_hindsight_without_a_warm_start_is_refused():
    with pytest.raises(InputError, match="hindsight goes on from a warm start"):
        TrainSettings().with_changes({"hindsight.rounds": 5})


def oracle_training(**changes):
    settings = {"warm_start": "oracle", "n_envs": 16, "n_steps": 16, "groups": 1, "threads": 1, "network.width": 16}
    return Trainer(slipstream.load("edge/tiny"), TrainSettings().with_changes({**settings, **changes}))


def test_the_oracle_says_what_the_best_continuation_of_every_candidate_earns():
    scenario = slipstream.load("edge/tiny")
    trainer = oracle_training()
    oracle = Oracle(scenario, trainer.learner, 1, 0)
    states = oracle.evaluate_states(trainer.pool, 0)
    seed = int(np.random.default_rng([0, 3, 0]).integers(2**61, size=1)[0])
    bracket = FAMILIES["edge"].oracle(scenario, seed, "train", 10.0)
    assert bracket.exact
    first = states.advantages[: states.choices.count[0]]
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(seed, "train")
    by_hand = [best_after(scenario, seed, int(action)) for action in np.flatnonzero(simulator.observe()[2])]
    assert max(by_hand) == pytest.approx(bracket.best_known)
    np.testing.assert_allclose(first, np.array(by_hand) - np.mean(by_hand), atol=1e-5)


def best_after(scenario, seed, action):
    """Return the best reward of an episode that begins with an action, by trying all that can follow."""
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(seed, "train")
    simulator.step(action)
    return float(simulator.header["reward"]) + best_from(simulator)


def test_a_network_that_imitates_the_oracle_reaches_the_optimum():
    steps = {"gradient_steps": 60, "batch_size": 64, "learning_rate": 0.01, "ent_coef": 0.0}
    changes = {"rounds": 10, "episodes": 1, **steps}
    trainer = oracle_training(**{f"hindsight.{name}": value for name, value in changes.items()})
    assert trainer.phase == "hindsight"
    for _ in range(10):
        trainer.update()
    assert trainer.phase == "ppo"
    scenario = slipstream.load("edge/tiny")
    reached = slipstream.evaluate(scenario, trainer.policy(), 1, split="eval").mean("reward")
    assert reached == pytest.approx(FAMILIES["edge"].oracle(scenario, 0, "eval", 10.0).best_known)


def test_the_oracle_refuses_episodes_that_it_cannot_solve():
    settings = TrainSettings().with_changes({"warm_start": "oracle", "n_envs": 16})
    with pytest.raises(InputError, match="jobs is not solved choice by choice: expected 60 jobs at most"):
        Trainer(slipstream.load("edge/heavy"), settings)
