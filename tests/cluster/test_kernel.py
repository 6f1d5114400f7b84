"""The compiled cluster kernel does exactly what the reference does, event by event and number by number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstream.cluster import features
from slipstream.cluster.scenario import ClusterScenario
from slipstream.core.eventlog import digest
from slipstream.core.simulator import FOREVER, Simulator
from slipstream.policies.base import Heuristic, find, names
from slipstream.scenario import builtin_names, load
from tests.cluster.adapter import KernelCluster, compare_episode, compare_observed, smallest_log
from tests.cluster.strategies import cluster_scenarios
from tests.kernels import log_rows
from tests.reference.cluster_rows import ReferenceCluster
from tests.strategies import action_scripts, episode_seeds, in_short_runs, often_eager_action

# The same examples on every run: a difference found once is found again.
THOROUGH = settings(
    max_examples=250, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
BRIEF = settings(THOROUGH, max_examples=30)


def smallest_rank(row: np.ndarray) -> float:
    """Score rows by their rank, and waiting in between."""
    return -row[features.RANK] - 1.5 * row[features.WAIT]


POLICIES = [
    *(find(name, "cluster") for name in names("cluster")),
    Heuristic("smallest-rank", "cluster", smallest_rank, is_rule=True, scores_all_rows=True),
]
ORDERED = [policy for policy in POLICIES if type(policy).__name__ == "Ordered"]


@THOROUGH
@given(cluster_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 2))
def test_kernel_equals_reference(scenario: ClusterScenario, seed: int, script: int, namespace: int) -> None:
    kernel = KernelCluster(scenario, seed, namespace)
    compare_episode(kernel, ReferenceCluster(scenario, seed, namespace), script, observe_every=2)


@pytest.mark.slow
def test_kernel_equals_reference_on_many_more_workloads() -> None:
    def compare(scenario: ClusterScenario, seed: int, script: int) -> None:
        compare_episode(KernelCluster(scenario, seed), ReferenceCluster(scenario, seed), script)

    in_short_runs(compare, 5_000, cluster_scenarios(), episode_seeds(), action_scripts())


@BRIEF
@given(cluster_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 30))
def test_an_episode_does_not_depend_on_the_one_before(
    scenario: ClusterScenario, seed: int, script: int, steps: int
) -> None:
    kernel = KernelCluster(scenario, seed ^ 1)
    while not kernel.over and kernel.choices <= steps:
        kernel.step(often_eager_action(script + 1, kernel.choices, kernel.mask()))
    kernel.restart(seed)
    compare_episode(kernel, ReferenceCluster(scenario, seed), script, observe_every=3)


def reference_events(scenario: ClusterScenario, seed: int, policy: Heuristic) -> list[tuple[int, ...]]:
    """Return the log of the reference under the policy's plain-Python form."""
    reference = ReferenceCluster(scenario, seed)
    reference.parameter = policy.parameter or 0.0
    while not reference.over:
        whole = reference.globals()
        global_row = np.array([whole[name] for name in features.GLOBAL.names])
        rows = np.array([[row[name] for name in features.CANDIDATE.names] for row in reference.rows()])
        reference.step(policy.choose(global_row, rows, np.array(reference.mask(), np.int8)))
        assert not reference.illegal
    return list(reference.log)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_compiled_play_equals_the_reference_under_the_plain_rule(policy: Heuristic) -> None:
    @settings(BRIEF, max_examples=12)
    @given(cluster_scenarios(), episode_seeds())
    def check_one(scenario: ClusterScenario, seed: int) -> None:
        assert log_rows(Simulator(scenario).play(policy, seed)) == reference_events(scenario, seed, policy)

    check_one()


@settings(THOROUGH, max_examples=150)
@given(cluster_scenarios(), episode_seeds(), st.sampled_from(ORDERED), st.integers(0, 31))
def test_a_walk_along_the_queue_makes_the_choices_of_the_rows(
    scenario: ClusterScenario, seed: int, policy: Heuristic, more_rows: int
) -> None:
    by_rows, flushed = Simulator(scenario), list[np.ndarray]()
    by_rows.reset(seed)
    while by_rows.asking:
        policy.run(by_rows, FOREVER - 1)
    walking = Simulator(scenario, smallest_log(scenario) + more_rows)
    walking.play(policy, seed, sink=flushed.append)
    assert log_rows(np.concatenate(flushed)) == log_rows(by_rows.log())


@pytest.mark.parametrize("name", [name for name in builtin_names() if name.startswith("cluster/")])
@pytest.mark.parametrize("policy", ["saf", "wfp3"])
def test_walks_and_rows_agree_in_the_built_ins(name: str, policy: str) -> None:
    scenario, player = load(name), find(policy, "cluster")
    by_rows = Simulator(scenario)
    by_rows.reset(3)
    player.run(by_rows, FOREVER - 1)
    assert digest(Simulator(scenario).play(player, 3)) == digest(by_rows.log())


@BRIEF
@given(cluster_scenarios(), episode_seeds(), action_scripts(), st.integers(0, 31))
def test_flushing_the_log_changes_no_step(scenario: ClusterScenario, seed: int, script: int, more_rows: int) -> None:
    kernel = KernelCluster(scenario, seed, log_rows=smallest_log(scenario) + more_rows)
    compare_episode(kernel, ReferenceCluster(scenario, seed), script, observe_every=5)


@settings(THOROUGH, max_examples=60)
@given(cluster_scenarios(), episode_seeds(), action_scripts())
def test_an_agent_sees_the_image_of_the_rows(scenario: ClusterScenario, seed: int, script: int) -> None:
    compare_observed(scenario, seed, script, most_choices=60)


def test_illegal_actions_of_any_size_are_flagged_and_go_on() -> None:
    scenario = load("cluster/tiny")
    for action in (-(2**63), -1, 10**6, 2**63 - 1):
        kernel, reference = KernelCluster(scenario, 0), ReferenceCluster(scenario, 0)
        while not kernel.over:
            kernel.step(action)
            reference.step(action)
            assert kernel.illegal
            assert reference.illegal
        assert kernel.log == reference.log
