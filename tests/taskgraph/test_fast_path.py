"""Heuristics that take from a queue what came first: the fast path plays the same episodes as the event loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.policies import find
from slipstream.policies.base import Heuristic
from slipstream.sim.kernel import lanes
from slipstream.sim.simulator import NO_LIMIT, Simulator
from tests.taskgraph.strategies import taskgraph_scenarios

IN_QUEUE_ORDER = ("fifo", "dm", "dmda")


def by_the_event_loop(scenario, policy, seed):
    """Return the log of an episode played by the loop that all heuristics have: every row is written and looked at."""
    simulator, kept = Simulator(scenario), []
    lanes.begin_lane(simulator.spec, simulator.state, 0, seed, 2)
    while Heuristic.run(policy, simulator, NO_LIMIT) == lanes.LOG_FULL:
        simulator._flush(kept.append)
    return np.concatenate([*kept, simulator.log()])


@settings(max_examples=60)
@given(scenario=taskgraph_scenarios(), name=st.sampled_from(IN_QUEUE_ORDER), seed=st.integers(0, 3))
def test_the_fast_path_writes_the_same_log_as_the_event_loop(scenario, name, seed):
    scenario = scenario.model_copy(update={"mode": "push"})
    policy = find(name, "taskgraph")
    assert np.array_equal(Simulator(scenario).play(policy, seed), by_the_event_loop(scenario, policy, seed))


@pytest.mark.parametrize("name", IN_QUEUE_ORDER)
def test_the_policies_that_have_a_fast_path_use_it(name, monkeypatch):
    """Otherwise the comparison above would compare the event loop with itself."""
    from slipstream.families.taskgraph.kernel import fast_path
    from slipstream.scenario import load

    called = []
    run = fast_path.run_fast_path
    monkeypatch.setattr(fast_path, "run_fast_path", lambda *arguments: called.append(1) or run(*arguments))
    scenario = load("taskgraph/cholesky-4-2g2c").model_copy(update={"mode": "push"})
    Simulator(scenario).play(find(name, "taskgraph"), 0)
    assert called
