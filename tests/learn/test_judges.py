"""Rewards that are regrets: judged by heuristics, they tell a run from the best that these would have made of it."""

from __future__ import annotations

import numpy as np
import pytest

import slipstream
from slipstream.errors import InputError
from slipstream.families.contract import FAMILIES
from slipstream.learn.rollout.rollout import LanePool
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer
from slipstream.policies import find
from slipstream.sim.simulator import Simulator
from tests.learn.test_rollout import learner_for

LANES, STEPS = 3, 400


def play(scenario, judges):
    """Return the rewards of some episodes, each from its first choice to its end."""
    pool = LanePool([scenario], LANES, 1, judges=[find(name, scenario.family) for name in judges])
    learner = learner_for(scenario, pool.candidates)
    pool.start(np.arange(LANES))
    rollout = pool.collect(learner.layout, learner.weights, STEPS, (0, 0), until_end=True)
    assert (rollout.ended[np.arange(LANES), rollout.length - 1] > 0).all()
    return [rollout.reward[lane, : rollout.length[lane]].copy() for lane in range(LANES)]


def check_judged(name, judges):
    scenario = slipstream.load(name)
    family = FAMILIES[scenario.family]
    plain, judged = play(scenario, []), play(scenario, judges)
    for lane in range(LANES):
        best = max(
            family.metrics(scenario, Simulator(scenario).play(find(one, family.name), lane, "train"))["reward"]
            for one in judges
        )
        assert judged[lane].sum() == pytest.approx(plain[lane].sum() - best)
        assert len(judged[lane]) == len(plain[lane])
        assert not np.allclose(judged[lane], plain[lane])


def test_judged_rewards_add_up_to_the_distance_from_the_best_judge():
    check_judged("edge/tiny", ["edf", "fifo"])


@pytest.mark.slow
def test_judged_rewards_of_taskgraph_add_up_too():
    check_judged("taskgraph/cholesky-4-2g2c", ["peft", "mct"])


def test_who_follows_its_only_judge_regrets_nothing():
    scenario = slipstream.load("edge/tiny")
    edf = find("edf", "edge")
    pool = LanePool([scenario], LANES, 1, judges=[edf])
    learner = learner_for(scenario, pool.candidates)
    pool.start(np.arange(LANES))
    rollout = pool.collect(learner.layout, learner.weights, STEPS, (0, 0), edf, 1.0, until_end=True)
    assert np.abs(rollout.reward[rollout.made]).max() < 1e-9


def test_a_judge_that_is_no_heuristic_is_refused():
    with pytest.raises(InputError, match=r"judges has 'srpt\(2\)': expected names of heuristics without a number"):
        Trainer(slipstream.load("dag/small"), TrainSettings().with_changes({"judges": "fair,srpt(2)", "n_envs": 8}))
