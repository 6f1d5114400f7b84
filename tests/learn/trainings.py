"""A training that takes seconds, and what any training must keep to."""

from __future__ import annotations

import json

import numpy as np

import slipstream
from slipstream.learn.algorithms.imitation import ImitationSettings
from slipstream.learn.settings import TrainSettings
from slipstream.learn.trainer import Trainer

SMALL = TrainSettings(
    steps=8 * 16 * 32,
    n_envs=16,
    n_steps=32,
    groups=4,
    evaluate_every=2,
    evaluation_episodes=2,
    redraw=2,
    warm_start="lookahead",
    imitation=ImitationSettings(rollouts=3, expert_rollouts=1),
)


def same(first, second):
    """Assert that two sets of named arrays are equal bit for bit."""
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def check_that_it_goes_on(name, settings, stop, updates=3):
    """Assert that a training restored from the state of another does the next updates as that one does."""
    scenario = slipstream.load(name)
    whole = Trainer(scenario, settings)
    for _ in range(stop):
        whole.update()
    arrays, numbers = whole.state()
    arrays = {name: array.copy() for name, array in arrays.items()}
    again = Trainer(scenario, settings)
    again.restore(arrays, json.loads(json.dumps(numbers)))
    for _ in range(updates):
        assert whole.update() == again.update()
    same(*(trainer.state()[0] for trainer in (whole, again)))
