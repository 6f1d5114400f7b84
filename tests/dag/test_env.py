"""What only the dag environments show; `tests/test_environments.py` puts them to Gymnasium's contract."""

from __future__ import annotations

import gymnasium

from slipstream.families.dag import features
from slipstream.scenario import load

SMALL = {
    "family": "dag",
    "executors": 1,
    "arrivals": {"kind": "batch", "jobs": 1},
    "window": {"candidates": 20, "nodes": 40, "edges": 40},
}


def test_phases_follow_each_other_at_the_same_instant():
    env = gymnasium.make("slipstream/Dag-v0", scenario="dag/batch-50x20").unwrapped
    observation, info = env.reset(seed=0)
    assert observation["globals"][features.PHASE] == 0.0
    assert info["action_mask"][-1] == 0  # with everybody idle and nothing to come, nobody may stop
    observation, reward, _, _, info = env.step(0)
    assert observation["globals"][features.PHASE] == 1.0
    assert (reward, info["elapsed"]) == (0.0, 0.0)
    most = round(observation["globals"][features.MOST] * 10)
    assert info["action_mask"].sum() == most
    assert len(set(observation["candidate_node"][:most].tolist())) == 1


def test_jobs_that_do_not_fit_the_window_are_counted():
    scenario = load("dag/batch-50x20").model_copy(update={"window": load(SMALL).window})
    env = gymnasium.make("slipstream/Dag-v0", scenario=scenario).unwrapped
    observation, _ = env.reset(seed=0)
    hidden = round(float(observation["globals"][features.HIDDEN_JOBS]) * 10)
    shown = len(set(observation["node_job"].tolist()) - {-1})
    assert hidden > 0
    assert hidden + shown == 20
