"""What only the taskgraph environments show; `tests/test_environments.py` puts them to Gymnasium's contract."""

from __future__ import annotations

import gymnasium
import pytest

from slipstream.envs.vector import SchedulingVectorEnv
from slipstream.families.taskgraph import features
from slipstream.policies.base import find
from slipstream.scenario import load

ID = "slipstream/Taskgraph-v0"


@pytest.mark.parametrize(("name", "makespan"), [("mct", 77.0), ("heft", 85.0)])
def test_plans_are_followed_in_every_lane(name, makespan):
    vector = SchedulingVectorEnv(3, "taskgraph", "taskgraph/cholesky-4-2g2c")
    vector.reset(seed=0)
    ends = []
    for _ in range(100):
        _, _, terminated, _, info = vector.step(vector.choose(find(name, "taskgraph")))
        ends += info["time"][terminated].tolist()
    assert len(ends) >= 6
    assert set(ends) == {makespan}
    vector.close()


def test_only_the_last_processor_that_could_be_asked_may_not_wait():
    times = {"a": 1.0, "b": 2.0, "c": 3.0}
    scenario = {
        "family": "taskgraph",
        "processors": [{"name": name, "count": 1} for name in times],
        "graphs": [{"kind": "inline", "tasks": [{"name": "only", "duration_ms": times}]}],
    }
    env = gymnasium.make(ID, scenario=scenario).unwrapped
    env.reset(seed=0)
    wait = env.action_space.n - 1
    may_wait = []
    for _ in times:
        may_wait.append(int(env.action_masks()[wait]))
        *_, terminated, _, info = env.step(wait)
    assert may_wait == [1, 1, 0]
    assert (info["illegal_action"], terminated, info["time"]) == (1, True, 3.0)


def test_what_does_not_fit_is_counted():
    scenario = load("taskgraph/cholesky-8-2g2c")
    small = scenario.window.model_copy(update={"nodes": 5, "depth": 50})
    env = gymnasium.make(ID, scenario=scenario.model_copy(update={"window": small})).unwrapped
    observation, _ = env.reset(seed=0)
    assert (observation["node_job"] >= 0).sum() == 5
    assert observation["globals"][features.HIDDEN] * 100 == pytest.approx(115)


def test_the_graph_reaches_as_deep_as_the_window():
    scenario = load("taskgraph/cholesky-4-2g2c")
    for depth, nodes in ((0, 1), (1, 4), (2, 10)):
        window = scenario.window.model_copy(update={"depth": depth})
        env = gymnasium.make(ID, scenario=scenario.model_copy(update={"window": window})).unwrapped
        observation, _ = env.reset(seed=0)
        # POTRF; then three TRSM; then the GEMM and SYRK that read what these write.
        assert (observation["node_job"] >= 0).sum() == nodes
