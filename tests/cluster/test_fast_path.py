"""The fast path writes the same event log as the event loop, for every scenario and queue order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstream.families.cluster.policies import SortedQueue, level_0_suffices
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.policies.base import Heuristic, find, names
from slipstream.scenario import builtin_names, load
from slipstream.sim.eventlog import digest
from slipstream.sim.kernel.lanes import TERMINATED
from slipstream.sim.simulator import NO_LIMIT, Simulator
from tests.cluster.strategies import cluster_scenarios
from tests.cluster.subject import compare_fast_path
from tests.kernels import LogRow, log_rows, smallest_log
from tests.strategies import episode_seeds

SORTED = [policy for name in names("cluster") if isinstance(policy := find(name, "cluster"), SortedQueue)]
THOROUGH = settings(
    max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def scenarios() -> st.SearchStrategy[ClusterScenario]:
    """Draw scenarios that the fast path plays: in the others the event loop takes its place."""
    return cluster_scenarios().filter(level_0_suffices)


def log_of_event_loop(scenario: ClusterScenario, seed: int, policy: Heuristic) -> list[LogRow]:
    """Return the log of an episode that the event loop plays, choosing row by row."""
    simulator = Simulator(scenario)
    simulator.reset(seed)
    # A finite number of choices keeps a sorted-queue policy off the fast path.
    assert policy.run(simulator, NO_LIMIT - 1) == TERMINATED
    return log_rows(simulator.log())


@THOROUGH
@given(scenarios(), episode_seeds(), st.sampled_from(SORTED), st.integers(0, 31))
def test_the_fast_path_writes_the_same_log_as_the_event_loop(
    scenario: ClusterScenario, seed: int, policy: SortedQueue, more_rows: int
) -> None:
    flushed: list[np.ndarray] = []
    Simulator(scenario, smallest_log(scenario) + more_rows).play(policy, seed, sink=flushed.append)
    assert log_rows(np.concatenate(flushed)) == log_of_event_loop(scenario, seed, policy)


@THOROUGH
@given(scenarios(), episode_seeds(), st.sampled_from(SORTED), st.integers(1, 12))
def test_the_fast_path_goes_on_where_the_event_loop_stopped(
    scenario: ClusterScenario, seed: int, policy: SortedQueue, choices: int
) -> None:
    simulator = Simulator(scenario)
    simulator.reset(seed)
    policy.run(simulator, choices)
    if simulator.asking:
        assert policy.run(simulator, NO_LIMIT) == TERMINATED
    assert log_rows(simulator.log()) == log_of_event_loop(scenario, seed, policy)


@pytest.mark.parametrize("name", [name for name in builtin_names() if name.startswith("cluster/")])
@pytest.mark.parametrize("policy", ["saf", "wfp3"])
def test_both_loops_agree_in_the_built_ins(name: str, policy: str) -> None:
    built_in, player = load(name), find(policy, "cluster")
    assert isinstance(player, Heuristic)
    event_loop = Simulator(built_in)
    event_loop.reset(3)
    player.run(event_loop, NO_LIMIT - 1)
    assert digest(Simulator(built_in).play(player, 3)) == digest(event_loop.log())


def test_the_fast_path_plays_the_cases_that_were_worked_out_by_hand() -> None:
    compare_fast_path()
